# SPDX-License-Identifier: Apache-2.0
"""Options that several commands have."""

import argparse
import json
import math
import os
import re
from typing import Any

from fastdl._cli.libraries import BY_NAME, LIBRARIES, Library


def libraries(text: str) -> list[Library]:
    """The libraries named in a comma-separated list, installed or not."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in BY_NAME]
    if unknown or not names:
        raise argparse.ArgumentTypeError(
            f"expected names from {', '.join(BY_NAME)}; got {', '.join(unknown)!r}"
        )
    return [library for library in LIBRARIES if library.name in names]


def add_only(parser: argparse.ArgumentParser, what: str) -> None:
    text = f"{what}: import names, separated by commas (default: all installed)"
    parser.add_argument("--only", metavar="NAMES", type=libraries, help=text)


def add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")


def print_json(report: dict[str, Any]) -> None:
    """Prints a report with ~ for the home folder, whose path names the user: others will read
    it."""
    text, home = json.dumps(report, indent=1), os.path.expanduser("~")
    if os.path.dirname(home) != home:  # not the root
        text = re.sub(rf"(?<![\w.-]){re.escape(json.dumps(home)[1:-1])}(?![\w.-])", "~", text)
    print(text)


def seconds(text: str) -> float:
    limit = float(text)
    if not 0 < limit < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number of seconds above 0, got {text!r}")
    return limit


def add_limit(parser: argparse.ArgumentParser) -> None:
    text = "seconds after which a step, such as an import, is killed "
    text += "(default: %(default)g)"
    parser.add_argument("--limit", metavar="SECONDS", type=seconds, default=60.0, help=text)
