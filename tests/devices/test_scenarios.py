# SPDX-License-Identifier: Apache-2.0
"""The scenarios of tests/gpu on the simulated drivers, where every missing order is a race.

tests/gpu/test_hardware.py runs the same on a GPU.
"""

import ctypes
from types import SimpleNamespace

import pytest

import fastdl
from tests.gpu import stream_objects
from tests.gpu.arrays import DefinedLibrary, InterfaceLibrary, Library, TabledLibrary
from tests.gpu.backends import Simulated
from tests.gpu.scenarios import Scenarios, fixtures

LIBRARIES = [Library, TabledLibrary]
CONSUMERS = [*LIBRARIES, InterfaceLibrary]


@pytest.fixture(params=["cuda", "hip"])
def gpu(request):
    backend = Simulated(request.param)
    yield backend
    backend.close()


library, producer, consumer = fixtures(LIBRARIES, CONSUMERS, [*CONSUMERS, DefinedLibrary])


class TestSimulated(Scenarios):
    """Those of scenarios.py."""


# ---- stream objects -------------------------------------------------------------------------


#: Objects for a stream, as libraries have them: torch's is of one without the protocol.
OBJECTS = {
    "ByProtocol": lambda handle: SimpleNamespace(__cuda_stream__=lambda: (0, handle)),
    "OfTorch": lambda handle: SimpleNamespace(cuda_stream=handle, device_index=0),
    "OfCupy": lambda handle: SimpleNamespace(ptr=handle, device_id=-1),
    "OfNumba": lambda handle: SimpleNamespace(handle=ctypes.c_void_p(handle)),
}


@pytest.mark.parametrize("use", stream_objects.USES)
@pytest.mark.parametrize("which", ["own", "default", "per-thread"])
@pytest.mark.parametrize("kind", OBJECTS)
def test_stream_object(gpu, library, kind, which, use):
    if which == "own":
        number = handle = gpu.stream(blocking=True)
    elif which == "default":
        number, handle = gpu.default_stream, 0
    else:
        number = handle = 2
    stream = OBJECTS[kind](handle)
    if number == 2 and gpu.kind == "hip":
        with pytest.raises(ValueError, match="ROCm has no stream 2"):
            fastdl.use_stream(gpu.device, stream)
    else:
        stream_objects.stream_object(gpu, library, use, stream, number)
