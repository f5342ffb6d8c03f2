# SPDX-License-Identifier: Apache-2.0
"""Adapters of released libraries: everything that the suite knows about each."""

from collections.abc import Iterable

#: These crash if certain others were imported before them.
FIRST = ("dpnp", "drjit", "paddle", "torch", "jax", "tensorflow", "tvm")


def in_order(names: Iterable[str]) -> list[str]:
    """Names of libraries in an order in which one process can import them all."""
    ranks = {name: rank for rank, name in enumerate(FIRST)}
    return sorted(names, key=lambda name: (ranks.get(name, len(FIRST)), name))
