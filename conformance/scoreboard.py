# SPDX-License-Identifier: Apache-2.0
"""Writes scoreboard.md of the results in a folder: python scoreboard.py FOLDER, where were called

python -m dlpack_conformance run --report reports.json
python -m dlpack_conformance pairs --output pairs.json
"""

import json
import sys
from collections.abc import Iterator
from datetime import date
from itertools import groupby
from pathlib import Path
from typing import Any

from dlpack_conformance import pairs, reports
from dlpack_conformance.outcomes import BAD, DEVIATES, OUTCOMES, SEVERITIES

FAILED = """
The three columns in the middle count checks that failed or crashed;
`python -m dlpack_conformance run LIBRARY` says how. Invalid input, which no correct producer gives,
is counted by itself: the standard lets a library accept it, or crash.
"""
PAIRS = """
## Every producer with every consumer

```text"""


def page(made: list[dict[str, Any]], grid: dict[str, Any]) -> Iterator[str]:
    yield "# Scoreboard"
    python = made[0]["library"]["python"]
    yield f"\nTaken on {date.today()} with CPython {python}, without a device.\n"
    yield from reports.in_rows(reports.table_of(made))
    yield FAILED
    for report in made:
        yield f"- **{reports.title(report)}**"
        found = [one for one in report["results"] if one["outcome"] in (*BAD, DEVIATES)]
        for (severity, outcome), same in groupby(sorted(found, key=ranks), ranks):
            what = SEVERITIES[severity]
            if OUTCOMES[outcome] != DEVIATES:
                what += f", {OUTCOMES[outcome]}"
            names = ", ".join(f"`{one['id']}`" for one in same)
            yield f"  - {what}: {names}"
    yield PAIRS
    yield from (line.rstrip() for line in pairs.lines(grid))
    yield "```"


def ranks(finding: dict[str, str]) -> tuple[int, int]:
    return SEVERITIES.index(finding["severity"]), OUTCOMES.index(finding["outcome"])


if __name__ == "__main__":
    files = (Path(sys.argv[1], name) for name in ("reports.json", "pairs.json"))
    text = "\n".join(page(*(json.loads(file.read_text("utf-8")) for file in files)))
    Path(__file__).with_name("scoreboard.md").write_text(f"{text}\n", "utf-8")
