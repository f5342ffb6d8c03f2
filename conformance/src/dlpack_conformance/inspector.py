# SPDX-License-Identifier: Apache-2.0
"""Shows the contents of a DLPack capsule, and of an exchange table."""

import json
from typing import Any

from dlpack_conformance import structs

TENSORS = ("dltensor", "dltensor_versioned")
TABLES = ("__dlpack_c_exchange_api__", "__c_dlpack_exchange_api__")  # the name before 1.3
TABLE_NAME = "dlpack_exchange_api"


class Inspection(dict[str, Any]):
    """A dictionary that JSON can hold, and that prints as readable lines. What was not read has no
    key; None is NULL."""

    def __init__(self, title: str, found: dict[str, Any], lines: list[tuple[str, str]]) -> None:
        super().__init__(found)
        self.title: str = title
        self.lines: list[tuple[str, str]] = lines

    def __missing__(self, key: str) -> Any:
        raise KeyError(f"{key} was not read: {self}")

    def __str__(self) -> str:
        return "\n".join([self.title, *(f"  {name:<14}{text}" for name, text in self.lines)])

    __repr__ = __str__

    def json(self) -> str:
        return json.dumps(self, indent=1)


def inspect_capsule(capsule: Any) -> Inspection:
    """Describes a DLPack capsule without consuming it.

    It only reads the struct, and calls neither the deleter nor any function of the producer. The
    keys are the struct's names ("shape", "strides", "byte_offset", ...), "form" ("legacy" or
    "versioned"), "flag_names", "device_name", "dtype_name", "alignment" (of the first element), and
    whether there is a "deleter" and a "manager_ctx". None is NULL. What is not read has no key:
    shape and strides if ndim is invalid; all but the name of a consumed capsule, since the memory
    may have been freed; all but the name and the version of another major version, since its layout
    is not known.

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
            "expected a capsule named 'dltensor' or 'dltensor_versioned', not "
            f"{structs.shown_name(capsule)}: it does not hold a DLPack tensor"
        )
    address, versioned = structs.address_in(capsule), name == TENSORS[1]
    if versioned and structs.version_at(address).major != structs.MAJOR:
        version = str(structs.version_at(address))
        found = {"name": name, "form": "versioned", "version": version}
        return Inspection(f"capsule {name!r}", found, [("form", unknown(version))])
    managed = structs.managed_at(address, versioned)
    found = {"name": name, **structs.fields(managed)}
    return Inspection(f"capsule {name!r}", found, lines_of(found))


def unknown(version: str) -> str:
    return f"version {version}: its layout is not known"


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
        where = f"first element aligned to {count} byte{'s' * (count != 1)}"
        data = f"{found['data']:#x}, {where}"
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
        ("shape", in_brackets(found["shape"]) if "shape" in found else "not read"),
    ]
    if "strides" not in found:
        lines.append(("strides", "not read"))
    elif found["strides"] is None:
        lines.append(("strides", "NULL: row-major" if ndim else "NULL"))
    else:
        size = dtype["bits"] * dtype["lanes"] / 8
        in_bytes = [format(stride * size, ".15g") for stride in found["strides"]]
        lines.append(("strides", f"{in_brackets(found['strides'])} elements"))
        lines.append(("", f"{in_brackets(in_bytes)} bytes"))
    lines += [(name, "present" if found[name] else "NULL") for name in ("manager_ctx", "deleter")]
    return lines


def in_brackets(values: "list[Any] | None") -> str:
    if values is None:
        return "NULL"
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
    "version", "chain" (the versions of the older tables behind it), "chain_is_cut" (it is
    circular), and "functions": for each function of the table, whether it is there.
    "functions" is missing if the layout of the table's major version is not known.

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
    is_capsule = type(capsule).__name__ == "PyCapsule"
    if not is_capsule or structs.capsule_name(capsule) != TABLE_NAME:
        named = f"a capsule named {structs.shown_name(capsule)}" if is_capsule else ""
        raise ValueError(
            f"expected a capsule named {TABLE_NAME!r}, not {named or type(capsule).__name__}"
        )
    first = structs.address_in(capsule)
    tables = structs.tables_at(first)
    version, *chain = [str(structs.version_at(address)) for address in tables]
    is_cut = bool(structs.TableHeader.from_address(tables[-1]).prev_api)
    found = {"name": TABLE_NAME, "version": version, "chain": chain, "chain_is_cut": is_cut}
    cut = ["... (cut: circular)"] if is_cut else []
    lines = [
        ("version", f"DLPack {version}"),
        ("older tables", ", ".join([*chain, *cut]) or "none"),
    ]
    if structs.version_at(first).major == structs.MAJOR:
        table = structs.Table.from_address(first)
        functions = {slot: bool(getattr(table, slot)) for slot in structs.SLOTS}
        found["functions"] = functions
        lines += [(slot, "present" if there else "NULL") for slot, there in functions.items()]
    else:
        lines.append(("functions", unknown(version)))
    width = max(len(line[0]) for line in lines) + 2
    return Inspection(title, found, [(f"{line[0]:<{width}}", line[1]) for line in lines])
