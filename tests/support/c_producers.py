# SPDX-License-Identifier: Apache-2.0
"""tests/capi/producer.c: types that fastdl.h makes producers, compiled as users would."""

from functools import partial

import fastdl
from tests.support import headers
from tests.support.build import CPLUSPLUS

load = partial(headers.load, source="producer")

ALONE = load("alone", installed=False)
INSTALLED = load("installed", installed=True)
LIMITED_API = load("limited", *CPLUSPLUS, headers.LIMITED, installed=False)

WORLDS = {"alone": ALONE, "installed": INSTALLED, "limited API, C++": LIMITED_API}


def describe(array, **changes):
    """What an author would say of a NumPy array."""
    says = {
        "owner": array,
        "data": array.__array_interface__["data"][0],
        "shape": array.shape,
        "strides": tuple(step // array.itemsize for step in array.strides),
        "dtype": fastdl.DType(array.dtype).__dlpack_data_type__(),
        "flags": 0 if array.flags.writeable else 1,
    }
    return {**says, **changes}


def given(kind, array, **changes):
    """An object of a type of producer.c on the memory of an array."""
    return kind(**describe(array, **changes))
