# SPDX-License-Identifier: Apache-2.0
"""TensorFlow. It imports only legacy capsules, not objects, and aborts on exporting a tensor of
strings."""

from fastdl._bridges.bridge import ANYWHERE, COMPACT, IMMUTABLE, Bridge
from fastdl._core.errors import refusal
from fastdl._core.exchange import TYPE_BUFFER, TYPE_IMMUTABLE, TYPE_REFUSES


def make(tensor, like):
    from tensorflow.experimental import dlpack

    if not tensor.device.is_host and tensor.device.id >= gpus():
        # TensorFlow would free the tensor that it refuses, and the capsule would free it again.
        raise BufferError(
            f"no {tensor.device} in TensorFlow: pass device='cpu' for a copy on the host"
        )
    return dlpack.from_dlpack(tensor.__dlpack__())


def move(x, device):
    import tensorflow

    with tensorflow.device(f"GPU:{device.id}"):
        return tensorflow.identity(x)


def gpus():
    from tensorflow import config

    return len(config.list_logical_devices("GPU"))


def refuse(x):
    """Refuses elements that are not numbers, for which `__dlpack__` aborts the process, and
    quantised ones, which the buffer shows as integers."""
    name = getattr(getattr(x, "dtype", None), "name", None)
    others = ("string", "resource", "variant", "qint", "quint")
    if isinstance(name, str) and name.startswith(others):
        line = f": tensorflow.bitcast(x, {name[1:]!r}) has the underlying integers"
        raise refusal(
            BufferError,
            f"expected numbers, got a tensor of dtype {name}, which DLPack cannot describe"
            f"{line if name[0] == 'q' else ''}",
        )


TYPES = {"tensorflow:EagerTensor": TYPE_IMMUTABLE | TYPE_BUFFER | TYPE_REFUSES}
RELEASE = "tensorflow-cpu==2.21.0"
SAMPLE = "tensorflow:range(6, dtype=float32)"

BRIDGES = (
    Bridge(
        "tensorflow.Tensor",
        title="TensorFlow",
        # Not "tensorflow:Tensor": variables are instances of that, too.
        classes=("tensorflow:EagerTensor", "tensorflow.python.framework:Tensor"),
        make=make,
        move=move,
        strides=COMPACT,
        readonly=IMMUTABLE,
        devices=ANYWHERE,
        dtypes=(
            *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
            *("float16", "float32", "float64", "bfloat16", "complex64", "complex128"),
        ),
    ),
)

DEFECTS = {
    "A tensor of strings or of handles ends the process": "These have no DLPack type. fastdl "
    "checks the dtype before it requests a capsule.",
    "Immutable tensors are exported as writable": "A consumer of such a capsule may write to "
    "it. fastdl knows the type, and marks its tensors as read-only.",
    "A capsule that is refused for its device is freed twice": "`convert` refuses data on a "
    "GPU that TensorFlow does not have. `convert(x, tf.Tensor, device='cpu')` makes a copy on "
    "the host.",
    "A request for the host raises RuntimeError": "`from_dlpack(x, device='cpu')` works: fastdl "
    "passes no `dl_device` for data that is on the host.",
    "Lanes are ignored, so half of the values are read": "`convert` refuses elements of "
    "several lanes: TensorFlow has none.",
}
