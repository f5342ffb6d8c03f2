# SPDX-License-Identifier: Apache-2.0
"""NumPy's own tests of DLPack, with fastdl in the middle of every crossing.

ndarray's methods cannot be replaced, so the source of numpy/_core/tests/test_dlpack.py is read
from the installed wheel and its calls are rewritten, nothing else:

    np.from_dlpack(x, ...)      -> crossing.from_dlpack(x, ...)
    x.__dlpack__(...)           -> crossing.dlpack(x, ...)
    x.__dlpack_device__()       -> crossing.dlpack_device(x)

but for `super().__dlpack__`, which is the inside of a producer. The rewritten file runs under
pytest in a process of its own, twice, because fastdl can stand in two places:

    tensors    fastdl.from_dlpack(x, ...) takes the arguments and negotiates with NumPy's
               `__dlpack__`; then NumPy's from_dlpack, or the test itself, asks the Tensor with
               the same arguments, and fastdl's `__dlpack__` answers them.
    capsules   NumPy answers all arguments; every capsule that is handed over is taken by
               fastdl.from_dlpack and given out again by Tensor.__dlpack__.

Every test is routed in both. Where "tensors" must fail, because NumPy's suite fixes what the
standard leaves open and fastdl decided otherwise, UNLIKE_NUMPY says why; such a test must fail,
and has to pass with "capsules", so nothing is left out.
"""

import ast
import importlib.util
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.support.isolate import describe, run_python

from .peers import missing, require

# Test (without parameters) -> why the route "tensors" differs from what NumPy's suite expects.
UNLIKE_NUMPY = {
    "test_dunder_dlpack_stream": "stream=1 on the host: fastdl has ValueError, NumPy RuntimeError",
    "test_dunder_dlpack_copy": "copy=<an array>: fastdl has TypeError, NumPy ValueError",
    "test_writeable": "fastdl's import of a legacy capsule is writable, NumPy's read-only",
}


class Rewrite(ast.NodeTransformer):
    """Routes the crossings."""

    METHODS = {"__dlpack__": "dlpack", "__dlpack_device__": "dlpack_device"}

    def visit_Call(self, node):
        self.generic_visit(node)
        function = node.func
        if not isinstance(function, ast.Attribute) or "super()" in ast.unparse(function):
            return node
        owner = ast.Name("crossing", ast.Load())
        if ast.unparse(function) == "np.from_dlpack":
            node.func = ast.Attribute(owner, "from_dlpack", ast.Load())
        elif function.attr in self.METHODS:
            node.func = ast.Attribute(owner, self.METHODS[function.attr], ast.Load())
            node.args.insert(0, function.value)
        else:
            return node
        return node


if tuple(map(int, version("numpy").split(".")[:2])) < (2, 3):
    UNLIKE_NUMPY["test_device"] = "BufferError, as the protocol asks, where NumPy had ValueError"

CROSSING = '''
"""The two routes through fastdl: see test_numpy_suite.py."""

import os

import numpy as np

import fastdl

ROUTE = os.environ["FASTDL_ROUTE"]
count = 0


class Passed:
    """A producer whose capsules have gone through fastdl. What `x` does not accept, it refuses."""

    def __init__(self, x):
        self.x = x

    def __dlpack__(self, **keywords):
        capsule = self.x.__dlpack__(**keywords)
        return fastdl.from_dlpack(capsule).__dlpack__(
            max_version=keywords.get("max_version"), dl_device=keywords.get("dl_device")
        )

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()


def through(x, **keywords):
    global count
    count += 1
    return fastdl.from_dlpack(x, **keywords) if ROUTE == "tensors" else Passed(x)


def from_dlpack(x, **keywords):
    return np.from_dlpack(through(x, **keywords), **keywords)


def dlpack(x, **keywords):
    return through(x).__dlpack__(**keywords)


def dlpack_device(x):
    return through(x).__dlpack_device__()
'''

CONFTEST = """
import crossing
import pytest

UNLIKE_NUMPY = {unlike!r}


def pytest_collection_modifyitems(items):
    for item in items:
        reason = UNLIKE_NUMPY.get(item.originalname)
        if reason and crossing.ROUTE == "tensors":
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


@pytest.fixture(autouse=True)
def must_cross():
    before = crossing.count
    yield
    assert crossing.count > before, "no crossing of this test went through fastdl"
"""


def numpy_suite() -> Path:
    """The file in the installed wheel, found without importing NumPy."""
    require("numpy")
    package = importlib.util.find_spec("numpy").submodule_search_locations[0]
    path = Path(package) / "_core" / "tests" / "test_dlpack.py"
    return path if path.exists() else missing("numpy with its tests")


def rewritten() -> str:
    """The source of the routed suite."""
    tree = ast.parse(numpy_suite().read_text(encoding="utf-8"))
    return "import crossing\n" + ast.unparse(ast.fix_missing_locations(Rewrite().visit(tree)))


@pytest.mark.parametrize("route", ["tensors", "capsules"])
@pytest.mark.slow
def test_numpy_suite_with_fastdl_in_the_middle(route, tmp_path):
    (tmp_path / "test_dlpack.py").write_text(rewritten(), encoding="utf-8")
    (tmp_path / "crossing.py").write_text(CROSSING, encoding="utf-8")
    conftest = CONFTEST.format(unlike=UNLIKE_NUMPY)
    (tmp_path / "conftest.py").write_text(conftest, encoding="utf-8")
    child = run_python(
        *("-m", "pytest", "-q", "-rxX", "-p", "no:cacheprovider", "-W", "error"),
        *("-W", "ignore::pytest.PytestDeprecationWarning"),  # NumPy parametrises with a generator
        # NumPy 2.5's registry of further types is its own affair: most of its tests cross nothing.
        *("-k", "not TestRegisterDlpackDtype"),
        *("-o", "markers=thread_unsafe", "--rootdir", str(tmp_path), str(tmp_path)),
        env={"FASTDL_ROUTE": route},
    )
    assert child.returncode == 0, describe(child)
    unlike = child.stdout.count("XFAIL")
    assert unlike == (len(UNLIKE_NUMPY) if route == "tensors" else 0), describe(child)
