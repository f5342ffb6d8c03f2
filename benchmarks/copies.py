# SPDX-License-Identifier: Apache-2.0
"""What is timed of copies: strided host data to contiguous memory, compared with np.copyto.

Groups "copy/LAYOUT": fastdl's copy loops, called from C, against np.copyto on the same arrays
(for contiguous data against memcpy too). Groups "method/LAYOUT": Tensor.copy() against
ndarray.copy(), where allocation and the call are part of it. Groups "argument/LAYOUT": the copy of
an argument on which a C function insists (FASTDL_COPY, FASTDL_CONVERT), against what NumPy has for
it.
"""

import numpy as np

import fastdl
from benchmarks.native import load, loops
from benchmarks.timing import Subject, in_c, in_python

SIDE = 1024


def layouts() -> dict[str, np.ndarray]:
    """Arrays of float32 in the layouts that are copied in practice, 4 MiB unless it says small."""
    flat = np.arange(SIDE * SIDE, dtype=np.float32)
    square = flat.reshape(SIDE, SIDE)
    images = flat.reshape(4, 512, 512)
    double = np.arange(4 * SIDE * SIDE, dtype=np.float32).reshape(2 * SIDE, 2 * SIDE)
    return {
        "contiguous": square,
        "transposed": square.T,
        "F order": np.asfortranarray(square),
        "permuted (0, 2, 1)": images.transpose(0, 2, 1),
        "permuted (1, 2, 0)": images.transpose(1, 2, 0),
        "permuted (2, 0, 1)": images.transpose(2, 0, 1),
        "permuted (1, 0, 2)": images.transpose(1, 0, 2),
        "every second row": double[::2, :SIDE],
        "every second column": double[:SIDE, ::2],
        "a window": double[100 : 100 + SIDE, 200 : 200 + SIDE],
        "reversed rows": square[::-1],
        "reversed": flat[::-1],
        "transposed, bytes": np.ones((SIDE, 4 * SIDE), dtype=np.uint8).T,
        "transposed, complex128": np.ones((SIDE, SIDE // 4), dtype=np.complex128).T,
        "small contiguous (8, 8)": square[:8, :8].copy(),
        "small transposed (8, 8)": square[:8, :8].copy().T,
    }


def copyto(array: np.ndarray, target: np.ndarray) -> Subject:
    return in_python("numpy", "f(t, a)", f=np.copyto, t=target, a=array)


def loops_only(array: np.ndarray) -> list[Subject]:
    target = np.empty(array.shape, dtype=array.dtype)
    target.fill(0)  # its pages exist before the first copy
    tensor = fastdl.from_dlpack(array)
    subjects = [
        in_c("fastdl", loops.compact, fastdl.exchange_api(tensor), tensor, target.data),
        copyto(array, target),
    ]
    if array.flags.c_contiguous:
        subjects.append(in_c("memcpy", loops.move, array.data, target.data))
    return subjects


def method(array: np.ndarray) -> list[Subject]:
    return [
        in_python("fastdl", "x.copy()", x=fastdl.from_dlpack(array)),
        in_python("numpy", "x.copy()", x=array),  # row-major, as fastdl's
    ]


def arguments() -> dict[str, tuple[np.ndarray, str]]:
    """Arrays that a function of contiguous float32 must have copied or converted: by which function
    of with_fastdl.c."""
    made = layouts()
    kept = ("transposed", "every second row", "every second column", "reversed rows", "reversed")
    pixels = np.ones((SIDE, SIDE), dtype=np.uint8)
    numbers = np.arange(SIDE * SIDE).reshape(SIDE, SIDE)
    return {
        **{name: (made[name], "copied") for name in (*kept, "small transposed (8, 8)")},
        "broadcast": (np.broadcast_to(made["reversed"][:SIDE], (SIDE, SIDE)), "copied"),
        "broadcast columns": (
            np.broadcast_to(made["reversed"][:SIDE, None], (SIDE, SIDE)),
            "copied",
        ),
        "from float64": (numbers.astype(np.float64), "converted"),
        "from float64, transposed": (numbers.astype(np.float64).T, "converted"),
        "from float16": (np.ones((SIDE, SIDE), dtype=np.float16), "converted"),
        "from int32": (numbers.astype(np.int32), "converted"),
        "from int64": (numbers.astype(np.int64), "converted"),
        "from uint8": (pixels, "converted"),
        "from uint8, every second column": (pixels[:, ::2], "converted"),
        "small from float64 (8, 8)": (np.ones((8, 8)), "converted"),
    }


def argument(array: np.ndarray, function: str) -> list[Subject]:
    if function == "copied":
        theirs = in_c("numpy", loops.call, np.ascontiguousarray, array)
    else:
        theirs = in_c("numpy", loops.call, np.ascontiguousarray, array, np.float32)
    return [in_c("fastdl", getattr(load("with_fastdl"), function), array), theirs]
