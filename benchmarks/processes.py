# SPDX-License-Identifier: Apache-2.0
"""A fresh process for each measurement: what runs there is in worker.py."""

import json
import subprocess
import sys

from benchmarks import ROOT


def run(kind: str, **options) -> dict:
    """What the job of that name in worker.py returns, in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.worker", kind, json.dumps(options)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    if done.returncode:
        raise RuntimeError(f"the worker for {kind} ended with status {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])
