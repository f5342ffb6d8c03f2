# SPDX-License-Identifier: Apache-2.0
"""What a library does to an array in place after fastdl has imported it: the Tensor keeps its
memory and values. A quicker way than `__dlpack__` (TYPES in _bridges) may only be used if it
keeps the memory, and not just the object."""

from operator import iadd, imul, setitem

import numpy as np
import pytest

import fastdl
from tests.support import consumer

from .common import peer_under_test

SIZE = 200_000  # elements; what is freed is reused at once
EXPECTED = np.arange(1.0, SIZE + 1, dtype=np.float32)


# Each returns: a function that makes an array, and what has to live with it; one that allocates
# memory of the same size; the operations, on both.


def mlx():
    import mlx.core as mx

    def make():
        array = mx.array(EXPECTED)
        mx.eval(array)
        return array, None

    def allocate(array):
        mx.eval(array, [mx.full((SIZE,), -1.0) for _ in range(8)])

    return make, allocate, {
        "multiply": lambda array, _: imul(array, mx.ones((SIZE,)) * 7),
        "add": lambda array, _: iadd(array, 1),
        "chain": lambda array, _: imul(iadd(array, 1), mx.ones((SIZE,))),
        "element": lambda array, _: setitem(array, 0, 5.0),
        "part": lambda array, _: setitem(array, slice(10, 20), mx.zeros((10,))),
        "compiled": lambda array, _: mx.eval(mx.compile(lambda x: x * 2 + 1)(array)),
    }  # fmt: skip


def jax():
    import jax

    def make():
        array = jax.device_put(EXPECTED.copy()) + 0
        return array.block_until_ready(), None

    def allocate(array):
        jax.block_until_ready([jax.numpy.full(SIZE, -1.0) for _ in range(8)])

    def donate(function):
        return jax.jit(function, donate_argnums=0)

    return make, allocate, {
        "donate": lambda array, _: donate(lambda x: x * 2)(array),
        "update": lambda array, _: donate(lambda x: x.at[0].set(5.0))(array),
        "compiled": lambda array, _: donate(lambda x: x * 2).lower(array).compile()(array),
        "device_put": lambda array, _: jax.device_put(array, array.sharding, donate=True),
        "delete": lambda array, _: array.delete(),
    }  # fmt: skip


def tensorflow():
    import tensorflow as tf

    def make():
        variable = tf.Variable(EXPECTED)
        return variable.value(), variable

    def allocate(array):
        return [tf.fill([SIZE], -1.0) for _ in range(8)]

    def train(array, variable):
        tf.raw_ops.ResourceApplyGradientDescent(var=variable.handle, alpha=0.5, delta=tf.ones(SIZE))

    return make, allocate, {
        "assign": lambda array, variable: variable.assign(tf.zeros(SIZE)),
        "assign_add": lambda array, variable: variable.assign_add(tf.ones(SIZE)),
        "part": lambda array, variable: variable[:10].assign(tf.zeros(10)),
        "scatter": lambda array, variable: variable.scatter_nd_update([[0], [1]], [7.0, 7.0]),
        "train": train,
        "destroy": lambda array, variable: tf.raw_ops.DestroyResourceOp(resource=variable.handle),
        "function": lambda array, variable: tf.function(lambda x: tf.nn.relu(x * 2))(array),
    }  # fmt: skip


def over_table(array):
    """As fastdl_own takes it."""
    held = consumer.from_object(fastdl.exchange_api(type(array)), array)
    return consumer.to_object(fastdl.exchange_api(fastdl.Tensor), held)


WAYS = {
    "from_dlpack": fastdl.from_dlpack,
    "device": lambda array: fastdl.from_dlpack(array, device="cpu"),
    "asarray": fastdl.asarray,
    "convert": lambda array: fastdl.convert(array, np.ndarray),
    "table": over_table,
}
LIBRARIES = {"mlx": mlx, "jax": jax, "tensorflow": tensorflow}
MAKE, ALLOCATE, OPERATIONS = LIBRARIES[peer_under_test().name]()


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_the_memory_is_kept(way, operation):
    array, owner = MAKE()
    for take in (way, way):  # the type is not known yet, and known
        tensor = take(array)
    assert np.array_equal(np.asarray(tensor), EXPECTED)
    result = operation(array, owner)
    if operation is not OPERATIONS.get("delete"):
        ALLOCATE(array)
    assert np.array_equal(np.asarray(tensor), EXPECTED)
    del array, owner, result
    ALLOCATE([])
    assert np.array_equal(np.asarray(tensor), EXPECTED)
