# SPDX-License-Identifier: Apache-2.0
"""python -m fastdl with large libraries, each in a process of its own."""

import json

import pytest

from fastdl._bridges.lookup import MAKERS
from fastdl._cli.libraries import BY_NAME
from tests.interop.peers import PEERS, require
from tests.support.isolate import run_python

NAMES = list(dict.fromkeys(peer.module.partition(".")[0] for peer in PEERS))


def run(name, *arguments):
    require(name)
    done = run_python("-m", "fastdl", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_each_peer_is_known_to_the_command_line():
    missing = set(NAMES) - BY_NAME.keys()
    assert missing == set(), "add a row to LIBRARIES in src/fastdl/_bridges/lookup.py"


@pytest.mark.parametrize("name", [*NAMES, *MAKERS])
def test_demo(name):
    shown = run(name, "demo", "--library", name)
    assert shown.startswith(f"{name} ")
    assert shown.count("  ok ") >= 1 + BY_NAME[name].is_target
    assert "FAILED" not in shown


@pytest.mark.parametrize(
    ("array", "name", "outcome", "reason"),
    [
        ("torch:ones(3, 4).t()", "numpy", "zero-copy", ""),
        ("torch:ones(6)", "mlx", "copy", "mlx.core.array always copies such data"),
        ("jax.numpy:ones(6)", "torch", "copy", "read-only"),
    ],
)
def test_inspect(array, name, outcome, reason):
    require(array.partition(":")[0])
    found = json.loads(run(name, "inspect", array, "--only", name, "--json", "--quiet"))
    assert found["managed"]["by_library"]
    assert found["consumers"][name]["outcome"] == outcome
    assert reason in found["consumers"][name]["reason"]
