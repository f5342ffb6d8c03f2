# SPDX-License-Identifier: Apache-2.0
"""Several interpreters in one process, and several lives of Python: in a program with Python in it,
since most of what goes wrong there ends the process (fault M3)."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import fastdl
from tests.support.build import CPLUSPLUS, embedding_program, module_path
from tests.support.headers import LIMITED
from tests.support.isolate import run_isolated

PROGRAM = embedding_program("embed")
if PROGRAM is None:
    pytest.skip("this Python cannot be linked with", allow_module_level=True)

# A kind of interpreter: with the GIL of all, or with one of its own.
KINDS = ["shared", *(["own"] if sys.version_info >= (3, 12) else [])]
kinds = pytest.mark.parametrize("kind", KINDS)
builds = pytest.mark.parametrize("flags", [(), (*CPLUSPLUS, LIMITED)], ids=["full", "limited"])

PREPARE = """
    import sys
    sys.path[:] = {path!r}
    def load():
        import importlib.util
        spec = importlib.util.spec_from_file_location("header", {file!r})
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    class Source:
        def __init__(self, api):
            self.api, self.asked = api, 0
        def __dlpack_device__(self):
            return (1, 0)
        def __dlpack__(self, *, max_version=None, stream=None):
            self.asked += 1
            return self.api.capsule()
    def works(api, times=3):
        for _ in range(times):
            kind = type("Kind", (Source,), {{}})
            view = api.borrow(kind(api))
            assert view["shape"] == (2, 3), view
            try:
                api.borrow([1.0])
            except TypeError:
                pass
            else:
                raise AssertionError("a list is no tensor")
    def refuses(call, *words):
        try:
            call()
        except ImportError as error:
            for word in words:
                assert word in str(error), error
        else:
            raise AssertionError("no ImportError")
    def import_fastdl():
        import fastdl
"""


def run(*steps, flags=()):
    """Runs (interpreter, code) or ("end", interpreter), each code after PREPARE in that
    interpreter."""
    file = str(module_path("header", "header_embedded", *flags))
    path = [str(Path(fastdl.__file__).parents[1]), *sys.path]
    prepare = textwrap.dedent(PREPARE).format(path=path, file=file)
    arguments = []
    for which, what in steps:
        arguments += [which, what if which == "end" else prepare + textwrap.dedent(what)]
    environment = {**os.environ, "PYTHONHOME": sys.base_prefix}
    environment.pop("PYTHONPATH", None)
    result = subprocess.run(
        [PROGRAM, *arguments], env=environment, capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, f"{result.returncode}\n{result.stdout}\n{result.stderr}"


# ---- the package ----------------------------------------------------------------------------


@kinds
def test_a_subinterpreter_cannot_import_fastdl(kind):
    refused = "refuses(import_fastdl, 'subinterpreter', 'main')"
    run(
        ("main", "import fastdl"), (kind, refused), ("main", "assert fastdl.empty(3).shape == (3,)")
    )


@kinds
def test_a_subinterpreter_that_comes_first_spoils_nothing(kind):
    refused = "refuses(import_fastdl, 'subinterpreter', 'main')"
    works = "import fastdl, array; assert fastdl.asarray(array.array('f', [1])).tolist() == [1]"
    run((kind, refused), (kind, refused), ("end", kind), ("main", works), (kind, refused))


def test_python_initialized_again_refuses_fastdl():
    refused = "refuses(import_fastdl, 'after Py_Finalize', 'another process')"
    run(("main", "import fastdl; t = fastdl.empty(3)"), ("end", "main"), ("main", refused))


def test_python_initialized_again_without_fastdl_before():
    run(("main", "pass"), ("end", "main"), ("main", "import fastdl; assert fastdl.empty(3).ndim"))


# ---- the header -----------------------------------------------------------------------------

USE = "api = load(); works(api)"
WORDS = "'only in the interpreter that used it first', 'in another process'"
REFUSED = f"""
    api = load()
    source, like = Source(api), type("Table", (Source,), {{"__dlpack_c_exchange_api__": None}})
    for call in (
        lambda: api.borrow(source),
        lambda: api.borrow([1.0]),
        lambda: api.own(source),
        lambda: api.wrap(api.capsule(), None),
        lambda: api.wrap(api.capsule(), like),
        lambda: api.empty(api.capsule(), None),
        lambda: api.exchange_api(like),
    ):
        refuses(call, {WORDS})
    assert source.asked == 0
    refuses(api.import_runtime)
