# SPDX-License-Identifier: Apache-2.0
"""The line in a refusal helps: it is executed, and has the values."""

import ctypes
import multiprocessing

import cffi
import ml_dtypes
import nanoarrow
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

import fastdl

ffi = cffi.FFI()
FLOATS = (ctypes.c_float * 2)(1.5, 2.5)
SHARED = multiprocessing.Array("d", [1.5, 2.5])
DAYS = np.array(["1970-01-03", "NaT"], "M8[s]")
PAIR = [("first", "i4"), ("second", "f8")]
COUNTS = [2 * 86400, -(2**63)]


class Stream:
    """An object that has only Arrow's stream, such as a relation of DuckDB."""

    def __init__(self, chunks):
        self.__arrow_c_stream__ = chunks.__arrow_c_stream__


#: What is refused, the function that does it, the start of the line, and what it has.
REFUSED = {
    "dates": (DAYS[::-1], fastdl.asarray, "numpy.asarray(x).astype(", COUNTS[::-1]),
    "swapped dates": (DAYS.astype(">M8[s]"), fastdl.from_dlpack, "numpy.asarray(x).as", COUNTS),
    "durations": (np.array([5], "m8[D]"), fastdl.asarray, "numpy.asarray(x).astype(", [5]),
    "a column of dates": (pd.Series(DAYS), fastdl.asarray, "numpy.asarray(x).astype(", COUNTS),
    "swapped": (np.array([1.5], ">f8"), fastdl.from_dlpack, "numpy.asarray(x).astype(", [1.5]),
    "bfloat16": (
        np.array([1.5], ml_dtypes.bfloat16).view("V2"),
        *(fastdl.asarray, "numpy.asarray(x).view(ml_dtypes.bfloat16)", [1.5]),
    ),
    "float8": (
        np.array([1.5], ml_dtypes.float8_e4m3fn).view("V1"),
        *(fastdl.asarray, "numpy.asarray(x).view(ml_dtypes.float8_e4m3fn)", [1.5]),
    ),
    "fields": (np.array([(1, 2.5)], PAIR), fastdl.asarray, "numpy.asarray(x)['first']", [1]),
    "objects": (np.array([1, 2], object), fastdl.asarray, "numpy.array(", [1, 2]),
    "a text": (np.array("ab"), fastdl.asarray, "numpy.unique(", 0),
    "texts": (np.array(["b", "a", "b"], ">U2")[::2], fastdl.asarray, "numpy.unique(", [0, 0]),
    "bytes": (np.array([b"b", b"a"]), fastdl.asarray, "numpy.unique(", [1, 0]),
    "a column of texts": (pd.Series(["b", "a"]), fastdl.asarray, "numpy.unique(", [1, 0]),
    "a category": (pd.Series(["b", "a"], dtype="category"), fastdl.asarray, "numpy.u", [1, 0]),
    "a long double": (
        np.zeros((2, 3), "g")[:, ::2],
        *(fastdl.asarray, "numpy.frombuffer(", [0] * 4 * np.dtype("g").itemsize),
    ),
    "a swapped buffer": (
        memoryview(np.array([1.5], ">f8")),
        *(fastdl.asarray, "fastdl.asarray(numpy.asarray(x))", [1.5]),
    ),
    "characters": (memoryview(b"abc").cast("c")[::2], fastdl.asarray, "numpy.fr", [97, 99]),
    "structures": (
        memoryview(np.array([(1, 2.5)], PAIR)),
        *(fastdl.asarray, "numpy.asarray(x)[name]", [2.5]),
    ),
    "a pointer": (
        ctypes.cast(FLOATS, ctypes.POINTER(ctypes.c_float)),
        *(fastdl.asarray, "fastdl.from_pointer(ctypes.addressof(x.contents), ", [1.5, 2.5]),
    ),
    "an address": (
        ctypes.cast(FLOATS, ctypes.c_void_p),
        *(fastdl.asarray, "fastdl.from_pointer(x.value, ", [1.5, 2.5]),
    ),
    "a pointer of cffi": (
        ffi.new("float[]", [1.5, 2.5]),
        *(fastdl.asarray, "fastdl.from_pointer(int(ffi.cast('uintptr_t', x)), ", [1.5, 2.5]),
    ),
    "a synchronized array": (SHARED, fastdl.asarray, "x.get_obj()", [1.5, 2.5]),
    "a list": ([1, 2], fastdl.from_dlpack, "numpy.asarray(x)", [1, 2]),
    "a list again": ([1, 2], fastdl.asarray, "numpy.asarray(x)", [1, 2]),
    "Arrow's dates": (pa.array([3], "date32"), fastdl.asarray, "pyarrow.array(x).view(", [3]),
    "Arrow's times": (pa.array([3], "time64[us]"), fastdl.asarray, "pyarrow.array(x).view(", [3]),
    "Arrow's extensions": (
        pa.array([True, False]).cast(pa.bool8()),
        *(fastdl.asarray, "pyarrow.array(x).storage", [1, 0]),
    ),
    "Arrow's text": (
        pa.array(["b", "a", "b"]),
        *(fastdl.asarray, "pyarrow.array(x).dictionary_encode()", [0, 1, 0]),
    ),
    "texts of Polars": (
        pl.Series(["b", "a", "b"]),
        *(fastdl.asarray, "numpy.unique(", [1, 0, 1]),
    ),
    "categories of Polars": (
        pl.Series(["b", "a", "b"], dtype=pl.Enum(["a", "b"])),
        *(fastdl.asarray, "pyarrow.chunked_array(x).combine_chunks().indices", [1, 0, 1]),
    ),
    "a column of tensors": (
        pa.table({"x": pa.FixedShapeTensorArray.from_numpy_ndarray(np.ones((1, 2, 2)))}),
        *(fastdl.asarray, "pyarrow.table(x).column(0)", [[[1, 1], [1, 1]]]),
    ),
    "Arrow's lists": (pa.array([[1, 2]]), fastdl.asarray, "pyarrow.array(x).flatten()", [1, 2]),
    "a stream of lists": (
        Stream(pa.chunked_array([[[1, 2]]])),
        *(fastdl.asarray, "pyarrow.chunked_array(x).combine_chunks().flatten()", [1, 2]),
    ),
    "a table of two types": (
        nanoarrow.c_array(pa.record_batch({"a": [1, 2], "b": ["", ""]})),
        *(fastdl.asarray, "pyarrow.table(x).column(0)", [1, 2]),
    ),
    "Arrow's dictionaries": (
        pa.array([7, 7]).dictionary_encode(),
        *(fastdl.asarray, "pyarrow.array(x).dictionary_decode()", [7, 7]),
    ),
    "a category of text": (
        pa.array(["b", "a", "b"]).dictionary_encode(),
        *(fastdl.asarray, "pyarrow.array(x).indices", [0, 1, 0]),
    ),
    "bfloat16 for Arrow": (
        fastdl.asarray(np.array([1.5], ml_dtypes.bfloat16)),
        *(fastdl.Tensor.__arrow_c_array__, "fastdl.convert(x, numpy.ndarray).astype(", [1.5]),
    ),
    "int4": (
        torch.tensor([1, -8], dtype=torch.int8).view(torch.int4),
        *(fastdl.from_dlpack, "x.view(torch.int8)", [1, -8]),
    ),
}  # fmt: skip


