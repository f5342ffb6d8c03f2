# SPDX-License-Identifier: Apache-2.0
"""docs/reliability.json: what was counted, and where; and its table in docs/architecture.md."""

import json
from collections.abc import Iterator

import fastdl
from tests.support.build import ROOT

FILE = ROOT / "docs/reliability.json"


def store(part: str, results: dict) -> None:
    """Puts the results in the place of an earlier run's."""
    from benchmarks.machine import commit, facts

    stored = json.loads(FILE.read_text()) if FILE.exists() else {}
    machine = {key: value for key, value in facts().items() if key != "load before"}
    machine["fastdl"] = fastdl.__version__ + commit()
    stored[part] = {"machine": machine, "results": results}
    lines = (
        f' "{part}": {{\n'
        + ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in run.items())
        + "\n }"
        for part, run in stored.items()
    )
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


# ---- the page -------------------------------------------------------------------------------


def as_markdown() -> Iterator[str]:
    """What was counted, what the fuzzers did, and which lines the tests execute."""
    stored = json.loads(FILE.read_text())
    yield "| check | amount |"
    yield "|---|---|"
    for run in stored.values():
        if "cases" in run["results"]:
            counts = [count for count, _ in run["results"]["cases"].values()]
            same = len({*counts}) == 1
            number = f"{counts[0]:,} in each of" if same else f"{sum(counts):,} in"
            yield f"| {run['results']['what']} | {number} {len(counts)} cases |"
    inputs, seconds = zip(*stored["fuzz"]["results"].values(), strict=True)
    minutes = round(sum(seconds) / 60)
    yield f"| inputs of {len(inputs)} fuzzers | {sum(inputs):,} in {minutes} minutes |"
    lines, executed = map(sum, zip(*stored["coverage"]["results"]["lines"].values(), strict=True))
    yield f"| lines of C and Cython that tests execute | {executed / lines:.1%} of {lines:,} |"
    dates = sorted(run["machine"]["date"] for run in stored.values())
    yield ""
    yield f"Counted on 2 cores, {dates[0]} to {dates[-1]}; `docs/reliability.json` has the details."
