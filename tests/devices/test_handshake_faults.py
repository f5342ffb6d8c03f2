# SPDX-License-Identifier: Apache-2.0
"""The stream handshake with bad input: streams and devices that do not exist, producers that leave
another device current, streams of other contexts, events that cannot be asked.

Whatever goes wrong ends in an exception that says what, with the upstream tensor given back exactly
once, contexts as they were, and no event lost.
"""

import contextlib
import ctypes
from types import SimpleNamespace

import pytest

import fastdl
from fastdl._devices import driver
from tests.support.frameworks import Array, Plain, Protocol, Table, consume, export, given_back
from tests.support.producers import Given, Producer, Tabled


def violations(sim, words):
    """The simulation has noticed what a real driver might crash on: that is the test's doing."""
    found = sim.violations()
    assert found and all(words in line for line in found), found
    sim.forget()


# ---- streams that are none ------------------------------------------------------------------


ENTRIES = {
    "import": lambda array, tensor, stream: fastdl.from_dlpack(Protocol(array), stream=stream),
    "table": lambda array, tensor, stream: fastdl.from_dlpack(Table(array), stream=stream),
    "export": lambda array, tensor, stream: export(tensor, stream),
    "record": lambda array, tensor, stream: tensor.record(stream),
    "release": lambda array, tensor, stream: tensor.release(stream),
    "use_stream": lambda array, tensor, stream: fastdl.use_stream((array.type, 0), stream),
}
entries = pytest.mark.parametrize("entry", ENTRIES)


def refuses(sim, entry, streams, error, match):
    """The entry refuses each of these before anybody is asked: no call of the driver, and nothing
    is kept."""
    upstream = Array(sim)
    tensor = fastdl.from_dlpack(Plain(upstream))
    for stream in streams:
        array = Array(sim)
        calls = len(sim.log())
        with pytest.raises(error, match=match) as caught:
            ENTRIES[entry](array, tensor, stream)
        assert caught.type is error
        assert len(sim.log()) == calls
        caught = None
        if array.given.handed:
            given_back(array)
    upstream.given.assert_alive()
    del tensor
    given_back(upstream)


@pytest.mark.parametrize("entry", sorted(set(ENTRIES) - {"export"}))
@pytest.mark.parametrize(
    ("handle", "ordinal"), [("cuda_stream", "device_index"), ("ptr", "device_id")]
)
def test_the_default_stream_of_another_device(sim, entry, handle, ordinal):
    """Its number means another stream here."""
    stream = SimpleNamespace(**{handle: 0, ordinal: 1})
    refuses(sim, entry, [stream], ValueError, "got the default stream of device 1")


@entries
def test_what_is_no_stream(sim, entry):
    streams = [True, False, 1.0, "1", b"1", (0, 1), [1], 1j, object()]
    refuses(sim, entry, streams, TypeError, "expected a stream")


@pytest.mark.parametrize("entry", sorted(set(ENTRIES) - {"export"}))
def test_a_stream_object_with_something_else_for_a_handle(cuda, entry):
    values = (True, "1", 2.0)
    streams = [
        SimpleNamespace(**{name: value})
        for name in ("cuda_stream", "ptr", "handle")
        for value in values
    ]
    refuses(cuda, entry, streams, TypeError, "expected a stream as an int")


@pytest.mark.parametrize("entry", sorted(set(ENTRIES) - {"export"}))
def test_a_wrong_answer_to_cuda_stream(cuda, entry):
    answers = [None, 4096, (1, 4096), (0,), (0, 1, 2), (0, "x"), (0, True), (True, 1)]
    streams = [SimpleNamespace(__cuda_stream__=lambda answer=a: answer) for a in answers]
    refuses(cuda, entry, streams, TypeError, "from __cuda_stream__|expected a stream")


def test_an_export_takes_no_stream_objects(sim):
    streams = [SimpleNamespace(ptr=4096), SimpleNamespace(__cuda_stream__=lambda: (0, 4096))]
    refuses(sim, "export", streams, TypeError, "expected a stream as an int or None")


@entries
def test_numbers_that_no_handle_has(sim, entry):
    streams = [-2, -(2**63), -(2**70), 2**63, 2**64, 2**100]
    refuses(sim, entry, streams, ValueError, r"stream handle from 0 to 2\*\*63 - 1")


