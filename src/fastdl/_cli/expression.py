# SPDX-License-Identifier: Apache-2.0
"""MODULE:EXPRESSION, by which the command line names an array."""

import builtins
from difflib import get_close_matches
from importlib import import_module
from types import ModuleType
from typing import Any


def evaluate(text: str) -> Any:
    """The value of `MODULE:EXPRESSION`, such as `torch:ones(3, 4).t()`.

    A name is an attribute of the module, else a builtin, else a submodule of the module, else
    another module: both are imported. ValueError without a colon, AttributeError for a name that is
    none of these; whatever else an import or the expression raises is passed on.
    """
    name, colon, expression = (part.strip() for part in text.partition(":"))
    if not (name and colon and expression):
        raise ValueError(f"expected MODULE:EXPRESSION, as in 'numpy:ones(3)'; got {text!r}")
    return eval(expression, Names(name))


class Names(dict[str, Any]):
    """The global names of an expression, each looked up when the expression first needs it: Python
    itself knows which names the expression binds."""

    def __init__(self, module: str) -> None:
        super().__init__(__builtins__=builtins)
        self.name, self.module = module, import_module(module)

    def __missing__(self, name: str) -> Any:
        try:
            value = getattr(self.module, name)
        except AttributeError as error:
            if hasattr(builtins, name):
                raise KeyError(name) from None  # Python goes on with its builtins
            value = imported(f"{self.name}.{name}") or imported(name)
            if value is None:
                raise AttributeError(self.explained(name, str(error))) from None
        self[name] = value
        return value

    def explained(self, name: str, message: str) -> str:
        """The module's message for a name that it does not have, with a suggestion."""
        similar = get_close_matches(name, dir(self.module), n=1)
        plain = f"module {self.module.__name__!r} has no attribute {name!r}"
        return (
            f"{plain}. Did you mean: {similar[0]!r}?" if similar and message == plain else message
        )


def imported(name: str) -> ModuleType | None:
    """A module; None if there is none of that name."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise  # a module that it needs
        return None
