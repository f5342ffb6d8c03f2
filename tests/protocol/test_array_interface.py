# SPDX-License-Identifier: Apache-2.0
"""`__array_interface__` and `__array__`, in both directions."""

import gc
import sys
import weakref

import ml_dtypes
import numpy as np
import pytest

import fastdl
from fastdl._native import dtype_facts
from tests.support.array_protocols import OnlyArray, OnlyInterface
from tests.support.ctypes_dlpack import capsule_of
from tests.support.producers import OldProducer

NUMPYS = [name for name, _, _, form in dtype_facts() if form]
OTHERS = [name for name, _, _, form in dtype_facts() if not form]


def frozen(array):
    view = array.view()
    view.flags.writeable = False
    return view


# ---- out ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NUMPYS)
def test_export_is_numpys(name):
    array = np.arange(12).reshape(3, 4).astype(name)
    scalar = array[:1, :1].reshape(())
    for view in (array, array[1:, ::2], array[::-1], array.T, array[:0], scalar, frozen(array)):
        theirs = view.__array_interface__
        ours = fastdl.from_dlpack(view).__array_interface__
        assert fastdl.from_dlpack(view).tobytes() == view.tobytes()
        assert (ours["shape"], ours["typestr"], ours["version"]) == (
            theirs["shape"], theirs["typestr"], 3,
        )  # fmt: skip
        assert ours["data"] == theirs["data"]
        if view.size:  # without elements NumPy and fastdl give other strides, which mean nothing
            assert ours["strides"] == theirs["strides"]
        assert np.asarray(OnlyInterface(view, **ours)).tolist() == view.tolist()


@pytest.mark.parametrize("name", [*OTHERS, "float32x4"])
def test_types_that_numpy_has_not(name):
    assert not hasattr(fastdl.empty(3, name), "__array_interface__")


def test_device_memory_has_none():
    tensor = fastdl.from_dlpack(capsule_of((3,), device=(2, 0)))
    with pytest.raises(AttributeError, match="has no __array_interface__"):
        tensor.__array_interface__  # noqa: B018


def test_numpys_functions_of_types():
    tensor = fastdl.from_dlpack(np.zeros(3, ml_dtypes.bfloat16))
    assert tensor.__numpy_dtype__ == ml_dtypes.bfloat16
    if np.lib.NumpyVersion(np.__version__) >= "2.4.0":  # before that, NumPy warns of it
        assert np.result_type(tensor) == ml_dtypes.bfloat16
        assert np.result_type(fastdl.empty(3), fastdl.empty(2, "float64")) == np.float64


# ---- in -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NUMPYS)
def test_import(name):
    array = np.arange(12).reshape(3, 4).astype(name)
    for view in (array, array[1:, ::2], array[::-1], array.T, array[:0], frozen(array)):
        tensor = fastdl.asarray(OnlyInterface(view))
        assert (tensor.shape, tensor.dtype, tensor.device) == (view.shape, name, "cpu")
        assert tensor.data_ptr == view.ctypes.data or view.size == 0
        assert tensor.tolist() == view.tolist()
        assert tensor.readonly is not view.flags.writeable


def test_import_keeps_the_object_alive():
    array = np.arange(3.0)
    end = weakref.ref(array)
    tensor = fastdl.asarray(OnlyInterface(array))
    del array
    gc.collect()
    assert end() is not None and tensor.tolist() == [0, 1, 2]
    del tensor
    gc.collect()
    assert end() is None


@pytest.mark.parametrize("data", [b"abcdefgh", bytearray(8)])
def test_data_as_an_object_with_a_buffer(data):
    """As images of Pillow have it."""
    source = OnlyInterface(np.zeros((2, 2), "u1"), data=data, offset=2)
    tensor = fastdl.asarray(source)
    assert tensor.tolist() == [list(data[2:4]), list(data[4:6])]
    assert tensor.readonly == isinstance(data, bytes)
    turned = fastdl.asarray(
        OnlyInterface(np.zeros((2, 2), "u1"), data=data, offset=3, strides=(-1, 2))
    )
    assert turned.tolist() == [[data[3], data[5]], [data[2], data[4]]]


class Image:
    """As those of Pillow: each look at the interface copies the pixels, unless `kept`."""

    def __init__(self, kept=None):
        self.kept = kept

    @property
    def __array_interface__(self):
        data = bytes(range(6)) if self.kept is None else self.kept
        return {"version": 3, "shape": (2, 3), "typestr": "|u1", "data": data}


class Viewed(Image):
    """Each look at the interface makes a new view of the same memory."""

    @property
    def __array_interface__(self):
        return {"version": 3, "shape": (2, 3), "typestr": "|u1", "data": memoryview(self.kept)}


