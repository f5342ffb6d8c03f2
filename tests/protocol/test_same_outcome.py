# SPDX-License-Identifier: Apache-2.0
"""The compiled entry and the Python function over one table of cases: same tensor, or same
exception with the same message, and the producer was asked the same. And the public header, in a
module of its own, over those cases that a C function may meet."""

import array as arrays

import ml_dtypes
import numpy as np
import pytest

import fastdl
from fastdl._protocol import consumer as _consumer
from tests.support.headers import ALONE, INSTALLED
from tests.support.producers import (
    CPU,
    CUDA,
    OPENCL,
    AnyProducer,
    BareProducer,
    DraftProducer,
    Given,
    OldProducer,
    Producer,
    Tabled,
    TabledProducer,
    Wrapper,
    new,
    raises,
)

ROCM = (10, 0)
READ_ONLY, IS_COPIED, PADDED = 1, 2, 4

MEMORY = arrays.array("f", range(6))  # one for all, so that addresses can be compared


def given(**fields):
    return Given(memory=MEMORY, **fields)


def inner(self):
    """Hands the keywords on to a function that is not `__dlpack__`, and does not take them."""
    return (lambda stream=None: self.managed.capsule())(**self.asked[-1])


class Optout(Producer):
    __dlpack__ = None


class NoDevice(Producer):
    __dlpack_device__ = None


class Masked(np.ndarray):
    def __dlpack__(self, **keywords):
        raise BufferError("the mask would be lost")


# One of each, so that the address is the same each time.
ARRAY = np.arange(12, dtype="f4").reshape(3, 4)
SCALAR = np.array(3.0)
HALF = ARRAY.astype(ml_dtypes.bfloat16)
EMPTY = np.empty((3, 0, 2))
FROZEN = ARRAY[:, ::-2]
FROZEN.flags.writeable = False
FASTDL = fastdl.from_dlpack(ARRAY)
READONLY = fastdl.from_dlpack(FROZEN)

