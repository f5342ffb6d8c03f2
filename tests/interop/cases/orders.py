# SPDX-License-Identifier: Apache-2.0
"""Every library's objects to every library, in an order that a number gives. Prints the answers.

Run as a program, in two processes: what convert answers must not depend on earlier calls. The
objects are also those that their libraries give no `__dlpack__`.
"""

import json
import os
import random
import sys

import numpy as np
import pyarrow as pa
import tensorflow as tf
import torch

import fastdl

from ..peers import BY_NAME, PEERS
from .common import aligned


def each_source():
    values = aligned([1.0, 2.0])
    made = {peer.name: peer.make([1.0, 2.0], "float32") for peer in PEERS}
    return made | {
        "frozen": np.broadcast_to(values, 2),
        "ndarray's subclass": values.view(type("Sub", (np.ndarray,), {})),
        "torch.nn.Parameter": torch.nn.Parameter(torch.ones(2)),
        "tf.Tensor": tf.constant([1.0, 2.0]),
        "tf.Variable": tf.Variable([1.0, 2.0]),
        "tf.RaggedTensor": tf.ragged.constant([[1.0], [2.0, 3.0]]),
        "pa.ChunkedArray": pa.chunked_array([made["pyarrow"]]),
        "pa.Table": pa.table({"a": [1.0, 2.0]}),
        "pa.Buffer": pa.py_buffer(values),
        "pa.Scalar": pa.scalar(1.0),
        "torch.dtype": torch.float32,
        "onnxruntime of bool": BY_NAME["onnxruntime"].make([True, False], "bool"),
        "warp": BY_NAME["warp"].make([1.0, 2.0], "float32"),
    }


def each_target(sources):
    types = {peer.name: type(sources[peer.name]) for peer in PEERS}
    return types | {"tf.Tensor": tf.Tensor, "fastdl": fastdl.Tensor, "module tf": tf}


def answer(x, like, copy) -> str:
    try:
        result = fastdl.convert(x, like, copy=copy)
    except Exception as error:
        return f"{type(error).__name__}: {error}".partition("0x")[0][:150]
    if result is x:
        return "itself"
    kind = type(result).__qualname__
    try:
        tensor = fastdl.asarray(result)
        source = fastdl.asarray(x)
    except (BufferError, TypeError, ValueError):
        return kind
    shared = tensor.data_ptr == source.data_ptr
    return f"{kind} {tensor.tolist()} {tensor.readonly} {shared}"


def main(seed: str) -> None:
    for peer in PEERS:
        if peer.prepare is not None:
            peer.prepare()
    sources = each_source()
    targets = each_target(sources)
    pairs = sorted((s, t, str(c)) for s in sources for t in targets for c in (None, False, True))
    random.Random(int(seed)).shuffle(pairs)
    found = {}
    for source, target, copy in pairs + pairs:
        key = f"{source} to {target}, copy={copy}"
        said = answer(sources[source], targets[target], {"None": None}.get(copy, copy == "True"))
        assert found.setdefault(key, said) == said, (key, found[key], said)
    assert isinstance(fastdl.convert(sources["tf.Variable"], tf.Tensor), tf.Tensor)
    # JAX shares what is aligned to 64 bytes, which is left to chance.
    print(json.dumps({key: said for key, said in found.items() if " to jax," not in key}))
    sys.stdout.flush()
    os._exit(0)  # so many libraries in one process do not survive its end


if __name__ == "__main__":
    main(sys.argv[1])
