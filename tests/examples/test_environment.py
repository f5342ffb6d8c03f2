# SPDX-License-Identifier: Apache-2.0
"""docs/examples/trees: a wrapper for environments of Gymnasium, by convert_tree."""

import numpy as np

import fastdl
from tests.support.build import ROOT, load_module

Converted = load_module("environment", ROOT / "docs/examples/trees/environment.py").Converted


class Environment:
    """Returns what wrappers find hard: flipped and read-only images, words, nothing."""

    def __init__(self):
        self.image = np.arange(6.0).reshape(2, 3)
        self.image.flags.writeable = False
        self.action = None

    def seen(self):
        return {"image": self.image, "flipped": self.image[::-1], "words": ("left", None)}

    def reset(self, *, seed=None):
        return self.seen(), {"seed": seed}

    def step(self, action):
        self.action = action
        return self.seen(), np.float64(1.5), np.True_, False, {"steps": np.array([1])}


def test_the_wrapper():
    environment = Environment()
    wrapped = Converted(environment, "fastdl.Tensor")
    seen, info = wrapped.reset(seed=3)
    assert info == {"seed": 3}
    for _ in range(2):
        assert seen["image"].tolist() == environment.image.tolist()
        assert seen["image"].readonly
        assert seen["flipped"].tolist() == environment.image[::-1].tolist()
        assert seen["words"] == ("left", None)
        seen, *rest, info = wrapped.step([fastdl.asarray(bytearray(b"a"))])
        assert rest == [1.5, True, False]
        assert [type(part) for part in rest] == [float, bool, bool]
        assert info["steps"].tolist() == [1]
        assert type(environment.action[0]) is np.ndarray
