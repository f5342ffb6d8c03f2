# SPDX-License-Identifier: Apache-2.0
"""cloudpickle and joblib: they take the data, and joblib maps an ndarray."""

import pickle

import cloudpickle
import joblib
import numpy as np

import fastdl
from tests.processes.work import total


def test_they_take_the_data(tmp_path):
    tensor = fastdl.asarray(np.arange(3.0))
    assert pickle.loads(cloudpickle.dumps(tensor)).tolist() == [0, 1, 2]
    joblib.dump(tensor, tmp_path / "stored")
    loaded = joblib.load(tmp_path / "stored")
    assert loaded.tolist() == [0, 1, 2]
    with joblib.parallel_config("loky", n_jobs=2):
        assert joblib.Parallel()([joblib.delayed(total)(tensor)]) == [3]


def file_of(tensor):
    """What this process has mapped where the elements are."""
    with open("/proc/self/maps") as file:
        for line in file:
            first, last = (int(end, 16) for end in line.split()[0].split("-"))
            if first <= tensor.data_ptr < last:
                return line.split()[-1]
    return ""


def test_a_reducer_that_hands_joblib_an_ndarray():
    """As docs/processes.md has it."""
    from joblib.externals.loky.backend import reduction

    reduction.register(fastdl.Tensor, lambda tensor: (fastdl.asarray, (tensor.numpy(),)))
    tensor = fastdl.from_dlpack(np.zeros(1 << 18))
    with joblib.parallel_config("loky", n_jobs=2):
        (found,) = joblib.Parallel()([joblib.delayed(file_of)(tensor)])
    assert "joblib" in found
