"""The modules of higher layers that lower ones call, as `policy.values.text(tensor)`.

No layer imports one above it: a layer that needs these modules receives this module once, on
import.
"""

import sys

from fastdl._bridges import lookup as lookup
from fastdl._bridges import numpy as numpy
from fastdl._convert import asarray as asarray
from fastdl._convert import complete as complete
from fastdl._convert import convert as convert
from fastdl._convert import pickling as pickling
from fastdl._convert import refusals as refusals
from fastdl._convert import targets as targets
from fastdl._convert import token as token
from fastdl._convert import values as values
from fastdl._core import exchange, foreign, tensor
from fastdl._protocol import array_interface as array_interface
from fastdl._protocol import consumer as consumer
from fastdl._protocol import cuda_array as cuda_array
from fastdl._protocol import placement as placement
from fastdl._protocol import producer as producer
from fastdl._protocol import streams as streams


def connect() -> None:
    """Called once, on import."""
    for layer in (foreign, tensor, exchange, convert):
        layer.install(sys.modules[__name__])
