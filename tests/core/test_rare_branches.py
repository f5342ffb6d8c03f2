# SPDX-License-Identifier: Apache-2.0
"""Branches that no other test takes: `nox -s reliability -- --coverage` names the lines."""

import numpy as np
import pytest

import fastdl
from fastdl._core import tensor as core
from tests.support.c_producers import ALONE, given
from tests.support.headers import ALONE as HEADERS
from tests.support.producers import Given, Producer

ARRAY = np.arange(6, dtype=np.float32).reshape(2, 3)


class Untold:
    @property
    def __dlpack_device__(self):
        raise LookupError("no device")


REFUSED = {
    "an offset beyond any buffer": (
        lambda: core.from_memory(bytearray(24), (2, 3), (2, 32, 1), offset=2**63 - 1),
        (ValueError, f"from byte {2**63 - 1} to {2**63 + 23} are not all"),
    ),
    "strides of another number": (
        lambda: core.from_memory(bytearray(24), (2, 3), (2, 32, 1), (1,)),
        (ValueError, "expected 2 strides, got 1"),
    ),
    "gaps": (
        lambda: core.as_bytes(fastdl.from_dlpack(ARRAY[:, ::2])),
        (BufferError, "has gaps between its elements"),
    ),
    "a device that raises": (
        lambda: given(ALONE.Exporting, ARRAY).__dlpack__(dl_device=Untold()),
        (LookupError, "no device"),
    ),
}


@pytest.mark.parametrize(("call", "expected"), REFUSED.values(), ids=REFUSED)
def test_refused(call, expected):
    error, match = expected
    with pytest.raises(error, match=match):
        call()


def test_sixteen_bytes_are_gathered():
    header, source = HEADERS["alone"], np.arange(10, dtype=np.complex128)[::2]
    copied = header.own_as(source, "x", {"layout": 1, "rules": 16})
    assert fastdl.from_dlpack(copied).tolist() == source.tolist()


def test_more_elements_than_can_be_counted_and_none():
    """The product of the sizes before a 0 may be any."""
    producer = Producer(Given(shape=(2**40, 2**40, 0)))
    assert HEADERS["alone"].borrow(producer)["shape"] == (2**40, 2**40, 0)
