# SPDX-License-Identifier: Apache-2.0
"""Defects of other libraries, and what fastdl does about each: for doctor and docs/upstream.md.

They are in the file of each library in _bridges/, or here. A program in docs/examples/defects/
shows each of them; a test runs it.
"""

from types import SimpleNamespace
from typing import Any

from fastdl._bridges import lookup
from fastdl._core.foreign import release

# Libraries without a bridge: fastdl makes none of their objects.
OTHERS = {
    "mpi4py": SimpleNamespace(
        RELEASE="mpi4py==4.1.2",
        DEFECTS={
            "A Fortran-ordered array is sent in memory order": "So is a `fastdl.Tensor`: send its "
            "`copy()`.",
        },
    ),
    "nanoarrow": SimpleNamespace(
        RELEASE="nanoarrow==0.9.0",
        DEFECTS={
            "A producer's capsule is not renamed, so it can be consumed twice": "A "
            "producer must return a new capsule each time, as fastdl's tensors do.",
            "Lanes are ignored, so half of the values are read": "nanoarrow reads a "
            "`fastdl.Tensor` as a buffer or as Arrow, and both refuse lanes.",
        },
    ),
    "decord": SimpleNamespace(
        RELEASE="decord==0.6.0",
        DEFECTS={
            "Strides are ignored, so other values are read": "Pass the result of `copy()`, "
            "which is row-major.",
        },
    ),
    "kornia_rs": SimpleNamespace(
        RELEASE="kornia-rs==0.2.0",
        DEFECTS={
            "A request for a copy raises NotImplementedError": "`from_dlpack(x, copy=True)` makes "
            "the copy itself.",
        },
    ),
    "av": SimpleNamespace(
        RELEASE="av==18.1.0",
        DEFECTS={
            "The last row and column of chroma are lost at odd sizes": "fastdl cannot detect this. "
            "`asarray(memoryview(plane))` has all bytes, with the padding of each row.",
            "max_version, dl_device and copy raise TypeError": "`from_dlpack` calls again without "
            "these keywords, and makes copies itself.",
            "A capsule without a deleter ends the process": "DLPack allows a NULL deleter. fastdl "
            "always sets one.",
        },
    ),
}


def files() -> dict[str, Any]:
    """By library, as imported: what has its defects, and the release in which they were seen."""
    known = {name: lookup.load(name) for name in lookup.LIBRARIES.values()} | OTHERS
    return {name: file for name, file in known.items() if hasattr(file, "DEFECTS")}


def seen(file: Any) -> str:
    return file.RELEASE.partition("==")[2]


def of(library: str, version: str) -> list[dict[str, Any]]:
    """The defects of a library in a version. `certain` says whether it was seen in that very
    one: an older or newer one may not have it."""
    file = files().get(library)
    rows = file.DEFECTS.items() if file else ()
    return too_old(library, version) + [
        {
            "title": title,
            "seen": seen(file),
            "certain": release(version) == release(seen(file)),
            "remedy": remedy,
        }
        for title, remedy in rows
        if not is_fixed(file, title, version)
    ]


def is_fixed(file: Any, title: str, version: str) -> bool:
    first = getattr(file, "FIXED", {}).get(title)
    return first is not None and release(version) >= release(first)


def too_old(library: str, version: str) -> list[dict[str, Any]]:
    """The row on a version of which convert makes no objects."""
    bridges, own = lookup.bridges_of(library), release(version)
    since = {bridge.since for bridge in bridges if () < own < release(bridge.since)}
    return [
        {
            "title": f"`convert` makes its objects from version {first} on",
            "seen": version,
            "certain": True,
            "remedy": "Upgrade it. Reading its objects works anyway.",
        }
        for first in since
    ]
