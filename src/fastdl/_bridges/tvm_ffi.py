# SPDX-License-Identifier: Apache-2.0
"""tvm-ffi."""

from fastdl._bridges.bridge import ANY, ANYWHERE, COPIED, Bridge
from fastdl._core.exchange import TYPE_EXPORT_DOES_NOT_SYNC


def importer():
    import tvm_ffi

    return tvm_ffi.from_dlpack


DEVICE_OF = {"Device": lambda x: (int(x.dlpack_device_type()), x.index)}
TYPES = {"tvm_ffi:Tensor": TYPE_EXPORT_DOES_NOT_SYNC}
RELEASE = "apache-tvm-ffi==0.1.15.post2"
SAMPLE = "tvm_ffi:from_dlpack(fastdl.asarray(numpy.arange(6, dtype='float32')))"

BRIDGES = (
    Bridge(
        "tvm_ffi.Tensor",
        title="tvm-ffi",
        classes=("tvm_ffi:Tensor",),
        quick=importer,
        strides=ANY,
        readonly=COPIED,
        devices=ANYWHERE,
        since="0.1.3",
    ),
)

DEFECTS = {
    "Read-only data of a type with an exchange table becomes writable": "`convert` copies such "
    "data.",
    "A request for an old version raises AttributeError": "fastdl requests version (1, 3).",
    "copy=True does not copy": "fastdl makes copies on the host itself.",
    "A table of an unknown major version is called": "Another major version may have other "
    "functions. fastdl calls `__dlpack__` instead.",
}
