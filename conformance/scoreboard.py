"""Writes scoreboard.md of the results in a folder: python scoreboard.py FOLDER, where were called

python -m dlpack_conformance scoreboard --output scoreboard.json
python -m dlpack_conformance pairs --output pairs.json
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from dlpack_conformance import pairs, reports
from dlpack_conformance.suite import DEVIATION, OUTCOMES, SEVERITIES

FAILED = """
The three columns in the middle count checks that failed or crashed;
`python -m dlpack_conformance run LIBRARY` says how. Checks whose names begin with `hostile` pass
descriptions that no correct producer makes, and that the standard lets a library accept.
"""
PAIRS = """
## Every producer with every consumer

```text"""


def page(board: dict[str, Any], grid: dict[str, Any]) -> Iterator[str]:
    yield "# Scoreboard"
    yield f"\nTaken on {board['date']} with CPython {board['python']}, without a device.\n"
    yield from reports.in_rows(
        reports.row(report["library"], Counter(report["counts"]), Counter(report["severities"]))
        for report in board["reports"]
    )
    yield FAILED
    for report in board["reports"]:
        yield f"- **{report['library']['title']}** {report['library']['version']}"
        for (severity, outcome), same in groupby(sorted(report["findings"], key=ranks), ranks):
            what = SEVERITIES[severity]
            if what != DEVIATION:
                what += f", {OUTCOMES[outcome]}"
            names = ", ".join(f"`{one['id']}`" for one in same)
            yield f"  - {what}: {names}"
    yield PAIRS
    yield from (line.rstrip() for line in pairs.lines(grid))
    yield "```"


def ranks(finding: dict[str, str]) -> tuple[int, int]:
    return SEVERITIES.index(finding["severity"]), OUTCOMES.index(finding["outcome"])


if __name__ == "__main__":
    files = (Path(sys.argv[1], name) for name in ("scoreboard.json", "pairs.json"))
    text = "\n".join(page(*(json.loads(file.read_text("utf-8")) for file in files)))
    Path(__file__).with_name("scoreboard.md").write_text(f"{text}\n", "utf-8")
