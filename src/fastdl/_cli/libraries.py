# SPDX-License-Identifier: Apache-2.0
"""The libraries that the command line knows: those of `_bridges/lookup.py`."""

from collections.abc import Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple

from fastdl._bridges import lookup


class Library(NamedTuple):
    name: str  # of the package, as imported
    sample: str  # an array of float32 0 to 5 on the host: MODULE:EXPRESSION, see expression.py

    @property
    def module(self) -> str:
        """The module of its arrays, the target for fastdl.convert."""
        return self.sample.partition(":")[0]

    @property
    def version(self) -> str:
        """Its version, or "" if it has none; imports the library."""
        modules = (import_module(name) for name in (self.name, self.module))
        versions = (getattr(module, "__version__", None) for module in modules)
        return next((str(version) for version in versions if version), "")

    @property
    def installed(self) -> bool:
        """Whether it can be found; it is not imported. A folder of its name is not enough."""
        spec = find_spec(self.name)
        if spec is not None and spec.origin is None:  # a folder, or a namespace package like mlx
            return self.module != self.name and find_spec(self.module) is not None
        return spec is not None

    @property
    def is_target(self) -> bool:
        """Whether fastdl.convert can make arrays of it."""
        return bool(lookup.bridges_of(self.name))


def _libraries() -> Iterator[Library]:
    for package, file in lookup.LIBRARIES.items():
        sample = getattr(lookup.load(package), "SAMPLE", None)
        if sample and package == file:  # and not another package of the same library
            yield Library(package, sample)
    for package, maker in lookup.MAKERS.items():
        if package not in lookup.LIBRARIES:
            module, _, function = maker.rpartition(".")
            yield Library(package, f"{module}:{function}(numpy.arange(6, dtype='float32'))")


LIBRARIES = tuple(_libraries())  # in the order in which they are shown
BY_NAME = {library.name: library for library in LIBRARIES}
#: These abort the process if certain others were imported before them.
FIRST = ["dpnp", "drjit", "paddle", "torch", "jax", "tensorflow", "tvm"]


def installed() -> list[Library]:
    """The libraries that are installed here."""
    return [library for library in LIBRARIES if library.installed]


def in_order(names: Iterable[str]) -> list[str]:
    """Names of libraries, in an order in which one process can import them all."""
    return sorted(names, key=lambda name: [*FIRST, name].index(name))