class Incomparable(int):
    __hash__ = int.__hash__

    def __eq__(self, other):
        raise RuntimeError("compared")


@pytest.mark.parametrize(
    ("elements", "kinds"),
    [
        ([Incomparable(1)], "Incomparable"),
        ([np.longdouble(1)], "longdouble"),
        ([1, None], "NoneType, int"),
        ([1, 2**70], "int"),
        ([2**63 + 1, -1], "int"),
        (["a", 1], "st"),
    ],
)
def test_no_line_for_objects_that_are_not_numbers(elements, kinds):
    with pytest.raises(BufferError, match="convert its elements") as caught:
        fastdl.asarray(pd.Series(elements, dtype=object))
    assert kinds in str(caught.value)


@pytest.mark.parametrize("x", [{"a": np.ones(2)}, [torch.ones(2)]], ids=["dict", "list"])
@pytest.mark.parametrize("function", [fastdl.asarray, lambda x: fastdl.convert(x, torch.Tensor)])
def test_the_line_for_a_tree(x, function):
    with pytest.raises(TypeError) as caught:
        function(x)
    line = str(caught.value).rpartition(": ")[2].partition(" converts ")[0]
    made = eval(line, {"fastdl": fastdl, "x": x})
    assert made[next(iter(x)) if isinstance(x, dict) else 0].tolist() == [1, 1]


@pytest.mark.parametrize(("x", "function", "start", "expected"), REFUSED.values(), ids=REFUSED)
def test_the_line_has_the_values(x, function, start, expected):
    is_array = not isinstance(x, list | type(SHARED) | ffi.CData)
    with pytest.raises(BufferError if is_array else TypeError) as caught:
        function(x)
    if function is fastdl.asarray:
        with pytest.raises(BufferError if is_array else TypeError):
            fastdl.convert(x, torch.Tensor)
    line = str(caught.value).rpartition(": ")[2].removeprefix("pass ").partition(" has ")[0]
    assert line.startswith(start)
    names = {"shape": 2, "dtype": "float32", "name": "second", "numpy": np, "pyarrow": pa, "x": x}
    assert fastdl.asarray(eval(line, globals() | names)).tolist() == expected
