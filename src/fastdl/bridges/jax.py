"""JAX."""

from fastdl._convert.convert import ANYWHERE, DENSE, IMMUTABLE, Bridge


def make(tensor, like):
    import jax

    if tensor.dtype.lane.bits < 64 or tensor.dtype.name == "complex64":
        return jax.dlpack.from_dlpack(tensor)
    with jax.enable_x64(True):  # without it, JAX narrows the elements
        return jax.dlpack.from_dlpack(tensor)


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
    ),
)
