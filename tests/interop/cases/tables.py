# SPDX-License-Identifier: Apache-2.0
"""Libraries of tables, plots and images: what they take a Tensor for, and asarray of theirs."""

import contextlib
import gc
import re
import weakref

import dask
import dask.array
import nanoarrow
import narwhals as nw
import numpy as np
import pandas as pd
import PIL.Image
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr

import fastdl
from fastdl._convert.missing import array_of


@pytest.fixture
def array():
    return np.arange(6, dtype="float32")


@pytest.fixture
def tensor(array):
    return fastdl.from_dlpack(array)


# ---- to them --------------------------------------------------------------------------------


@pytest.mark.parametrize("like", [pd.DataFrame, pl.DataFrame, xr.DataArray, dask.array.Array])
def test_convert_says_how_to_make_one(like, tensor):
    tensor = tensor.reshape(2, 3)
    with pytest.raises(TypeError, match="makes one from an array") as caught:
        fastdl.convert(tensor, like)
    words = re.search(r"[\w.]+\(fastdl\.convert\(x, numpy\.ndarray\)\)", str(caught.value))[0]
    names = {"pandas": pd, "polars": pl, "xarray": xr, "dask": dask, "numpy": np}
    made = eval(words, {"fastdl": fastdl, "x": tensor, **names})
    assert isinstance(made, like)
    assert fastdl.asarray(made).tolist() == tensor.tolist()


NUMBERS = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()
SERIES = {
    "pandas": [pd.Series, pd, "pandas", "pandas.Series", pd.Series([1])],
    "polars": [pl.Series, pl, "polars", "polars.Series", pl.Series([1])],
}


@pytest.mark.parametrize("library", SERIES)
@pytest.mark.parametrize("dtype", NUMBERS)
def test_series_are_given_back(library, dtype):
    """The memory is shared, but for the bits of Polars, and gaps there."""
    array = np.array([0, 1, 1, 0]).astype(dtype)
    for like in SERIES[library]:
        for view in (array, array[::-1], array[:0]):
            made = fastdl.convert(fastdl.from_dlpack(view), like)
            assert isinstance(made, SERIES[library][0])
            assert made.to_list() == view.tolist()
            assert made.dtype == (dtype if library == "pandas" else pl.Series(array).dtype)
            assert fastdl.convert(made, like) is made
    shared = library == "pandas" or dtype != "bool"
    if shared:
        made = fastdl.convert(array, SERIES[library][0], copy=False)
        assert fastdl.asarray(made).data_ptr == array.ctypes.data
    else:
        with pytest.raises(fastdl.CopyRequiredError, match="polars.Series always copies"):
            fastdl.convert(array, pl.Series, copy=False)
    copied = fastdl.convert(array, SERIES[library][0], copy=True)
    array[:] = 0
    assert copied.to_list() == [0, 1, 1, 0]


@pytest.mark.parametrize("like", [pd.Series, pl.Series])
def test_what_a_series_cannot_be(like):
    with pytest.raises(BufferError, match="Series has 1 dimension"):
        fastdl.convert(np.zeros((2, 2)), like)
    with pytest.raises(BufferError, match="Series has no bfloat16"):
        fastdl.convert(fastdl.empty(2, "bfloat16"), like)


def test_a_series_on_read_only_memory_does_not_write_to_it():
    for like in (pd.Series, pl.Series):
        memory = b"abc"
        made = fastdl.convert(memory, like)
        with contextlib.suppress(ValueError):  # of pandas
            made[0] = 7
        assert memory == b"abc"


def test_between_series():
    frame = pd.DataFrame({"a": [1.0, 2.0]})
    made = fastdl.convert(frame["a"], pl.Series)
    assert made.to_list() == [1, 2]
    assert fastdl.convert(made, frame["a"]).tolist() == [1, 2]


def test_a_frame_of_polars(array):
    for source in (array.reshape(2, 3), array.reshape(3, 2).T, array.reshape(2, 3) > 2):
        made = pl.DataFrame(fastdl.from_dlpack(source))
        assert made.equals(pl.DataFrame(source))
        assert fastdl.asarray(made).tolist() == source.tolist()
    made = pa.table(fastdl.from_dlpack(array.reshape(3, 2).T))
    assert made.column(0).chunk(0).buffers()[1].address == array.ctypes.data


