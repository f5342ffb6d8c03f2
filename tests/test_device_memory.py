"""fastdl's own memory on devices: allocated, used, and freed when nothing uses it any more."""

import gc
import weakref

import pytest

import fastdl
from fastdl._core import tensor as core
from fastdl._devices import driver
from tests.support.build import extension
from tests.support.ctypes_dlpack import opened
from tests.support.frameworks import capturing, in_thread, stream_on, synchronize
from tests.support.isolate import run_isolated
from tests.support.memory import deleter_of, expect_race, machine, taken, values
from tests.support.own_memory import ALLOCATING, ALLOCATING_ELSEWHERE, FREEING
from tests.support.simulation import read, write

consumer = extension("consumer")
TABLE = fastdl.exchange_api(fastdl.Tensor)
PLACES = "cuda:0 cuda:1 cuda_host cuda_managed:0 cuda_managed:1 rocm:0 rocm:1 rocm_host".split()


class Kept:
    """A producer."""


def kernel(here, tensor, stream, payload=5, device=0):
    """A kernel that writes the whole tensor."""
    with here.sim.device(device):
        here.sim.kernel(stream, write(tensor.data_ptr, tensor.nbytes, payload))


def in_use(here, device=None, ordinal=0):
    """A tensor that a stream still works on, and is known to."""
    stream = stream_on(here.sim, ordinal, blocking=False)
    tensor = fastdl.empty(100, "int8", device or here.device)
    kernel(here, tensor, stream, device=ordinal)
    tensor.record(stream)
    return tensor


# ---- allocating -----------------------------------------------------------------------------


@pytest.mark.parametrize("place", PLACES, ids=PLACES)
def test_empty(place):
    with machine("hip" if place.startswith("rocm") else "cuda") as here:
        check_empty(here, fastdl.Device(place))


def check_empty(here, device):
    tensor = fastdl.empty((3, 5), "float16", device)
    assert (tensor.shape, tensor.strides, tensor.dtype.name) == ((3, 5), (5, 1), "float16")
    assert tensor.device == device
    assert not tensor.readonly and not tensor.is_copied
    assert tensor.data_ptr % 256 == 0
    found = driver.find_pointer(device.type, tensor.data_ptr)
    assert found == device
    assert here.allocations == 1
    del tensor
    assert here.allocations == 0


@pytest.mark.parametrize("shape", [0, (3, 0), ()])
def test_few_elements(here, shape):
    tensor = fastdl.empty(shape, "int8", here.device)
    assert tensor.data_ptr != 0
    assert tensor.shape == (shape if isinstance(shape, tuple) else (shape,))


def test_the_second_device(here):
    tensor = fastdl.empty(4, "int8", f"{here.device}:1")
    assert driver.find_pointer(tensor.device.type, tensor.data_ptr) == (tensor.device.type, 1)


def test_views_and_capsules_keep_the_memory(here):
    tensor = fastdl.empty((2, 3), "int8", here.device)
    view, capsule = tensor[1], tensor.__dlpack__(stream=-1)
    del tensor
    assert here.allocations == 1
    del view
    assert here.allocations == 1
    del capsule
    assert here.allocations == 0


def test_a_device_that_does_not_exist(here):
    for ordinal in (2, 63, 2**31 - 1):
        with pytest.raises(BufferError, match=f"no .* device {ordinal}: this machine has 2"):
            fastdl.empty(2, device=(fastdl.Device(here.device).type, ordinal))


@pytest.mark.parametrize("shape", [2**40, 2**62])
def test_out_of_memory(here, shape):
    with pytest.raises(MemoryError, match=r"cannot allocate \d+ bytes on .*OutOfMemory|OUT_OF_MEM"):
        fastdl.empty(shape, "int8", here.device)
    assert here.allocations == 0


def test_more_bytes_than_can_be_counted(here):
    with pytest.raises(MemoryError):
        fastdl.empty((2**40, 2**40), device=here.device)


def test_the_context_is_restored(cuda_machine):
    with cuda_machine.sim.device(1):
        before = cuda_machine.sim.context_depth()
        tensor = fastdl.empty(2, device="cuda:0")
        del tensor
        assert cuda_machine.sim.context_depth() == before


@pytest.mark.parametrize("ordinal", [0, 1])
@pytest.mark.parametrize("current", [0, 1])
@pytest.mark.parametrize("made", ["to", "from_dlpack"])
def test_memory_for_a_stream_of_another_device(here, made, current, ordinal):
    """It is on the device that was asked for, and ready on that stream."""
    device, other = fastdl.Device(f"{here.device}:{ordinal}"), 1 - ordinal
    stream = stream_on(here.sim, other, blocking=False)
    host = fastdl.from_dlpack(values(25))
    with here.sim.device(other), here.sim.device(current):
        tensor = {
            "to": lambda: host.to(device, stream=stream),
            "from_dlpack": lambda: fastdl.from_dlpack(host, device=device, stream=stream),
        }[made]()
        assert tensor.device == device
        assert driver.find_pointer(device.type, tensor.data_ptr) == device
        kernel(here, tensor, stream, device=other)
        tensor.record(stream)
        del tensor
        assert here.allocations == 0


