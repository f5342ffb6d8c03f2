# SPDX-License-Identifier: Apache-2.0
"""The compiled modules are one shared library, which fastdl loads by itself."""

import sys
from importlib import import_module

import pytest

from tests.support.isolate import run_isolated

COMPILED = [
    "fastdl._core.tensor",
    "fastdl._core.exchange",
    "fastdl._devices.driver",
    "fastdl._bridges._numpy",
    "fastdl._convert.convert",
]


@pytest.mark.parametrize("name", COMPILED)
def test_a_compiled_module_looks_like_any_other(name):
    module = import_module(name)
    package, _, short = name.rpartition(".")
    assert module is sys.modules[name] is getattr(sys.modules[package], short)
    assert (module.__name__, module.__spec__.name, module.__package__) == (name, name, package)
    assert module.__file__ == sys.modules["fastdl._native"].__file__ == module.__spec__.origin
    assert module.__loader__ is module.__spec__.loader  # or each traceback warns on CPython 3.15


def test_a_module_that_threads_need_at_once_is_loaded_once():
    """The NumPy bridge is loaded at first use: the others wait until it is complete."""
    printed = run_isolated("""
        import sys, threading
        import fastdl
        sys.setswitchinterval(1e-6)
        tensor, start, failed = fastdl.empty((3,)), threading.Barrier(8), []
        def use():
            start.wait()
            try:
                tensor.numpy()
            except Exception as error:
                failed.append(error)
        threads = [threading.Thread(target=use) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(failed)
    """)
    assert printed == "[]\n"


def test_a_module_that_fails_is_tried_again():
    printed = run_isolated("""
        import sys
        import fastdl
        real, sys.modules["numpy"] = sys.modules.get("numpy"), None
        try:
            import fastdl._bridges._numpy
        except ImportError:
            print("fails", "fastdl._bridges._numpy" in sys.modules)
        if real is None:
            del sys.modules["numpy"]
        else:
            sys.modules["numpy"] = real
        print(fastdl.empty((0,)).numpy().shape)
    """)
    assert printed == "fails False\n(0,)\n"


def test_without_numpy():
    """The message says what to install, and what needs no NumPy."""
    printed = run_isolated("""
        import sys
        sys.modules["numpy"] = None
        import fastdl
        try:
            fastdl.asarray(b"ab").numpy()
        except ImportError as error:
            print(error)
        print(fastdl.asarray(b"ab").tolist())
    """)
    assert "pip install numpy" in printed
    assert printed.endswith("[97, 98]\n")
