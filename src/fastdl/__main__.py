"""The command line: python -m fastdl."""

import argparse
import sys

from fastdl import __version__, _build, dlpack_version

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


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fastdl", description="fastdl's tools")
    facts = parser.add_argument_group(
        "facts", "printed one to a line, in the order in which they are asked for"
    )
    for option, (fact, text) in FACTS.items():
        facts.add_argument(option, dest="facts", action="append_const", const=fact, help=text)
    commands = parser.add_subparsers(dest="command")
    demo = commands.add_parser("demo", help="show exchanges with the frameworks installed here")
    demo.add_argument("--framework", help="only this one, in this process")
    chosen = parser.parse_args(arguments)

    if bool(chosen.facts) == bool(chosen.command):
        parser.error("expected either a command or facts to print")
    if chosen.facts:
        return tell(chosen.facts)

    from fastdl import _demo

    return _demo.run(chosen.framework)


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
