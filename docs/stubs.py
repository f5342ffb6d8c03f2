"""Copies the docstrings of compiled code into its stubs, where editors look for them.

python docs/stubs.py            # rewrites the stubs; then run ruff format
python docs/stubs.py --check    # changes nothing; names what is stale, and fails
"""

import ast
import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"

#: Compiled modules, and what of them is public.
PUBLIC = {"fastdl._core.tensor": ("Tensor", "empty")}


def is_public(name: str, member) -> bool:
    """Whether the docstring of `member` is part of the manual: those of slots are CPython's."""
    return not name.startswith("_") or ">>>" in (inspect.getdoc(member) or "")


def definitions(tree: ast.Module, module) -> Iterator[tuple[str, ast.FunctionDef, str]]:
    """(name, definition, docstring) of each public function in the stub of a module."""
    for node in tree.body:
        if getattr(node, "name", None) not in PUBLIC[module.__name__]:
            continue
        of = getattr(module, node.name)
        members = node.body if isinstance(node, ast.ClassDef) else [node]
        for member in (m for m in members if isinstance(m, ast.FunctionDef)):
            found = of if member is node else getattr(of, member.name, None)
            if found is not None and is_public(member.name, found):
                name = member.name if member is node else f"{node.name}.{member.name}"
                yield name, member, inspect.getdoc(found) or ""


def with_docstring(lines: list[str], node: ast.FunctionDef, text: str) -> list[str]:
    """The lines of a definition in a stub, with `text` as its body."""
    body = node.body[0]
    head = lines[node.lineno - 1 : body.lineno]
    head[-1] = head[-1][: body.col_offset].rstrip()
    indent = " " * (node.col_offset + 4)
    quotes = 'r"""' if "\\" in text else '"""'
    written = f'{quotes}{text}\n"""' if "\n" in text else f'{quotes}{text}"""'
    return [
        *filter(None, head),
        *(f"{indent}{line}" if line else "" for line in written.split("\n")),
    ]


def main() -> int:
    stale = []
    for name in PUBLIC:
        path = (SOURCE / name.replace(".", "/")).with_suffix(".pyi")
        lines = path.read_text().split("\n")
        found = list(definitions(ast.parse("\n".join(lines)), importlib.import_module(name)))
        for function, node, text in reversed(found):
            if ast.get_docstring(node) != text:
                stale.append(function)
                lines[node.lineno - 1 : node.end_lineno] = with_docstring(lines, node, text)
        if "--check" not in sys.argv:
            path.write_text("\n".join(lines))
    if "--check" not in sys.argv:
        return 0
    if stale:
        print(f"stale in the stubs: {', '.join(stale)}: run python docs/stubs.py")
    return bool(stale)


if __name__ == "__main__":
    sys.exit(main())