def test_to_arrow(array, tensor):
    arrow = pa.array(tensor)
    assert arrow.type == pa.float32() and arrow.to_pylist() == array.tolist()
    assert arrow.buffers()[1].address == tensor.data_ptr
    del tensor
    array[0] = 9
    assert arrow[0].as_py() == 9
    assert nanoarrow.Array(fastdl.from_dlpack(array)).to_pylist() == array.tolist()


@pytest.mark.parametrize("consumer", [pa.array, pl.Series, nanoarrow.Array, nanoarrow.c_array])
def test_the_memory_is_released_with_the_last_array(consumer):
    array = np.zeros(1000)
    end = weakref.ref(array)
    theirs = consumer(fastdl.from_dlpack(array))
    part = theirs[1:] if consumer in (pa.array, pl.Series) else None
    del array
    gc.collect()
    assert end() is not None
    del theirs
    gc.collect()
    assert (end() is not None) == (part is not None)
    del part
    gc.collect()
    assert end() is None


# ---- from them ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "boolean", "int64[pyarrow]", "category"])
def test_nothing_that_is_missing_in_pandas_is_shown(dtype):
    assert fastdl.asarray(pd.Series([1, 0], dtype=dtype)).tolist() == [1, 0]
    for missing in (pd.Series([1, None], dtype=dtype), pd.array([1, None], dtype=dtype)):
        with pytest.raises(BufferError, match=r"'pandas.*' has missing values \(1 in all\)"):
            fastdl.asarray(missing)
    with pytest.raises(BufferError, match="1 in all"):
        fastdl.asarray(pd.DataFrame({"a": pd.Series([1, None], dtype=dtype), "b": [1, 2]}))


INT64 = pa.list_(pa.int64(), 2)
PAIRS = pl.Array(pl.Int64, 2)


def tensors(rows, dtype=INT64.value_type):
    """An array of matrices, whose memory has columns side by side."""
    kind = pa.fixed_shape_tensor(dtype, (2, 2), permutation=[1, 0])
    return pa.ExtensionArray.from_storage(kind, pa.array(rows, pa.list_(dtype, 4)))


class Streaming:
    def __init__(self, table):
        self.__arrow_c_stream__ = table.__arrow_c_stream__


class Delegating(Streaming):
    """What a wrapper of a table does."""

    def __init__(self, table):
        super().__init__(table)
        self.__array__ = table.__array__


OBJECTS = pd.DataFrame({"a": [1, 2]}, dtype=object, index=[5, 6])


@pytest.mark.parametrize(
    "source",
    [
        nw.from_native(OBJECTS),
        Delegating(OBJECTS),
        Streaming(OBJECTS),
        Streaming(pd.DataFrame({"a": [1, 2]}, index=[5, 6])),
        pa.table({"a": tensors([[1, 2, 3, 4]])}),
    ],
    ids=["narwhals", "delegating", "streaming", "numbers", "tensors in a table"],
)
def test_columns_that_are_no_numbers_by_themselves(source):
    """The index of pandas is no column, nor is the shape of tensors lost."""
    with pytest.raises(BufferError):
        fastdl.asarray(source)


def nullable(values=(1, None)):
    return pd.array(values, dtype="Int64")


def masked():
    return np.ma.array([1, 2, 3], mask=[0, 1, 0])


