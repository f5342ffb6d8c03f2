# SPDX-License-Identifier: Apache-2.0
"""JAX."""

import jax
import jax.numpy as jnp
import numpy as np

title = "JAX"
forks = False  # its threads do not survive a fork
from_dlpack = jax.dlpack.from_dlpack

views = {"transposed": lambda x: x.T, "strided": lambda x: x[:, ::2]}


def prepare():
    jax.config.update("jax_enable_x64", True)  # otherwise it narrows 64 bits to 32


def make(values, dtype):
    return jnp.asarray(values, dtype)


def values(array):
    return np.asarray(array).tolist()


def address(array):
    return array.unsafe_buffer_pointer()


def read_only(array):
    return array  # all arrays are read-only
