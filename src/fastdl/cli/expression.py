"""MODULE:EXPRESSION, by which the command line names an array."""

import ast
import builtins
from importlib import import_module

import fastdl


def evaluate(text: str):
    """The value of `MODULE:EXPRESSION`, such as `torch:ones(3, 4).t()`.

    The expression is evaluated with the names of the module and `fastdl`; other names are those of
    modules, which are imported. ValueError without a colon; whatever an import or the expression
    raises is passed on.
    """
    name, colon, expression = (part.strip() for part in text.partition(":"))
    if not (name and colon and expression):
        raise ValueError(f"expected MODULE:EXPRESSION, as in 'numpy:ones(3)'; got {text!r}")
    names = {**vars(builtins), **vars(import_module(name)), "fastdl": fastdl}
    for node in ast.walk(ast.parse(expression, mode="eval")):
        if isinstance(node, ast.Name) and node.id not in names:
            names[node.id] = import_module(node.id)
    return eval(expression, names)
