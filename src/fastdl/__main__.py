"""The command line: python -m fastdl."""

import argparse
import os
import sys
from importlib import import_module
from typing import NoReturn

from fastdl import __version__, _build, cli, dlpack_version
from fastdl.cli.words import wrapped

# Option -> what it prints, and its help.
FACTS = {
    "--version": (
        lambda: f"fastdl {__version__}, DLPack {'.'.join(map(str, dlpack_version))}",
        "the versions of the package and of DLPack",
    ),
    "--include": (_build.get_include, "the folder with the C headers"),
    "--cflags": (_build.get_cflags, "what a compiler line needs to find them"),
    "--cmakedir": (_build.get_cmake_dir, "the folder with the CMake package: for fastdl_DIR"),
    "--pkgconfigdir": (_build.get_pkgconfig_dir, "the folder with fastdl.pc: for PKG_CONFIG_PATH"),
}


class Formatter(argparse.HelpFormatter):
    """Keeps words such as "zero-copy" whole, as all of the command line does."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrapped(" ".join(text.split()), width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(wrapped(" ".join(text.split()), width, indent, indent))


class Parser(argparse.ArgumentParser):
    """Its help and its errors end with the address of the documentation, where it is known."""

    def format_help(self) -> str:
        return super().format_help() + documentation()

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(2, f"{self.prog}: error: {message}\n{documentation()}")


def documentation() -> str:
    from fastdl.cli import environment

    address = environment.documentation()
    return f"Documentation: {address}\n" if address else ""


def main(arguments=None) -> int:
    parser = Parser(
        prog="python -m fastdl", description="fastdl's tools", formatter_class=Formatter
    )
    facts = parser.add_argument_group(
        "facts", "printed one to a line, in the order in which they are asked for"
    )
    for option, (fact, text) in FACTS.items():
        facts.add_argument(option, dest="facts", action="append_const", const=fact, help=text)
    commands = parser.add_subparsers(
        title="commands", metavar="COMMAND", parser_class=argparse.ArgumentParser
    )
    arguments = sys.argv[1:] if arguments is None else arguments
    for name, text in cli.COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text, formatter_class=Formatter)
        if name in arguments:
            module = import_module(f"fastdl.cli.{name}")
            module.add_arguments(command)
            command.set_defaults(run=module.run)
    chosen = parser.parse_args(arguments)

    run = getattr(chosen, "run", None)
    if chosen.facts and run:
        parser.error("expected either a command or facts to print")
    if chosen.facts:
        return tell(chosen.facts)
    if run:
        return guarded(run, chosen)
    parser.print_help()
    return 0


def guarded(run, options) -> int:
    """What a command returns; 130 if it was interrupted; quietly 1 if whoever reads its output has
    closed the pipe."""
    try:
        status = run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
        return 1
    except KeyboardInterrupt:
        print("python -m fastdl: interrupted", file=sys.stderr)
        return 130
    return status


def tell(facts) -> int:
    try:
        answers = [fact() for fact in facts]
    except FileNotFoundError as error:
        print(f"python -m fastdl: {error}", file=sys.stderr)
        return 1
    print("\n".join(answers))
    return 0


if __name__ == "__main__":
    sys.exit(main())
