"""What fastdl.convert knows of each library, for people: see docs/quote.py."""

from collections.abc import Iterator

from fastdl._bridges import lookup
from fastdl._bridges.bridge import ANYWHERE, COMPACT, COPIED, DENSE, IMMUTABLE, POSITIVE, Bridge
from fastdl._core.foreign import release

STRIDES = {POSITIVE: "negative strides", DENSE: "gaps", COMPACT: "all but row-major"}
READ_ONLY = {COPIED: "read-only", IMMUTABLE: "read-only, unless it never changes"}


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
    words = [] if bridge.devices == ANYWHERE else [f"{bridge.devices} memory"]
    least, most = bridge.ndims
    if (least, most) != (0, 64):
        words.append(f"{least} dimension" if least == most else f"{least} to {most} dimensions")
    if bridge.dtypes is not None:
        words.append(", ".join(f"`{name}`" for name in sorted(bridge.dtypes, key=by_kind)))
    return "; ".join(words)


def by_kind(name: str) -> tuple[str, int]:
    kind = name.rstrip("0123456789")
    return kind, int(name[len(kind) :] or 0)


def as_markdown() -> Iterator[str]:
    """The table of docs/hazards.md."""
    yield from ("| type | since | copied | only |", "|---|---|---|---|")
    for bridge in bridges():
        newest = bridge.of("")
        yield f"| `{bridge.name}` | {bridge.since} | {copied(newest)} | {limits(newest)} |"
        for version in bridge.before:
            older = bridge.of(before(version))
            yield f"| before {version} | | {copied(older)} | {limits(older)} |"


def before(version: str) -> str:
    """The last version before another one, as far as Bridge.of looks."""
    *first, last = release(version)
    return ".".join(map(str, (*first, last - 1, 999)))
