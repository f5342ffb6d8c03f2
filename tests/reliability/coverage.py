# SPDX-License-Identifier: Apache-2.0
"""Which lines of fastdl's C and Cython the tests execute.

    python -m tests.reliability.coverage [FILE OR OPTION OF PYTEST...] [--write]

Builds a copy of the tree for gcov, and runs the tests there, all of them or those that are given;
what those compile from the public header counts too. A line that has been executed in any module
is covered. Prints each run of lines that has not; the status is 1 if less than TARGET of the lines
are covered. FASTDL_COVERAGE_TREE=FOLDER keeps the copy and the counts there for the next time.

A line of Cython is covered if any of the C that it became is; Cython marks that in comments.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from tests.mutants.run import copy_tree
from tests.support.build import ROOT

TARGET = 0.95
OURS = re.compile(r"(?:include|src)/fastdl/.*\.[ch]")
MARK = re.compile(r'\s*/\* "(fastdl/[\w/]+\.pyx)":(\d+)\n')
# Tests of other things than our C, or of its text.
LEFT_OUT = ("examples", "gpu", "installed", "interop", "mutants", "cli/test_cli.py")
LEFT_OUT += ("docs/test_claims.py", "docs/test_docs.py", "docs/test_pages.py")
LEFT_OUT += ("docs/test_readme.py", "header/test_build.py", "header/test_clang.py")
LEFT_OUT += ("header/test_inclusion.py", "header/test_refused_code.py", "header/test_releases.py")
LEFT_OUT += ("package/test_layers.py", "package/test_release.py", "package/test_wheel.py")

Counts = dict[str, dict[int, int]]  # file -> line -> how often


def counts(tree: Path) -> Counts:
    """What the processes that ran in a tree have counted."""
    found: Counts = defaultdict(lambda: defaultdict(int))
    notes = [*tree.rglob("*.gcno")]
    with tempfile.TemporaryDirectory() as empty:
        for note in notes:
            command = ["gcov", "--json-format", "--stdout", str(note)]
            output = subprocess.run(command, cwd=empty, capture_output=True, check=True).stdout
            for line in output.splitlines():
                for file in json.loads(line)["files"]:
                    add(found, tree, file)
    return found


def add(found: Counts, tree: Path, file: dict) -> None:
    path = tree / file["file"]
    name = path.relative_to(tree).as_posix() if path.is_relative_to(tree) else ""
    if OURS.fullmatch(name):
        for line in file["lines"]:
            found[name][line["line_number"]] += line["count"]
    elif re.fullmatch(r"build/src/fastdl/.*\.c", name):
        marks = marked(path)
        for line in file["lines"]:
            if place := marks.get(line["line_number"]):
                found[f"src/{place[0]}"][place[1]] += line["count"]


def marked(path: Path) -> dict[int, tuple[str, int]]:
    """The line of a .pyx that each line of C comes from."""
    place, places = None, {}
    for number, line in enumerate(path.read_text().splitlines(keepends=True), 1):
        if mark := MARK.fullmatch(line):
            place = mark[1], int(mark[2])
        elif "/* function exit code */" in line or line == "}\n":
            place = None
        elif place is not None:
            places[number] = place
    return places


def unreached(found: Counts) -> list[str]:
    """Of each run of lines without a count: the file, and the first line."""
    runs = []
    for name, lines in sorted(found.items()):
        text = (ROOT / name).read_text().splitlines()
        before = True
        for number in sorted(lines):
            if not lines[number] and before:
                runs.append(f"{name}:{number}: {text[number - 1].strip()}")
            before = bool(lines[number])
    return runs


def summary(found: Counts) -> dict[str, list[int]]:
    """Lines, and how many of them are covered: of each file."""
    return {
        name: [len(lines), sum(count > 0 for count in lines.values())]
        for name, lines in sorted(found.items())
    }


def run(tree: Path, arguments: list[str]) -> int:
    compiled = tree / "compiled"
    environment = {
        **os.environ,
        "FASTDL_COVERAGE": "1",
        "FASTDL_TEST_BUILD": str(compiled),
        "PYTHONPATH": str(tree / "src"),
    }
    if not compiled.exists():
        copy_tree(tree / "new")
        for path in (tree / "new").iterdir():
            path.rename(tree / path.name)
        (tree / "new").rmdir()
        build = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
        subprocess.run(build, cwd=tree, env=environment, check=True)
        compiled.mkdir()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=tree, env=environment).returncode


def main(arguments: list[str]) -> int:
    write = "--write" in arguments
    chosen = [word for word in arguments if word != "--write"]
    everything = chosen or [f"--ignore=tests/{name}" for name in LEFT_OUT]
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(os.environ.get("FASTDL_COVERAGE_TREE") or folder)
        failed = run(tree, everything)
        found = counts(tree)
    rows = summary(found)
    lines, covered = (sum(row[i] for row in rows.values()) for i in (0, 1))
    for name, row in rows.items():
        print(f"{name:45}{row[1]:6} of {row[0]:5} {row[1] / row[0]:7.1%}")
    runs = unreached(found)
    print("\nNot executed:", *runs, sep="\n  ")
    print(f"\n{covered} of {lines} lines: {covered / lines:.2%}")
    if write and not failed:
        from tests.reliability.record import store

        store("coverage", {"lines": rows, "unreached": len(runs)})
    return bool(failed or covered < TARGET * lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