def test_bytes_that_nobody_else_has_are_a_copy():
    tensor = fastdl.asarray(Image())
    assert tensor.is_copied and tensor.readonly
    for kept in (bytes(range(6)), bytearray(6)):
        assert not fastdl.asarray(Image(kept)).is_copied
    assert not fastdl.asarray(Viewed(bytearray(6))).is_copied
    whole = Image().__array_interface__
    assert not fastdl.asarray(type("Kept", (), {"__array_interface__": whole})()).is_copied


def test_convert_knows_what_asarray_copied():
    for source in (Image(), np.float64(3)):
        with pytest.raises(fastdl.CopyRequiredError, match="copied in spite of"):
            fastdl.convert(source, np.ndarray, copy=False)
    assert fastdl.convert(Image(), np.ndarray, copy=True).flags.writeable  # as copies are


SEVERAL = np.array([1, 2])  # an array is neither an int nor true or false


def released():
    view = memoryview(bytearray(24))
    view.release()
    return view


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"typestr": "<M8"}, "typestr"),
        ({"typestr": "|V8"}, "typestr"),
        ({"typestr": "<i3"}, "typestr"),
        ({"typestr": "<f3"}, "typestr"),
        ({"typestr": None}, "typestr"),
        ({"shape": (3.0,)}, "shape as a tuple of ints"),
        ({"shape": (-1,)}, "."),
        ({"shape": (2**60, 2**60)}, "."),
        ({"strides": 8}, "strides as a tuple of ints"),
        ({"data": (0, False)}, "NULL"),
        ({"data": (-1, False)}, "address of 64 bits"),
        ({"data": 3}, "data that holds the elements"),
        ({"data": None}, "data that holds the elements"),
        ({"data": released()}, "released"),
        ({"data": (1, 2, 3)}, "data as"),
        ({"data": (1.5, False)}, "data as"),
        ({"data": (SEVERAL, False)}, "data as"),
        ({"data": (256, SEVERAL)}, "data as"),
        ({"data": bytearray(24), "offset": SEVERAL}, "an offset in bytes"),
        ({"data": bytearray(24), "offset": "a"}, "an offset in bytes"),
        ({"version": SEVERAL}, "version 3"),
        ({"version": "3"}, "version 3"),
        ({"shape": (SEVERAL,)}, "shape as a tuple of ints"),
        ({"shape": (True,)}, "shape as a tuple of ints"),
        ({"shape": (1,) * 65}, "at most 64 dimensions"),
        ({"data": bytearray(24), "shape": (1,) * 65}, "data that holds the elements"),
        ({"strides": (SEVERAL,)}, "strides as a tuple of ints"),
        ({"data": bytearray(24), "offset": 1}, "data that holds the elements"),
        ({"data": bytearray(24), "offset": 2**62}, "data that holds the elements"),
        ({"data": bytearray(24), "strides": (-8,)}, "data that holds the elements"),
        ({"data": bytearray(24), "shape": (2**62 + 1,)}, "data that holds the elements"),
    ],
)
def test_malformed_interfaces(changes, message):
    with pytest.raises(BufferError, match=message):
        fastdl.asarray(OnlyInterface(np.arange(3.0), **changes))


# ---- scalars, masked arrays, __array__ ------------------------------------------------------


@pytest.mark.parametrize("name", [*NUMPYS, "bfloat16", "float8_e4m3fn", "int4"])
def test_scalars_of_numpy(name):
    scalar = np.dtype(getattr(ml_dtypes, name, name)).type(1)
    tensor = fastdl.asarray(scalar)
    assert (tensor.shape, tensor.dtype, tensor.item()) == ((), name, 1)
    assert tensor.is_copied


@pytest.mark.parametrize(
    "scalar", [np.datetime64("2020"), np.timedelta64(1, "s"), np.str_("a"), np.bytes_(b"a"),
               *([np.longdouble(1)] if np.dtype("g").itemsize > 8 else []), np.void(b"ab")],
)  # fmt: skip
def test_scalars_that_dlpack_cannot_describe(scalar):
    with pytest.raises(BufferError, match="which DLPack cannot describe"):
        fastdl.asarray(scalar)


@pytest.mark.parametrize("import_", [fastdl.asarray, fastdl.from_dlpack])
def test_masked_elements_are_not_shown(import_):
    masked = np.ma.array([1.0, 2, 3], mask=[0, 1, 0])
    with pytest.raises(BufferError, match=r"the array has masked elements \(1 of 3\).*filled"):
        import_(masked)
    assert import_(masked.filled(7)).tolist() == [1, 7, 3]
    assert import_(np.ma.array([1.0, 2])).tolist() == [1, 2]
    assert import_(np.ma.array([1.0, 2], mask=False)).tolist() == [1, 2]


