# SPDX-License-Identifier: Apache-2.0
"""The command line: python -m fastdl."""

import argparse
import io
import os
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module

from fastdl import __version__, _build, _cli, dlpack_version

# Option -> the fact that it prints, and its help.
FACTS = {
    "--version": (
        lambda: f"fastdl {__version__}, DLPack {'.'.join(map(str, dlpack_version))}",
        "the versions of the package and of DLPack",
    ),
    "--include": (_build.get_include, "the directory of the C headers"),
    "--cflags": (_build.get_cflags, "the compiler flags for that directory"),
    "--sources": (
        lambda: "\n".join(_build.get_sources()),
        "the path of fastdl.c, to compile into a module",
    ),
    "--cmakedir": (_build.get_cmake_dir, "the directory of the CMake package, for fastdl_DIR"),
    "--pkgconfigdir": (_build.get_pkgconfig_dir, "the directory of fastdl.pc, for PKG_CONFIG_PATH"),
}
VENDOR = "the paths of fastdl.h, fastdl.c and dlpack.h, after copying them to FOLDER"


def main(arguments: "list[str] | None" = None) -> int:
    """Runs a command and returns the exit status: 130 after an interrupt; 1, without a traceback,
    after an OSError, such as a full disk. A closed pipe is not reported."""
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
        with open(os.devnull, "w") as nowhere:  # for the flush at exit
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        return 1


def prepare_streams() -> None:
    """Makes printing to a closed stream, and characters that a stream cannot encode, no errors."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # print() would take the other one
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - until the process ends
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def answer(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m fastdl",
        description="Tools around fastdl, and the paths that builds need.",
    )
    facts = parser.add_argument_group(
        "build information", "each prints what a build needs; they can be combined"
    )
    for option, (fact, text) in FACTS.items():
        facts.add_argument(option, dest="facts", action="append_const", const=fact, help=text)
    facts.add_argument(
        "--vendor",
        metavar="FOLDER",
        dest="facts",
        action="append",
        type=lambda folder: partial(_build.vendor, folder),
        help=VENDOR,
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, text in _cli.COMMANDS.items():
        sentence = f"{text[0].upper()}{text[1:]}."
        command = commands.add_parser(name, help=text, description=sentence)
        if name in arguments:
            module = import_module(f"fastdl._cli.{name}")
            module.add_arguments(command)
            command.set_defaults(run=module.run)
    chosen = parser.parse_args(arguments)

    run = getattr(chosen, "run", None)
    if chosen.facts and run:
        parser.error("expected either a command or options such as --include, not both")
    if chosen.facts:
        print("\n".join([fact() for fact in chosen.facts]))
        return 0
    if run:
        return run(chosen)
    parser.print_help()
    return 0


if __name__ == "__main__":
    sys.exit(main())
