# SPDX-License-Identifier: Apache-2.0
"""Data on a GPU, for a library that has none: convert refuses it and releases it once, where the
library itself would end the process."""

import pytest

import fastdl
from tests.support.producers import Given

from .common import peer_under_test

TYPES = {"tensorflow": "tensorflow.Tensor", "paddle": "paddle.Tensor"}


@pytest.mark.filterwarnings("ignore:No ccache found")  # of Paddle, when it is imported
@pytest.mark.parametrize("kind", [2, 10])
def test_convert_refuses(kind):
    given = Given(device=(kind, 0))
    tensor = fastdl.from_dlpack(given.capsule())
    with pytest.raises(BufferError, match="device='cpu'"):
        fastdl.convert(tensor, TYPES[peer_under_test().name])
    del tensor
    given.assert_released()
