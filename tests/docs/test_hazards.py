# SPDX-License-Identifier: Apache-2.0
"""docs/hazards.md, entry by entry: those that need NumPy alone. Others: interop/cases/hazards.py.

A test has the name of its entry, and shows what goes wrong, what fastdl does, and the remedy.
"""

import re
from multiprocessing import shared_memory
from pathlib import Path

import numpy as np
import pytest

import fastdl
from tests.support.isolate import run_isolated
from tests.support.producers import OldProducer, Producer
from tests.support.simulation import library_path

ROOT = Path(__file__).parents[2]


def test_each_hazard_has_a_test():
    """And each test an entry. The entry has a remedy."""
    page = (ROOT / "docs" / "hazards.md").read_text()
    entries = re.findall(r"<!-- hazard: (\w+) -->\n(.*?)(?=\n\n|\Z)", page, re.DOTALL)
    tests = []
    for file in (Path(__file__), ROOT / "tests/interop/cases/hazards.py"):
        tests += re.findall(r"(?m)^def test_(\w+)\(", file.read_text())
    tests.remove("each_hazard_has_a_test")
    assert sorted(tests) == sorted(name for name, _ in entries)
    for name, entry in entries:
        assert "*Remedy*:" in entry, name


def test_others_drop_the_mask_of_a_masked_array():
    masked = np.ma.array([1.0, 2.0, 3.0], mask=[False, True, False])
    assert np.from_dlpack(masked).tolist() == [1.0, 2.0, 3.0]
    with pytest.raises(BufferError, match=r"masked elements \(1 of 3\)"):
        fastdl.from_dlpack(masked)
    assert fastdl.from_dlpack(masked.filled(-1.0)).tolist() == [1.0, -1.0, 3.0]
    assert fastdl.from_dlpack(np.ma.getmaskarray(masked)).tolist() == [False, True, False]


def test_others_drop_what_elements_mean():
    class Quantity(np.ndarray):
        unit = "m"

    quantity = np.arange(3.0).view(Quantity)
    assert np.from_dlpack(quantity).tolist() == [0, 1, 2]
    with pytest.raises(BufferError, match=r"unit \(m\).*x\.view\(numpy\.ndarray\)"):
        fastdl.from_dlpack(quantity)
    assert fastdl.from_dlpack(quantity.view(np.ndarray)).tolist() == [0, 1, 2]


def test_a_producer_may_copy_in_spite_of_copy_false():
    values = np.arange(3.0)
    copies, silent = (
        kind(None, act=lambda self: values.copy().__dlpack__()) for kind in (Producer, OldProducer)
    )
    tensor = fastdl.from_dlpack(copies, copy=False)
    assert tensor.data_ptr != values.ctypes.data and not tensor.is_copied
    with pytest.raises(fastdl.CopyRequiredError):
        fastdl.from_dlpack(silent, copy=False)
    one, two = (fastdl.from_dlpack(copies, copy=False) for _ in range(2))
    assert one.data_ptr != two.data_ptr


def test_shared_memory_closes_below_an_ndarray():
    shared = shared_memory.SharedMemory(create=True, size=64)
    try:
        locked = fastdl.asarray(shared.buf)
        with pytest.raises(BufferError):
            shared.close()
        del locked
        array = np.ndarray(8, buffer=shared.buf)
        tensor = fastdl.from_dlpack(array)
        shared.close()  # from here on neither may be read
        assert tensor.data_ptr == array.ctypes.data
    finally:
        shared.unlink()


def test_a_forked_child_has_no_driver():
    run_isolated(
        """
        import os
        import numpy as np
        import fastdl
        from tests.support.frameworks import *
        sim = Simulation("cuda")
        tensor = fastdl.from_dlpack(Protocol(Array(sim)))
        host = fastdl.from_dlpack(np.arange(3.0))
        pid = os.fork()
        if pid == 0:
            try:
                tensor.__dlpack__(stream=sim.default)
            except BufferError as error:
                ok = "forked" in str(error)
            else:
                ok = False
            del tensor
            os._exit(0 if ok and host.tolist() == [0.0, 1.0, 2.0] else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        tensor.__dlpack__(stream=sim.default)
        """,
        env={"LD_LIBRARY_PATH": str(library_path("cuda").parent)},
    )


def test_a_subinterpreter_cannot_import_fastdl():
    pytest.importorskip("_testcapi", reason="this interpreter has no _testcapi")
    printed = run_isolated("""
        import _testcapi, fastdl
        code = '''
        try:
            import fastdl
        except ImportError:
            print("refused", flush=True)
        '''
        import textwrap
        assert _testcapi.run_in_subinterp(textwrap.dedent(code)) == 0
        """)
    assert printed == "refused\n"
