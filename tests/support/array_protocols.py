# SPDX-License-Identifier: Apache-2.0
"""Objects that have one of NumPy's protocols, and nothing else."""


class OnlyInterface:
    """An object with the interface of an array and nothing else; `changes` to its dict."""

    def __init__(self, array, **changes):
        self.array = array
        self.__array_interface__ = {**array.__array_interface__, **changes}


class OnlyArray:
    def __init__(self, answer):
        self.answer = answer

    def __array__(self, dtype=None, copy=None):
        return self.answer