# ---- freeing --------------------------------------------------------------------------------


@pytest.mark.parametrize("place", PLACES, ids=PLACES)
def test_freeing_waits_for_what_was_recorded(place):
    with machine("hip" if place.startswith("rocm") else "cuda") as here:
        check_freeing_waits(here, place, fastdl.Device(place).id)


def check_freeing_waits(here, device, ordinal):
    tensor = in_use(here, device, ordinal)
    del tensor
    assert here.allocations == 0
    assert here.calls("await event") == 1


def test_freeing_without_a_wait_is_seen(here):
    tensor = in_use(here)
    here.ignore("await event")
    del tensor
    expect_race(here.sim)


def test_freeing_waits_for_many_streams(here):
    tensor = fastdl.empty(100, "int8", here.device)
    for _ in range(11):  # more than there is room for edges
        stream = stream_on(here.sim, blocking=False)
        with here.sim.device(0):
            here.sim.kernel(stream, read(tensor.data_ptr, 100))
        tensor.record(stream)
    del tensor
    assert here.allocations == 0


def test_freeing_memory_that_was_lent_to_c_code(here):
    # Which works on the work stream and tells nobody.
    stream = stream_on(here.sim, blocking=False)
    tensor = fastdl.empty(100, "int8", here.device)
    with fastdl.use_stream(here.device, stream):
        consumer.borrow(TABLE, tensor)
        kernel(here, tensor, stream)
        del tensor
    assert here.allocations == 0


def test_freeing_on_another_thread(here):
    tensor = in_use(here)
    held = [tensor]
    del tensor
    in_thread(here.sim, held.clear)
    assert here.allocations == 0


def test_freeing_without_the_gil(here):
    tensor = in_use(here)
    struct, address = taken(tensor)
    del tensor
    deleter_of(struct)(address)  # ctypes lets the GIL go
    assert here.allocations == 0


@pytest.mark.parametrize("call", ["free", "await event", "enter"])
@pytest.mark.parametrize("code", [800, 900, 906])
def test_what_the_driver_refuses_for_the_moment_is_put_off(here, call, code):
    tensor = in_use(here)
    here.fail_next(call, code)
    del tensor
    assert here.allocations == 1
    other = fastdl.empty(1, device=here.device)
    if here.kind == "hip" and code >= 900:  # a capture, which a wait of the host would break
        assert here.allocations == 2
        other.to("cpu")
    assert here.allocations == 1  # that of `other`


@pytest.mark.parametrize("call", ["free", "await event", "enter"])
@pytest.mark.parametrize("code", [4, 201, 709])
def test_without_a_driver_memory_is_forgotten(call, code):
    run_isolated(f"""
        import fastdl, gc
        from tests.support.memory import machine
        from tests.support.frameworks import stream_on
        from tests.support.simulation import write
        try:
            with machine("cuda") as here:
                stream = stream_on(here.sim, blocking=False)
                tensor = fastdl.empty(100, "int8", "cuda")
                with here.sim.device(0):
                    here.sim.kernel(stream, write(tensor.data_ptr, 100, 1))
                tensor.record(stream)
                here.fail_next({call!r}, {code})
                del tensor
                fastdl.empty(1, device="cuda")
                assert here.allocations == 1
        except AssertionError as error:
            assert str(error) == "memory was not freed"
        else:
            assert False
    """)


@pytest.mark.parametrize("call", ["await event", "enter", "switch"])
def test_a_free_that_fails_once_is_tried_again(here, call):
    tensor = in_use(here)
    with here.sim.device(1):  # so that there is something to switch
        here.fail_next(call, 999)
        del tensor
    assert here.allocations == 1
    fastdl.empty(1, device=here.device)
    assert here.allocations == 0


def test_freeing_during_a_capture(here):
    # A capture of another stream in the strictest mode goes on. HIP must have seen one: see
    # test_captures.py.
    if here.kind == "hip":
        return
    tensor = in_use(here)
    with capturing(here.sim, stream_on(here.sim, blocking=False)):
        del tensor
        assert here.allocations == 0
        fastdl.empty(3, device=here.device)


def test_freeing_in_a_forked_child():
    run_isolated("""
        import os, fastdl
        from tests.support.memory import machine
        with machine("cuda") as here:
            tensor = fastdl.empty(100, "int8", "cuda")
            calls = len(here.sim.log())
            child = os.fork()
            if child == 0:
                del tensor
                os._exit(0 if len(here.sim.log()) == calls else 1)
            assert os.waitpid(child, 0)[1] == 0
            assert here.allocations == 1
            del tensor
    """)


@pytest.mark.parametrize("kind", ["cuda", "hip"])
def test_freeing_when_the_driver_has_gone(kind):
    run_isolated(f"""
        import fastdl
        from tests.support.simulation import Simulation
        from tests.support.frameworks import TYPES
        from fastdl._devices import driver as device
        sim = Simulation({kind!r})
        device.replace_driver(TYPES[{kind!r}], str(sim.path))
        kinds = [TYPES[{kind!r}], TYPES[{kind!r}] + 1]
        tensors = [fastdl.empty(9, device=(kind, 0)) for kind in kinds]
        sim.deinit()
        del tensors
    """)


