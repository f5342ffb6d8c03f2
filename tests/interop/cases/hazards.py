# SPDX-License-Identifier: Apache-2.0
"""docs/hazards.md, entry by entry: what torch, tvm-ffi, JAX, MLX and NumPy do with shared memory.

A test has the name of its entry, and shows what goes wrong, what fastdl does, and the remedy. None
reads freed memory: where an import is left behind, addresses are compared.
"""

import jax
import jax.numpy as jnp
import mlx.core as mx
import numpy as np
import pyarrow as pa
import pytest
import torch
import tvm_ffi

import fastdl
from tests.support.isolate import run_python

from .common import aligned


def test_torch_writes_to_read_only_memory():
    source = np.array([1.0, 2.0])
    source.flags.writeable = False
    tensor = fastdl.from_dlpack(source)
    assert tensor.readonly and not tensor.numpy().flags.writeable
    with pytest.raises(BufferError, match="read-only"):
        tensor.__dlpack__()
    torch.from_dlpack(tensor)[0] = 5.0
    assert source.tolist() == [5.0, 2.0]
    assert not fastdl.from_dlpack(tvm_ffi.from_dlpack(tensor)).readonly
    for like in (torch.Tensor, tvm_ffi.Tensor):
        torch.from_dlpack(fastdl.convert(tensor, like))[0] = 7.0
    assert source.tolist() == [5.0, 2.0]

    value = jnp.array([1.0, 2.0])
    torch.from_dlpack(fastdl.from_dlpack(value))[0] = 5.0
    assert value.tolist() == [5.0, 2.0]


def test_a_raw_legacy_capsule_is_writable():
    array = jnp.array([1.0, 2.0])
    assert fastdl.from_dlpack(array).readonly
    assert not fastdl.from_dlpack(array.__dlpack__()).readonly
    array = pa.array([1.0, 2.0])
    assert fastdl.from_dlpack(array).readonly
    with pytest.deprecated_call():
        assert not fastdl.from_dlpack(array.__dlpack__()).readonly


def test_autograd_does_not_see_writes():
    def gradient(told):
        leaf = torch.tensor([1.0, 2.0], requires_grad=True)
        result = (leaf * leaf).sum()
        fastdl.from_dlpack(leaf).numpy()[:] = 10.0
        if told:
            torch.autograd.graph.increment_version(leaf)
        result.backward()
        return leaf.grad.tolist()

    assert gradient(told=False) == [20.0, 20.0]  # right for the old values: [2.0, 4.0]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        gradient(told=True)


def test_a_result_may_be_a_copy():
    source = aligned([0.0, 0.0, 0.0])
    tensor, unaligned = fastdl.from_dlpack(source), fastdl.from_dlpack(source)[1:]
    assert not tensor.is_copied and fastdl.empty((4,)).data_ptr % 256 == 0
    shared, copy = jax.dlpack.from_dlpack(tensor), jax.dlpack.from_dlpack(unaligned)
    of_mlx = mx.from_dlpack(tensor)
    mx.eval(of_mlx)
    source[:] = 1.0
    assert shared.tolist() == [1.0, 1.0, 1.0]
    assert copy.tolist() == [0.0, 0.0]
    assert of_mlx.tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(ValueError):
        jax.dlpack.from_dlpack(unaligned, copy=False)
    with pytest.raises((ValueError, BufferError)):
        mx.from_dlpack(tensor, copy=False)


def test_torch_asarray_reads_bytes():
    source = np.array([1, 2, 3])
    tensor = fastdl.from_dlpack(source)
    for buffer in (tensor, memoryview(source)):
        noise = torch.asarray(buffer)
        assert (noise.dtype, noise.shape) == (torch.float32, (6,))
    assert torch.from_dlpack(tensor).tolist() == [1, 2, 3]


def test_lazy_views_are_refused():
    values = torch.tensor([1 + 2j, 3 - 4j])
    for lazy, name in ((values.conj(), "resolve_conj"), (values.conj().imag, "resolve_neg")):
        with pytest.raises(BufferError, match=name):
            fastdl.from_dlpack(lazy)
        resolved = getattr(lazy, name)()
        assert fastdl.from_dlpack(resolved).tolist() == lazy.tolist()


def test_torch_exports_narrow_integers_as_bytes():
    narrow = torch.tensor([1, 255], dtype=torch.uint8).view(torch.int4)
    for take in (fastdl.from_dlpack, fastdl.asarray, lambda x: fastdl.convert(x, np.ndarray)):
        with pytest.raises(BufferError, match=r"torch\.int4"):
            take(narrow)
    assert fastdl.from_dlpack(torch.utils.dlpack.to_dlpack(narrow)).dtype == "int8"
    assert fastdl.from_dlpack(narrow.view(torch.int8)).tolist() == [1, -1]


def test_a_restrided_negated_view_is_not_recognised():
    lazy = torch.tensor([1 + 2j, 3 - 4j]).conj().imag.as_strided((2,), (1,))
    assert lazy.is_neg()
    assert fastdl.from_dlpack(lazy).tolist() == [-value for value in lazy.tolist()]
    assert fastdl.from_dlpack(lazy.resolve_neg()).tolist() == lazy.tolist()


def test_torch_replaces_the_memory_of_a_tensor():
    tensor = torch.tensor([1.0, 2.0])
    imported, theirs = fastdl.from_dlpack(tensor), np.from_dlpack(tensor)
    old = tensor.untyped_storage()._weak_ref()
    tensor.data = torch.tensor([3.0, 4.0])
    assert imported.data_ptr == theirs.ctypes.data != tensor.data_ptr()
    assert imported.tolist() == [1.0, 2.0]
    assert not torch.UntypedStorage._expired(old)
    del imported  # and with it the memory that `theirs` refers to
    assert torch.UntypedStorage._expired(old)
    torch.UntypedStorage._free_weak_ref(old)

    module = torch.nn.Linear(2, 2)
    weight = fastdl.from_dlpack(module.weight)
    module.double()
    assert module.weight.data_ptr() != weight.data_ptr

    tensor, other = torch.zeros(2), torch.ones(2)
    imported = fastdl.from_dlpack(tensor)
    torch.utils.swap_tensors(tensor, other)
    assert imported.data_ptr == other.data_ptr()


def test_arrays_that_grow_in_place_move():
    tensor = torch.zeros(4)
    imports = [fastdl.from_dlpack(tensor), fastdl.from_dlpack(tensor.detach())]
    tensor.resize_(1 << 20)
    assert all(one.data_ptr != tensor.data_ptr() for one in imports)

    array = np.zeros(4)
    kept = fastdl.from_dlpack(array)
    with pytest.raises(ValueError, match="refcheck"):
        array.resize(1 << 20)
    array.resize(1 << 20, refcheck=False)
    assert kept.data_ptr != array.ctypes.data


def test_negative_strides_abort_torch():
    program = (
        "import fastdl, numpy, torch; tensor = fastdl.from_dlpack(numpy.arange(4.0))[::-1];"
        "print(torch.from_dlpack(tensor.copy()).tolist(), flush=True);"
        "torch.from_dlpack({})"
    )
    for source in ("tensor", "numpy.arange(4.0)[::-1]"):
        child = run_python("-c", program.format(source))
        assert child.stdout == "[3.0, 2.0, 1.0, 0.0]\n"
        assert child.returncode < 0
        assert "c10::Error" in child.stderr
