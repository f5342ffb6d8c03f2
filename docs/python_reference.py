# SPDX-License-Identifier: Apache-2.0
"""The reference of the Python package, from its sources: see docs/quote.py."""

import ast
import inspect
import itertools
import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path

import fastdl
from docs.stubs import with_docstrings

SOURCE = Path(__file__).resolve().parents[1] / "src" / "fastdl"

FUNCTIONS = (
    *("from_dlpack", "asarray", "from_pointer", "from_managed", "to_managed", "empty"),
    *("convert", "convert_tree"),
    *("encode", "decode"),
    "producer",
    *("exchange_api", "register_exchange_api"),
    "get_include",
    "get_sources",
)
CLASSES = ("Tensor", "DType", "Device", "DeviceType", "use_stream", "CopyRequiredError")
CONSTANTS = ("dlpack_version", "__version__")  # the page describes them itself

Function = ast.FunctionDef
Definition = ast.ClassDef | ast.FunctionDef


def definitions() -> dict[str, Definition]:
    """What the stubs define, or else the modules, of overloads the first."""
    found: dict[str, Definition] = {}
    for path in (*sorted(SOURCE.rglob("*.pyx")), *sorted(SOURCE.rglob("*.py"))):
        text = path.read_text()
        if path.suffix == ".pyx":
            text = with_docstrings(path.with_suffix(".pyi"))
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        module = ".".join(parts).removesuffix(".__init__")
        for node in ast.parse(text).body:
            if isinstance(node, Definition) and is_public(module, node.name) and docstring(node):
                found.setdefault(node.name, node)
    return found


def is_public(module: str, name: str) -> bool:
    """Whether a name of a module is what the package has under it."""
    if name not in fastdl.__all__:
        return False
    return getattr(import_module(module), name, None) is getattr(fastdl, name)


def as_markdown() -> Iterator[str]:
    known = definitions()
    yield "### Functions"
    for name in FUNCTIONS:
        yield from entry(name, known[name], docstring(known[name]))
    for name in CLASSES:
        node = known[name]
        yield from ("", f"### `{name}`")
        if shown := [*makers(node), *members_of_enum(node)]:
            yield from ("", "```python", *shown, "```")
        yield from prose(docstring(node), ("device", "stream"))
        seen = set()
        for member, text in members(node):
            if text and member.name not in seen:
                seen.add(member.name)
                yield from entry(f"{name}.{member.name}", member, text)


def entry(name: str, node: Function, text: str) -> Iterator[str]:
    yield from ("", f"#### `{name}`", "", "```python", signature(node), "```")
    yield from prose(text, [a.arg for a in arguments(node)])


def docstring(node: Definition) -> str:
    return inspect.cleandoc(ast.get_docstring(node) or "")


def members(node: ast.ClassDef) -> Iterator[tuple[Function, str]]:
    """The methods and properties of a class. Type checkers see properties in place of slots, whose
    docstrings are in `__slots__`."""
    slots = vars(getattr(fastdl, node.name)).get("__slots__") or {}
    for line in node.body:
        for member in line.body if isinstance(line, ast.If) else (line,):
            if isinstance(member, Function):
                yield member, docstring(member) or slots.get(member.name, "")


def makers(node: ast.ClassDef) -> Iterator[str]:
    """The calls of a class, if it says how it is called."""
    lines = (line.body if isinstance(line, ast.If) else [line] for line in node.body)
    makers = [
        member
        for member in itertools.chain.from_iterable(lines)
        if isinstance(member, Function) and member.name in ("__init__", "__new__")
    ]
    for maker in [m for m in makers if m.decorator_list] or makers:  # overloads have the types
        yield f"def {node.name}({', '.join(given(maker))}) -> {node.name}: ..."


def members_of_enum(node: ast.ClassDef) -> list[str]:
    values = [line for line in node.body if isinstance(line, ast.Assign)]
    return [ast.unparse(line) for line in values if isinstance(line.value, ast.Constant)]


