# SPDX-License-Identifier: Apache-2.0
"""Memory does not grow, in three cases of which test_reliability.py knows nothing."""

import os

import pytest

from tests.support.isolate import run_isolated


def test_names_are_not_kept():
    """CPython's cache of attributes keeps each name it is asked for. After 3000 types fastdl's own
    cache has no room for another, so it asks the last one again each time."""
    run_isolated("""
        import gc, tracemalloc
        import fastdl
        import numpy as np
        array = np.arange(3.0)
        def export(self, *, stream=None, max_version=None):
            return array.__dlpack__(max_version=max_version)
        members = {"__dlpack__": export, "__dlpack_device__": lambda self: (1, 0)}
        producers = [type("Producer", (), members)() for _ in range(3000)]
        for producer in producers:
            fastdl.from_dlpack(producer)
        def traced(times):
            apart = []  # so that no name has the address of the one before it
            for i in range(times):
                fastdl.from_dlpack(producer)
                apart += ["__mro__" + str(i), "a longer name" + str(i)]
            apart.clear()
            gc.collect()
            return tracemalloc.get_traced_memory()[0]
        tracemalloc.start()
        before = traced(30)
        grown = traced(300) - before
        assert grown < 300 * 8, grown
    """)


def test_a_library_that_is_not_known_is_not_kept():
    """Nor does the collector have to find what each call made for it."""
    run_isolated("""
        import gc, types
        import fastdl
        import numpy as np
        array, module = np.arange(3.0), types.ModuleType("unknown")
        module.from_dlpack = lambda tensor: tensor
        fastdl.convert(array, module)
        gc.collect()
        gc.disable()
        before = len(gc.get_objects())
        for _ in range(100):
            fastdl.convert(array, module)
        assert len(gc.get_objects()) - before < 100
    """)


def test_an_object_that_convert_refused_is_not_kept():
    """Nor does the collector have to find it."""
    run_isolated("""
        import gc, types, weakref
        import fastdl
        import numpy as np
        gc.disable()
        class Texts(np.ndarray):
            pass
        module = types.ModuleType("unknown")
        module.from_dlpack = lambda tensor: tensor
        array = np.array(["a"]).view(Texts)
        alive = weakref.ref(array)
        try:
            fastdl.convert(array, module)
        except BufferError:
            pass
        del array
        assert alive() is None
    """)


@pytest.mark.skipif("FASTDL_SANITIZE" in os.environ, reason="what is freed is kept for a while")
def test_a_producer_that_must_be_kept_and_hands_out_our_memory():
    """The second owner of a block does not make it forget the memory that it allocated itself."""
    run_isolated("""
        import fastdl
        from dlpack_conformance.leaks import resident
        def export(self, **keywords):
            tensor = fastdl.empty(1 << 20)
            memoryview(tensor)[0] = 1.0
            for page in range(0, 1 << 20, 1024):
                memoryview(tensor)[page] = 1.0
            return tensor.__dlpack__(max_version=(1, 0))
        members = {"__module__": "onnxruntime", "__dlpack__": export,
                   "__dlpack_device__": lambda self: (1, 0)}
        OrtValue = type("OrtValue", (), members)
        fastdl.from_dlpack(OrtValue())
        before = resident()
        for _ in range(20):
            fastdl.from_dlpack(OrtValue())
        assert resident() - before < 5 << 22, (before, resident())
    """)