@pytest.mark.parametrize("entry", ["record", "release", "use_stream"])
def test_what_needs_a_stream(sim, entry):
    refuses(sim, entry, [None, -1], ValueError, "expected a stream, got")


@pytest.mark.parametrize("entry", ["export", "record", "release", "use_stream"])
def test_stream_0_of_cuda(cuda, entry):
    refuses(cuda, entry, [0], ValueError, "ambiguous.*1 .*legacy.*2 .*per-thread")


@entries
def test_streams_1_and_2_of_rocm(hip, entry):
    refuses(hip, entry, [1, 2], ValueError, "pass 0")


def test_a_destroyed_stream(sim):
    """What it does is the driver's affair: an error by luck. It is told, and nothing is lost."""
    array = Array(sim)
    tensor = fastdl.from_dlpack(Plain(array))
    gone = sim.side()
    sim.destroy(gone)
    for entry in (lambda: tensor.record(gone), lambda: tensor.release(gone)):
        with pytest.raises(BufferError, match=r"Invalid|INVALID"):
            entry()
    array.write()
    tensor.record(sim.default)
    with pytest.raises(BufferError, match=r"Invalid|INVALID"):
        export(tensor, gone)
    imported = Array(sim)
    for make in (Plain, Table):
        with pytest.raises(BufferError, match=r"Invalid|INVALID") as caught:
            fastdl.from_dlpack(make(imported), stream=gone)
        del caught
        if make is Table:
            given_back(imported)
        else:  # which has not been asked: the stream is looked at before
            assert imported.given.handed == 0
        imported = Array(sim)
    refused = pytest.raises(BufferError, match=r"Invalid|INVALID")
    with fastdl.use_stream(sim.place, gone), refused as caught:
        fastdl.from_dlpack(Table(imported))
    del caught
    given_back(imported)
    violations(sim, "destroyed")
    consume(tensor, sim.side(blocking=True), array)


# ---- devices that are none ------------------------------------------------------------------


@pytest.mark.parametrize("make", [Producer, Tabled], ids=["protocol", "table"])
@pytest.mark.parametrize("ordinal", [2, 63, 64, 2**31 - 1, -1])
def test_a_device_that_does_not_exist(sim, make, ordinal):
    given = Given(data=0x7000, device=(sim.type, ordinal))
    producer = make(given) if make is Tabled else make(given, (sim.type, ordinal))
    with pytest.raises(BufferError, match=f"there is no .* device {ordinal}: .* has 2") as caught:
        fastdl.from_dlpack(producer)
    del caught
    if given.handed or given.deleted:  # a producer is not even asked
        given.assert_released()


# ---- contexts -------------------------------------------------------------------------------


class Switching(Protocol):
    """Leaves another device current than it found, as libraries do that select one for good."""

    def __dlpack__(self, **keywords):
        sim = self.array.sim
        capsule = super().__dlpack__(**keywords)
        if sim.kind == "hip":
            sim.ok("hipSetDevice", 1 - self.array.ordinal)
        else:
            context = ctypes.c_void_p()
            sim.ok("cuDevicePrimaryCtxRetain", context, 1 - self.array.ordinal)
            sim.ok("cuCtxSetCurrent", context)
        return capsule


def current(sim):
    if sim.kind == "cuda":
        sim.ok("cuInit", 0)
    result = ctypes.c_int() if sim.kind == "hip" else ctypes.c_void_p()
    sim.ok("hipGetDevice" if sim.kind == "hip" else "cuCtxGetCurrent", result)
    return result.value


@pytest.mark.parametrize("make", [Protocol, Switching])
@pytest.mark.parametrize("ordinal", [0, 1])
@pytest.mark.parametrize("here", [None, 0, 1])
def test_what_was_current_is_current_again(sim, make, ordinal, here):
    with contextlib.ExitStack() as stack:
        if here is not None:
            stack.enter_context(sim.device(here))
        before, depth = current(sim), sim.context_depth()

        def unchanged():
            return (current(sim), sim.context_depth()) == (before, depth)

        array = Array(sim, device=ordinal, stream=sim.side(ordinal))
        tensor = fastdl.from_dlpack(make(array))
        assert unchanged()
        other = sim.side(ordinal)
        export(tensor, other)
        assert unchanged()
        tensor.record(other)
        tensor.release(other)
        assert unchanged()
        with pytest.raises(ValueError):
            tensor.record(-5)
        sim.fail_next("cuEventRecord", 999)
        with pytest.raises(BufferError):
            tensor.record(other)
        assert unchanged()


