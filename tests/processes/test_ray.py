# SPDX-License-Identifier: Apache-2.0
"""Tensors in Ray: one node, real workers and its store."""

import logging

import jax
import numpy as np
import pytest
import ray
import torch

import fastdl
from tests.processes.work import facts, made, total
from tests.support.memory import filled

LONG = 120

# Ray's own, of its processes and of what it imports.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module", autouse=True)
def _engine():
    ray.init(
        num_cpus=2, include_dashboard=False, object_store_memory=200 << 20,
        logging_level=logging.ERROR, runtime_env={"env_vars": {"PYTHONPATH": "."}},
    )  # fmt: skip
    yield
    ray.shutdown()


@pytest.fixture
def stored():
    return ray.put(made(1))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e5m2", "int4", "bool"])
def test_put_get_arguments_and_results(dtype):
    tensor = filled(dtype)
    reference = ray.put(tensor)
    assert facts(ray.get(reference, timeout=LONG)) == facts(tensor)
    assert ray.get(ray.remote(facts).remote(reference), timeout=LONG) == facts(tensor)
    assert ray.get(ray.remote(facts).remote(tensor), timeout=LONG) == facts(tensor)


def test_a_result():
    result = ray.get(ray.remote(made).remote(3, "bfloat16"), timeout=LONG)
    assert result.dtype == "bfloat16" and total(result) == 3 * (1 << 16)


def test_two_gets_share_the_memory(stored):
    first, second = ray.get(stored, timeout=LONG), ray.get(stored, timeout=LONG)
    assert first.data_ptr == second.data_ptr
    assert first.readonly and second.readonly and first.data_ptr % 64 == 0


def test_an_actor(stored):
    @ray.remote
    class Sum:
        def __init__(self):
            self.total = 0

        def add(self, x):
            self.total += total(x)
            return fastdl.from_dlpack(np.full(4, self.total))

    actor = Sum.remote()
    ray.get(actor.add.remote(stored), timeout=LONG)
    assert ray.get(actor.add.remote(stored), timeout=LONG).tolist() == [2.0 * (1 << 16)] * 4


def test_into_numpy_and_jax_without_a_copy(stored):
    tensor = ray.get(stored, timeout=LONG)
    array = fastdl.convert(tensor, np.ndarray, copy=False)
    assert array.ctypes.data == tensor.data_ptr and not array.flags.writeable
    x = jax.device_put(tensor.numpy())
    assert fastdl.from_dlpack(x).data_ptr == tensor.data_ptr
    doubled = jax.jit(lambda x: x * 2, donate_argnums=0)(x)
    assert float(doubled[0]) == 2 and tensor.tolist()[0] == 1  # it was not written to


def test_into_torch_by_a_copy(stored):
    """torch has no read-only tensors: what shares the memory can change what others have."""
    tensor = ray.get(stored, timeout=LONG)
    assert fastdl.convert(tensor, torch.Tensor).data_ptr() != tensor.data_ptr
    with pytest.raises(fastdl.CopyRequiredError, match="read-only"):
        fastdl.convert(tensor, torch.Tensor, copy=False)
    torch.from_dlpack(tensor)[0] = 7  # which drops the flag
    assert ray.get(stored, timeout=LONG).tolist()[0] == 7
