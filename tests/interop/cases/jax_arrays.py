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
def test_arrays_are_readonly_though_the_capsule_cannot_say_so(from_dlpack):
    array = jnp.arange(4.0)
    tensor = from_dlpack(array)
    assert tensor.readonly
    with pytest.raises(ValueError, match="read-only"):
        tensor.numpy()[0] = 1.0
    with pytest.raises(TypeError, match="read-only"):
        memoryview(tensor)[0] = 1.0


def test_a_raw_capsule_of_jax_is_writable():
    """A capsule does not tell who made it: documented in from_dlpack."""
    capsule = jnp.arange(4.0).__dlpack__()
    assert not fastdl.from_dlpack(capsule).readonly


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


def test_a_tracer_is_refused():
    seen = []

    def traced(x):
        with pytest.raises(Exception) as caught:
            fastdl.from_dlpack(x)
        seen.append(caught.value)
        return x

    jax.jit(traced)(jnp.arange(3.0))
    assert not isinstance(seen[0], SystemError)


def test_a_deleted_array_is_refused():
    array = jnp.arange(3.0)
    fastdl.from_dlpack(array)
    array.delete()
    for keywords in ({}, {"device": "cpu"}, {"copy": True}, {"copy": False}, {"stream": -1}):
        with pytest.raises(BufferError, match="got one that was deleted"):
            fastdl.from_dlpack(array, **keywords)


def test_copy_false_is_refused_for_misaligned_data():
    tensor = fastdl.from_dlpack(aligned([0.0, 1.0, 2.0])[1:])
    with pytest.raises(ValueError):
        jax.dlpack.from_dlpack(tensor, copy=False)
    assert tensor.tolist() == [1.0, 2.0]


def test_jax_arithmetic_on_fastdl_memory():
    tensor = fastdl.from_dlpack(aligned(np.arange(8.0, dtype=np.float32)))
    assert float(jax.jit(jnp.sum)(jax.dlpack.from_dlpack(tensor))) == 28.0
