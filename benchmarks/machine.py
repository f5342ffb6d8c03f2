# SPDX-License-Identifier: Apache-2.0
"""Where and with what a run was made: enough to judge the numbers, nothing that is private."""

import importlib.metadata
import os
import subprocess
from datetime import datetime, timezone

import fastdl
from benchmarks import ROOT

PEERS = ("numpy", "torch", "jax", "apache-tvm-ffi", "nanobind", "pybind11", "pyperf")


def facts() -> dict[str, str]:
    import pyperf  # which tests of what is measured need not have

    known = pyperf.Run([1.0], collect_metadata=True).get_metadata()
    names = {
        "cpu_model_name": "CPU",
        "cpu_count": "cores",
        "platform": "system",
        "python_version": "Python",
        "python_compiler": "Python's compiler",
    }
    answer = {name: str(known[key]) for key, name in names.items() if key in known}
    if hasattr(os, "getloadavg"):
        answer["load before"] = f"{os.getloadavg()[0]:.2f}"
    answer["date"] = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    return answer


def versions() -> dict[str, str]:
    answer = {"fastdl": fastdl.__version__ + commit()}
    for peer in PEERS:
        try:
            answer[peer] = importlib.metadata.version(peer)
        except importlib.metadata.PackageNotFoundError:
            answer[peer] = "not installed"
    return answer


def commit() -> str:
    """The commit in parentheses, with a + for changes not committed; empty outside a repository."""
    command = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    except FileNotFoundError:
        return ""
    return f" (git {done.stdout.strip()})" if done.returncode == 0 else ""
