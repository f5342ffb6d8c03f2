"""Breaks fastdl on purpose, in one way at a time, and sees whether a test turns red.

    python -m tests.mutants.run [--all | PART OF A NAME OR FUNCTION...]

Without arguments it takes one in SHARE: which ones follows from the code that they break, so that
each change to it tries others, and the same code always the same. Works on copies of the tree, each
built once; a mutant then costs the compilation of its file, or of those that include it. The tests
must be green without any. At the end comes the kill table; the status is 1 if a mutant survives, if
its text is not found exactly once in its function, or if it does not compile: the table is then to
be mended, or a test to be written.

Needs what the build and the tests need, but not fastdl, which is built in place.
"""

import functools
import os
import queue
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.mutants.places import ROOT, NotFound, broken, places, read
from tests.mutants.table import MUTANTS

PARTS = (
    *("src", "include", "tests", "docs", "benchmarks", "setup.py", "pyproject.toml"),
    *("LICENSE", "README.md"),
)
EXTENSION = "src/fastdl/_native"  # the library of all C files
# Cython alone, of what has changed.
TRANSLATE = """
import runpy, setuptools
setuptools.setup = lambda **arguments: None
runpy.run_path("setup.py")["c_of_modules"]()
"""
JOBS = int(os.environ.get("FASTDL_MUTANT_JOBS", 0)) or min(os.cpu_count() or 1, 4)
SHARE = 16
HANGS = 200  # seconds after which tests that take ten are taken to hang


class Verdict(NamedTuple):
    killed: bool
    by: str  # or what is wrong


class Tree:
    """A copy of the repository in which the extension is built, to be mutated and restored."""

    def __init__(self, path, compilers=None, readers=None):
        self.path = path
        self.compilers = compilers or []
        self.readers = readers or {}

    def run(self, *command, timeout=600, environment=None):
        environment = {
            **os.environ,
            **(environment or {}),
            "PYTHONPATH": str(self.path / "src"),
            "FASTDL_DEBUG": "1",  # compiles in a third of the time
            "PYTHONDONTWRITEBYTECODE": "1",  # of a mutant that differs in no length and no second
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # saves a third of the time
        }
        return subprocess.run(
            [*map(str, command)],
            cwd=self.path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout,
        )

    def must(self, *command):
        result = self.run(*command)
        if result.returncode != 0:
            raise RuntimeError(f"{shlex.join(map(str, command))} failed:\n{result.stdout}")
        return result.stdout

    def build(self):
        """Builds all, and remembers how: the compiler's lines are in what the build prints."""
        log = self.must(sys.executable, "setup.py", "build_ext", "--inplace")
        lines = (shlex.split(line) for line in log.splitlines() if " -o " in line)
        self.compilers = [words for words in lines if "-o" in words]
        self.command_for(EXTENSION)  # or it is not understood here
        for source in self.sources():
            for header in self.headers_of(source):
                self.readers.setdefault(header, []).append(source)

    def sources(self):
        """The C files, of the repository and of Cython."""
        found = (words[words.index("-c") + 1] for words in self.compilers if "-c" in words)
        return [name for name in found if (self.path / name).is_relative_to(self.path)]

    def headers_of(self, source):
        """The files of the repository that a C file includes, by way of others too."""
        words = [word for word in self.command_for(source) if word != "-MMD"]
        at = words.index("-o")
        del words[at : at + 2]
        rule = self.must(*words, "-MM").split()
        return {name for name in rule if name.endswith((".h", ".c"))} - {source}

    def clone(self, path):
        shutil.copytree(self.path, path, symlinks=True)
        return Tree(path, self.compilers, self.readers)

    def command_for(self, name):
        """The line that compiled the C file `name`, or linked the module `name`."""
        for words in self.compilers:
            output = words[words.index("-o") + 1]
            if name in words:
                return words
            if name.startswith("src/") and f"/{name[4:]}." in output and output.endswith(".so"):
                (target,) = self.path.glob(f"{name}.*.so")
                return [target if word == output else word for word in words]
        raise LookupError(f"the build printed no command for {name}")

    def rebuild(self, file):
        if file.endswith(".py"):
            return
        if file.endswith(".pyx"):
            self.must(sys.executable, "-c", TRANSLATE)
            file = f"build/{file.removesuffix('pyx')}c"
        for source in self.readers.get(file, [file] if file.endswith(".c") else []):
            self.must(*self.command_for(source))  # none for C++, which the tests compile
        self.must(*self.command_for(EXTENSION))

    def test(self, files, timeout=HANGS, environment=None):
        """How the tests of `files` end: the status of pytest, the first test that failed, or the
        one that was running when the process ended; and what was printed."""
        options = ["-x", "-v", "--tb=short", "--no-header", "-p", "no:cacheprovider"]
        try:
            command = [sys.executable, "-m", "pytest", *options, *files]
            result = self.run(*command, timeout=timeout, environment=environment)
            status, output = result.returncode, result.stdout
        except subprocess.TimeoutExpired as error:
            output = error.stdout or b""
            status, output = None, output.decode("utf-8", "replace")
        names = re.findall(r"^(tests/\S+::.*?) (?:FAILED|ERROR)\b", output, re.MULTILINE)
        names = names or re.findall(r"^(tests/\S+::\S+)", output, re.MULTILINE)[-1:]
        return status, names[0] if names else "", output

    def judge(self, mutant):
        """What becomes of a mutant. The tree is as before afterwards, times included."""
        try:
            file, text = broken(mutant.functions, mutant.changes)
        except NotFound as error:
            return Verdict(False, str(error))
        source = self.path / file
        files = [path for path in self.path.rglob(f"{source.stem}.*") if path.is_file()]
        if source.suffix in (".c", ".h", ".pyx"):
            files += self.path.glob(f"{EXTENSION}.*.so")
        for reader in self.readers.get(file, []):
            words = self.command_for(reader)
            files.append(self.path / words[words.index("-o") + 1])
        with tempfile.TemporaryDirectory() as folder:
            for number, path in enumerate(files):
                shutil.copy2(path, Path(folder, str(number)))
            try:
                source.write_text(text)
                self.rebuild(file)
                # What the tests compile is shared, but not what includes a mutant.
                own = {"FASTDL_TEST_BUILD": folder} if file.startswith("include/") else None
                status, name, output = self.test(mutant.tests, environment=own)
            except RuntimeError as error:
                return Verdict(False, str(error))
            finally:
                for number, path in enumerate(files):
                    shutil.copy2(Path(folder, str(number)), path)
        if status == 0:
            return Verdict(False, "survived")
        if status is None:
            return Verdict(True, f"{name} (hangs)")
        if status < 0:
            return Verdict(True, f"{name} (signal {-status})")
        if status == 1 and name:
            return Verdict(True, name)
        return Verdict(False, f"pytest ended with {status}:\n{output}")


