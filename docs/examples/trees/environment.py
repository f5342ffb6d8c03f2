# SPDX-License-Identifier: Apache-2.0
import fastdl


class Converted:
    """A Gymnasium environment whose observations are arrays of the library `like`."""

    def __init__(self, env, like="torch"):
        self.env, self.like = env, like

    def reset(self, **keywords):
        return fastdl.convert_tree(self.env.reset(**keywords), self.like)

    def step(self, action):
        seen, reward, *ended, info = self.env.step(fastdl.convert_tree(action, "numpy"))
        seen, info = fastdl.convert_tree((seen, info), self.like)
        return seen, float(reward), *map(bool, ended), info
