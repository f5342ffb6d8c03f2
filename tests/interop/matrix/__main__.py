# SPDX-License-Identifier: Apache-2.0
"""Measures the rows of an environment, and fails if a cell is worse than in results.json.

With --newest, for other releases than those that the results are of, it measures the libraries of
which another is installed, prints what is worse, and fails only if fastdl's own code did: see
by_fastdl in measure.py.
"""

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support.isolate import describe, run_python, signal_name

from ..harness import TIMEOUT
from ..peers import LIBRARIES
from .cells import BY_FASTDL, DIES, RESULTS, VERSION, Cell, Rows, dump, load, worse
from .measure import is_of_fastdl
from .particular import ROWS
from .rows import begun, results, version_of


def rows_of(environment: str) -> list[str]:
    """The slowest first."""
    rows = [peer.name for peer in LIBRARIES if peer.environment == environment]
    if environment == "main":
        rows = ["grid", *ROWS, *rows]
    return rows


def rows_of_others(environment: str, before: Rows) -> list[str]:
    """Those of libraries whose installed release is not the one that the results are of."""
    versions = {row: version_of(row) for row in rows_of(environment) if row != "grid"}
    return [row for row in versions if before.get(row, {}).get("version", "") != versions[row]]


def surroundings() -> dict[str, str]:
    """What some libraries need to be told, or to be silenced."""
    compilers = ("clang", *(f"clang-{version}" for version in range(22, 13, -1)))
    clang = next(filter(shutil.which, compilers), "clang")
    return {
        "OCL_ICD_FILENAMES": f"{sys.prefix}/lib/libintelocl.so",  # dpnp's device: the CPU
        "DEV": "CPU",  # tinygrad's,
        "CC": clang,  # which compiles with this
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "JAX_PLATFORMS": "cpu",
    }


def measure_row(row: str, folder: Path) -> dict[str, str]:
    """The cells of a row. The death of its process is a result; any other failure is an error."""
    log = folder / f"{row}.jsonl"
    command = ("-W", "ignore", "-m", f"{__package__}.rows", row, str(log))
    while (child := run_python(*command, env=surroundings(), timeout=TIMEOUT)).returncode:
        cell = begun(log) if log.exists() else None
        if child.returncode > 0 or cell is None:
            raise RuntimeError(f"{row}, {cell}: {describe(child)}")
        died = Cell(DIES, signal_name(-child.returncode))
        with log.open("a") as file:
            print(json.dumps([cell, str(died)]), file=file)
    return {name: text for name, text in results(log).items() if text is not None}


def measure(names: list[str]) -> tuple[Rows, list[str]]:
    """The rows that could be measured, and what went wrong with the others."""
    rows, errors = {}, []

    def one(row: str) -> None:
        start = time.monotonic()
        try:
            rows[row] = measure_row(row, Path(folder))
        except RuntimeError as error:
            errors.append(str(error))
        print(f"{row}: {time.monotonic() - start:.0f} s", flush=True)

    with (
        tempfile.TemporaryDirectory() as folder,
        ThreadPoolExecutor(max_workers=os.cpu_count()) as pool,
    ):
        list(pool.map(one, names))
    return rows, errors


def compare(before: Rows, after: Rows, names: list[str]) -> list[str]:
    """What is worse in these rows. A version is no outcome."""
    lines = []
    for row in names:
        old = {name: text for name, text in before.get(row, {}).items() if name != VERSION}
        lines += (f"{row}/{line}" for line in worse(old, after.get(row, {})))
    return lines


def show_newest(before: Rows, rows: Rows, errors: list[str], names: list[str]) -> int:
    """A table of what is worse with the newest releases; 1 if fastdl's own code is at fault."""
    found = [(line, f": {BY_FASTDL}: " in line) for line in compare(before, rows, sorted(rows))]
    for error in errors:  # of the harness, which ended the row
        files = re.findall(r'File "([^"]+)", line', error)
        found.append((" ".join(error.split())[-300:], bool(files) and is_of_fastdl(files[-1])))
    print("| library | results are of | newest |\n|---|---|---|")
    for row in sorted(rows):
        old, new = (cells.get(row, {}).get("version") for cells in (before, rows))
        if old != new:
            print(f"| {row} | {old} | {new} |")
    print("\n| worse with the newest | whose fault |\n|---|---|")
    for line, own in sorted(found, key=lambda pair: not pair[1]):
        print(f"| {line} | {'fastdl' if own else 'to be looked at'} |")
    print(f"{len(found)} worse in {len(names)} rows, {sum(own for _, own in found)} by fastdl")
    return int(any(own for _, own in found))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}", description=__doc__)
    parser.add_argument("environment")
    parser.add_argument("rows", nargs="*", help="all of the environment unless told")
    parser.add_argument(
        "--newest", action="store_true", help="what is worse fails only if it is fastdl's fault"
    )
    parser.add_argument(
        "--write", action="store_true", help="the results take the place of the old"
    )
    chosen = parser.parse_args(arguments)
    before = load(RESULTS)
    if chosen.newest:
        os.environ["FASTDL_BLAME"] = "1"
        names = chosen.rows or rows_of_others(chosen.environment, before)
    else:
        names = chosen.rows or rows_of(chosen.environment)
    rows, errors = measure(names)
    if chosen.newest:
        return show_newest(before, rows, errors, names)
    if chosen.write:
        dump(before | rows, RESULTS)
    else:
        errors += compare(before, rows, names)
    print(*errors, sep="\n")
    count = sum(map(len, rows.values()))
    changed = sum(before.get(row) != cells for row, cells in rows.items())
    print(f"{chosen.environment}: {count} cells in {len(rows)} rows, {changed} of them changed")
    return bool(errors)


if __name__ == "__main__":
    raise SystemExit(main())
