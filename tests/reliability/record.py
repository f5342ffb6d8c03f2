"""docs/reliability.json: what was measured, and where; and the page's part of it."""

import json

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
