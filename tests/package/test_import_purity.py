# SPDX-License-Identifier: Apache-2.0
"""`import fastdl` imports the standard library and fastdl, and nothing else."""

import json
import sys
from types import ModuleType

import pytest

import fastdl
from fastdl import _policy
from tests.support.isolate import run_isolated

PROGRAM = """
import json, sys
before = set(sys.modules)
{statement}
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def modules_added_by(statement: str) -> set[str]:
    """What a statement adds to sys.modules in a fresh interpreter with this one's search path."""
    return set(json.loads(run_isolated(PROGRAM.format(statement=statement))))


def foreign(modules: set[str]) -> set[str]:
    """Those that are neither fastdl's nor the standard library's."""
    own = {"fastdl", "cython_runtime"}  # Cython keeps its state in modules without a file
    return {
        name
        for name in modules
        if (top := name.partition(".")[0]) not in own
        and top not in sys.stdlib_module_names
        and not top.startswith("_cython_")
    }


def test_import_fastdl_imports_no_other_package():
    added = modules_added_by("import fastdl")
    assert "fastdl" in added
    assert foreign(added) == set()


#: What `import fastdl` needs. Each module more makes it slower.
NEEDED = {
    "fastdl",
    "fastdl._convert",
    "fastdl._convert.convert",
    *(f"fastdl._core{name}" for name in ("", ".device", ".dtype", ".errors", ".exchange")),
    *("fastdl._core.foreign", "fastdl._core.tensor"),
    *("fastdl._devices", "fastdl._devices.driver"),
    *("fastdl._library", "fastdl._native", "fastdl._policy", "fastdl._version"),
}


def test_what_is_not_needed_stays_unloaded():
    """Neither higher layers nor slow modules of the standard library."""
    added = modules_added_by("import fastdl") - modules_added_by("import atexit")
    assert {name for name in added if "cython" not in name} == NEEDED


def test_each_module_that_is_loaded_later_exists():
    for name in _policy._MODULES:
        assert getattr(_policy, name).__name__.endswith(f".{name}")


def test_an_unknown_name_of_the_package_is_an_attribute_error():
    """The package has no `__getattr__`, with which each `fastdl.name` is slower."""
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _policy.nothing  # noqa: B018
    assert type(fastdl) is ModuleType
    assert not hasattr(fastdl, "__getattr__")


def test_threads_that_need_a_module_at_once():
    """Each gets the whole module."""
    run_isolated("""
        import sys, threading
        import fastdl
        sys.setswitchinterval(1e-6)
        tensor, start, wrong = fastdl.empty((2, 3)), threading.Barrier(8), []
        calls = [lambda: repr(tensor), lambda: fastdl.asarray(b"12"),
                 lambda: fastdl.encode(tensor), lambda: tensor.__reduce_ex__(5)]
        def use(number):
            start.wait()
            try:
                for step in range(4):
                    calls[(number + step) % 4]()
            except BaseException as error:
                wrong.append(error)
        threads = [threading.Thread(target=use, args=(n,)) for n in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert not wrong, wrong
    """)


def test_an_interrupt_while_a_module_is_loaded():
    """Wherever it comes in our code, the next call works. CPython's own is not so careful."""
    run_isolated("""
        import sys
        import fastdl

        def interrupt(frame, event, argument):
            global left
            if frame.f_code.co_filename.startswith("<"):
                return None
            left -= 1
            if left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
            return interrupt

        def forget():
            for name in set(sys.modules) - before:
                if name.startswith("fastdl."): del sys.modules[name]
            for name in set(vars(fastdl._policy)) - known: delattr(fastdl._policy, name)

        before, known = set(sys.modules), set(vars(fastdl._policy))
        number = left = 0
        while left <= 0:
            left = number = number + 13
            sys.settrace(interrupt)
            try:
                fastdl.asarray(b"12")
            except KeyboardInterrupt:
                pass
            sys.settrace(None)
            assert fastdl.asarray(b"12").tolist() == [49, 50]
            forget()
        assert number > 300, number
    """)


@pytest.mark.parametrize(
    "use",
    [
        "fastdl.empty((2, 3))",
        "repr(fastdl.asarray(bytearray(8)))",
        "fastdl.asarray(b'12').tolist()",
        "fastdl.from_dlpack(fastdl.empty(3).__dlpack__())",
        "fastdl.from_dlpack(fastdl.empty(3), copy=True)[1:].copy()",
        "memoryview(fastdl.empty(3))",
        "fastdl.exchange_api(fastdl.Tensor)",
    ],
)
def test_work_without_a_library_imports_none(use):
    assert foreign(modules_added_by(f"import fastdl; {use}")) == set()
