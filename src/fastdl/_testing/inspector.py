"""Shows the contents of a DLPack capsule, and of an exchange table."""

import json
from typing import Any

from fastdl._testing import structs

TENSORS = ("dltensor", "dltensor_versioned")
TABLES = ("__dlpack_c_exchange_api__", "__c_dlpack_exchange_api__")  # the name before 1.3
MOST_TABLES = 16  # of a chain, which may be circular by mistake


class Inspection(dict[str, Any]):
    """A dictionary that JSON can hold, and that prints as readable lines."""

    def __init__(self, title: str, found: dict[str, Any], lines: list[tuple[str, str]]) -> None:
        super().__init__(found)
        self.title: str = title
        self.lines: list[tuple[str, str]] = lines

    def __str__(self) -> str:
        return "\n".join([self.title, *(f"  {name:<14}{text}" for name, text in self.lines)])

    __repr__ = __str__

    def json(self) -> str:
        return json.dumps(self, indent=1)


def inspect_capsule(capsule: Any) -> Inspection:
    """Describes a DLPack capsule without consuming it.

    It only reads the struct, and calls neither the deleter nor any function of the producer. For a
    consumed capsule it gives only the name, since the memory may have been freed. The keys are the
    struct's names ("shape", "strides", "byte_offset", ...), "form" ("legacy" or "versioned"),
    "flag_names", "device_name", "dtype_name", "alignment" (of the first element), and whether there
    is a "deleter" and a "manager_ctx". NULL strides are None.

    TypeError if the object is not a capsule. ValueError if it is another kind of capsule.
    """
    if type(capsule).__name__ != "PyCapsule":
        raise TypeError(
            f"expected a capsule, as __dlpack__() returns it, not {type(capsule).__name__}: "
            "for an array, call its __dlpack__ first"
        )
    name = structs.capsule_name(capsule)
    if name in [f"used_{tensor}" for tensor in TENSORS]:
        return Inspection(
            f"capsule {name!r}, consumed", {"name": name, "form": None}, [("form", "consumed")]
        )
    if name not in TENSORS:
        raise ValueError(
            f"expected a capsule named 'dltensor' or 'dltensor_versioned', not {name!r}: "
            "it does not hold a DLPack tensor"
        )
    managed = structs.managed_at(structs.address_in(capsule), name == TENSORS[1])
    found = {"name": name, **structs.fields(managed)}
    return Inspection(f"capsule {name!r}", found, lines_of(found))


def lines_of(found: dict[str, Any]) -> list[tuple[str, str]]:
    """The fields of a managed tensor as readable lines: (name, text)."""
    dtype, device, ndim = found["dtype"], found["device"], found["ndim"]
    form = "legacy, without version and flags"
    if found["form"] == "versioned":
        names = " | ".join(found["flag_names"]) or "none"
        form = f"version {found['version']}, flags {found['flags']:#x} ({names})"
    data = "NULL"
    if found["data"]:
        count = found["alignment"]
        data = f"{found['data']:#x}, aligned to {count} byte{'s' * (count != 1)}"
    absent = "NULL" if 0 <= ndim <= structs.MOST_DIMS else "not read"
    lines = [
        ("form", form),
        ("data", data),
        ("byte_offset", str(found["byte_offset"])),
        ("device", f"type {device[0]}, id {device[1]}: {found['device_name']}"),
        (
            "dtype",
            f"code {dtype['code']}, bits {dtype['bits']}, lanes {dtype['lanes']}: "
            f"{found['dtype_name']}",
        ),
        ("ndim", str(ndim)),
        ("shape", in_brackets(found["shape"], absent)),
    ]
    if found["strides"] is None:
        lines.append(("strides", "NULL: row-major" if ndim and absent == "NULL" else absent))
    else:
        size = dtype["bits"] * dtype["lanes"] / 8
        in_bytes = [format(stride * size, ".15g") for stride in found["strides"]]
        lines.append(("strides", f"{in_brackets(found['strides'])} elements"))
        lines.append(("", f"{in_brackets(in_bytes)} bytes"))
    lines.append(("deleter", "present" if found["deleter"] else "NULL"))
    return lines


def in_brackets(values: "list[Any] | None", otherwise: str = "NULL") -> str:
    if values is None:
        return otherwise
    return f"({', '.join(map(str, values))}{',' if len(values) == 1 else ''})"


def table_capsule(kind: type) -> Any:
    """The attribute of a type that holds its exchange table, as it is; None if there is none."""
    for name in TABLES:
        for base in kind.__mro__:
            if name in vars(base):
                return vars(base)[name]
    return None


def inspect_exchange_api(of: Any) -> Inspection:
    """Describes the exchange table of a type, of an object's type, or in a capsule.

    It reads the struct and calls none of its functions. The keys are "name" (of the capsule),
    "version", "chain" (the versions of the older tables behind it), and "functions": for each
    function of the table, whether it is there.

    TypeError if there is no table. ValueError if the attribute is not the capsule of a table: the
    older form, an integer, is not dereferenced.
    """
    capsule, title = of, "exchange table"
    if type(of).__name__ != "PyCapsule":
        kind = of if isinstance(of, type) else type(of)
        capsule = table_capsule(kind)
        title = f"exchange table of {kind.__module__}.{kind.__qualname__}"
        if capsule is None:
            raise TypeError(
                f"{kind.__module__}.{kind.__qualname__} has no exchange table: "
                "no attribute __dlpack_c_exchange_api__ on the type"
            )
    name = structs.capsule_name(capsule) if type(capsule).__name__ == "PyCapsule" else None
    if name != "dlpack_exchange_api":
        what = f"a capsule named {name!r}" if name is not None else type(capsule).__name__
        raise ValueError(f"expected a capsule named 'dlpack_exchange_api', not {what}")
    address: int | None = structs.address_in(capsule)
    versions: list[str] = []
    functions: dict[str, bool] = {}
    while address and len(versions) < MOST_TABLES:
        table = structs.Table.from_address(address)
        if not versions:
            functions = {slot: bool(getattr(table, slot)) for slot in structs.SLOTS}
        versions.append(f"{table.version.major}.{table.version.minor}")
        address = table.prev_api
    found = {
        "name": name,
        "version": versions[0],
        "chain": versions[1:],
        "functions": functions,
    }
    lines = [
        ("version", f"DLPack {versions[0]}"),
        ("before it", ", ".join(versions[1:]) or "no older table"),
        *((slot, "present" if there else "NULL") for slot, there in functions.items()),
    ]
    width = max(len(line[0]) for line in lines) + 2
    return Inspection(title, found, [(f"{line[0]:<{width}}", line[1]) for line in lines])
