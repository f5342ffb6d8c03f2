"""The command line: python -m fastdl."""

import argparse
import io
import os
import sys
from collections.abc import Sequence
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
    """The exit status: 130 if the command was interrupted; 1, without a traceback, if the system
    refused something, such as to write the output. Nothing is said of a pipe that was closed."""
    prepare_streams()
    try:
        try:
            return answer(sys.argv[1:] if arguments is None else arguments)
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        print("python -m fastdl: interrupted", file=sys.stderr)
        return 130
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            print(f"python -m fastdl: {error}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
        return 1


def prepare_streams() -> None:
    """Streams that are closed take what is printed, and no character is an error."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # print() would take the other one
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - until the process ends
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def answer(arguments: Sequence[str]) -> int:
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
        print("\n".join([fact() for fact in chosen.facts]))
        return 0
    if run:
        return run(chosen)
    parser.print_help()
    return 0


if __name__ == "__main__":
    sys.exit(main())
