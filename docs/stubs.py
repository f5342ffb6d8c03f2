# SPDX-License-Identifier: Apache-2.0
"""Gives stubs the docstrings of what they describe, which editors show from there.

The stubs in src have none: a build puts them into those of the wheel, from the Cython sources. See
BuildPy in setup.py.
"""

import ast
import re
from pathlib import Path

#: A class or a function, with its docstring.
DEFINED = re.compile(
    r'^( *)(cdef class|def) (\w+)(?:\((?:[^()]|\([^()]*\))*\))?:\n\s*"""(.*?)"""', re.M | re.S
)
#: The text of a function in C, which begins with its signature.
IN_C = re.compile(r'b"""(\w+)\([^\n]*\)\n--\n\n(.*?)"""', re.S)


def docstrings(source: str) -> dict[str, str]:
    """The docstrings in a Cython module, of methods as "Class.name"."""
    found, owner = {}, ""
    for indent, kind, name, text in DEFINED.findall(source):
        if kind != "def":
            owner = name
        found[f"{owner}.{name}" if indent else name] = text
    for name, text in IN_C.findall(source):
        found[name] = text.replace("\n", "\n    ").replace("\n    \n", "\n\n")
    return found


def with_docstrings(stub: Path) -> str:
    """The text of a stub with the docstrings of the module beside it; of overloads, the first."""
    text, texts = stub.read_text(), docstrings(stub.with_suffix(".pyx").read_text())
    lines, found = text.splitlines(), []
    for node in ast.parse(text).body:
        members = node.body if isinstance(node, ast.ClassDef) else ()
        for owner, each in (("", node), *((f"{node.name}.", member) for member in members)):
            if isinstance(each, (ast.ClassDef, ast.FunctionDef)):
                found.append((each, texts.pop(owner + each.name, None)))
    for node, doc in reversed(found):
        if doc is None:
            continue
        body, indent = node.body[0], " " * (node.col_offset + 4)
        if isinstance(node, ast.ClassDef):
            lines.insert(node.lineno, f'{indent}"""{doc}"""\n')
        else:
            header = lines[body.lineno - 1][: body.col_offset].rstrip()
            lines[body.lineno - 1] = f'{header}\n{indent}"""{doc}"""'
    return "\n".join(lines) + "\n"
