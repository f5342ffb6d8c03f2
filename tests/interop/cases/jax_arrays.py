"""What is particular to JAX: immutable arrays, and four-bit floats."""

import ctypes

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import fastdl

from .common import aligned, both_entries

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


@pytest.mark.parametrize("dtype", ["int2", "int4", "uint2", "uint4"])
def test_small_integers_have_no_capsule_in_jax(dtype):
    array = jnp.zeros(3, dtype=getattr(jnp, dtype))
    with pytest.raises(jax.errors.JaxRuntimeError, match="no DLPack equivalent"):
        fastdl.from_dlpack(array)


def test_results_of_a_compiled_function_are_imported():
    array = jax.jit(lambda x: x * 2)(jnp.arange(1000.0))
    assert fastdl.from_dlpack(array).tolist() == [2.0 * n for n in range(1000)]


def test_a_deleted_array_is_refused():
    array = jnp.arange(3.0)
    fastdl.from_dlpack(array)
    array.delete()
    for keywords in ({}, {"device": "cpu"}, {"copy": True}, {"copy": False}, {"stream": -1}):
        with pytest.raises(BufferError, match="got one that was deleted"):
            fastdl.from_dlpack(array, **keywords)


def test_jax_arithmetic_on_fastdl_memory():
    tensor = fastdl.from_dlpack(aligned(np.arange(8.0, dtype=np.float32)))
    assert float(jax.jit(jnp.sum)(jax.dlpack.from_dlpack(tensor))) == 28.0
