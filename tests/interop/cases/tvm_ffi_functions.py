# SPDX-License-Identifier: Apache-2.0
"""What is particular to tvm_ffi: its functions take fastdl.Tensors through the exchange table."""

import weakref

import pytest
import tvm_ffi

import fastdl
from tests.support.producers import AnyProducer, Given

from .common import aligned, freed


def test_a_tensor_passes_through_a_function_as_itself():
    """The table turns the argument into tvm_ffi's tensor and the result back into ours."""
    source = aligned([[1.0, 2.0], [3.0, 4.0]])
    shapes = []

    def function(array):
        shapes.append(tuple(array.shape))
        return array

    result = tvm_ffi.convert(function)(fastdl.from_dlpack(source))
    assert type(result) is fastdl.Tensor
    assert shapes == [(2, 2)]
    assert result.data_ptr == source.ctypes.data
    assert result.tolist() == source.tolist()


def test_the_table_is_used_and_not_the_method():
    """A type with a table is never asked for `__dlpack__`: the cost is that of the table."""
    table = fastdl.Tensor.__dlpack_c_exchange_api__
    x = type("Tabled", (AnyProducer,), {"__dlpack_c_exchange_api__": table})(Given())
    with pytest.raises(TypeError, match="this is fastdl.Tensor's exchange table"):
        tvm_ffi.convert(lambda array: array)(x)
    assert x.asked == []


def test_what_a_function_keeps_lives_on():
    source = aligned([1.0, 2.0])
    alive = weakref.ref(source)
    kept = []
    tvm_ffi.convert(kept.append)(fastdl.from_dlpack(source))
    del source
    assert not freed(alive, seconds=0.05)
    assert fastdl.from_dlpack(kept[0]).tolist() == [1.0, 2.0]
    kept.clear()
    assert freed(alive)


def test_an_exception_in_a_function_frees_its_arguments():
    def fail(array):
        raise RuntimeError("no")

    source = aligned([1.0, 2.0])
    alive = weakref.ref(source)
    with pytest.raises(RuntimeError, match="no"):
        tvm_ffi.convert(fail)(fastdl.from_dlpack(source))
    del source
    assert freed(alive)


def test_elements_with_a_byte_each_keep_their_values_or_are_refused():
    """tvm_ffi carries no flags, and takes elements of 4 bits as packed."""
    source = aligned([1, 2, 3, -4], "int4")
    try:
        array = tvm_ffi.from_dlpack(fastdl.from_dlpack(source))
    except BufferError:
        return
    assert fastdl.from_dlpack(array).tolist() == [1, 2, 3, -4]