def test_a_producer_that_raises_with_another_device_current(sim):
    class Raising(Switching):
        def __dlpack__(self, **keywords):
            super().__dlpack__(**keywords)
            raise KeyError("no")

    before = current(sim)
    with pytest.raises(KeyError):
        fastdl.from_dlpack(Raising(Array(sim, device=1)))
    assert (current(sim), sim.context_depth()) == (before, 0)


def test_each_device_has_events_of_its_own(sim):
    """An event is of one context, and cannot be recorded in another."""
    for ordinal in (0, 1, 0, 1):
        array = Array(sim, device=ordinal)
        array.write()
        tensor = fastdl.from_dlpack(Plain(array))
        consume(tensor, sim.side(ordinal), array)
        del tensor


def test_a_stream_of_another_context(sim):
    """As those of green contexts and of other devices are: what is recorded there needs an event of
    that context, which serves no other."""
    array = Array(sim)
    array.write()
    abroad = sim.side(1)
    with sim.device(1), sim.device(0):  # the former is retained by whoever made it
        tensor = fastdl.from_dlpack(Protocol(array), stream=abroad)
        array.read(abroad, device=1)
        tensor.record(abroad)
        assert driver.edges(tensor) == 2
        target = sim.side()
        export(tensor, target)
        array.write(target)
        sim.finish(target)
        # The edges have ended, and their events are not of this context.
        tensor.record(sim.default)
        assert driver.edges(tensor) == 1


def test_a_stream_of_another_device_makes_no_events_once_there_are_some(sim):
    """They are kept for each device that fastdl knows."""
    array, elsewhere = Array(sim), Array(sim, device=1)
    tensor, other = fastdl.from_dlpack(Plain(array)), fastdl.from_dlpack(Plain(elsewhere))
    abroad = sim.side(1)
    made = []
    for _ in range(5):
        array.read(abroad, device=1)
        tensor.record(abroad)
        consume(tensor, sim.side(), array)
        sim.finish(abroad, 1)
        made.append(sim.calls("cuEventCreate"))
    assert made[1:] == made[1:2] * 4
    del other


@pytest.mark.parametrize("failing", ["cuCtxPushCurrent_v2", "cuEventCreate"])
def test_a_stream_of_another_context_that_cannot_be_used(cuda, failing):
    tensor = fastdl.from_dlpack(Plain(Array(cuda)))
    abroad = cuda.side(1)
    array = Array(cuda)
    with cuda.device(1), cuda.device(0):
        cuda.finish(1)
        tensor.record(1)  # no event need be made for the first try
        cuda.fail_next(failing, 999)
        with pytest.raises(BufferError, match=rf"cuEventRecord returned .*400|{failing} returned"):
            fastdl.from_dlpack(Plain(array), stream=abroad)
        given_back(array)
        assert cuda.context_depth() == 2
        tensor.record(abroad)


# ---- HIP's last error -----------------------------------------------------------------------


@pytest.mark.parametrize("forgives", [False, True])
def test_errors_that_fastdl_deals_with_do_not_stay_behind(hip, forgives):
    """Nor does it take away those of others, if the driver does not replace them."""
    hip.set("forgives_not_ready", forgives)
    array = Array(hip, stream=hip.side())
    array.write()
    tensor = fastdl.from_dlpack(Protocol(array))
    left = hip.driver.hipSetDevice(9)
    assert left == 101
    queries = hip.calls("hipEventQuery")
    consume(tensor, hip.side(), array)
    assert hip.calls("hipEventQuery") > queries  # which were answered by hipErrorNotReady
    assert hip.driver.hipGetLastError() == (left if forgives else 0)


# ---- events ---------------------------------------------------------------------------------


def test_nothing_is_made_when_all_is_in_use_again(sim):
    """Events come out of the pool and go back, failed ones too."""
    array = Array(sim)
    tensor = fastdl.from_dlpack(Plain(array))
    tensor.record(sim.default)
    live = sim.live("events")
    for _ in range(5):
        sim.fail_next("cuEventRecord", 999)
        with pytest.raises(BufferError):
            tensor.record(sim.default)
    assert sim.live("events") <= live + 1
