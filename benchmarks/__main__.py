# SPDX-License-Identifier: Apache-2.0
"""python -m benchmarks: measures, prints the table, and writes docs/benchmarks.json."""

import argparse
import sys
from pathlib import Path

from benchmarks import ROOT, budgets, capi, machine, processes, report, startup

CHECK_SLACK = 1.5  # by how much a check lets a ratio miss its budget: CI machines are noisy
NOISY = 1.15  # a ratio that differs by more between processes is not worth much


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--check",
        action="store_true",
        help="a short run that compares only ratios, with generous limits; status 1 on failure",
    )
    parser.add_argument("--workers", type=int, help="processes that measure (7, check: 3)")
    parser.add_argument("--rounds", type=int, help="rounds in each process (30, check: 20)")
    parser.add_argument("--output", type=Path, default=ROOT / "docs", help="directory (docs)")
    options = parser.parse_args()
    options.workers = options.workers or (3 if options.check else 7)
    options.rounds = options.rounds or (20 if options.check else 30)
    return options


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def collect(kind: str, workers: int, rounds: int) -> dict:
    """group -> samples of all workers, or the reason why the group could not be measured."""
    groups: dict = {}
    for number in range(workers):
        progress(f"{kind}: process {number + 1} of {workers}")
        for name, samples in processes.run(kind, rounds=rounds).items():
            if isinstance(samples, str):
                groups[name] = samples
            else:
                groups.setdefault(name, []).append(samples)
    return groups


def measure(options: argparse.Namespace) -> dict[str, list[budgets.Row]]:
    """The rows by section."""
    slack = CHECK_SLACK if options.check else 1.0
    exchanges = collect("exchanges", options.workers, options.rounds)
    conversions = collect("conversions", options.workers, options.rounds)
    calls = collect("calls", options.workers, options.rounds)
    methods = collect("methods", options.workers, options.rounds)
    copies = collect("copies", max(1, options.workers // 2), max(5, options.rounds // 2))

    progress("imports")
    imports = startup.imports(["fastdl", "numpy", "tvm_ffi"], rounds=3 if options.check else 9)

    return {
        "Exchanges": budgets.exchange_rows(exchanges, slack),
        "Methods of a tensor": budgets.method_rows(methods, slack),
        "Conversions": budgets.conversion_rows(conversions, slack),
        "Dependence on the tensor": [
            *budgets.growth_rows(exchanges, options.check),
            *budgets.comparison_rows(budgets.SIZES, exchanges, slack),
        ],
        "C API": capi.rows(calls, options.check, slack),
        "Start": budgets.import_rows(imports, slack),
        "Copies of host data": budgets.copy_rows(copies, slack),
    }


def warn_of_noise(rows: list[budgets.Row]) -> None:
    noisy = [row for row in rows if row.spread and row.spread[1] > NOISY * row.spread[0]]
    for row in noisy:
        progress(f"noisy: {row.what}, {row.view}: {row.spread[0]:.3f} to {row.spread[1]:.3f}")


def main() -> int:
    options = parse()
    facts, versions = machine.facts(), machine.versions()
    sections = measure(options)
    for title, rows in sections.items():
        print(f"\n{title}\n\n{report.as_text(rows)}")
    rows = [row for section in sections.values() for row in section]
    warn_of_noise(rows)
    if not options.check:
        report.write(options.output, sections, facts, versions)
        progress(f"written: {options.output}/benchmarks.json; now run")
        progress("python -m benchmarks.plots and python docs/quote.py, for what shows them")
        return 0
    failed = [row for row in rows if row.verdict in ("MISSED", "not measured")]
    print("\n" + (f"{len(failed)} of the checks failed" if failed else "all checks passed"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
