# SPDX-License-Identifier: Apache-2.0
"""The benchmarks' own modules: all of them compile, link and load. No time is taken."""

import pytest

from tests.support.isolate import describe, run_python

from .peers import require

pytestmark = pytest.mark.slow

LOAD = "from benchmarks import native; print(*(native.load(name) and name for name in {!r}))"
NEEDS = {"with_nanobind": "nanobind", "with_pybind11": "pybind11", "with_tvm_ffi": "tvm_ffi"}
HERE = (
    "loops",
    "direct",
    "with_fastdl",
    "with_fastdl_alone",
    "with_fastdl_limited",
    "kernel_key",
)


@pytest.mark.parametrize("names", [HERE, *((name,) for name in NEEDS)], ids="-".join)
def test_modules_are_built(names):
    for name in names:
        if name in NEEDS:
            require(NEEDS[name])
    child = run_python("-c", LOAD.format(names))
    assert child.returncode == 0, describe(child)
    assert child.stdout.split()[-len(names) :] == list(names)
