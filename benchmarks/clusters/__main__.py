"""See __init__.py."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import ROOT, machine
from benchmarks.clusters import LARGE
from benchmarks.clusters.budgets import MEASURED
from benchmarks.clusters.ways import OBJECTS, WAYS
from fastdl._testing import json_rows

RESULTS = ROOT / "docs" / "processes.json"
SMALL = 1 << 24  # the bytes of a payload whose copies are counted


def run(module, *words, **env):
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.clusters.{module}", *map(str, words)],
        stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore", **env},
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clusters")
    parser.add_argument("ways", nargs="*", help=", ".join([*WAYS, *MEASURED]))
    wanted = parser.parse_args().ways or [*WAYS, *MEASURED]
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"ways": {}, "measured": {}}
    results |= {"machine": machine.facts(), "versions": machine.versions()}
    with tempfile.TemporaryDirectory() as folder:
        shim, counts = Path(folder, "copies.so"), Path(folder, "counts")
        counts.write_bytes(bytes(24))
        words = ["cc", "-O2", "-shared", "-fPIC", "-fno-builtin", "-o", shim]
        subprocess.run([*words, ROOT / "benchmarks/clusters/copies.c", "-ldl"], check=True)
        counting = {"FASTDL_COPIES": str(counts), "LD_PRELOAD": str(shim)}
        for way in [way for way in wanted if way in WAYS]:
            for kind in OBJECTS:
                print(way, kind, file=sys.stderr, flush=True)
                found = run("ways", way, kind, LARGE)
                for name, more in run("ways", way, kind, SMALL, **counting).items():
                    found[name] |= more
                for name, facts in found.items():
                    row = results["ways"].setdefault(name, {})
                    row[kind] = {key: float(f"{value:.3g}") for key, value in facts.items()}
                RESULTS.write_text(json_rows.dumps(results) + "\n")
    for name in [name for name in wanted if name in MEASURED]:
        print(name, file=sys.stderr, flush=True)
        results["measured"][name] = run("budgets", name)
        RESULTS.write_text(json_rows.dumps(results) + "\n")


if __name__ == "__main__":
    main()
