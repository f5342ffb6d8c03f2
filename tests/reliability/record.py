"""docs/reliability.json: what was counted, and where; and what docs/reliability.md has of it."""

import json
from collections import defaultdict
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


def stored() -> dict[str, dict]:
    return json.loads(FILE.read_text())


def where(machine: dict[str, str]) -> str:
    return (
        f"On {machine['cores']} cores of an {machine['CPU']}, with CPython "
        f"{machine['Python'].split()[0]} and fastdl {machine['fastdl']}, {machine['date']}."
    )


def checks() -> Iterator[str]:
    """What each check of checks.py counted."""
    rows_of = defaultdict(list)  # machine -> names of checks
    yield "| check | how many | by |"
    yield "|---|---|---|"
    for run in stored().values():
        if "cases" not in run["results"]:
            continue
        cases = run["results"]["cases"]
        counts = [count for count, _ in cases.values()]
        each = f"{counts[0]:,} each" if len({*counts}) == 1 else f"{sum(counts):,} in all"
        rows_of[where(run["machine"])].append(run["results"]["what"])
        names = f"{len(cases)} operations" if len(cases) > 20 else "; ".join(cases)
        yield f"| {run['results']['what']} | {each} | {names} |"
    for place, rows in rows_of.items():
        yield ""
        yield place if len(rows_of) == 1 else f"{place.rstrip('.')}: {'; '.join(rows)}."


def coverage() -> Iterator[str]:
    """The lines that tests execute, by folder."""
    run = stored()["coverage"]
    folders = defaultdict(lambda: [0, 0])
    for name, row in run["results"]["lines"].items():
        for key in (name.rpartition("/")[0] + "/", "all"):
            folders[key][0] += row[0]
            folders[key][1] += row[1]
    yield "| folder | lines | executed |"
    yield "|---|---|---|"
    for name, (lines, executed) in sorted(folders.items(), key=lambda row: row[0] == "all"):
        yield f"| `{name}` | {lines:,} | {executed / lines:.1%} |".replace("`all`", "all")
    yield ""
    yield where(run["machine"])


def fuzzers() -> Iterator[str]:
    """What the fuzzers did."""
    run = stored()["fuzz"]
    yield "| fuzzer | inputs | seconds |"
    yield "|---|---|---|"
    for name, (inputs, seconds) in run["results"].items():
        yield f"| {name} | {inputs:,} | {seconds:,.0f} |"
    yield ""
    yield where(run["machine"])