# name -> what makes the argument. Both a new type and a known one, where the type may matter.
SOURCES = {
    "capsule": lambda of_type: given().capsule(),
    "legacy capsule": lambda of_type: given(versioned=False).capsule(),
    "capsule, strided": lambda of_type: given(shape=(3,), strides=(2,)).capsule(),
    "capsule, read-only": lambda of_type: given(flags=READ_ONLY).capsule(),
    "capsule, copied": lambda of_type: given(flags=IS_COPIED).capsule(),
    "capsule, padded": lambda of_type: given(flags=PADDED, dtype=(0, 4, 1)).capsule(),
    "capsule, CUDA": lambda of_type: given(device=CUDA).capsule(),
    "capsule, OpenCL": lambda of_type: given(device=OPENCL, byte_offset=4).capsule(),
    "capsule, unknown device": lambda of_type: given(device=(999, 2)).capsule(),
    "capsule, pinned": lambda of_type: given(device=(3, 0)).capsule(),
    "capsule, refused": lambda of_type: given(shape=(-1,)).capsule(),
    "capsule, major 2": lambda of_type: given(version=(2, 0)).capsule(),
    "capsule, other name": lambda of_type: given().capsule("other"),
    "capsule, no name": lambda of_type: given().capsule(None),
    "capsule, consumed": lambda of_type: consumed(given().capsule()),
    "producer": lambda of_type: of_type(Producer)(given()),
    "producer, legacy": lambda of_type: of_type(Producer)(given(versioned=False)),
    "producer, read-only": lambda of_type: of_type(Producer)(given(flags=READ_ONLY)),
    "producer, copied": lambda of_type: of_type(Producer)(given(flags=IS_COPIED)),
    "producer, refused": lambda of_type: of_type(Producer)(given(ndim=65)),
    "producer, CUDA": lambda of_type: of_type(Producer)(given(device=CUDA), CUDA),
    "producer, ROCm": lambda of_type: of_type(Producer)(given(device=ROCM), ROCM),
    "producer, OpenCL": lambda of_type: of_type(Producer)(given(device=OPENCL), OPENCL),
    "producer, pinned": lambda of_type: of_type(Producer)(given(), (3, 0)),
    "producer, lying": lambda of_type: of_type(Producer)(given(device=CUDA), CPU),
    "producer, lying the other way": lambda of_type: of_type(Producer)(given(), CUDA),
    "producer, strange device": lambda of_type: of_type(Producer)(given(), "cpu"),
    "producer, None as id": lambda of_type: of_type(Producer)(given(), (1, None)),
    "producer, old": lambda of_type: of_type(OldProducer)(given(versioned=False)),
    "producer, old, CUDA": lambda of_type: of_type(OldProducer)(given(device=CUDA), CUDA),
    "producer, bare": lambda of_type: of_type(BareProducer)(given(versioned=False)),
    "producer, bare, CUDA": lambda of_type: of_type(BareProducer)(given(device=CUDA), CUDA),
    "producer, draft": lambda of_type: of_type(DraftProducer)(given()),
    "producer, draft, old": lambda of_type: new_info(of_type, 60),
    "producer, draft, oldest": lambda of_type: new_info(of_type, 40),
    "producer, no capsule": lambda of_type: of_type(Producer)(None, act=lambda self: None),
    "producer, ValueError": lambda of_type: of_type(Producer)(None, act=raises(ValueError("no"))),
    "producer, TypeError": lambda of_type: of_type(Producer)(None, act=raises(TypeError("no"))),
    "producer, inner keyword": lambda of_type: of_type(Producer)(
        None, act=raises(TypeError("other() got an unexpected keyword argument 'copy'"))
    ),
    "wrapper": lambda of_type: of_type(Wrapper)(Producer(given(flags=READ_ONLY))),
    "wrapper, old": lambda of_type: of_type(Wrapper)(OldProducer(given(versioned=False))),
    "wrapper, bare": lambda of_type: of_type(Wrapper)(BareProducer(given(versioned=False))),
    "wrapper, inner function": lambda of_type: of_type(AnyProducer)(given(), act=inner),
    "producer, opted out": lambda of_type: of_type(Optout)(given()),
    "producer, no device": lambda of_type: of_type(NoDevice)(given()),
    "table": lambda of_type: of_type(Tabled)(given()),
    "table, read-only": lambda of_type: of_type(Tabled)(given(flags=READ_ONLY)),
    "table, CUDA": lambda of_type: of_type(Tabled)(given(device=CUDA)),
    "table, refused": lambda of_type: of_type(Tabled)(given(data=0)),
    "table, failing": lambda of_type: of_type(Tabled)(given(), "fail"),
    "table, raising": lambda of_type: of_type(Tabled)(given(), "fail and raise"),
    "table, nothing": lambda of_type: of_type(Tabled)(given(), "nothing"),
    "table and protocol": lambda of_type: of_type(TabledProducer)(given()),
    "table refuses, protocol": lambda of_type: of_type(TabledProducer)(
        given(), mode="fail and raise"
    ),
    "array": lambda of_type: ARRAY,
    "array, strided, read-only": lambda of_type: FROZEN,
    "array, scalar": lambda of_type: SCALAR,
    "array, empty": lambda of_type: EMPTY,
    "array, half": lambda of_type: HALF,
    "array, swapped": lambda of_type: ARRAY.astype(">f4"),
    "array, object": lambda of_type: ARRAY.astype(object),
    "array, text": lambda of_type: np.array(["a"]),
    "array, masked": lambda of_type: ARRAY.view(Masked),
    "tensor": lambda of_type: FASTDL,
    "tensor, read-only": lambda of_type: READONLY,
    "number": lambda of_type: 3.0,
    "list": lambda of_type: [1.0],
    "bytes": lambda of_type: b"abc",
    "None": lambda of_type: None,
    "type": lambda of_type: Producer,
}


def consumed(capsule):
    fastdl.from_dlpack(capsule)
    return capsule


def new_info(of_type, info):
    kind = type("DraftProducer", (DraftProducer,), {"info": info})
    return of_type(kind)(given(versioned=False))


ARGUMENTS = {
    "plain": {},
    "device cpu": {"device": "cpu"},
    "device pair": {"device": (1, 0)},
    "device Device": {"device": fastdl.Device("cpu")},
    "device cpu 5": {"device": (1, 5)},
    "device cuda": {"device": "cuda:0"},
    "device pinned": {"device": "cuda_host"},
    "device nowhere": {"device": "nowhere"},
    "device number": {"device": 1},
    "device text pair": {"device": ("1", "0")},
    "copy": {"copy": True},
    "no copy": {"copy": False},
    "copy 1": {"copy": 1},
    "copy text": {"copy": "no"},
    "stream None": {"stream": None},
    "stream -1": {"stream": -1},
    "stream 0": {"stream": 0},
    "stream 1": {"stream": 1},
    "stream 2": {"stream": 2},
    "stream handle": {"stream": 4096},
    "stream -2": {"stream": -2},
    "stream too wide": {"stream": 2**64},
    "stream text": {"stream": "1"},
    "stream True": {"stream": True},
    "copy on cpu": {"device": "cpu", "copy": True},
    "no copy to cuda": {"device": "cuda:0", "copy": False},
    "copy, stream": {"copy": True, "stream": 1},
    "everything": {"device": "cpu", "copy": None, "stream": None},
}