# One value is missing in each.
MISSING = {
    "polars array": lambda: pl.Series([[1, None], [3, 4]], dtype=PAIRS),
    "polars outer array": lambda: pl.Series([[1, 2], None], dtype=PAIRS),
    "polars nested array": lambda: pl.Series([[[1], [None]]], dtype=pl.Array(pl.Int64, (2, 1))),
    "polars struct": lambda: pl.Series([{"a": 1, "b": None}, {"a": 2, "b": 3}]),
    "polars chunks": lambda: pl.concat([pl.Series([1]), pl.Series([None, 2])], rechunk=False),
    "polars slice": lambda: pl.Series([None, 1, None])[:2],
    "polars bool": lambda: pl.Series([True, None]),
    "polars frame of arrays": lambda: pl.DataFrame({"a": pl.Series([[1, None]], dtype=PAIRS)}),
    "polars frame": lambda: pl.DataFrame({"a": [1, None]}),
    "arrow table": lambda: pa.table({"a": [1, None], "b": [3, 4]}),
    "nanoarrow": lambda: nanoarrow.Array([1, None, 3], nanoarrow.int32()),
    "arrow bool": lambda: pa.array([True, None]),
    "arrow number": lambda: pa.array([1, None]),
    "arrow slice": lambda: pa.array([None, 1, None])[1:],
    "arrow indices": lambda: pa.array([1, None, 2]).dictionary_encode(),
    "arrow dictionary": lambda: pa.chunked_array(
        [pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array([5, None]))]
    ),
    "arrow runs": lambda: pa.chunked_array([pa.RunEndEncodedArray.from_arrays([2, 3], [5, None])]),
    "arrow lists": lambda: pa.chunked_array([pa.array([[1, None], [2, 3]], INT64)]),
    "arrow struct": lambda: pa.chunked_array([pa.array([{"a": 1}, {"a": None}])]),
    "arrow tensors": lambda: pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(pa.int64(), (2,)), pa.array([[1, None], [2, 3]], INT64)
    ),
    "pandas dictionary": lambda: pd.Series(
        pd.arrays.ArrowExtensionArray(
            pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array([5, None]))
        )
    ),
    "pandas subclass": lambda: type("Mine", (pd.Series,), {})(nullable()),
    "xarray": lambda: xr.DataArray(nullable(), dims="x"),
    "xarray variable": lambda: xr.Variable("x", nullable()),
    "xarray coordinate": lambda: xr.DataArray([0, 0], coords={"x": pd.Index(nullable())}).x,
    "dask blocks": lambda: dask.array.zeros(2).map_blocks(lambda block: nullable(), dtype=object),
    "narwhals series": lambda: nw.from_native(pl.Series([1, None]), series_only=True),
    "narwhals polars": lambda: nw.from_native(pl.DataFrame({"a": [1, None]})),
    "narwhals pandas": lambda: nw.from_native(pd.DataFrame({"a": nullable()})),
    "narwhals arrow": lambda: nw.from_native(pa.table({"a": [1, None]})),
    "dask mask": lambda: dask.array.from_array(masked(), chunks=2),
    "dask computed mask": lambda: dask.array.ma.masked_equal(dask.array.arange(3, chunks=2), 2),
}


@pytest.mark.parametrize("make", MISSING.values(), ids=MISSING)
def test_nothing_that_is_missing_is_shown(make):
    words = r"has missing values \(1 in all\)|has nulls \(1 of|has masked elements \(1 of"
    for enter in (fastdl.asarray, lambda x: fastdl.convert(x, np.ndarray)):
        for _ in range(2):
            with pytest.raises(BufferError, match=words):
                enter(make())


