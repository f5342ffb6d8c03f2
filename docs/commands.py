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
        yield from ("", f"## `{name}`", "", f"{text[0].upper()}{text[1:]}.", "")
        yield from arguments(name)
        sample = SAMPLES / f"{name}.txt"
        if sample.is_file():
            yield from ("", "For example:", "", "```text")
            yield from sample.read_text("utf-8").splitlines()
            yield "```"


def arguments(name: str) -> Iterator[str]:
    parser = argparse.ArgumentParser(add_help=False)
    import_module(f"fastdl._cli.{name}").add_arguments(parser)
    yield f"    python -m fastdl {' '.join([name, *map(usage, parser._actions)])}"
    if parser._actions:
        yield from ("", "| argument | meaning |", "|---|---|")
    for action in parser._actions:
        names = ", ".join(f"`{shown}`" for shown in action.option_strings) or f"`{value(action)}`"
        text = (action.help or "") % {**vars(action), "prog": f"python -m fastdl {name}"}
        yield f"| {names} | {text.replace('|', chr(92) + '|')} |"


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
