"""python -m fastdl demo and bench with each of the large libraries."""

import json
import subprocess
import sys

import pytest

from fastdl._cli.libraries import BY_NAME
from tests.interop.peers import PEERS, require

NAMES = list(dict.fromkeys(peer.module.partition(".")[0] for peer in PEERS))


def run(name, *arguments):
    require(name)
    command = [sys.executable, "-m", "fastdl", *arguments]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_each_peer_is_known_to_the_command_line():
    assert set(NAMES) <= BY_NAME.keys()


@pytest.mark.parametrize("name", NAMES)
def test_demo(name):
    shown = run(name, "demo", "--library", name)
    assert shown.startswith(f"{name} ")
    assert shown.count("  ok ") >= 2
    assert "FAILED" not in shown
    if name == "torch":  # its hazards
        assert "changes read-only memory" in shown
        assert "crashes the process (SIGABRT)" in shown
        assert shown.count("fastdl.convert copies: ") == 2


@pytest.mark.parametrize("name", [name for name in NAMES if name != "numpy"])
@pytest.mark.slow
def test_bench(name):
    """Of NumPy: tests/test_bench.py."""
    report = json.loads(run(name, "bench", "--json", "--quiet", "--only", name))
    (library,) = report["libraries"]
    assert library["failure"] is None
    assert len(library["rows"]) >= 2
    assert [row["error"] for row in library["rows"] if "error" in row] == []
