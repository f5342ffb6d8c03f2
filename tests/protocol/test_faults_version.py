# SPDX-License-Identifier: Apache-2.0
"""Versions and flags of versioned tensors (faults V1 to V5)."""

import numpy as np
import pytest

import fastdl
from tests.support import consumer
from tests.support.producers import (
    Given,
    assert_accepted,
    every_versioned_way,
)

READ_ONLY, IS_COPIED, PADDED = 1, 2, 4


def assert_readonly(tensor):
    assert tensor.readonly
    assert tensor.numpy().flags.writeable is False
    assert memoryview(tensor).readonly
    with pytest.raises(BufferError):
        tensor.__dlpack__()
    with pytest.raises(BufferError):
        consumer.borrow(fastdl.Tensor.__dlpack_c_exchange_api__, tensor)
    with pytest.raises((ValueError, TypeError, BufferError)):
        np.frombuffer(tensor, np.uint8)[0] = 1


@every_versioned_way
def test_v4_readonly_is_kept_on_every_path(way):
    def check(tensor):
        assert_readonly(tensor)
        again = fastdl.from_dlpack(tensor.__dlpack__(max_version=(1, 0)))
        table = fastdl.Tensor.__dlpack_c_exchange_api__
        by_table = consumer.to_object(table, consumer.from_object(table, tensor))
        for same in (again, by_table, tensor[1:], fastdl.from_dlpack(tensor)):
            assert_readonly(same)
        assert not fastdl.from_dlpack(tensor, copy=True).readonly
        assert not tensor.copy().readonly
        assert fastdl.from_dlpack(tensor.numpy()).readonly

    assert_accepted(way, check, flags=READ_ONLY)


@every_versioned_way
@pytest.mark.parametrize("flags", [IS_COPIED, 8, 1 << 63, 2**64 - 1 - READ_ONLY - PADDED])
def test_v5_flags_that_are_not_passed_on(way, flags):
    """IS_COPIED was about one exchange, and unknown flags may mean anything."""

    def check(tensor):
        assert tensor.is_copied is bool(flags & IS_COPIED)
        held = consumer.take(tensor.__dlpack__(max_version=(1, 3)))
        assert consumer.fields(held)["flags"] == 0
        held.release()
        table = fastdl.Tensor.__dlpack_c_exchange_api__
        held = consumer.from_object(table, tensor)
        assert consumer.fields(held)["flags"] == 0
        held.release()
        assert not tensor[0].is_copied

    assert_accepted(way, check, flags=flags)


@every_versioned_way
def test_v5_padding_is_passed_on(way):
    """Without it the sizes are others."""

    def check(tensor):
        assert tensor.nbytes == 6
        held = consumer.take(tensor.__dlpack__(max_version=(1, 3)))
        assert consumer.fields(held)["flags"] == PADDED
        held.release()

    assert_accepted(way, check, flags=PADDED | IS_COPIED, dtype=(0, 4, 1))


def test_v5_padding_is_not_lost_where_it_cannot_be_said():
    """A legacy capsule and a borrowed DLTensor carry no flags: padded data read as packed is
    wrong data, so both are refused."""
    tensor = fastdl.from_dlpack(Given(flags=PADDED, dtype=(0, 4, 1)).capsule())
    with pytest.raises(BufferError):
        tensor.__dlpack__()
    with pytest.raises(BufferError):
        consumer.borrow(fastdl.Tensor.__dlpack_c_exchange_api__, tensor)
