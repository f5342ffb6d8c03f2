# SPDX-License-Identifier: Apache-2.0
"""TensorFlow."""

import numpy as np
import tensorflow as tf

title = "TensorFlow"
distribution = "tensorflow-cpu"
forks = False  # its threads do not survive a fork
from_capsule = tf.experimental.dlpack.from_dlpack


def make(values, dtype):
    return tf.constant(values, dtype)


def values(array):
    found = array.numpy()
    return found.astype(float).tolist() if found.dtype.kind == "V" else found.tolist()


def from_dlpack(producer):
    """Its function accepts only capsules."""
    return tf.experimental.dlpack.from_dlpack(producer.__dlpack__())


def address(array):
    return np.asarray(memoryview(array)).__array_interface__["data"][0]


def read_only(array):
    return array  # all arrays are read-only
