"""JAX."""

from fastdl._bridges.bridge import ANYWHERE, COMPACT, DENSE, IMMUTABLE, Bridge
from fastdl._core import exchange
from fastdl._core import tensor as core
from fastdl._core.exchange import TYPE_BUFFER, TYPE_IMMUTABLE, TYPE_STREAM_NONE_SYNCS


def make(tensor, like):
    import jax

    if tensor.dtype.lane.bits < 64 or tensor.dtype.name == "complex64":
        return jax.dlpack.from_dlpack(tensor)
    with in_full_width():
        return jax.dlpack.from_dlpack(tensor)


def read_narrow(x):
    """Integers of 2 and 4 bits, which only NumPy's interface has."""
    import numpy as np

    is_narrow = x.dtype.name in {"int2", "int4", "uint2", "uint4"}
    if not is_narrow or any(device.platform != "cpu" for device in x.devices()):
        return None
    return core.mark_copied(exchange.from_dlpack(np.asarray(x)))


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
    raise ValueError(f"expected a device that DLPack has, got JAX's {x}")


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
    "A capsule without a deleter is an error": "DLPack allows a NULL deleter, if nothing has "
    "to be freed. fastdl accepts such capsules; its own always have a deleter.",
}
