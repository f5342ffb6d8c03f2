"""The bindings in benchmarks/ports, without the extensions that they are for: nox -s ports."""

import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

import fastdl
from tests.support.build import (
    ROOT,
    compile_source,
    compiled_once,
    folder,
    load_module,
    run_compiler,
)

PORTS = ROOT / "benchmarks" / "ports"


@pytest.fixture(scope="module")
def core():
    output = folder() / f"_histogram_core{sysconfig.get_config_var('EXT_SUFFIX')}"
    compiled_once(output, lambda path: compile_source(PORTS / "histogram_core.c", path))
    return load_module("_histogram_core", output)


@pytest.mark.parametrize("dtype", ["f8", ">f8", "f4", ">f4", "i2"])
def test_histograms(core, dtype):
    random = np.random.default_rng(0)
    x, y, weights = (random.uniform(-9, 9, 99).astype(dtype)[::-3] for _ in range(3))
    bins, range_ = np.array([4, 5]), np.array([[-3.0, 8.5], [-8.5, 4.5]])
    for function, arguments, all_weights in (
        (core._histogram2d, (), None),
        (core._histogram2d_weighted, (weights,), weights),
    ):
        expected = np.histogram2d(x, y, bins, range_, weights=all_weights)[0]
        result = function(x, y, *arguments, 4, -3.0, 8.5, 5, -8.5, 4.5)
        np.testing.assert_allclose(result, expected)
    np.testing.assert_allclose(
        core._histogramdd((x, y), bins, range_), np.histogram2d(x, y, bins, range_)[0]
    )
    tensor = fastdl.asarray(x.astype("f8"))
    result = core._histogram1d(tensor, 4, -3.0, 8.5)
    assert type(result) is fastdl.Tensor
    assert result.tolist() == np.histogram(x, 4, (-3.0, 8.5))[0].tolist()


def test_refusals(core):
    x = np.ones(3)
    for bad, error in ((x[:2], RuntimeError), (x * 1j, TypeError), ([1.0] * 3, TypeError)):
        with pytest.raises(error, match="weights: expected"):
            core._histogram1d_weighted(x, bad, 2, 0.0, 3.0)
    with pytest.raises(ValueError, match="n is 2 in samples"):
        core._histogramdd((x, x), np.array([3]), np.zeros((2, 2)))


def test_what_is_in_cython():
    """Against the declarations as they are."""
    include = Path(fastdl.__file__).parents[1]
    command = [sys.executable, "-m", "cython", "-Werror", f"-I{include}", PORTS / "kdtree.pyx"]
    run_compiler([*command, "-o", folder() / "kdtree.c"])
