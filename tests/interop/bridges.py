# SPDX-License-Identifier: Apache-2.0
"""What fastdl.convert knows of each library, for people: see docs/quote.py."""

from collections.abc import Iterator

from fastdl._bridges import lookup
from fastdl._bridges.bridge import ANYWHERE, COMPACT, COPIED, DENSE, IMMUTABLE, POSITIVE, Bridge
from fastdl._core.foreign import release

STRIDES = {
    POSITIVE: "negative strides",
    DENSE: "not contiguous in any order",
    COMPACT: "all but row-major",
}
READ_ONLY = {COPIED: "read-only", IMMUTABLE: "read-only unless immutable"}
#: Element types that have a word in the table.
STANDARD = "bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64))
GROUPS = {
    "standard": {*STANDARD, "float16", "float32", "float64"},
    "complex": {"complex64", "complex128"},
    "float8": {
        *("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz"),
        *("float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
    },
}


def bridges() -> list[Bridge]:
    """All bridges, in the order of their names."""
    found = {b.name: b for package in lookup.LIBRARIES for b in lookup.load(package).BRIDGES}
    return [found[name] for name in sorted(found, key=str.lower)]


def copied(bridge: Bridge) -> str:
    """Which data convert copies for a library."""
    if bridge.copies is True:
        return "all"
    kinds = [STRIDES.get(bridge.strides), READ_ONLY.get(bridge.readonly)]
    if bridge.alignment > 1:
        kinds.append(f"not aligned to {bridge.alignment} bytes")
    if bridge.copies:
        kinds.append(bridge.copies.__doc__)
    return "; ".join(kind for kind in kinds if kind) or "none"


def limits(bridge: Bridge) -> str:
    """What convert refuses to make."""
    words = [] if bridge.devices == ANYWHERE else [bridge.devices]
    least, most = bridge.ndims
    if (least, most) != (0, 64):
        words.append(f"{least}-D" if least == most else f"{least}- to {most}-D")
    if bridge.dtypes is not None:
        words.append(", ".join(types(set(bridge.dtypes))))
    return "; ".join(words)


def types(names: set[str]) -> Iterator[str]:
    """Groups that are held as a whole, the standard types that are not, and single types."""
    single = names - GROUPS["standard"]
    missing = GROUPS["standard"] - names
    lacks = ", ".join(f"`{name}`" for name in sorted(missing, key=by_kind))
    yield f"standard (no {lacks})" if lacks else "standard"
    for group in ("complex", "float8"):
        if GROUPS[group] <= names:
            single -= GROUPS[group]
            yield group
    yield from (f"`{name}`" for name in sorted(single, key=by_kind))


def by_kind(name: str) -> tuple[str, int]:
    kind = name.rstrip("0123456789")
    return kind, int(name[len(kind) :] or 0)


def as_markdown() -> Iterator[str]:
    """The table of docs/interop.md."""
    yield from ("| type | copied | only |", "|---|---|---|")
    for bridge in bridges():
        newest = bridge.of("")
        since = f" {bridge.since}" if bridge.since else ""
        yield f"| `{bridge.name}`{since} | {copied(newest)} | {limits(newest)} |"
        for version in bridge.before:
            older = bridge.of(before(version))
            same = "the same" if limits(older) == limits(newest) else limits(older)
            yield f"| before {version} | {copied(older)} | {same} |"


def before(version: str) -> str:
    """The last version before another one, as far as Bridge.of looks."""
    *first, last = release(version)
    return ".".join(map(str, (*first, last - 1, 999)))
