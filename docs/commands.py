# SPDX-License-Identifier: Apache-2.0
"""Tables of the command line, from what its own --help is made of: see docs/quote.py.

Not the text of --help, which differs from one Python to the next.
"""

import argparse
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from fastdl import __main__ as command_line
from fastdl import _cli

#: NAME.txt is what a command printed: tests/cli/test_inspect.py runs it again.
SAMPLES = Path(__file__).parent / "examples" / "commands"


def as_markdown() -> Iterator[str]:
    yield from ("| option | prints |", "|---|---|")
    for option, (_, text) in command_line.FACTS.items():
        yield f"| `{option}` | {text} |"
    yield f"| `--vendor FOLDER` | {command_line.VENDOR} |"
    for name, text in _cli.COMMANDS.items():
        yield from ("", f"### `{name}`", "", f"{text[0].upper()}{text[1:]}.", "")
        yield f"    python -m fastdl {' '.join([name, *map(usage, actions(name))])}"
        yield from ("", *arguments(name))
        if (SAMPLES / f"{name}.txt").is_file():
            yield from ("", f"[What it prints](examples/commands/{name}.txt)")


def actions(name: str) -> list[argparse.Action]:
    parser = argparse.ArgumentParser(add_help=False)
    import_module(f"fastdl._cli.{name}").add_arguments(parser)
    return parser._actions


def arguments(name: str) -> Iterator[str]:
    """A line for each argument, except those that an earlier command has as well."""
    commands = list(_cli.COMMANDS)
    earlier = {meaning(a) for other in commands[: commands.index(name)] for a in actions(other)}
    for action in actions(name):
        if (line := meaning(action)) not in earlier:
            yield line


def meaning(action: argparse.Action) -> str:
    names = ", ".join(f"`{shown}`" for shown in action.option_strings) or f"`{value(action)}`"
    return f"- {names}: {(action.help or '') % vars(action)}"


def usage(action: argparse.Action) -> str:
    if not action.option_strings:
        repeated = f"{value(action)} ..." if action.nargs in ("*", "+") else value(action)
        return f"[{repeated}]" if action.nargs in ("?", "*") else repeated
    words = [action.option_strings[-1], *([] if action.nargs == 0 else [value(action)])]
    return f"[{' '.join(words)}]"


def value(action: argparse.Action) -> str:
    """The word that stands for what a user writes."""
    if action.choices is not None and action.metavar is None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    name = action.metavar or (action.dest.upper() if action.option_strings else action.dest)
    return name if isinstance(name, str) else " ".join(name)