"""


@builds
@kinds
def test_the_header_works_in_the_interpreter_that_came_first(kind, flags):
    run(("main", USE), (kind, REFUSED), ("main", USE), ("end", kind), (kind, REFUSED),
        ("main", USE), flags=flags)  # fmt: skip


@builds
@kinds
def test_the_header_works_in_a_subinterpreter_that_came_first(kind, flags):
    """And in no other, also when that has ended."""
    run((kind, USE), ("main", REFUSED), (kind, USE), (kind + "2", REFUSED), ("end", kind),
        ("main", REFUSED), (kind, REFUSED), flags=flags)  # fmt: skip


@builds
@kinds
def test_a_producer_that_is_kept_is_released_in_its_own_interpreter(kind, flags):
    """Or left alone where a thread may have another one attached, or none."""
    use = """
        api = load()
        kept = type("OrtValue", (Source,), {"__module__": "onnxruntime"})(api)
        before = sys.getrefcount(kept)
        for _ in range(3):
            assert api.borrow(kept)["owned"]
        assert sys.getrefcount(kept) == before
        api.own(kept)
        api.delete_unattached(api.leave(api.own(kept)))
    """
    run(("main", use + "    assert sys.getrefcount(kept) == before"), flags=flags)
    run((kind, use), ("end", kind), flags=flags)


MAKE = {
    "the header": """
        kept = type("OrtValue", (Source,), {"__module__": "onnxruntime"})(api)
        make = lambda: api.own(kept)
    """,
    "fastdl": """
        import array, fastdl
        kept = array.array("f", [1, 2])
        make = lambda: fastdl.asarray(kept).__dlpack__(max_version=(1, 0))
    """,
}


@kinds
@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_what_is_dropped_in_another_interpreter_is_not_released_there(kind, make):
    own = f"""
        api = load()
        {make}
        before = sys.getrefcount(kept)
        addresses = [api.leave(make()) for _ in range(5)]
        assert sys.getrefcount(kept) == before + 5
        import os
        os.environ["ADDRESSES"] = " ".join(map(str, addresses[:4]))
    """
    drop = """
        api = load()
        import os, threading
        for i, address in enumerate(os.environ["ADDRESSES"].split()):
            call = api.delete_at if i % 2 else api.delete_unattached
            thread = threading.Thread(target=call, args=(int(address),))
            if i < 2:
                thread.run()
            else:
                thread.start()
                thread.join()
    """
    # Before 3.12 a thread that is detached can still enter the first interpreter that it was in.
    after = """
        left = sys.getrefcount(kept) - before
        assert left == 5 or (left == 4 and sys.version_info < (3, 12))
        api.delete_at(addresses[4])
        assert sys.getrefcount(kept) == before + left - 1
    """
    run(("main", own), (kind, drop), ("main", after))


@builds
@kinds
def test_a_subinterpreter_is_not_served_by_the_package_of_another(kind, flags):
    """Which would run code of that interpreter in this one."""
    imports = """
        api = load()
        api.import_runtime()
        import fastdl
        works(api)
        tensor = fastdl.empty((2, 3))
        assert api.borrow(tensor)["owned"] is False
        assert api.record(fastdl.Tensor) is not None
        from fastdl._convert import targets
        seen, unknown_library = [], targets.unknown_library
        def noted(*arguments):
            seen.append(arguments)
            return unknown_library(*arguments)
        targets.unknown_library = noted
    """
    again = """
        api = load()
        works(api)
        assert api.borrow(fastdl.empty((2, 3)))["owned"] is False
        assert type(api.wrap(api.own(fastdl.empty(3)), None)) is fastdl.Tensor
        assert not seen
    """
    refused = REFUSED + "    refuses(api.import_runtime, 'subinterpreter')"
    run(("main", imports), (kind, refused), ("main", again), ("end", kind), ("main", again),
        (kind, refused), ("main", again), flags=flags)  # fmt: skip


@builds
@kinds
def test_results_are_the_first_thing_that_a_subinterpreter_asks_for(kind, flags):
    """Before any type was looked up, which would tell that there is another interpreter."""
    asks = f"api = load(); refuses(lambda: api.wrap(api.capsule(), None), {WORDS})"
    run(("main", "api = load(); api.import_runtime()"), (kind, asks), flags=flags)


@builds
@kinds
def test_the_package_is_not_for_a_module_of_a_subinterpreter(kind, flags):
    imports = f"api = load(); refuses(api.import_runtime, {WORDS})"
    run((kind, USE), ("main", imports), ("end", kind), ("main", imports), flags=flags)


@builds
def test_python_initialized_again_refuses_the_header(flags):
    """CPython numbers types anew, and may put one where another was: a type that was remembered,
    with a table or without one, is not taken for another."""
    use = """
        api = load()
        for i in range(300):
            table = api.table_capsule() if i % 2 else None
            kind = type("Kind", (Source,), {"__dlpack_c_exchange_api__": table})
            assert api.borrow(kind(api))["shape"] == (2, 3)
    """
    again = f"""
        api = load()
        for i in range(300):
            table = None if i % 2 else api.table_capsule()
            kind = type("Kind", (Source,), {{"__dlpack_c_exchange_api__": table}})
            refuses(lambda: api.borrow(kind(api)), {WORDS})
    """
    run(("main", use), ("end", "main"), ("main", again), ("end", "main"), ("main", REFUSED),
        flags=flags)  # fmt: skip


@builds
def test_the_header_after_the_package_has_ended(flags):
    imports = "api = load(); api.import_runtime(); works(api)"
    again = REFUSED + "    refuses(api.import_runtime, 'after Py_Finalize')"
    run(("main", imports), ("end", "main"), ("main", again), flags=flags)


def test_a_first_export_while_the_interpreter_ends():
    said = run_isolated("""
        import fastdl

        class Last:
            def __init__(self, tensor):
                self.tensor = tensor

            def __del__(self):
                print(type(self.tensor.__dlpack__(max_version=(1, 0))).__name__)

        keep = Last(fastdl.empty(3))
    """)
    assert said == "PyCapsule\n"
