"""fastdl.convert between every two libraries, compared with the consumer's own from_dlpack.

    python -m benchmarks.pairs

16 float32 numbers in one dimension, aligned to 256 bytes where the library takes memory. Writes
docs/pairs.json, which benchmarks.plots draws.
"""

import argparse
import sys
from collections.abc import Callable
from typing import Any

import fastdl
from benchmarks import ROOT, machine, processes
from benchmarks.timing import Subject, in_python, middle, ratio
from fastdl._testing import json_rows


def array():
    made = fastdl.empty(16).numpy()
    made[:] = 1
    return made


def libraries() -> dict[str, tuple[Any, Any, Callable]]:
    """Name -> an array, the type for convert, and the library's own import."""
    import jax
    import mlx.core as mx
    import numpy as np
    import pyarrow as pa
    import torch
    import tvm_ffi

    of_mlx = mx.ones(16)
    mx.eval(of_mlx)
    return {
        "NumPy": (array(), np.ndarray, np.from_dlpack),
        "torch": (torch.from_numpy(array()), torch.Tensor, torch.from_dlpack),
        "JAX": (jax.dlpack.from_dlpack(array()), jax.Array, jax.dlpack.from_dlpack),
        "MLX": (of_mlx, mx.array, mx.from_dlpack),
        "PyArrow": (pa.Tensor.from_numpy(array()), pa.Tensor, pa.Tensor.from_dlpack),
        "tvm-ffi": (tvm_ffi.from_dlpack(array()), tvm_ffi.Tensor, tvm_ffi.from_dlpack),
        "fastdl": (fastdl.from_dlpack(array()), fastdl.Tensor, fastdl.from_dlpack),
    }


def groups() -> dict[str, list[Subject]]:
    """Producer/consumer -> fastdl.convert, and the consumer's own import if it takes the array."""
    known = libraries()
    found = {}
    for producer, (x, _, _) in known.items():
        for consumer, (_, like, own) in known.items():
            if consumer in (producer, "fastdl"):  # to which from_dlpack is the way
                continue
            subjects = [in_python("fastdl", "f(x, t)", f=fastdl.convert, x=x, t=like)]
            try:
                own(x)
            except Exception as error:
                print(f"{producer} to {consumer}: {type(error).__name__}", file=sys.stderr)
            else:
                subjects.append(in_python("own", "f(x)", f=own, x=x))
            found[f"{producer}/{consumer}"] = subjects
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pairs", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--workers", type=int, default=5, help="processes that measure (5)")
    parser.add_argument("--rounds", type=int, default=15, help="rounds in each process (15)")
    options = parser.parse_args()
    facts, versions = machine.facts(), machine.versions()
    runs = [processes.run("pairs", rounds=options.rounds) for _ in range(options.workers)]
    pairs = {}
    for pair in runs[0]:
        samples = [one[pair] for one in runs]
        refused = "own" not in samples[0]
        pairs[pair] = {
            "fastdl": middle(samples, "fastdl"),
            "own": None if refused else middle(samples, "own"),
            "ratio": None if refused else round(ratio(samples, "fastdl", "own"), 3),
        }
        print(f"{pair:20}", *(f"{name} {value}" for name, value in pairs[pair].items()))
    data = {"machine": facts, "versions": versions, "pairs": pairs}
    (ROOT / "docs/pairs.json").write_text(json_rows.dumps(data) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
