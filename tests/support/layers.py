"""The layers of the package, as docs/architecture.md names them, and the ways up."""

from collections.abc import Iterator

from fastdl._policy import WAYS_UP

# From the bottom up. A file belongs to the first entry that its path begins with.
LAYERS = (
    (
        "the ABI and the public header",
        ("fastdl/dlpack.h", "fastdl/fastdl.", "__init__.pxd"),
    ),
    (
        "memory",
        ("_memory/",),
    ),
    ("the host core", ("_core/", "_library", "_native", "_version")),
    ("devices", ("_devices/",)),
    ("the protocol", ("_protocol/",)),
    ("bridges", ("_bridges/",)),
    ("conversions", ("_convert/",)),
    ("the package", ("_policy", "_build", "dask", "testing", "__init__.py")),
    ("the command line", ("__main__", "_cli/")),
)


def ways_up() -> Iterator[str]:
    """The table of docs/architecture.md."""
    yield "| from | to | what | why |"
    yield "|---|---|---|---|"
    for caller, callee, names, reason in WAYS_UP:
        called = ", ".join(f"`{name}`" for name in names.split())
        yield f"| `{caller}` | `{callee}` | {called} | {reason} |"
