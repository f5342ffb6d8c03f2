# SPDX-License-Identifier: Apache-2.0
"""TVM. It packs sub-byte elements in the opposite order to DLPack: the first one is in the high
bits."""

from fastdl._bridges.bridge import ANYWHERE, COMPACT, COPIED, Bridge
from fastdl._core import exchange
from fastdl._core import tensor as core
from fastdl._native import dtype_facts

NARROW = [name for name, _, bits, _ in dtype_facts() if bits < 8]


def make(tensor, like):
    from tvm import runtime

    return runtime.from_dlpack(tensor)


RELEASE = "apache-tvm==0.27.0.post1"
SAMPLE = "tvm:runtime.tensor(numpy.arange(6, dtype='float32'))"

BRIDGES = (
    Bridge(
        "tvm.runtime.Tensor",
        title="TVM",
        classes=("tvm.runtime:Tensor",),  # not tvm.te.Tensor, an expression
        make=make,
        read=lambda x, tensor: core.mark_copied(exchange.from_dlpack(x.numpy())),
        reads=NARROW,
        dtypes=[name for name, _, bits, _ in dtype_facts() if bits >= 8],
        strides=COMPACT,
        readonly=COPIED,
        alignment=64,
        devices=ANYWHERE,
    ),
)

DEFECTS = {
    "A compiled function crashes on data that is not aligned": "TVM checks the alignment of "
    "data that becomes a `tvm.runtime.Tensor`, but not of arguments. `convert` aligns the data "
    "that it gives to TVM to 64 bytes.",
    "float4 is packed in the other order": "In DLPack the first element is in the low bits, so "
    "a consumer sees the two elements of each byte swapped. `asarray` and "
    "`convert` read such tensors through TVM's `numpy()`, but `convert` makes no such tensors. "
    "`from_dlpack` trusts the capsule.",
}
