# SPDX-License-Identifier: Apache-2.0
"""JAX."""

from fastdl._bridges.bridge import ANYWHERE, COMPACT, DENSE, IMMUTABLE, Bridge
from fastdl._core import exchange
from fastdl._core import tensor as core
from fastdl._core.exchange import TYPE_BUFFER, TYPE_IMMUTABLE, TYPE_STREAM_NONE_SYNCS

NUMBERS = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
    *("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz"),
    *("float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
)
NARROW = "int2", "int4", "uint2", "uint4", "float4_e2m1fn"  # not exported over DLPack


def make(tensor, like):
    import jax

    if tensor.dtype.name in NARROW:
        return jax.numpy.array(tensor.numpy())
    if tensor.dtype.lane.bits < 64 or tensor.dtype.name == "complex64":
        return jax.dlpack.from_dlpack(tensor)
    with in_full_width():
        return jax.dlpack.from_dlpack(tensor)


def read_narrow(x):
    """Reads elements of 2 and 4 bits, by NumPy's interface."""
    import numpy as np

    if x.dtype.name not in NARROW or any(device.platform != "cpu" for device in x.devices()):
        return None
    return core.mark_copied(exchange.from_dlpack(np.asarray(x)))


def copies(tensor):
    """elements of 2 or 4 bits"""
    return tensor.dtype.name in NARROW


def move(x, device):
    import jax

    with in_full_width():
        return jax.device_put(x, jax.local_devices(backend="gpu")[device.id])


def in_full_width():
    """A context in which JAX does not narrow elements of 64 bits."""
    import jax

    namespace = jax if hasattr(jax, "enable_x64") else jax.experimental  # before 0.8
    return namespace.enable_x64(True)


def device_name(x):
    if x.platform == "cpu":  # several of them are one host
        return "cpu", 0
    for name in ("cuda", "rocm"):
        if name in x.client.platform_version:
            return name, x.local_hardware_id
    raise ValueError(f"expected a device known to DLPack, got JAX's {x}")


DEVICE_OF = {"Device": device_name}
TYPES = {
    "jaxlib:ArrayImpl": TYPE_IMMUTABLE | TYPE_STREAM_NONE_SYNCS | TYPE_BUFFER,
    "jax:Array": TYPE_IMMUTABLE | TYPE_STREAM_NONE_SYNCS,
}
RELEASE = "jax==0.10.2"
SAMPLE = "jax.numpy:arange(6, dtype='float32')"

BRIDGES = (
    Bridge(
        "jax.Array",
        title="JAX",
        classes=("jaxlib:ArrayImpl", "jax:jaxlib._jax.Array", "jax:Array"),
        make=make,
        read_otherwise=read_narrow,
        move=move,
        strides=DENSE,
        readonly=IMMUTABLE,
        alignment=64,
        dtypes=(*NUMBERS, *NARROW),
        copies=copies,
        devices=ANYWHERE,
        since="0.6.2",
        before={"0.8": {"strides": COMPACT}},  # it reads transposed arrays wrongly
    ),
)

DEFECTS = {
    "copy=True does not copy": "`convert(x, jax.Array, copy=True)` makes the copy itself.",
    "Read-only arrays of other libraries are refused": "JAX never writes to its arrays, so it "
    "could accept them. `convert` shares the memory of arrays whose library never writes to "
    "it, and copies other read-only data.",
    "A capsule without a deleter raises an error": "DLPack allows a NULL deleter, if nothing has "
    "to be freed. fastdl accepts such capsules; its own always have a deleter.",
}