@pytest.mark.parametrize("import_", [fastdl.asarray, fastdl.from_dlpack])
@pytest.mark.parametrize("mask", [np.ma.nomask, [(0, 1)], [(0, 0)]])
def test_masked_structures_are_refused_as_structures(import_, mask):
    with pytest.raises(BufferError, match="which DLPack cannot describe"):
        import_(np.ma.array([(1, 2)], dtype="i4,i4", mask=mask))


@pytest.mark.parametrize("cls", [np.rec.array, np.memmap])
def test_other_subclasses_have_no_mask(cls, tmp_path):
    if cls is np.memmap:
        array = np.memmap(tmp_path / "values", "f8", "w+", shape=(2, 2))
    else:
        array = cls(np.zeros((2, 2)))
    assert fastdl.from_dlpack(array).tolist() == [[0, 0], [0, 0]]


def test_the_array_method():
    array = np.arange(3.0)
    tensor = fastdl.asarray(OnlyArray(array))
    assert tensor.data_ptr == array.ctypes.data and not tensor.is_copied
    with pytest.raises(BufferError, match="one of object"):
        fastdl.asarray(OnlyArray(np.array(["a", None], object)))
    with pytest.raises(TypeError, match="expected an array from __array__"):
        fastdl.asarray(OnlyArray([1, 2]))


@pytest.mark.parametrize(
    ("make", "copied"),
    [
        (lambda array: array.copy(), True),
        (lambda array: array.copy()[::-1].reshape(3, 1), True),  # a view of one
        (lambda array: array[:], False),  # a new array on the same memory
        (lambda array: array, False),
    ],
    ids=["copy", "view of a copy", "view", "same"],
)
def test_an_array_that_nobody_else_has_is_a_copy(make, copied):
    """Of a Series, say, whose values are of a type that NumPy has not."""
    array = np.arange(3.0)
    source = type("Series", (), {"__array__": lambda self: make(array)})()
    assert fastdl.asarray(source).is_copied is copied


class Owner:
    """Memory that is not NumPy's: a view of it says nothing about who else has it."""

    def __init__(self, array):
        self.array, self.__array_interface__ = array, array.__array_interface__


@pytest.mark.parametrize(("make", "copied"), [(np.copy, True), (lambda array: array, False)])
def test_memory_whose_owner_is_unknown(make, copied):
    """Of polars' bools, say. It is asked for again, and the addresses are compared."""
    array = np.arange(3.0)
    members = {"__array__": lambda self: np.asarray(Owner(make(array)))}
    source = type("Series", (), members)()
    assert fastdl.asarray(source).is_copied is copied
    if copied:
        with pytest.raises(fastdl.CopyRequiredError, match="copied in spite of"):
            fastdl.convert(source, np.ndarray, copy=False)
    else:
        shared = fastdl.convert(source, np.ndarray, copy=False)
        assert shared.ctypes.data == array.ctypes.data


def test_copy_false_of_a_producer_that_copies_without_a_word():
    copies = OldProducer(None, act=lambda self: np.arange(3.0).__dlpack__())
    assert fastdl.convert(copies, np.ndarray).tolist() == [0, 1, 2]
    with pytest.raises(fastdl.CopyRequiredError, match="copied in spite of"):
        fastdl.convert(copies, np.ndarray, copy=False)


def test_what_a_refusal_by_from_dlpack_advises():
    for source, name in (
        (OnlyArray(np.arange(3.0)), "__array__"),
        (OnlyInterface(np.arange(3.0)), "__array_interface__"),
    ):
        with pytest.raises(TypeError, match=rf"pass fastdl.asarray.* reads {name}"):
            fastdl.from_dlpack(source)


def test_the_first_protocol_decides():
    """The order in the docstring; what only the object has is looked for last."""

    class Found(OnlyArray):
        def __getattr__(self, name):
            if name == "__array_interface__":
                return np.zeros(2).__array_interface__
            raise AttributeError(name)

    class Both(OnlyArray):
        array = np.zeros(3)
        __array_interface__ = property(lambda self: self.array.__array_interface__)

    class Absent(OnlyArray):
        __array_interface__ = property(lambda self: self.nothing)

    shapes = [fastdl.asarray(cls(np.zeros(1))).shape for cls in (Found, Both, Absent)]
    assert shapes == [(1,), (3,), (1,)]


