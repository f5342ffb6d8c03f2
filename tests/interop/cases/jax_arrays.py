# SPDX-License-Identifier: Apache-2.0
"""What is particular to JAX: immutable arrays, and four-bit floats."""

import ctypes

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import fastdl

from .common import both_entries

ENTRIES = pytest.mark.parametrize("from_dlpack", both_entries(), ids=("compiled", "python"))


@ENTRIES
def test_four_bit_floats_share_bytes(from_dlpack):
    """On the CPU JAX packs two elements into a byte, the first one low, and says so."""
    values = [1.0, 2.0, 3.0, 4.0, -6.0]
    array = jnp.asarray(np.array(values, dtype=ml_dtypes.float4_e2m1fn))
    memory = ctypes.string_at(array.unsafe_buffer_pointer(), 3)
    assert (memory[0], memory[1], memory[2] & 15) == (0x42, 0x65, 0xF)
    tensor = from_dlpack(array)
    assert (tensor.shape, tensor.nbytes, tensor.data_ptr) == (
        (5,),
        3,
        array.unsafe_buffer_pointer(),
    )
    assert tensor.tolist() == values
    unpacked = tensor.numpy()
    assert unpacked.dtype == ml_dtypes.float4_e2m1fn
    assert unpacked.astype(np.float32).tolist() == values


def test_a_deleted_array_is_refused():
    array = jnp.arange(3.0)
    fastdl.from_dlpack(array)
    array.delete()
    for keywords in ({}, {"device": "cpu"}, {"copy": True}, {"copy": False}, {"stream": -1}):
        with pytest.raises(BufferError, match="got one that was deleted"):
            fastdl.from_dlpack(array, **keywords)


@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2", "uint2", "float4_e2m1fn"])
def test_narrow_elements_are_copied(dtype):
    array = jnp.array([1, 0, 1], dtype)
    back = fastdl.convert_tree(fastdl.convert_tree([array], np.ndarray), jax.Array)[0]
    assert back.dtype == array.dtype and back.tolist() == [1, 0, 1]
    with pytest.raises(fastdl.CopyRequiredError):
        fastdl.convert(fastdl.empty(3, dtype), jax.Array, copy=False)
    if dtype.startswith("float"):
        return  # which it exports over DLPack
    tensor = fastdl.asarray(array)
    assert (tensor.dtype, tensor.tolist(), tensor.is_copied) == (dtype, [1, 0, 1], True)
    assert fastdl.convert(array, np.ndarray).dtype == np.asarray(array).dtype
    assert fastdl.asarray(array, device="cpu", copy=True).tolist() == [1, 0, 1]
    with pytest.raises(fastdl.CopyRequiredError):
        fastdl.convert(array, np.ndarray, copy=False)