def records(source):
    """How it was asked, and how often what it handed over was given back."""
    source = getattr(source, "inner", source)
    managed = getattr(source, "managed", None)
    return getattr(source, "asked", None), managed and (managed.deleted, managed.handed)


def outcome(enter, make, of_type, keywords):
    source = make(of_type)
    try:
        tensor = enter(source, **keywords)
    except Exception as error:
        result = (type(error), str(error))
    else:
        result = {
            "type": type(tensor),
            "same object": tensor is source,
            "data": tensor.is_copied or tensor.data_ptr,
            **{
                name: getattr(tensor, name)
                for name in ("shape", "strides", "dtype", "device", "readonly", "is_copied",
                             "nbytes", "size")
            },
            "values": tensor.tolist() if tensor.device.is_host else None,
            "device pair": tensor.__dlpack_device__(),
        }  # fmt: skip
        del tensor
    return result, *records(source)


@pytest.mark.parametrize("keywords", ARGUMENTS.values(), ids=ARGUMENTS)
def test_both_entries_agree(keywords):
    """Over every source, with these arguments, of a type that is new and of one that is known: what
    fastdl remembers of it changes the speed and nothing else."""
    for name, make in SOURCES.items():
        compiled, *others = (
            outcome(enter, make, of_type, keywords)
            for of_type in (new, lambda kind: kind)
            for enter in (fastdl.from_dlpack, _consumer.from_dlpack)
        )
        assert (name, others) == (name, [compiled] * 3)


def in_c(borrow, make, of_type):
    """As `outcome`, of a borrowed view; without what a view does not have, and without the words of
    an exception, which are for authors in C there."""
    source = make(of_type)
    try:
        view = borrow(source)
    except Exception as error:
        result = type(error)
    else:
        result = {name: view[name] for name in ("shape", "strides", "dtype", "device", "data")}
        result["read-only"] = bool(view["flags"] & READ_ONLY)
        if 0 in result["shape"]:  # of no elements, which some releases of NumPy give new ones
            del result["strides"]
    return result, *records(source)


def in_python(enter):
    """borrow() of a header, by way of a Tensor."""

    def borrow(source):
        tensor = enter(source)
        return {
            "shape": tensor.shape,
            "strides": tensor.strides,
            "dtype": tensor.dtype.__dlpack_data_type__(),
            "device": tensor.__dlpack_device__(),
            "data": tensor.data_ptr,
            "flags": READ_ONLY * tensor.readonly,
        }

    return borrow


@pytest.mark.parametrize("of_type", [new, lambda kind: kind], ids=["new type", "known type"])
@pytest.mark.parametrize("api", (ALONE | INSTALLED).values(), ids=ALONE | INSTALLED)
@pytest.mark.parametrize(
    "name", [name for name in SOURCES if "capsule," not in f"{name}," and "draft" not in name]
)
def test_the_header_agrees(api, name, of_type):
    """With the specification: the same tensor, asked for in the same way and given back as often,
    or the same kind of exception."""
    if name == "array, half" and api in ALONE.values():
        pytest.skip("NumPy's own __dlpack__ does not know ml_dtypes")
    make = SOURCES[name]
    specified = in_c(in_python(_consumer.from_dlpack), make, of_type)
    for _ in range(2):
        assert in_c(api.borrow, make, of_type) == specified


@pytest.mark.parametrize(
    ("positional", "keywords"),
    [((), {}), ((ARRAY, "cpu"), {}), ((), {"x": ARRAY}), ((ARRAY,), {"other": 1}),
     ((ARRAY,), {"max_version": (1, 0)}), ((), {"copy": True})],
)  # fmt: skip
def test_both_entries_name_themselves_in_wrong_calls(positional, keywords):
    """Python and C word such errors differently; both speak of from_dlpack."""
    for enter in (fastdl.from_dlpack, _consumer.from_dlpack):
        with pytest.raises(TypeError, match=r"^from_dlpack\(\)") as caught:
            enter(*positional, **keywords)
        assert caught.type is TypeError


class Wordless(TypeError):
    def __str__(self):
        raise LookupError("no words")


REFUSALS = {
    "an error without words": Wordless(),
    "words that are no text": TypeError("\udcff unexpected keyword argument 'max_version'"),
}


@pytest.mark.parametrize("error", REFUSALS.values(), ids=REFUSALS)
def test_errors_that_cannot_be_read_pass(error):
    for enter in (fastdl.from_dlpack, _consumer.from_dlpack):
        with pytest.raises(TypeError) as caught:
            enter(new(AnyProducer)(None, act=raises(error)))
        assert caught.value is error
