# SPDX-License-Identifier: Apache-2.0
"""The table of NumPy's arrays against arrays that lie, and that change while they are read."""

import sys

import ml_dtypes
import numpy as np
import pytest

import fastdl
from fastdl._protocol import consumer
from tests.support.headers import INSTALLED
from tests.support.producers import Given


def of_tensor(tensor):
    return {
        "data": tensor.data_ptr,
        "shape": tensor.shape,
        "strides": tensor.strides,
        "dtype": tensor.dtype.__dlpack_data_type__(),
    }


def of_view(view):
    return {name: view[name] for name in ("data", "shape", "strides", "dtype")}


API = INSTALLED["installed"]
ENTRIES = {
    "compiled": lambda x: of_tensor(fastdl.from_dlpack(x)),
    "python": lambda x: of_tensor(consumer.from_dlpack(x)),
    "table": lambda x: of_view(API.held(API.own(x))),
    "borrow": lambda x: of_view(API.borrow(x)),
}
every_entry = pytest.mark.parametrize("enter", ENTRIES.values(), ids=ENTRIES)


def truth(array, name=None):
    """What the array is, as the functions of numpy.ndarray itself see it."""
    plain = np.ndarray.view(array, np.ndarray)
    return {
        "data": plain.ctypes.data,
        "shape": plain.shape,
        "strides": tuple(n // plain.itemsize for n in plain.strides),
        "dtype": fastdl.DType(name or plain.dtype.name).__dlpack_data_type__(),
    }


# ---- properties of subclasses ---------------------------------------------------------------


def lying(**answers):
    """A type of arrays with such properties; `asked` lists those that were read."""
    cls = type("Lying", (np.ndarray,), {"asked": []})

    def property_of(name, answer):
        def read(self):
            cls.asked.append(name)
            return answer(self) if callable(answer) else answer

        return property(read, lambda self, value: None)

    for name, answer in answers.items():
        setattr(cls, name, property_of(name, answer))
    return cls


def raising(self):
    raise KeyError("a property of the array")


ATTRIBUTES = (
    "dtype itemsize strides shape ndim size nbytes data flags ctypes base "
    "__array_interface__ __array_struct__"
).split()
LIES = {
    "another type": {"dtype": np.dtype(ml_dtypes.bfloat16), "itemsize": 2, "strides": (2,)},
    "a wide type": {"dtype": np.dtype("c16"), "itemsize": 16, "strides": (1 << 40,)},
    "no type": {"dtype": None, "itemsize": None, "strides": None, "shape": None, "ndim": -1},
    "errors": dict.fromkeys(ATTRIBUTES, raising),
}


@every_entry
@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("dtype", ["u1", "f8", ml_dtypes.float8_e5m2, ml_dtypes.bfloat16])
def test_the_struct_of_an_array_decides(enter, lie, dtype):
    plain = np.zeros((3, 2), dtype)
    array = plain.view(lying(**LIES[lie]))
    for _ in range(2):
        assert enter(array) == truth(plain)
    assert type(array).asked == []


#: Where they are not doubles.
LONG_DOUBLES = ["g", "G"] if np.dtype("g").itemsize > 8 else []


@pytest.mark.skipif(bool(LONG_DOUBLES), reason="long doubles are not doubles here")
@every_entry
@pytest.mark.parametrize(("dtype", "same"), [("g", "float64"), ("G", "complex128")])
def test_long_doubles_that_are_doubles(enter, dtype, same):
    array = np.zeros(3, dtype)
    assert enter(array) == truth(array, same)


@every_entry
@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize(
    "dtype",
    ["V1", "V2", "M8[s]", "m8[s]", ">f4", "O", "u1,u1", "S4", "U4", *LONG_DOUBLES,
     np.dtypes.StringDType()],
    ids=str,
)  # fmt: skip
def test_types_that_dlpack_has_not(enter, lie, dtype):
    """BufferError, and the array is as it was."""
    array = np.zeros(3, dtype).view(lying(**LIES[lie]))
    before = sys.getrefcount(array)
    with pytest.raises(BufferError, match="which DLPack cannot describe") as caught:
        enter(array)
    assert caught.type is BufferError
    del caught
    assert sys.getrefcount(array) == before
    assert type(array).asked == []


@every_entry
@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("dtype", ["i4", ml_dtypes.bfloat16])
def test_strides_in_messages_are_the_real_ones(enter, lie, dtype):
    plain = np.zeros(3, [("a", "u1"), ("b", dtype)])["b"]
    array = plain.view(lying(**LIES[lie]))
    with pytest.raises(BufferError, match=f"got {plain.strides[0]} in dimension 0"):
        enter(array)
    assert type(array).asked == []


@every_entry
@pytest.mark.parametrize("dtype", ["u1", ml_dtypes.float8_e5m2])
def test_properties_that_change_the_array(enter, dtype):
    def resize(self):
        np.ndarray.resize(self, 1 << 16, refcheck=False)
        return np.dtype(ml_dtypes.float8_e5m2)

    array = np.ndarray.__new__(lying(dtype=resize), (3,), dtype)
    assert enter(array) == truth(array)
    assert truth(array)["shape"] == (3,)


# ---- types of elements ----------------------------------------------------------------------


class Scalar(type(np.void)):
    """The type of an element type that runs `act` where its module is asked for."""

    act = staticmethod(lambda: None)
    name = "bfloat16"

    @property
    def __module__(cls):
        cls.act()
        return "ml_dtypes"

    @property
    def __name__(cls):
        return cls.name


def scalar_type(name="bfloat16", **members):
    return Scalar("scalar", (np.void,), {"name": name, **members})


@every_entry
@pytest.mark.parametrize(
    ("name", "size"),
    [*(("bfloat16", n) for n in (1, 4, 16)),
     *((name, 2) for name in ("", "bfloat", None, 3, b"bfloat16"))],
)  # fmt: skip
def test_a_type_that_is_named_like_one_of_ml_dtypes_or_none(enter, name, size):
    array = np.zeros(3, np.dtype((scalar_type(name), size)))
    other = () if name == "bfloat16" else (TypeError,)
    with pytest.raises((BufferError, *other), match=None if other else "DLPack cannot describe"):
        enter(array)


def shrink(array):
    array.resize(2, refcheck=False)


def grow(array):
    array.resize(1 << 16, refcheck=False)


def reshape(array):
    array.shape = (64, 64)


def retype(array):
    array.dtype = np.uint8


@every_entry
@pytest.mark.parametrize("change", [shrink, grow, reshape, retype])
@pytest.mark.filterwarnings("ignore:Setting the (shape|dtype):DeprecationWarning")
def test_arrays_that_change_while_their_type_is_found(enter, change):
    """The description is of the array as it is afterwards, or there is none."""
    arrays = []
    cls = scalar_type(act=staticmethod(lambda: arrays and change(arrays.pop())))
    array = np.zeros(4096, np.dtype((cls, 2)))
    arrays.append(array)
    if change is retype:
        with pytest.raises(BufferError):
            enter(array)
    else:
        try:
            found = enter(array)
        except BufferError:
            pass
        else:
            assert found == truth(array, "bfloat16")
    assert not arrays


# ---- geometry -------------------------------------------------------------------------------


@every_entry
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 0, 2)])
def test_strides_say_nothing_where_there_are_no_elements(enter, shape):
    array = np.lib.stride_tricks.as_strided(np.zeros(9, np.int32), shape, (5,) * len(shape))
    assert enter(array)["shape"] == shape


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
@pytest.mark.parametrize("data", [0, None])
@pytest.mark.parametrize("flags", [0, 1])
def test_arrays_without_elements_are_as_writable_as_their_tensor(shape, data, flags):
    """NumPy allocates writable memory of its own where it is given no address."""
    fields = {"shape": shape, "flags": flags} | ({"data": data} if data == 0 else {})
    tensor = fastdl.from_dlpack(Given(**fields).capsule())
    assert tensor.readonly == bool(flags)
    for array in (tensor.numpy(), np.asarray(tensor), fastdl.convert(tensor, np.ndarray)):
        assert array.shape == shape
        assert array.flags.writeable == (not flags)
        assert not array.flags.owndata


@pytest.mark.parametrize("read", [fastdl.asarray, lambda x: fastdl.convert(x, fastdl.Tensor)])
def test_no_memory_to_swap_bytes(read):
    with pytest.raises(MemoryError):
        read(np.broadcast_to(np.zeros(1, np.dtype("i4").newbyteorder()), (2**48,)))
