"""The ways up: all that a layer calls of a higher one, and what would close a circle of imports.

No layer imports one above it. A module that calls one receives this module once, on import, as
`policy`. In C the lower layer declares a pointer, or a table of them, and the higher one sets it.
"""

import sys

from fastdl._bridges import lookup as lookup
from fastdl._bridges import numpy as numpy
from fastdl._convert import complete as complete
from fastdl._convert import convert as convert
from fastdl._convert import pickling as pickling
from fastdl._convert import refusals as refusals
from fastdl._convert import targets as targets
from fastdl._convert import token as token
from fastdl._convert import values as values
from fastdl._core import exchange, foreign, tensor
from fastdl._protocol import consumer as consumer
from fastdl._protocol import cuda_array as cuda_array
from fastdl._protocol import placement as placement
from fastdl._protocol import producer as producer
from fastdl._protocol import streams as streams


def connect() -> None:
    """Called once, on import."""
    for layer in (foreign, tensor, exchange, convert):
        layer.install(sys.modules[__name__])
