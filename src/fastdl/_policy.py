"""What lower layers leave to higher ones.

Each name is a function that a lower layer calls as `policy.NAME`. No layer imports one above it:
each is given this module, once, on import.
"""

import sys

from fastdl._bridges.lookup import find_table as find_table
from fastdl._bridges.numpy import array as array
from fastdl._bridges.numpy import descriptor as descriptor
from fastdl._bridges.numpy import numpy as numpy
from fastdl._convert import convert
from fastdl._convert.asarray import empty as empty
from fastdl._convert.complete import complete as complete
from fastdl._convert.complete import copy as copy
from fastdl._convert.convert import WRAPPER as WRAPPER
from fastdl._convert.pickling import reduce as reduce
from fastdl._convert.refusals import explain as explain
from fastdl._convert.refusals import forbid as forbid
from fastdl._convert.refusals import refuse as refuse
from fastdl._convert.targets import known_bridge as known_bridge
from fastdl._convert.targets import unknown_library as unknown_library
from fastdl._convert.token import token as token
from fastdl._convert.values import contains as contains
from fastdl._convert.values import index as index
from fastdl._convert.values import number as number
from fastdl._convert.values import text as text
from fastdl._core import dtype, exchange, tensor
from fastdl._protocol.array_interface import export_array as export_array
from fastdl._protocol.consumer import acquire_over_protocol as acquire_over_protocol
from fastdl._protocol.consumer import check_delivery as check_delivery
from fastdl._protocol.consumer import finish_table_import as finish_table_import
from fastdl._protocol.consumer import from_dlpack as from_dlpack
from fastdl._protocol.cuda_array import export_cuda_array as export_cuda_array
from fastdl._protocol.placement import to_device as to_device
from fastdl._protocol.producer import export as export
from fastdl._protocol.streams import record as record
from fastdl._protocol.streams import release as release


def empty_shared(shape, dtype, device):
    """Imports multiprocessing, which `import fastdl` does not."""
    from fastdl._convert.sharing import empty

    return empty(shape, dtype, device)


def connect() -> None:
    """Called once, on import."""
    for layer in (dtype, tensor, exchange, convert):
        layer.install(sys.modules[__name__])