def copy_tree(target):
    """What the build and the tests need, without what was built."""
    target.mkdir()
    built = shutil.ignore_patterns("*.so", "__pycache__")
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, target / part, ignore=built)
        else:
            shutil.copy2(ROOT / part, target / part)


def first_of_sample():
    """A number below SHARE that follows from the files that mutants break."""
    files = sorted({place.file for found in places().values() for place in found})
    return zlib.crc32("".join(map(read, files)).encode()) % SHARE


def choose(wanted, first):
    """The mutants for these arguments, and what to call them."""
    if wanted == ["--all"]:
        return MUTANTS, "all"
    if wanted:
        mutants = [m for m in MUTANTS if any(word in f"{m.name} {m.functions}" for word in wanted)]
        return mutants, f"those that match {shlex.join(wanted)}"
    return MUTANTS[first::SHARE], f"every {SHARE}th from number {first}; --all takes all"


def main(wanted):
    mutants, which = choose(wanted, first_of_sample())
    print(f"{len(mutants)} of {len(MUTANTS)} mutants: {which}", flush=True)
    if not mutants:
        return 1
    with tempfile.TemporaryDirectory(prefix="fastdl-mutants-") as folder:
        start = time.monotonic()
        shared = Path(folder, "compiled")  # what the tests compile, which no mutant is part of
        shared.mkdir()
        os.environ["FASTDL_TEST_BUILD"] = str(shared)
        first = Tree(Path(folder, "0"))
        copy_tree(first.path)
        first.build()
        # The tests would join the parts of fastdl.c again, without the mutant.
        (first.path / "include/fastdl/impl/join.py").write_text("def write():\n    pass\n")
        print(f"built in {time.monotonic() - start:.0f} s", flush=True)

        trees = queue.SimpleQueue()
        trees.put(first)
        for number in range(1, JOBS):
            trees.put(first.clone(Path(folder, str(number))))

        def in_a_tree(function, argument):
            tree, start = trees.get(), time.monotonic()
            try:
                result = function(tree, argument)
            finally:
                trees.put(tree)
            return argument, result, time.monotonic() - start

        def all_of(function, arguments):
            return pool.map(functools.partial(in_a_tree, function), arguments)

        survivors = 0
        with ThreadPoolExecutor(JOBS) as pool:
            files = dict.fromkeys(test.split("::")[0] for m in mutants for test in m.tests)
            for file, (status, _, output), _ in all_of(Tree.test, [(file,) for file in files]):
                print(f"unmutated: {file[0]}: {output.splitlines()[-1].strip('= ')}", flush=True)
                if status != 0:
                    print(output)
                    return 1
            for mutant, (killed, by), seconds in all_of(Tree.judge, mutants):
                survivors += not killed
                word = "killed by" if killed else "ALIVE:"
                line = f"{mutant.name} | {mutant.functions} | {word} {by} | {seconds:.1f} s"
                print(line, flush=True)
    print(f"{len(mutants) - survivors} of {len(mutants)} killed")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
