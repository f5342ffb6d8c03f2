"""Whether exchanges leave memory behind: three counters, read while very many of them pass."""

import gc
import sys
from array import array

import fastdl
from benchmarks.native import loops

#: Of the first exchanges, which fill caches and free lists and are not counted.
WARM_UP = 100_000

#: A leak grows in each part of the run; a page that the system happened to bring in does not.
PARTS = 4


def paths() -> dict[str, tuple]:
    """name -> (loop, arguments): every path of an exchange that fastdl has a part in."""
    import numpy as np
    import torch

    source, tensor = np.ones(16, dtype=np.float32), torch.ones(16)
    ours = fastdl.from_dlpack(source)
    return {
        "from_dlpack(torch tensor)": (loops.call, fastdl.from_dlpack, tensor),
        "from_dlpack(ndarray)": (loops.call, fastdl.from_dlpack, source),
        "from_dlpack(Tensor)": (loops.call, fastdl.from_dlpack, ours),
        "__dlpack__": (loops.export, ours, ("max_version",), (1, 0)),
        "np.from_dlpack(Tensor)": (loops.call, np.from_dlpack, ours),
    }


def measure(exchanges: int) -> dict:
    """What each counter grew by in each part of that many exchanges, divided over the paths.

    "resident" is what the system sees, in pages. The others are exact: what malloc has handed out
    (glibc only, else None), and how many blocks Python's own allocator has.
    """
    import psutil

    process = psutil.Process()
    todo = [(loop, arguments) for loop, *arguments in paths().values()]
    each = exchanges // len(todo) // PARTS
    # Room for all readings from the start, so that keeping them allocates nothing.
    resident, heap, blocks = (array("q", [0] * (PARTS + 1)) for _ in range(3))

    def read(part: int) -> None:
        gc.collect()
        resident[part] = process.memory_info().rss
        heap[part] = loops.heap() or 0
        blocks[part] = sys.getallocatedblocks()

    for n in (WARM_UP, each):  # each twice: what reading itself allocates once is not counted
        for loop, arguments in todo:
            loop(min(n, WARM_UP), *arguments)
        read(0)
    for part in range(PARTS):
        for loop, arguments in todo:
            loop(each, *arguments)
        read(part + 1)

    def growth(readings: array) -> list[int]:
        return [readings[i + 1] - readings[i] for i in range(PARTS)]

    return {
        "exchanges": each * PARTS * len(todo),
        "resident": growth(resident),
        "heap": growth(heap) if loops.heap() is not None else None,
        "python blocks": growth(blocks),
    }
