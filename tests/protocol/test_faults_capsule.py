# SPDX-License-Identifier: Apache-2.0
"""Capsules: consumed by another, misnamed, mislabelled, dropped, raced for (faults C1 to C13). The
suite's failure.used-capsule, by test_paths_conform.py for every path, consumes them twice."""

import ctypes
import gc
import sys

import pytest

import fastdl
from fastdl._protocol import consumer as _consumer
from tests.support.ctypes_dlpack import name_of, opened
from tests.support.headers import ENTRIES, every_entry
from tests.support.isolate import run_isolated
from tests.support.producers import Given, Producer, entries, hostile, types

forms = pytest.mark.parametrize("versioned", [True, False], ids=["versioned", "legacy"])


BOGUS = ["dltensor_bogus", "dltensor_versioned2", "DLTENSOR", "", "x\N{BLACK STAR}y", None]


@entries
@forms
@pytest.mark.parametrize("name", BOGUS)
def test_c3_capsule_of_another_name_stays_untouched(enter, versioned, name):
    given = Given(versioned=versioned)
    capsule = given.capsule(name)
    with pytest.raises(TypeError, match="expected a capsule named") as caught:
        enter(capsule)
    assert caught.type is TypeError
    given.assert_alive()
    producer = Producer(given, act=lambda self, capsule=capsule: capsule)
    with pytest.raises(TypeError):
        enter(producer)
    given.assert_alive()
    del capsule, caught, producer
    given.assert_released(by_destructor=True)


@every_entry
@types
@pytest.mark.parametrize("answer", [None, 5, [], "dltensor", b"", NotImplemented], ids=repr)
def test_c4_export_that_is_no_capsule(enter, of_type, answer):
    """TypeError, and it is let go."""
    producer = of_type(Producer)(None, act=lambda self: answer)
    words = "must return a PyCapsule|expected a new DLPack capsule from __dlpack__"
    before = sys.getrefcount(answer)
    with pytest.raises(TypeError, match=words) as caught:
        enter(producer)
    assert caught.type is TypeError
    del caught
    gc.collect()
    assert sys.getrefcount(answer) == before or type(answer) is not list  # others are everybody's


@entries
@pytest.mark.parametrize("label", ["dltensor", "dltensor_versioned"])
def test_c5_struct_of_the_other_form_under_the_name(enter, label):
    """Neither crashes nor looks like a tensor: what is called a deleter there may be none."""
    name = "fastdl.from_dlpack" if enter is fastdl.from_dlpack else "_consumer.from_dlpack"
    printed = run_isolated(f"""
        import fastdl
        from fastdl._protocol import consumer as _consumer
        from tests.support.producers import Given
        given = Given(versioned={label == "dltensor"})
        try:
            print({name}(given.capsule({label!r}, destructor=False)))
        except BufferError:
            print("BufferError", given.deleted <= 1)
    """)
    assert printed == "BufferError True\n"


@entries
@forms
def test_c8_failure_before_taking_ownership(enter, versioned):
    """Arguments are judged before the capsule is touched: it can still be used. Its name is no
    literal: names are compared, not their addresses."""
    given = Given(versioned=versioned)
    capsule = given.capsule()
    for wrong in ({"stream": 1}, {"copy": 1}, {"device": 7}, {"device": "nowhere"}):
        with pytest.raises((TypeError, ValueError)):
            enter(capsule, **wrong)
        given.assert_alive()
    tensor = enter(capsule)
    assert tensor.shape == (2, 3)
    del tensor
    given.assert_released()


@forms
def test_c9_export_renamed_back(versioned):
    """The name counts, not its address: a consumer may write it back from a copy of its own."""
    given = Given()
    tensor = fastdl.from_dlpack(given.capsule())
    capsule = tensor.__dlpack__(max_version=(1, 3) if versioned else None)
    name = ctypes.create_string_buffer(name_of(capsule).encode())
    set_name = ctypes.pythonapi.PyCapsule_SetName
    set_name.argtypes, set_name.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_int
    assert set_name(capsule, ctypes.cast(name, ctypes.c_char_p)) == 0
    del tensor
    given.assert_alive()
    del capsule
    given.assert_released()


CHANGES = {
    "a negative dimension": lambda tensor: tensor.shape.__setitem__(0, -1),
    "more bytes": lambda tensor: tensor.shape.__setitem__(0, 2**62),
    "strides that reach": lambda tensor: tensor.strides.__setitem__(0, 2**62),
    "elements but a NULL data pointer": lambda tensor: setattr(tensor, "data", None),
    "0 lanes": lambda tensor: setattr(tensor, "lanes", 0),
    "a number of dimensions": lambda tensor: setattr(tensor, "ndim", 65),
    "an address or byte_offset": lambda tensor: setattr(tensor, "byte_offset", 2**64 - 4),
}


@entries
@pytest.mark.parametrize(("words", "change"), CHANGES.items(), ids=CHANGES)
def test_c14_export_that_its_consumer_changed(enter, words, change):
    """A description that comes back is checked as a stranger's, and released if it is refused."""
    given = Given()
    tensor = fastdl.from_dlpack(given.capsule())
    capsule = tensor.__dlpack__(max_version=(1, 3))
    struct = opened(capsule)
    change(struct.tensor)
    with pytest.raises(BufferError, match=f"the tensor has {words}"):
        enter(capsule)
    del struct, capsule
    assert tensor.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    del tensor
    given.assert_released()


class Clearing(Producer):
    """The destructor of its capsules clears the pending exception, as that of nanobind does."""

    def __dlpack__(self, **keywords):
        capsule = super().__dlpack__(**keywords)
        ctypes.pythonapi.PyCapsule_SetDestructor(
            ctypes.py_object(capsule), ctypes.cast(ctypes.pythonapi.PyErr_Clear, ctypes.c_void_p)
        )
        return capsule


class Misplaced(Clearing):
    """Its data is not on the device that it announces."""

    def __dlpack_device__(self):
        return (1, 0)


class Refused(Clearing):
    """Its table refuses it, and it announces no device."""

    __dlpack_c_exchange_api__ = hostile.table_capsule(hostile.table())
    mode = "fail and raise"

    def __dlpack_device__(self):
        raise RuntimeError("no device")


#: Facts of a type follow from its name: this one is called without asking for the device.
ASKED_AT_ONCE = type("Tensor", (Clearing,), {"__module__": "tvm_ffi.core"})
IMPORTS = {
    "compiled": fastdl.from_dlpack,
    "python": _consumer.from_dlpack,
    "device": lambda x: fastdl.from_dlpack(x, device="cpu"),
    "asarray": fastdl.asarray,
    "convert": lambda x: fastdl.convert(x, fastdl.Tensor),
    **ENTRIES,
}


CLEARED = [
    (Clearing, {"shape": (-3,)}, "negative dimension", IMPORTS),
    (ASKED_AT_ONCE, {"shape": (-3,)}, "negative dimension", IMPORTS),
    (Misplaced, {"device": (2, 0)}, "announced", IMPORTS),
    (Refused, {"shape": (-3,)}, "negative dimension", ("compiled", "python")),
]


@pytest.mark.parametrize(
    ("kind", "description", "message", "name"),
    [(*case, name) for *case, names in CLEARED for name in names],
)
def test_c15_capsule_whose_destructor_clears_the_exception(kind, description, message, name):
    given = Given(**description)
    with pytest.raises(BufferError, match=message):
        IMPORTS[name](kind(given))
    given.assert_released()
