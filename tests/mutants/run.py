# SPDX-License-Identifier: Apache-2.0
"""Breaks fastdl on purpose, in one way at a time, and sees whether a test turns red.

    python -m tests.mutants.run [SUBJECT, OR PART OF A NAME OR FUNCTION...]

Each mutant gets a copy of a tree that has been built, so that it costs the compilation of its file,
or of those that include it. The tests must be green without any. At the end comes the kill table;
the status is 1 if a mutant survives, if its text is not found exactly once in its function, if it
does not compile, or if the tests do not end: the table is then to be mended, or a test to be
written.

Needs what the build and the tests need, but not fastdl, which is built in place.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from tests.mutants.table import MUTANTS, ROOT, Mutant, NotFound, broken

PARTS = (
    *("src", "include", "tests", "docs", "benchmarks", "setup.py", "pyproject.toml"),
    *("LICENSE", "README.md"),
)
COMPILED = "compiled"  # where the tests of a tree put what they compile
BUILD = (sys.executable, "setup.py", "build_ext", "--inplace")
PYTEST = (sys.executable, "-m", "pytest", "-x", "-v", "--tb=short", "-m", "not slow")
JOBS = int(os.environ.get("FASTDL_MUTANT_JOBS", 0)) or min(os.cpu_count() or 1, 4)
LIMIT = 120  # seconds, for tests that take a few


class Failed(Exception):
    """A command did not do its work: that proves nothing."""


class Verdict(NamedTuple):
    mutant: Mutant
    killed: bool
    by: str  # or what is wrong
    seconds: float


def copy_tree(target):
    """What the build and the tests need, without what was built."""
    target.mkdir()
    built = shutil.ignore_patterns("*.so", "__pycache__")
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, target / part, ignore=built)
        else:
            shutil.copy2(ROOT / part, target / part)


def run(tree, *command, limit=None):
    """Runs a command in a tree: how it ended, and what it printed."""
    environment = {
        "PYTHONPATH": str(tree / "src"),
        "FASTDL_DEBUG": "1",  # compiles in a third of the time
        "FASTDL_TEST_BUILD": str(tree / COMPILED),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # saves a third of the time
    }
    try:
        ended = subprocess.run(
            command,
            cwd=tree,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            timeout=limit,
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"{shlex.join(command)} did not end within {limit} s") from None
    return ended.returncode, ended.stdout


def must(tree, *command):
    """The same, where it has to end well. Returns what it printed."""
    status, output = run(tree, *command)
    if status != 0:
        raise Failed(f"{shlex.join(command)} ended with {status}:\n{output}")
    return output


def build(tree):
    """Builds all. Returns how: what the compiler made, the library at last, and by which words."""
    log = must(tree, *BUILD).splitlines()
    lines = (shlex.split(line) for line in log if " -o build/" in line)
    return {words[words.index("-o") + 1]: words for words in lines}


def rebuild(tree, file, commands):
    """Compiles what a file is part of, without what setup.py does beside that."""
    if file.endswith(".pyx"):
        must(tree, *BUILD)
        return
    if "/impl/" in file:
        must(tree, sys.executable, "include/fastdl/impl/join.py")
        file = "include/fastdl/fastdl.c"
    *objects, library = commands
    for made in objects:
        if file in (tree / made).with_suffix(".d").read_text().split():
            must(tree, *commands[made])
    must(tree, *commands[library])
    shutil.copy2(tree / library, tree / "src/fastdl")


def red_test(tree, tests):
    """The first test that fails, or that was running when the process ended; else nothing."""
    status, output = run(tree, *PYTEST, *tests, limit=LIMIT)
    if status == 0:
        return ""
    if status > 1:
        raise Failed(f"pytest ended with {status}:\n{output}")
    last = re.findall(r"^tests/\S+::\S+", output, re.MULTILINE)[-1]
    return last if status > 0 else f"{last} (signal {-status})"


def judge(mutant, built, commands):
    """What becomes of a mutant, in a copy of the tree `built`."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(dir=built.parent) as folder:
        tree = Path(folder, "tree")
        shutil.copytree(built, tree, symlinks=True)
        try:
            file, text = broken(mutant)
            (tree / file).write_text(text, encoding="utf-8")
            if not file.endswith(".py"):
                rebuild(tree, file, commands)
            if file.startswith("include/"):  # what the tests compile includes it
                shutil.rmtree(tree / COMPILED)
                (tree / COMPILED).mkdir()
            by = red_test(tree, mutant.tests)
            verdict = bool(by), by or "survived"
        except (NotFound, Failed) as error:
            verdict = False, str(error)
    return Verdict(mutant, *verdict, time.monotonic() - start)


def main(wanted):
    mutants = [
        mutant
        for mutant in MUTANTS
        if not wanted or any(word in " ".join(mutant[:3]) for word in wanted)
    ]
    print(f"{len(mutants)} of {len(MUTANTS)} mutants", flush=True)
    if not mutants:
        return 1
    with (
        tempfile.TemporaryDirectory(prefix="fastdl-mutants-") as folder,
        ThreadPoolExecutor(JOBS) as pool,
    ):
        built = Path(folder, "built")
        copy_tree(built)
        (built / COMPILED).mkdir()
        commands = build(built)
        print("built", flush=True)
        tests = sorted({test for mutant in mutants for test in mutant.tests})
        files = [[*group] for _, group in groupby(tests, lambda test: test.partition("::")[0])]
        red = [*filter(None, pool.map(lambda file: red_test(built, file), files))]
        if red:
            print(f"red without any: {red}")
            return 1
        print("the tests are green without any", flush=True)
        killed = 0
        for verdict in pool.map(lambda mutant: judge(mutant, built, commands), mutants):
            killed += verdict.killed
            word = "killed by" if verdict.killed else "ALIVE:"
            mutant, seconds = verdict.mutant, verdict.seconds
            line = f"{mutant.name} | {mutant.function} | {word} {verdict.by} | {seconds:.1f} s"
            print(line, flush=True)
    print(f"{killed} of {len(mutants)} killed")
    return 0 if killed == len(mutants) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
