"""JAX."""

from fastdl._convert.convert import ANYWHERE, COMPACT, DENSE, IMMUTABLE, Bridge


def make(tensor, like):
    import jax

    if tensor.dtype.lane.bits < 64 or tensor.dtype.name == "complex64":
        return jax.dlpack.from_dlpack(tensor)
    namespace = jax if hasattr(jax, "enable_x64") else jax.experimental  # before 0.8
    with namespace.enable_x64(True):  # without it, JAX narrows the elements
        return jax.dlpack.from_dlpack(tensor)


SAMPLE = "jax.numpy:arange(6, dtype='float32')"

BRIDGES = (
    Bridge(
        "jax.Array",
        title="JAX",
        classes=("jaxlib:ArrayImpl", "jax:jaxlib._jax.Array", "jax:Array"),
        make=make,
        strides=DENSE,
        readonly=IMMUTABLE,
        alignment=64,
        devices=ANYWHERE,
        since="0.6.2",
        before={"0.8": {"strides": COMPACT}},  # it reads transposed arrays wrongly
    ),
)