@pytest.mark.parametrize("kind", ["cuda", "hip"])
def test_freeing_at_the_end_of_the_interpreter(kind):
    run_isolated(f"""
        import sys
        import fastdl
        from tests.support.simulation import Simulation
        from tests.support.frameworks import TYPES
        from fastdl._devices import driver as device
        sim = Simulation({kind!r})
        device.replace_driver(TYPES[{kind!r}], str(sim.path))
        held = fastdl.empty(9, device=(TYPES[{kind!r}], 0))
        sys.held = fastdl.empty(9, device=(TYPES[{kind!r}] + 1, 0))
    """)


def test_freeing_when_the_interpreter_is_gone():
    run_isolated("""
        import ctypes
        import fastdl
        from tests.support.simulation import Simulation
        from tests.support.memory import taken
        from fastdl._devices import driver as device
        sim = Simulation("cuda")
        device.replace_driver(2, str(sim.path))
        struct, address = taken(fastdl.empty(9, device="cuda"))
        # libc runs this after Python has ended; its argument is the tensor.
        register = ctypes.CDLL(None).__cxa_atexit
        register.argtypes = [ctypes.c_void_p] * 3
        assert register(struct.deleter, address, None) == 0
    """)


def test_memory_whose_producer_would_be_kept(here):
    # A producer that hands out fastdl's own memory: nothing comes before the memory, whose release
    # waits for its users, and on HIP for the host to have waited.
    stream = stream_on(here.sim, blocking=False)
    tensor, producer = fastdl.empty(100, "int8", here.device), Kept()
    alive = weakref.ref(producer)
    core.keep_alive(tensor, producer)
    del producer
    assert alive() is None
    kernel(here, tensor, stream)
    tensor.record(stream)
    synchronize(here.sim, stream)
    with capturing(here.sim, stream):
        with pytest.raises(BufferError, match="graph"):
            fastdl.empty(1, device=here.device).record(stream)  # now fastdl has seen the capture
        del tensor
        assert here.allocations == (2 if here.kind == "hip" else 0)
    other = fastdl.empty(1, device=here.device)
    other.to("cpu")
    assert here.allocations == 1


# ---- faults ---------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [c for c in ALLOCATING if c not in ALLOCATING_ELSEWHERE])
def test_a_failing_allocation(here, call):
    here.fail_next(call, 999)
    with pytest.raises(
        BufferError, match=rf"cannot allocate 4 bytes on .*{here.name(call)}.*\(999"
    ):
        fastdl.empty(1, "int32", f"{here.device}:1")
    assert here.allocations == 0
    assert fastdl.empty(1, "int32", f"{here.device}:1").size == 1


@pytest.mark.parametrize("call", ALLOCATING_ELSEWHERE)
def test_a_failing_allocation_of_other_memory(cuda_machine, call):
    cuda_machine.fail_next(call, 999)
    with pytest.raises(BufferError, match="999"):
        fastdl.empty(1, device="cuda_host" if call == "pin" else "cuda_managed")


@pytest.mark.parametrize("call", FREEING)
def test_a_free_that_the_driver_refuses_is_not_repeated(here, call):
    # It may have freed the memory all the same, and given it to somebody else.
    device = here.pinned if call == "unpin" else here.device
    tensor = fastdl.empty(1, device=device)
    address = tensor.data_ptr
    here.fail_next(call, 999)
    del tensor
    fastdl.empty(1, device=here.pinned)
    assert here.allocations == 1
    with here.sim.device(0):
        here.sim.free(address, "pinned" if call == "unpin" else "device")
    here.sim.forget()


# ---- the allocator of the exchange table ----------------------------------------------------


def allocate(device, shape=(2, 3)):
    """What the table's allocator makes, called without the GIL, and what it says instead."""
    return consumer.allocate(TABLE, len(shape), shape, (2, 32, 1), device)


def test_the_allocator_of_the_table(here):
    device = fastdl.Device(f"{here.device}:1").__dlpack_device__()
    held, *_ = allocate(device)
    fields = held.fields()
    assert fields["device"] == device
    assert driver.find_pointer(device[0], fields["data"]) == device
    held.delete()
    assert here.allocations == 0


def test_the_allocator_says_why_it_cannot(here):
    *_, kind, text = allocate((fastdl.Device(here.device).type, 7))
    assert kind == "BufferError" and "device 7" in text
    *_, kind, text = allocate((fastdl.Device(here.device).type, 0), (2**40,))
    assert kind == "MemoryError" and "(2)" in text
    *_, kind, text = allocate((8, 0))
    assert kind == "BufferError" and "(the host, CUDA, ROCm)" in text


def test_capsules_say_where_the_memory_is(here):
    for name in here.devices:
        tensor = fastdl.empty(3, device=name)
        struct = opened(tensor.__dlpack__(stream=-1, max_version=(1, 3)))
        assert (struct.tensor.device_type, struct.tensor.device_id) == fastdl.Device(name)
        del struct
    del tensor
    gc.collect()