# Nothing is missing, and the elements are what they were: in the memory of the source, in a copy,
# or where they happen to be.
MODES = ("L", "1", "I", "F", "RGBA", "I;16")
SHARED = [
    (lambda: pl.Series([1, 2]), [1, 2]),
    (lambda: pl.DataFrame({"a": [1, 2]}), [[1], [2]]),
    (lambda: pa.chunked_array([[1, 2]]), [1, 2]),
    (lambda: pd.Series([1.5, 2]), [1.5, 2]),
    (lambda: pd.Series([True, False]), [True, False]),
    (lambda: pd.Index([1, 2]), [1, 2]),
    (lambda: pd.DataFrame(np.arange(4).reshape(2, 2)), [[0, 1], [2, 3]]),
    (lambda: pd.Series([1, 2], dtype="Int64"), [1, 2]),
    (lambda: xr.DataArray(np.arange(3)), [0, 1, 2]),
    (lambda: xr.Variable("x", np.arange(3)), [0, 1, 2]),
    (lambda: nw.from_native(pl.DataFrame({"a": [1, 2]})), [[1], [2]]),
    (lambda: pa.array([[1, 2], [3, 4]], INT64), [[1, 2], [3, 4]]),
    (lambda: pa.array([[1, 2], [3, 4], [5, 6]], INT64)[1:], [[3, 4], [5, 6]]),
    (lambda: pa.chunked_array([pa.array([[1, 2], [3, 4]], INT64)]), [[1, 2], [3, 4]]),
    (lambda: pa.table({"a": pa.array([[1, 2]], INT64)})["a"], [[1, 2]]),
    (lambda: pa.chunked_array([tensors([[1, 2, 3, 4]])]), [[[1, 3], [2, 4]]]),
    (lambda: nanoarrow.Array(pa.array([[1, 2]], INT64)), [[1, 2]]),
    (lambda: pd.Series(pa.array([[1, 2]], INT64), dtype=pd.ArrowDtype(INT64)), [[1, 2]]),
]
COPIED = [
    (lambda: pa.array([True, False]), [True, False]),
    (lambda: pa.array([True, False, True])[1:], [False, True]),
    (lambda: tensors([[True, False, True, True]], pa.bool_()), [[[True, True], [False, True]]]),
    (lambda: nanoarrow.c_array([True, False], nanoarrow.bool_()), [True, False]),
    (lambda: pa.chunked_array([pa.array([[1, 2]], INT64)] * 2), [[1, 2], [1, 2]]),
    (lambda: pa.chunked_array([tensors([[1, 2, 3, 4]])] * 2), [[[1, 3], [2, 4]]] * 2),
    (lambda: pa.record_batch({"a": [1, 2], "b": [3, 4]}), [[1, 3], [2, 4]]),
    (lambda: pa.record_batch({"a": [1, 2], "b": [3, 4]})[1:], [[2, 4]]),
    (lambda: pa.record_batch({"a": [1, 2], "b": [3.5, 4]}), [[1, 3.5], [2, 4]]),
    (lambda: pa.array([{"a": 1, "b": 2}]), [[1, 2]]),
    (lambda: pd.DataFrame({"a": nullable((1, 2)), "b": nullable((3, 4))}), [[1, 3], [2, 4]]),
    (lambda: pd.DataFrame({"a": nullable((1, 2)), "b": [3.5, 4]}), [[1, 3.5], [2, 4]]),
    (lambda: pl.Series([True, False]), [True, False]),
    (lambda: pl.concat([pl.Series([1]), pl.Series([2])], rechunk=False), [1, 2]),
    (lambda: pl.DataFrame({"a": [1], "b": [2.5]}), [[1, 2.5]]),
    (lambda: pl.Series([{"a": 1, "b": 2.5}]), [[1, 2.5]]),
    (lambda: pa.chunked_array([[1], [2]]), [1, 2]),
    (lambda: pa.chunked_array([[True]]), [True]),
    (lambda: pa.table({"a": [1], "b": [2]}), [[1, 2]]),
    (lambda: pd.DataFrame({"a": [1], "b": [2.5]}), [[1, 2.5]]),
    (lambda: pd.Series([1, 0], dtype="Sparse[int]"), [1, 0]),
    (lambda: pd.Series([1, 2], dtype="category"), [1, 2]),
    (lambda: pd.Series([True], dtype="bool[pyarrow]"), [True]),
    (lambda: dask.array.arange(3, chunks=2), [0, 1, 2]),
    (lambda: dask.array.from_array(np.ma.array([1, 2], mask=False)), [1, 2]),
    (lambda: xr.DataArray(dask.array.arange(3, chunks=2)), [0, 1, 2]),
    *(
        (lambda mode=mode: PIL.Image.new(mode, (3, 2)), None)
        for mode in ("L", "1", "I", "F", "RGBA")
    ),
]
EITHER = [
    (lambda: pd.DataFrame({"a": nullable((1, 2))}, index=[5, 6]), [[1], [2]]),
    (lambda: pd.DataFrame({"a": [True]}, dtype="boolean"), [[True]]),
    (lambda: pd.DataFrame({"a": [1]}, dtype="int64[pyarrow]"), [[1]]),
    (lambda: pl.Series([[1, 2], [3, 4]], dtype=PAIRS), [[1, 2], [3, 4]]),
    (lambda: pl.Series([{"a": 1, "b": 2}]), [[1, 2]]),  # they may lie side by side
    (lambda: pl.Series([1, None])[:1], [1]),
    (lambda: pa.array([1, 2, None])[:2], [1, 2]),
    (lambda: pa.chunked_array([pa.array([5, 6, 5]).dictionary_encode()]), [5, 6, 5]),
    (lambda: xr.DataArray(nullable((1, 2)), dims="x"), [1, 2]),
    (lambda: nanoarrow.Array([1, 2, 3], nanoarrow.int32()), [1, 2, 3]),
]
SHOWN = [
    (is_shared, *row)
    for is_shared, rows in ((True, SHARED), (False, COPIED), (None, EITHER))
    for row in rows
]


