"""Out of memory, at every point of every operation that hands memory over (faults M1 and M11).

On Linux: the malloc that fails is preloaded.
"""

import os
import sysconfig

import pytest

from tests.support.allocation import OPERATIONS
from tests.support.build import shared_library
from tests.support.isolate import run_isolated

pytestmark = pytest.mark.slow

every_operation = pytest.mark.parametrize("operation", OPERATIONS)


def sweep(operation, injector, **environment):
    return int(
        run_isolated(
            f"from tests.support.allocation import sweep; sweep({operation!r}, {injector!r})",
            env=environment,
        )
    )


# Without a GIL, CPython frees another list's items when a new list gets no memory for its own:
# python/cpython#152125. The other operations make no list that has items from the start.
MAKES_LISTS = {"tolist", "tolist, 128 bits"}


@every_operation
def test_m1_python_allocation_fails(operation):
    """MemoryError, the deleter once, no reference kept, at each of its allocations."""
    if operation in MAKES_LISTS and sysconfig.get_config_var("Py_GIL_DISABLED"):
        pytest.skip("CPython without a GIL corrupts its memory there")
    assert sweep(operation, "python") > 0


# What needs no memory but from Python, or from NumPy's own cache.
NO_MALLOC = {
    *("capsule, refused", "properties", "new dtype", "repr", "buffer", "numpy"),
    *("reshape, refused", "view, refused", "tolist", "tolist, 128 bits", "item, lanes", "contains"),
}

# A sanitizer owns malloc itself, so this half runs in ordinary builds alone.
WITH_MALLOC = () if os.environ.get("FASTDL_SANITIZE") else tuple(OPERATIONS)


@pytest.mark.parametrize("operation", WITH_MALLOC)
def test_m1_malloc_fails(operation):
    """The same for fastdl's own blocks."""
    reached = sweep(operation, "malloc", LD_PRELOAD=str(shared_library("failmalloc")))
    assert reached > 0 or operation in NO_MALLOC
