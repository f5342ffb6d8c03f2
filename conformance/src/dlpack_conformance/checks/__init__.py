# SPDX-License-Identifier: Apache-2.0
"""The checks, in the order of their sections: each module registers its own."""

from dlpack_conformance.checks import (
    consumers,
    copies,
    hostile,
    layouts,
    producers,
    tables,
    threads,
)

__all__ = ["consumers", "copies", "hostile", "layouts", "producers", "tables", "threads"]