@pytest.mark.filterwarnings("ignore:Setting the dtype:DeprecationWarning")  # of NumPy 2.5
def test_a_type_that_changes_while_the_mask_is_read():
    class Changing(np.ma.MaskedArray):
        armed = False

        @property
        def _mask(self):
            if Changing.armed:
                np.ndarray.dtype.__set__(self, "f8")
            return np.ma.nomask

        @_mask.setter
        def _mask(self, mask):
            pass

    array = np.arange(1, 5, dtype="f8").view("i1").view(Changing)
    Changing.armed = True
    tensor = fastdl.from_dlpack(array)
    assert (tensor.dtype, tensor.tolist()) == ("float64", [1, 2, 3, 4])


# ---- missing values: stand-ins for libraries that the small installation has not ------------


def stand_in(module, **members):
    return type("Series", (), {"__module__": module, **members})()


NA = {
    "dtype": stand_in("pandas.core.dtypes"),
    "isna": lambda self: np.array([True, False, True]),
    "__array__": lambda self: np.array([np.nan, 1, np.nan]),
}
"""What a Series of pandas has."""


@pytest.mark.parametrize(
    "source",
    [
        stand_in("pandas", **NA),
        type("MySeries", (type(stand_in("pandas", **NA)),), {"__module__": "mine"})(),
        stand_in("pandas.api", **NA, dtypes=1, items=lambda self: [(0, 1)]),
        stand_in("dask.array", __array__=None, compute=lambda self: stand_in("pandas", **NA)),
        stand_in("narwhals", __array__=None, to_native=lambda self: stand_in("pandas", **NA)),
        stand_in("xarray", __array__=None, data=property(lambda self: stand_in("pandas", **NA))),
    ],
    ids=["pandas", "subclass", "series", "dask", "narwhals", "xarray"],
)
def test_missing_values_are_not_shown(source):
    with pytest.raises(BufferError, match=r"'.*Series' has missing values \(2 in all\)"):
        fastdl.asarray(source)


@pytest.mark.parametrize("counts", [(0, 2), (1, 1)])
def test_missing_values_of_a_frame(counts):
    columns = [
        (name, stand_in("pandas", **{**NA, "isna": lambda self, n=n: np.array([True] * n)}))
        for name, n in enumerate(counts)
    ]
    fields = {"columns": [0, 1], "dtypes": [object(), object()], "items": lambda self: columns}
    frame = stand_in("pandas", **fields, __array__=None)
    with pytest.raises(BufferError, match=r"missing values \(2 in all\)"):
        fastdl.asarray(frame)


def test_a_library_that_holds_what_others_have():
    """It is asked for that, and not for an array: masks stay, and so does the memory."""
    array = np.arange(3.0)
    source = stand_in("xarray", __array__=None, data=array)
    assert fastdl.asarray(source).data_ptr == array.ctypes.data
    masked = np.ma.array([1, 2], mask=[0, 1])
    with pytest.raises(BufferError, match="masked elements"):
        fastdl.asarray(stand_in("dask", __array__=None, compute=lambda self: masked))


@pytest.mark.parametrize("module", [5, None, []])
def test_a_class_may_say_anything_of_its_module(module):
    source = stand_in(module, __array__=lambda self: np.arange(3))
    assert fastdl.asarray(source).tolist() == [0, 1, 2]
    with pytest.raises(TypeError):
        fastdl.DType(source)
    with pytest.raises(TypeError):
        fastdl.Device(source)


def test_nan_is_a_number():
    source = stand_in(
        "pandas",
        dtype=np.dtype("f8"),
        isna=lambda self: np.array([True]),
        __array__=lambda self: np.array([np.nan]),
    )
    assert np.isnan(fastdl.asarray(source).item())


# ---- what else libraries look for -----------------------------------------------------------


def test_sizeof_counts_what_fastdl_allocated():
    small, large = fastdl.empty(1, "uint8"), fastdl.empty(100_001, "uint8")
    assert sys.getsizeof(large) - sys.getsizeof(small) == 100_000
    of_view, of_import = sys.getsizeof(large[:]), sys.getsizeof(fastdl.from_dlpack(np.zeros(9999)))
    assert of_view == of_import < 500
    assert sys.getsizeof(fastdl.empty((1,) * 64, "uint8")) > sys.getsizeof(small)


def test_dask_token():
    array = np.arange(12.0).reshape(3, 4)
    tensor = fastdl.from_dlpack(array)
    token = tensor.__dask_tokenize__()
    assert token == tensor.copy().__dask_tokenize__()
    assert token == fastdl.from_dlpack(np.asfortranarray(array)).__dask_tokenize__()
    others = [
        tensor[:2], fastdl.from_dlpack(array.reshape(4, 3)), fastdl.from_dlpack(array.view("i8")),
        fastdl.from_dlpack(array + 1),
    ]  # fmt: skip
    assert len({token, *(other.__dask_tokenize__() for other in others)}) == 5
    array[0, 0] = 5
    assert tensor.__dask_tokenize__() != token
