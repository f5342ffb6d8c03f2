# SPDX-License-Identifier: Apache-2.0
"""DrJit: the tensors of each backend. Each element type has a class of its own; the result is of
the class for the data."""

from fastdl._bridges.bridge import ANYWHERE, COMPACT, COPIED, Bridge

CLASSES = {
    "bool": "TensorXb",
    "float16": "TensorXf16",
    "float32": "TensorXf",
    "float64": "TensorXf64",
    "int8": "TensorXi8",
    "int32": "TensorXi",
    "int64": "TensorXi64",
    "uint8": "TensorXu8",
    "uint32": "TensorXu",
    "uint64": "TensorXu64",
}


def backend(name: str, **facts) -> Bridge:
    def make(tensor, like):
        from importlib import import_module

        return getattr(import_module(name), CLASSES[tensor.dtype.name])(tensor)

    return Bridge(
        f"{name}.TensorXf",
        title="DrJit",
        classes=tuple(f"{name}:{cls}" for cls in CLASSES.values()),
        make=make,
        strides=COMPACT,
        readonly=COPIED,
        dtypes=CLASSES,
        **facts,
    )


RELEASE = "drjit==1.5.0"
SAMPLE = "drjit.scalar:ArrayXf(range(6))"

BRIDGES = (
    backend("drjit.llvm"),
    backend("drjit.scalar", copies=True),  # it always copies
    backend("drjit.cuda", devices=ANYWHERE),
)

DEFECTS = {
    "A producer's capsule is not renamed, so it can be consumed twice": "A producer must "
    "return a new capsule each time, as fastdl's tensors do.",
    "A producer's KeyboardInterrupt becomes a TypeError": "`convert` calls the producer itself, so "
    "its exception reaches you.",
}
