"""Gives the stubs the docstrings of what they describe, which editors show from there.

python docs/stubs.py            rewrites src/fastdl/**/*.pyi
python docs/stubs.py --check    changes nothing; fails if a stub is stale
"""

import ast
import inspect
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import WrapperDescriptorType

import fastdl

SOURCE = Path(__file__).resolve().parents[1] / "src"

#: Of a class, besides its public members.
SPECIAL = {
    "__array_interface__", "__arrow_c_array__", "__bytes__", "__cuda_array_interface__",
    "__dlpack__", "__dlpack_data_type__", "__dlpack_device__", "__dlpack_info__", "__getitem__",
    "__numpy_dtype__",
}  # fmt: skip


def public(stub: Path) -> Iterator[tuple[ast.ClassDef | ast.FunctionDef, object]]:
    """The public classes and functions that a stub describes, of overloads the first."""
    module, seen = ".".join(stub.relative_to(SOURCE).with_suffix("").parts), set()
    for node in ast.parse(stub.read_text()).body:
        if not isinstance(node, (ast.ClassDef, ast.FunctionDef)) or node.name in seen:
            continue
        thing = getattr(fastdl, node.name, None)
        if thing is not None and thing is getattr(import_module(module), node.name, None):
            seen.add(node.name)
            yield node, thing


def docstring(holder: object, name: str) -> str | None:
    """Of a member, if it has one that is about it."""
    member = inspect.getattr_static(holder, name, None)
    if name != "__getitem__" and isinstance(member, WrapperDescriptorType):
        return None
    return inspect.getdoc(member) if member is not None else None


def wanted(stub: Path) -> dict[int, str]:
    """The docstrings of the functions and classes of a stub, by the number of their line."""
    result: dict[int, str] = {}
    for node, thing in public(stub):
        seen = set()
        result[node.lineno] = inspect.getdoc(thing) or ""
        for member in node.body if isinstance(node, ast.ClassDef) else ():
            if not isinstance(member, ast.FunctionDef) or member.name in seen:
                continue
            if member.name.startswith("_") and member.name not in SPECIAL:
                continue
            text = docstring(thing, member.name)
            if text:
                seen.add(member.name)
                result[member.lineno] = text
    return result


def quoted(text: str, indent: str) -> list[str]:
    """A docstring as lines of a stub."""
    text = text.replace("\\", "\\\\")
    lines = [f'{indent}"""{text}'.rstrip()] if "\n" not in text else None
    if lines is not None:
        return [lines[0] + '"""']
    first, *rest = text.split("\n")
    return [f'{indent}"""{first}', *(f"{indent}{line}".rstrip() for line in rest), f'{indent}"""']


def written(stub: Path) -> str:
    """The text of a stub with its docstrings."""
    source = stub.read_text()
    lines, texts = source.splitlines(), wanted(stub)
    nodes = [node for node in ast.walk(ast.parse(source)) if getattr(node, "lineno", 0) in texts]
    nodes = [node for node in nodes if isinstance(node, (ast.ClassDef, ast.FunctionDef))]
    for node in sorted(nodes, key=lambda node: node.lineno, reverse=True):
        body, indent = node.body[0], " " * (node.col_offset + 4)
        doc = quoted(texts[node.lineno], indent)
        old = isinstance(body, ast.Expr) and isinstance(getattr(body.value, "value", None), str)
        if old:
            lines[body.lineno - 1 : body.end_lineno] = doc
        elif isinstance(node, ast.ClassDef):
            lines[node.lineno : node.lineno] = [*doc, ""]
        else:
            header = lines[body.lineno - 1][: body.col_offset].rstrip()
            lines[body.lineno - 1 : body.end_lineno] = [header, *doc]
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    stale = []
    for stub in sorted(SOURCE.rglob("*.pyi")):
        text = written(stub)
        if text != stub.read_text():
            stale.append(stub)
            if "--check" not in arguments:
                stub.write_text(text)
    if stale and "--check" in arguments:
        print("stale:", *(path.name for path in stale), "- run: python docs/stubs.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