# ---- signatures -----------------------------------------------------------------------------


def arguments(node: Function) -> list[ast.arg]:
    own = node.args
    return [*own.posonlyargs, *own.args, *own.kwonlyargs]


def signature(node: Function) -> str:
    """As in the stubs, with public names of the types."""
    if any(isinstance(word, ast.Name) and word.id == "property" for word in node.decorator_list):
        return f"{node.name}: {returned(node)}"
    result = "" if returned(node) == "T" else f" -> {returned(node)}"  # any type
    parts = given(node)
    line = f"def {node.name}({', '.join(parts)}){result}: ..."
    if len(line) <= 79:
        return line
    return "\n    ".join((f"def {node.name}(", *(f"{p}," for p in parts))) + f"\n){result}: ..."


def given(node: Function) -> list[str]:
    """The parameters, without `self` or `cls` and a slash after it."""
    for argument in (*arguments(node), node.args.vararg):
        if argument is not None and argument.annotation is not None:
            text = type_name(argument.annotation)
            # A type that depends on the overload is left out.
            argument.annotation = None if re.search(r"\bT\b", text) else ast.Name(text)
    parts = re.split(r", (?![^\[(]*[\])])", ast.unparse(node.args).replace("'", '"'))
    if parts[0] in ("self", "cls"):
        parts = parts[2:] if parts[1:2] == ["/"] else parts[1:]
    return [re.sub(r"^(\w+: .*[^=])=(?!=)", r"\1 = ", part) for part in parts if part]


def returned(node: Function) -> str:
    return type_name(node.returns) if node.returns else "None"


#: Of stubs, and what the reference has in their place.
TYPES = {
    r"npt?\.(?:NDArray|ndarray)\[.*\]": "numpy.ndarray",
    r"np\.dtype\[Any\]": "numpy.dtype",
    r"\bSupportsIndex\b": "int",
    r"\b_Device\b": "DeviceLike | None",
    r"\b_Copy\b": "bool | None",
    r"\b_Class\b": "type",
    r"\b_Ints\b": "int | Sequence[int]",
    r"\b_(?=[A-Z])": "",
}


def type_name(annotation: ast.expr) -> str:
    quoted = isinstance(annotation, ast.Constant) and isinstance(annotation.value, str)
    text = annotation.value if quoted else ast.unparse(annotation)
    for pattern, name in TYPES.items():
        text = re.sub(pattern, name, text)
    return text.replace("'", '"')


# ---- docstrings as Markdown -----------------------------------------------------------------

ITEM = re.compile(r"- |\d\. ")
NAMES = re.compile(r"\bfastdl\.[A-Za-z]\w*|\b[A-Z]\w*Error\b|\b(?:True|False|None)\b")
PAGE = re.compile(r"\bdocs/([\w-]+)\.md\b")


def prose(text: str, names: Iterable[str]) -> Iterator[str]:
    """A docstring as Markdown: descriptions of arguments are a list, examples are code."""
    for paragraph in re.split(r"\n\s*\n", text):
        lines = paragraph.splitlines()
        if not lines:
            continue
        yield ""
        if lines[0].startswith(">>> "):
            yield from ("```python", *lines, "```")
        else:
            yield from (as_code(row) for row in as_items(lines, names))


def as_items(lines: list[str], names: Iterable[str]) -> Iterator[str]:
    """Lines, of which those that begin with the name of an argument are items of a list."""
    indent = ""
    for row in lines:
        name, colon, rest = row.partition(": ")
        if colon and name in names:
            indent = "  "
            yield f"- `{name}`: {rest}"
        elif item := ITEM.match(row):
            indent = " " * len(item[0])
            yield row
        else:
            yield indent + row.strip()


def as_code(text: str) -> str:
    """Sets names as code, where they are not, and makes pages links."""
    parts = text.split("`")
    parts[::2] = [PAGE.sub(r"[\1](\1.md)", NAMES.sub(r"`\g<0>`", part)) for part in parts[::2]]
    return "`".join(parts)
