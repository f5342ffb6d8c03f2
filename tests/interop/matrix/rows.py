# SPDX-License-Identifier: Apache-2.0
"""The cells of one library: python -m tests.interop.matrix.rows ROW FILE

One line of JSON is appended to the file before each cell, and one after it. A cell that has a
result is not measured again, so that whoever started this process can go on after its death.
"""

import gc
import importlib
import json
import os
import pkgutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import fastdl

from ..arrays import sample
from ..cases.common import nested
from ..peers import BY_NAME, Peer
from . import particular, sources
from .cells import Cell
from .measure import exported, imported

Measurement = tuple[str, Callable[[], Cell | None]]


def cells(peer: Peer) -> Iterator[Measurement]:
    """The names of cells and what measures them, in the order in which they are measured."""
    give = peer.give
    for direction, way in (("import", give), ("from", by_convert)):
        if peer.make and way:
            for case, build, values, dtype in arrays_of(peer):
                yield (
                    f"{direction}/{case}",
                    lambda w=way, b=build, v=values, d=dtype: imported(peer, w, b, v, d),
                )
    for direction, door in (("export", peer.take), ("to", peer.like and to_like(peer))):
        if door:
            for case, build in {
                **sources.element_types(),
                **sources.layouts(peer.max_ndim),
            }.items():
                yield f"{direction}/{case}", lambda d=door, b=build: exported(peer, d, b)


def arrays_of(peer: Peer) -> Iterator[tuple[str, Callable, object, str]]:
    """(case, what makes the array, its values, its dtype) of a library's own arrays."""
    for name in sources.DTYPES:
        yield name, lambda n=name: peer.make(sample(n), n), sample(name), name
    views = peer.views()
    for layout, build in sources.layouts(peer.max_ndim).items():
        values = nested(build())
        if layout in ("compact", "one", "scalar", "empty"):
            yield layout, lambda v=values: peer.make(v, "float32"), values, "float32"
        elif layout in views:
            base = nested(sources.plane())
            view = views[layout]
            yield layout, lambda v=view, b=base: v(peer.make(b, "float32")), values, "float32"
        elif peer.wrap is not None:
            yield layout, lambda b=build: peer.wrap(b()), values, "float32"


def by_convert(array):
    return fastdl.from_dlpack(fastdl.convert(array, np.ndarray))


def to_like(peer: Peer, dtype: str = "") -> Callable:
    """What converts to the type of a peer; `dtype` if the argument has none that is a name."""
    return lambda array: fastdl.convert(array, like_of(peer, dtype or array.dtype.name))


def like_of(peer: Peer, dtype: str) -> Any:
    """What fastdl.convert is told."""
    return peer.like(dtype) if callable(peer.like) else pkgutil.resolve_name(peer.like)


def measure(measurements: Iterator[Measurement], log: Path) -> None:
    """Measures what the log has no result for."""
    done = results(log)
    with log.open("a") as file:
        for name, function in measurements:
            if name in done:
                continue
            print(json.dumps([name]), file=file, flush=True)
            cell = function()
            print(json.dumps([name, None if cell is None else str(cell)]), file=file, flush=True)


def results(log: Path) -> dict[str, str | None]:
    lines = map(json.loads, log.read_text().splitlines()) if log.exists() else ()
    return {line[0]: line[1] for line in lines if len(line) == 2}


def begun(log: Path) -> str | None:
    """The cell in which a process ended, if it did not end by itself."""
    lines = log.read_text().splitlines()
    last = json.loads(lines[-1]) if lines else [None, None]
    return last[0] if len(last) == 1 else None


def version(peer: Peer) -> str:
    from importlib.metadata import version

    if peer.distribution == "-":
        return ".".join(map(str, sys.version_info[:3]))
    return version(peer.distribution or peer.module)


def version_of(row: str) -> str:
    """The release that a row's results are of; "" for a row that is not of a library."""
    return particular.ROWS[row].version() if row in particular.ROWS else version(BY_NAME[row])


def load(peer: Peer) -> None:
    importlib.import_module(peer.module)
    if peer.prepare:
        peer.prepare()


def measurements_of(row: str) -> Iterator[Measurement]:
    if row == "grid":
        from . import grid

        grid.load_all()
        return grid.cells()
    if row in particular.ROWS:
        return particular.ROWS[row].cells()
    peer = BY_NAME[row]
    load(peer)
    return iter([("version", lambda: version(peer)), *cells(peer)])


def main(row: str, log: str) -> None:
    measurements = measurements_of(row)
    gc.collect()
    gc.freeze()  # the libraries themselves, so that the many collections to come are quick
    measure(measurements, Path(log))


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)  # some libraries do not survive their own clean-up beside others
