"""Fuzzers of the exchange: random inputs from a seed, each fuzzer in processes of its own.

    python -m tests.fuzz [NAME...] [--seconds 60] [--seed N] [--only N]

A process takes a chunk of inputs, each made from its own number, so that a crash names the input;
--only N runs that one again. `seconds` are for each fuzzer. The status is 1 if one failed.
"""

import argparse
import random
import subprocess
import sys
import time

from tests.support.build import ROOT, folder

NAMES = ("descriptors", "descriptions", "views", "cycles", "interrupts")
CHUNK = 10_000


def run_chunk(name: str, first: int, seconds: float) -> tuple[int, str]:
    """Inputs from number `first` on in a process: how many it did, and what went wrong."""
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.fuzz.worker"]
    arguments = [name, str(first), str(first + CHUNK), str(seconds)]
    done = subprocess.run(command + arguments, cwd=ROOT, capture_output=True, text=True)
    numbers = [line for line in done.stdout.splitlines() if line.isdigit()]
    last = int(numbers[-1]) if numbers else first
    if done.returncode == 0:
        return last - first, ""
    return last - first, f"input {last} (status {done.returncode}):\n{done.stderr[-3000:]}"


def fuzz(name: str, seed: int, seconds: float) -> bool:
    """Runs one fuzzer; False if it found something."""
    end, done, first = time.monotonic() + seconds, 0, seed
    while (left := end - time.monotonic()) > 0 or done == 0:
        count, failure = run_chunk(name, first, max(left, 1))
        done += count
        if failure:
            print(f"{name}: FAILED after {done} inputs, {failure}")
            print(f"again: python -m tests.fuzz {name} --only {failure.split()[1]}", flush=True)
            return False
        first += CHUNK
    print(f"{name}: {done} inputs, nothing found", flush=True)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--seconds", type=float, default=12, help="for each fuzzer")
    parser.add_argument("--seed", type=int, help="the number of the first input")
    parser.add_argument("--only", type=int, help="the number of one input, run in this process")
    options = parser.parse_args()
    names = options.names or NAMES
    if not {*names} <= {*NAMES}:
        parser.error(f"expected names from {', '.join(NAMES)}")
    if options.only is not None:
        from tests.fuzz import worker

        for name in names:
            worker.FUZZERS[name](random.Random(options.only))
        return 0
    seed = random.randrange(10**9) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    folder()  # in which all processes find what the first has compiled
    found = [name for name in names if not fuzz(name, seed, options.seconds)]
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
