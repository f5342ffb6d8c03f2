# SPDX-License-Identifier: Apache-2.0
"""Libraries that are not in the extra `peers`, each of which takes minutes to install: the stage
`matrix` runs this where they are."""

import json

import pytest

from tests.support.isolate import describe, run_python

from .harness import particular, run_cases
from .peers import MORE, PEERS, require


@pytest.mark.parametrize("peer", [peer for peer in MORE if particular(peer.name)], ids=repr)
def test_what_is_particular(peer):
    require(peer.module)
    run_cases(*particular(peer.name))


def test_operations_in_place():
    require("tensorflow")
    run_cases("in_place.py", peer="tensorflow")


@pytest.mark.parametrize("library", ["tensorflow", "paddle"])
def test_a_device_that_is_not_there(library):
    require(library)
    run_cases("device_that_is_not_there.py", peer=library)


@pytest.mark.slow
def test_the_order_of_conversions_means_nothing():
    for library in ("tensorflow", "warp", *(peer.module for peer in PEERS)):
        require(library)
    answers = []
    for seed in "12":
        child = run_python("-m", "tests.interop.cases.orders", seed)
        assert child.returncode == 0, describe(child)
        answers.append(json.loads(child.stdout.splitlines()[-1]))
    assert answers[0] == answers[1]
    assert len(answers[0]) > 500
