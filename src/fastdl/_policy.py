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

#: (caller, callee, what it calls there, why that is not below). tests/test_layers.py compares this
#: with the calls.
WAYS_UP = (
    ("_memory/block.h", "_core/lifetime.c", "drop release", "owners are Python's objects"),
    ("_memory/block.h", "_devices/ordering.c", "fdl_work_end", "events end with the memory"),
    ("_memory/block.h", "_devices/put_off.c", "fdl_should_defer", "a driver's callback may run"),
    ("_core/devices.h", "_devices/exchanges.c", "fdl_device_calls", "imports and exports wait"),
    ("_core/tensor.pxd", "_bridges/_numpy.pyx", "array_maker", "NumPy is loaded at first use"),
    ("_core/tensor.pyx", "_bridges/numpy.py", "array numpy", "NumPy is loaded at first use"),
    ("_core/foreign.py", "_bridges/lookup.py", "load", "a library's file reads its objects"),
    ("_core/tensor.pyx", "_protocol/producer.py", "export", "exports with keywords"),
    ("_core/tensor.pyx", "_protocol/placement.py", "to_device", "copies are made by drivers"),
    ("_core/tensor.pyx", "_protocol/streams.py", "record release", "streams are objects, too"),
    ("_core/tensor.pyx", "_protocol/cuda_array.py", "export_cuda_array", "it orders a stream"),
    ("_core/tensor.pyx", "_convert/pickling.py", "reduce", "pickles are read by conversions"),
    ("_core/tensor.pyx", "_convert/token.py", "token", "Dask gives it"),
    ("_core/tensor.pyx", "_convert/values.py", "contains index number text", "Python's operators"),
    (
        "_core/exchange.pyx",
        "_protocol/consumer.py",
        "acquire_over_protocol from_dlpack place",
        "imports with keywords",
    ),
    ("_core/exchange.pyx", "_bridges/lookup.py", "stated table_of", "a file states facts"),
    ("_core/exchange.pyx", "_convert/convert.pyx", "ALLOCATOR WRAPPER", "results of C code"),
    ("_convert/convert.pyx", "_convert/complete.py", "complete copy", "calls with keywords"),
    ("_convert/convert.pyx", "_convert/targets.py", "bridge_for unknown_library", "unseen types"),
    (
        "_convert/convert.pyx",
        "_convert/refusals.py",
        "explain forbid no_memory refuse unfit",
        "messages read the list of libraries",
    ),
)


def connect() -> None:
    """Called once, on import."""
    for layer in (foreign, tensor, exchange, convert):
        layer.install(sys.modules[__name__])
