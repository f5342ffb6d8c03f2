"""What C code queues on its work stream, after fastdl_empty or fastdl_own, is waited for by those
who use what fastdl_wrap makes of it."""

import ctypes

import pytest

import fastdl
from tests.support.ctypes_dlpack import Table, address_in
from tests.support.frameworks import Protocol, export
from tests.support.headers import installed
from tests.support.library import libraries, showing_table
from tests.support.simulation import read, write

pytestmark = installed
SHAPE, NBYTES = (2, 3), 24


@pytest.fixture
def streams(here):
    """The work stream of the C code, and the stream of who comes next."""
    return here.sim.side(), here.sim.side()


def empty(api, here, cls):
    return api.empty(here.tensor(SHAPE), cls)


def owned(api, here, cls):
    return api.own(here.tensor(SHAPE))


def filled(api, here, stream, managed):
    """`managed`, on which a kernel writes."""
    with here.sim.device(0):
        here.sim.kernel(stream, write(api.held(managed)["data"], NBYTES, 5))
    return managed


def used(here, tensor, stream):
    export(tensor, stream)
    with here.sim.device(0):
        here.sim.kernel(stream, read(tensor.data_ptr, NBYTES))
        here.sim.synchronize(stream)


@pytest.mark.parametrize("before", [True, False], ids=["made before the block", "in it"])
@pytest.mark.parametrize("inside", [True, False], ids=["used in the block", "after it"])
def test_a_tensor_is_used_after_what_fills_it(api, here, streams, before, inside):
    own, other = streams
    managed = owned(api, here, fastdl.Tensor) if before else None
    with fastdl.use_stream(here.device, own):
        managed = managed or owned(api, here, fastdl.Tensor)
        tensor = api.wrap(filled(api, here, own, managed), fastdl.Tensor)
        if inside:
            used(here, tensor, other)
    if not inside:
        used(here, tensor, other)


@pytest.mark.parametrize("make", [empty, owned])
def test_a_library_without_a_table_gets_it_after_what_fills_it(
    api, here, streams, monkeypatch, make
):
    """It asks for its own stream, as CuPy does."""
    own, other = streams

    def finished(tensor, like):
        used(here, tensor, other)
        return like(tensor)

    def allocated(shape, dtype, device):
        return Protocol(here.array(shape=shape, dtype=dtype, device=device.id))

    cls = libraries(monkeypatch)(make=finished, devices="anywhere", empty=allocated)
    with fastdl.use_stream(here.device, own):
        api.wrap(filled(api, here, own, make(api, here, cls)), cls)


@pytest.mark.parametrize("recorded", [False, True], ids=["on its work stream", "recorded"])
def test_a_library_with_a_table_gets_memory_after_what_c_code_did(api, here, streams, recorded):
    """The current stream of the library waits."""
    own, other = streams
    current = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p)
    )

    @current
    def current_stream(device_type, device_id, out):
        out[0] = other
        return 0

    capsule = showing_table()
    table = Table.from_address(address_in(capsule))
    table.current_work_stream = ctypes.cast(current_stream, ctypes.c_void_p).value
    cls = type("Lib", (), {"__dlpack_c_exchange_api__": capsule})
    array = here.array()
    tensor = fastdl.from_dlpack(Protocol(array))
    if recorded:
        array.write(own)
        tensor.record(own)
        result = api.wrap(api.own(tensor), cls)
    else:
        with fastdl.use_stream(here.device, own):
            managed = api.own(tensor)
            array.write(own)
            result = api.wrap(managed, cls)
    assert result.data_ptr == array.pointer
    with here.sim.device(0):
        here.sim.kernel(other, read(result.data_ptr, NBYTES))
        here.sim.synchronize(other)
