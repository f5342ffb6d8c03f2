# SPDX-License-Identifier: Apache-2.0
"""Types with the names of libraries, by which fastdl knows them."""


def named(name, module, *bases, **members):
    return type(name, bases, {"__module__": module, **members})


class NotAsked:
    def __dlpack__(self, **keywords):
        raise AssertionError("it must not be asked")

    def __dlpack_device__(self):
        raise AssertionError("it must not be asked")


NAMES = {
    "jax": ("ArrayImpl", "jaxlib.of_the_tests"),
    "tensorflow": ("EagerTensor", "tensorflow.of_the_tests"),
}