@pytest.mark.parametrize(("is_shared", "make", "values"), SHOWN, ids=range(len(SHOWN)))
def test_what_is_complete_is_shown(is_shared, make, values):
    """Copies are marked, and refused where none is allowed."""
    source = make()
    first, second = fastdl.asarray(source), fastdl.asarray(source)
    if values is None:
        assert first.dtype == np.asarray(source).dtype
        values = np.asarray(source).tolist()
    assert first.tolist() == values
    if is_shared:
        assert not first.is_copied
        shared = fastdl.convert(source, np.ndarray, copy=False)
        assert shared.ctypes.data == first.data_ptr == second.data_ptr
    elif is_shared is not None:
        assert first.data_ptr != second.data_ptr and first.is_copied
        with pytest.raises(fastdl.CopyRequiredError):
            fastdl.convert(source, np.ndarray, copy=False)


@pytest.mark.parametrize(
    "source",
    [pd.Series(["a"]), pd.Series(pd.to_datetime(["2020-01-01"])), pl.Series(["a"]),
     pd.DataFrame({"a": [1], "b": ["x"]}), pd.Series([1, 2], dtype=object),
     pd.DataFrame({"a": [1]}, index=[5], dtype=object),
     pd.DataFrame({"a": nullable((1, 2)), "b": [True, False]})],
    ids=["text", "dates", "polars", "frame", "objects", "frame of objects", "mixed frame"],
)  # fmt: skip
def test_what_is_no_number(source):
    with pytest.raises(BufferError, match="which DLPack cannot describe"):
        fastdl.asarray(source)


# ---- the second time: a quicker way -----------------------------------------------------------


def outcome(x):
    try:
        tensor = fastdl.asarray(x)
    except Exception as error:
        return type(error), str(error)
    shares = not tensor.is_copied and tensor.data_ptr
    values = str(tensor.tolist())
    return str(tensor.dtype), tensor.shape, tensor.strides, shares, tensor.readonly, values


SOURCES = {
    "floats of pandas": lambda: pd.Series([1.0, np.nan, 3.0]),
    "every second one": lambda: pd.Series(np.arange(6))[::2],
    "nullable integers": lambda: pd.Series([1, None, 3], dtype="Int64"),
    "nullable integers, none missing": lambda: pd.Series([1, 2, 3], dtype="Int64"),
    "text of pandas": lambda: pd.Series(["a", "b"]),
    "dates of pandas": lambda: pd.Series(pd.date_range("2026-01-01", periods=2)),
    "objects": lambda: pd.Series([{}, 1], dtype=object),
    "an index": lambda: pd.Index([1, 2, 3]),
    "a range": lambda: pd.Series(range(3)).index,
    "arrow in pandas": lambda: pd.Series([1.0, None], dtype=pd.ArrowDtype(pa.float64())),
    "floats of polars": lambda: pl.Series([1.0, float("nan"), 3.0]),
    "a null of polars": lambda: pl.Series([1, None, 3]),
    "two chunks": lambda: pl.Series([1, 2]).append(pl.Series([3])),
    "bools of polars": lambda: pl.Series([True, False]),
    "dates of polars": lambda: pl.Series([1, 2]).cast(pl.Datetime),
    "lists": lambda: pl.Series([[1, 2], [3]]),
    "arrays of polars": lambda: pl.Series([[1, 2], [3, 4]], dtype=pl.Array(pl.Int64, 2)),
    "arrays with nulls": lambda: pl.Series([[1, None], [3, 4]], dtype=pl.Array(pl.Int64, 2)),
    "no rows": lambda: pl.Series([], dtype=pl.Float32),
    "xarray": lambda: xr.DataArray(np.arange(6.0).reshape(2, 3)),
    "xarray, read-only": lambda: xr.DataArray(np.broadcast_to(np.arange(3), (2, 3))),
    "a mask in xarray": lambda: xr.DataArray(np.ma.array([1, 2], mask=[0, 1])),
    "dask in xarray": lambda: xr.DataArray(np.arange(4.0)).chunk(2),
}


@pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)
def test_the_second_time_is_as_the_first(make):
    x = make()
    array_of.clear()
    first = outcome(x)
    for known in (pd.Series([1.0]), pd.Index([1.0]), pl.Series([1.0]), xr.DataArray([1.0])):
        fastdl.asarray(known)
        assert id(type(known)) in array_of
    assert outcome(x) == first
