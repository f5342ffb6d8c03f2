# SPDX-License-Identifier: Apache-2.0
"""cuda.core: StridedMemoryView."""

from fastdl._bridges.bridge import ANYWHERE, Bridge
from fastdl._bridges.lookup import published_table


def make(tensor, like):
    from cuda.core.utils import StridedMemoryView

    return StridedMemoryView.from_dlpack(tensor, stream_ptr=-1 if tensor.device.is_host else 1)


DEVICE_OF = {"Device": lambda x: ("cuda", x.device_id)}
RELEASE = "cuda-core==1.2.2"

BRIDGES = (
    Bridge(
        "cuda.core.utils.StridedMemoryView",
        title="cuda.core",
        classes=("cuda.core:StridedMemoryView",),
        make=make,
        quick=lambda: published_table("cuda.core.utils", "StridedMemoryView"),
        devices=ANYWHERE,
    ),
)

DEFECTS = {
    "A capsule of an unknown major version is read": "Another major version may have another "
    "layout. fastdl refuses it, and exports version 1.",
}
