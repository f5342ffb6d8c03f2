"""The command line: python -m fastdl."""

import argparse
import sys

from fastdl import __version__, dlpack_version


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fastdl", description="fastdl's tools")
    parser.add_argument(
        "--version",
        action="version",
        version=f"fastdl {__version__}, DLPack {'.'.join(map(str, dlpack_version))}",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser("demo", help="show exchanges with the frameworks installed here")
    demo.add_argument("--framework", help="only this one, in this process")
    chosen = parser.parse_args(arguments)

    from fastdl import _demo

    return _demo.run(chosen.framework)


if __name__ == "__main__":
    sys.exit(main())
