# SPDX-License-Identifier: Apache-2.0
"""Coverage-guided fuzzers of the exchange, by atheris (libFuzzer for Python), with AddressSanitizer
and UndefinedBehaviorSanitizer.

    python -m tests.fuzz [NAME...] [--seconds 10] [--keep] [--write] [--self-test]
    python -m tests.fuzz NAME --only HEX

Builds fastdl in a copy of the tree, by clang. Each fuzzer begins with the inputs of corpus.json,
and goes on for so many seconds. --keep adds what reached something new, as little as does; --write
stores what was done in docs/reliability.json. An input that fails is printed, and --only runs it
again. The self-test then plants defects, one at a time, and sees whether they are found. The status
is 1 if something was found, or if a planted defect was not.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import atheris

from tests.mutants.run import copy_tree
from tests.mutants.table import MUTANTS, broken

NAMES = ("descriptors", "descriptions", "arrow", "cycles")
CORPUS = Path(__file__).with_name("corpus.json")
SANITIZE = "address,undefined,fuzzer-no-link"
LIMITS = ("-max_len=200", "-timeout=60", "-rss_limit_mb=4096", "-print_final_stats=1")
SLICE = 300  # seconds after which a process gives way to another, which knows its inputs
#: Mutants of tests/mutants, and the fuzzer that has to see them, within so many seconds.
PLANTED = {
    "elements of no lanes pass": "descriptors",
    "a device of type 0 passes": "descriptors",
    "memory above the last address is reached": "descriptors",
}
PATIENCE = 120


class Fuzzed(tempfile.TemporaryDirectory):
    """A copy of the tree, built for the fuzzers; with a folder of inputs for each."""

    def __enter__(self) -> "Fuzzed":
        self.path = Path(super().__enter__()) / "tree"
        copy_tree(self.path)
        self.build()
        corpus = json.loads(CORPUS.read_text())
        for name in NAMES:
            (self.path / "corpus" / name).mkdir(parents=True)
            for i, text in enumerate(corpus.get(name, ())):
                (self.path / "corpus" / name / str(i)).write_bytes(bytes.fromhex(text))
        return self

    def build(self) -> None:
        command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
        own = {"CC": "clang", "CXX": "clang++", "FASTDL_SANITIZE": SANITIZE}
        done = subprocess.run(
            command, cwd=self.path, env={**os.environ, **own}, capture_output=True, text=True
        )
        if done.returncode != 0:
            sys.exit(f"the build failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")

    def worker(self, name: str, *options: str) -> subprocess.CompletedProcess:
        command = [sys.executable, "-X", "faulthandler", "-m", "tests.fuzz.worker", name]
        runtime = Path(atheris.path(), "asan_with_fuzzer.so")
        environment = {
            **os.environ,
            "LD_PRELOAD": str(runtime),
            "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
            "PYTHONMALLOC": "malloc",
            "PYTHONPATH": str(self.path / "src"),
            "FASTDL_TEST_BUILD": str(self.path.parent),
        }
        return subprocess.run(
            [*command, *LIMITS, *options],
            cwd=self.path, env=environment, capture_output=True, text=True, errors="replace",
        )  # fmt: skip

    def fuzz(self, name: str, seconds: float) -> tuple[int, str]:
        """How many inputs a fuzzer ran, and what it found: the input, and what was said of it."""
        end, done = time.monotonic() + seconds, 0
        found = self.path / f"found-{name}-"
        for path in found.parent.glob(f"{found.name}*"):
            path.unlink()  # of a planted defect
        while (left := end - time.monotonic()) > 0 or not done:
            limit = f"-max_total_time={max(1, min(left, SLICE)):.0f}"
            ended = self.worker(name, limit, f"-artifact_prefix={found}", f"corpus/{name}")
            executed = re.search(r"number_of_executed_units: (\d+)", ended.stderr)
            done += int(executed[1]) if executed else 0
            if ended.returncode != 0:
                said = [
                    line for line in (ended.stdout + ended.stderr).splitlines() if line[:1] != "#"
                ]
                inputs = [path.read_bytes() for path in found.parent.glob(f"{found.name}*")]
                if not inputs:
                    sys.exit(f"{name} did not run (status {ended.returncode}):\n" + "\n".join(said))
                again = f"again: python -m tests.fuzz {name} --only {inputs[0].hex() or '-'}"
                return done, "\n".join([*said[-60:], again])
        return done, ""

    def keep(self, name: str) -> list[str]:
        """The inputs of a fuzzer, without those that reach nothing more than the others."""
        merged = self.path / "merged" / name
        merged.mkdir(parents=True)
        self.worker(name, "-merge=1", str(merged), f"corpus/{name}")
        return sorted(
            (path.read_bytes().hex() for path in merged.iterdir()), key=lambda i: (len(i), i)
        )


def self_test(tree: Fuzzed) -> int:
    missed = 0
    for wanted, name in PLANTED.items():
        (mutant,) = [mutant for mutant in MUTANTS if mutant.name == wanted]
        file, text = broken(mutant)
        source = tree.path / file
        whole = source.read_text()
        source.write_text(text)
        tree.build()
        start = time.monotonic()
        _, failure = tree.fuzz(name, PATIENCE)
        source.write_text(whole)
        missed += not failure
        result = "found" if failure else "NOT FOUND"
        seconds = time.monotonic() - start
        print(f"{wanted}: {result} by {name} after {seconds:.0f} s", flush=True)
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--seconds", type=float, default=10, help="for each fuzzer")
    parser.add_argument("--only", metavar="HEX", help="an input, run by itself; - for none")
    parser.add_argument("--keep", action="store_true", help="what was found in corpus.json")
    parser.add_argument("--write", action="store_true", help="to docs/reliability.json")
    parser.add_argument("--self-test", action="store_true", help="defects that are to be found")
    options = parser.parse_args()
    names = options.names or NAMES
    if not {*names} <= {*NAMES}:
        parser.error(f"expected names from {', '.join(NAMES)}")
    with Fuzzed() as tree:
        if options.only:
            for name in names:
                (tree.path / "input").write_bytes(bytes.fromhex(options.only.strip("-")))
                print(tree.worker(name, "input").stderr)
            return 0
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            results = dict(
                zip(names, pool.map(lambda n: tree.fuzz(n, options.seconds), names), strict=True)
            )
        for name, (done, failure) in results.items():
            print(f"{name}: {failure or 'nothing found'}, {done} inputs", flush=True)
        failed = any(failure for _, failure in results.values())
        if options.keep and not failed:
            corpus = {**json.loads(CORPUS.read_text()), **{name: tree.keep(name) for name in names}}
            lines = (f"{json.dumps(name)}: {json.dumps(corpus[name])}" for name in NAMES)
            CORPUS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        if options.write and not failed:
            from tests.reliability.record import store

            store("fuzz", {name: [done, options.seconds] for name, (done, _) in results.items()})
        missed = self_test(tree) if options.self_test else 0
    return int(failed or missed > 0)


if __name__ == "__main__":
    sys.exit(main())
