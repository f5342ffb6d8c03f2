# SPDX-License-Identifier: Apache-2.0
"""Runs the checks of checks.py, each case in a process of its own.

    python -m tests.reliability [PART OF A NAME...] [--share 1] [--write]

`--share` is the part of the full counts, and 0.01 if nothing is said, as in CI. `--write` stores
what was counted in docs/reliability.json, from which a page quotes it. The status is 1 if a check
fails.
"""

import argparse
import sys
import time

from tests.reliability.checks import CHECKS
from tests.reliability.record import store
from tests.support.build import ROOT, folder
from tests.support.isolate import describe, run_python

IN_FULL = {"memory"}  # a case of these is one sweep: a share of the cases runs


def run(name: str, case: str, count: int) -> tuple[int, str]:
    """How much a case in a process of its own did, and what went wrong."""
    code = (
        "import sys; from tests.reliability.checks import CHECKS\n"
        f"done = CHECKS[{name!r}].function({case!r}, {count})\n"
        f"print({count} if done is None else done)"
    )
    done = run_python("-c", code, cwd=ROOT, timeout=None)
    if done.returncode != 0:
        return 0, describe(done)
    return int(done.stdout.split()[-1]), ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.reliability", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CHECKS))
    parser.add_argument("--share", type=float, default=0.01, help="of the full counts")
    parser.add_argument("--write", action="store_true", help="to docs/reliability.json")
    options = parser.parse_args()
    folder()  # in which all processes find what the first has compiled
    failed = 0
    for name, check in CHECKS.items():
        if options.names and not any(part in name for part in options.names):
            continue
        results, wrong, cases = {}, 0, check.cases
        if name in IN_FULL and options.share < 1:
            cases = cases[:: round(1 / max(options.share, 1 / len(cases)))]
        count = max(1, round(check.count * options.share))
        for case in cases:
            start = time.monotonic()
            done, failure = run(name, case, count)
            seconds = time.monotonic() - start
            wrong += bool(failure)
            results[case] = [done, round(seconds, 1)]
            print(f"{name}: {case}: {failure or done}, {seconds:.1f} s", flush=True)
        if options.write and not wrong:
            store(name, {"what": check.what, "cases": results})
        failed += wrong
    print(f"{failed} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
