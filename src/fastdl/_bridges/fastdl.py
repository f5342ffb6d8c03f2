# SPDX-License-Identifier: Apache-2.0
"""fastdl itself: convert(x, fastdl.Tensor)."""

from fastdl._bridges.bridge import ANYWHERE, Bridge

BRIDGES = (
    Bridge(
        "fastdl.Tensor",
        title="fastdl",
        classes=("fastdl:Tensor",),
        make=lambda tensor, like: tensor,
        devices=ANYWHERE,
    ),
)
