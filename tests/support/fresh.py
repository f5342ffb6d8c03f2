"""Fixtures of the tests of the simulated drivers themselves."""

import pytest

from tests.support.simulation import Simulation


def fresh(*kinds):
    """A fixture: a simulated driver of each kind, without history, which fastdl does not use."""

    @pytest.fixture(params=kinds)
    def simulation(request):
        with Simulation.fresh(request.param) as simulation:
            yield simulation

    return simulation
