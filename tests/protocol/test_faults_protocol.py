# SPDX-License-Identifier: Apache-2.0
"""Producers that break the protocol, and consumers that do (faults P1 to P14). P7 and X4, on
streams, are in test_streams.py."""

import gc
import weakref

import numpy as np
import pytest

import fastdl
from tests.support.headers import every_drafting_entry, every_entry
from tests.support.ids import without_address
from tests.support.isolate import run_isolated
from tests.support.producers import (
    CPU,
    CUDA,
    ONEAPI,
    OPENCL,
    BareProducer,
    DraftProducer,
    Given,
    OldProducer,
    Producer,
    entries,
    types,
)

ROCM, MANAGED = (10, 0), (13, 0)


def helper(*, known):
    return known


INNER = {
    "value": ValueError("inner"),
    "interrupt": KeyboardInterrupt(),
    "exit": SystemExit(3),
    "type": TypeError("inner"),
    "memory": MemoryError(),
    "attribute": AttributeError("inner"),
    "unexpected keyword of another function": lambda: helper(unexpected=1),
    "positional argument of another function": lambda: helper(1, 2),
    "builtin": lambda: len(5),
}


@every_entry
@types
@pytest.mark.parametrize("inner", INNER.values(), ids=INNER)
def test_p1_producer_raises(enter, of_type, inner):
    """Its exception is the outcome, unchanged; it was asked once; nothing it made is lost."""

    def act(self):
        capsule = self.managed.capsule()
        if callable(inner):
            inner()
        raise inner from ValueError(repr(capsule))

    producer = of_type(Producer)(Given(), act=act)
    with pytest.raises(BaseException) as caught:
        enter(producer)
    assert caught.value is inner or (callable(inner) and caught.type is TypeError)
    assert len(producer.asked) == 1
    if not callable(inner):
        inner.__traceback__ = None  # it outlives the test, and holds the frame with the capsule
    del caught
    producer.managed.assert_released(by_destructor=True)


GENERATIONS = {
    "old": (OldProducer, [None]),
    "bare": (BareProducer, [()]),
    "draft": (DraftProducer, [130]),
    "new": (Producer, [(None, (1, 3), None, None)]),
}


@every_entry
@types
@pytest.mark.parametrize("versioned", [True, False])
@pytest.mark.parametrize("generation", ["old", "bare", "new"])
def test_p2_signature_of_each_generation(enter, of_type, generation, versioned):
    """The fallback costs no second export: the producer's code runs once."""
    kind, asked = GENERATIONS[generation]
    producer = of_type(kind)(Given(versioned=versioned))
    tensor = enter(producer)
    assert tensor.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert producer.asked == asked
    del tensor
    producer.managed.assert_released()


@every_drafting_entry
@pytest.mark.parametrize(
    ("info", "asked"),
    [(60, 60), (65, 60), (70, 60), (99, 60), (100, 100), (110, 110), (130, 130), (131, 130),
     (10**6, 130)],
)  # fmt: skip
def test_p2_draft_signature(enter, info, asked):
    """A producer of the 2022 draft is asked for the newest version that both speak."""
    kind = type("Draft", (DraftProducer,), {"info": info})
    for _ in range(2):
        producer = kind(Given(versioned=asked >= 100))
        tensor = enter(producer)
        assert producer.asked == [asked]
        del tensor
        producer.managed.assert_released()


@pytest.mark.parametrize("entry", ["fastdl.from_dlpack", "_consumer.from_dlpack"])
@pytest.mark.parametrize("of_type", ["new", "type"])
def test_p2_draft_that_puts_a_new_layout_under_the_old_name(entry, of_type):
    """The unreadable capsule is dropped untaken, and the old layout asked for."""
    run_isolated(f"""
        import fastdl
        from fastdl._protocol import consumer as _consumer
        from tests.support.producers import DraftProducer, Given, new
        unreadable = []

        def act(self):
            if self.asked[-1] == 60:
                return self.managed.capsule()
            unreadable.append(Given(versioned=False, shape=8, ndim=3))
            return unreadable[-1].capsule()

        kind = {of_type}(DraftProducer) if {of_type} is new else DraftProducer
        producer = kind(Given(versioned=False), act=act)
        tensor = {entry}(producer)
        assert producer.asked in ([130, 60], [130, 130, 60])  # a type that changed: once more
        assert tensor.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
        for one in unreadable:
            one.assert_released(by_destructor=True)
        del tensor
        producer.managed.assert_released()
    """)


@every_drafting_entry
@pytest.mark.parametrize(
    ("info", "error", "words"),
    [
        *((info, BufferError, "no version in common") for info in (0, 10, 59, -1)),
        *(
            (info, TypeError, "expected an int from __dlpack_info__")
            for info in (None, "130", 1.3, (1, 3), {"version": 130}, True)
        ),
    ],
)
def test_p2_draft_without_a_version_in_common(enter, info, error, words):
    producer = type("Draft", (DraftProducer,), {"info": info})(Given())
    with pytest.raises(error, match=words) as caught:
        enter(producer)
    assert caught.type is error
    assert producer.asked == []


STRANGE_DEVICES = [
    None, 1, (), (1,), (1, 0, 0), "cpu", ("a", "b"), ("1", "0"), (None, 0), ([], 0),
    (1.5, 0), (True, False), (2**70, 0), (1, 2**70), (2**40, 0), (1, 2**40), (1, "x"),
    (1, "0"), {}, object(), fastdl.Device("cpu"), iter((1, 0)), {1: 0, 0: 1}, {0, 1},
]  # fmt: skip


@every_entry
@types
@pytest.mark.parametrize("device", STRANGE_DEVICES, ids=without_address)
def test_p3_device_that_is_none(enter, of_type, device):
    """TypeError before any capsule is made."""
    producer = of_type(Producer)(Given(), device)
    with pytest.raises(TypeError, match="expected .*device type, device id") as caught:
        enter(producer)
    assert caught.type is TypeError
    assert producer.asked == []


@every_entry
def test_p3_device_method_missing_or_raising(enter):
    class Raising(Producer):
        def __dlpack_device__(self):
            raise LookupError("no device")

    class Number:
        def __index__(self):
            raise MemoryError("no number")

    with pytest.raises(LookupError, match="no device"):
        enter(Raising(Given()))
    with pytest.raises(MemoryError, match="no number"):
        enter(Producer(Given(), (Number(), 0)))
    for attribute in (None, 5):
        with pytest.raises(TypeError):
            enter(type("Missing", (Producer,), {"__dlpack_device__": attribute})(Given()))
    with pytest.raises(TypeError, match="not __dlpack_device__"):
        enter(type("Missing", (), {"__dlpack__": Producer.__dlpack__})())


@every_entry
@types
@pytest.mark.parametrize("versioned", [True, False])
@pytest.mark.parametrize(
    ("announced", "delivered"),
    [
        *((CPU, CUDA), (CUDA, CPU), (CPU, OPENCL), (CPU, ROCM), ((-1, 0), CPU), (CPU, (999, 0))),
        *((CUDA, ROCM), (ROCM, CUDA), (CUDA, ONEAPI), (ONEAPI, MANAGED)),
        *(((2, 1), CUDA), ((10, 1), ROCM)),  # the default stream of one is not that of another
    ],
)
def test_p4_device_that_is_not_the_one_announced(enter, of_type, versioned, announced, delivered):
    """Nobody ordered the streams of the device that came: refused."""
    kind = of_type(Producer)
    for _ in range(2):  # the second time, what the first has taught is used
        given = Given(versioned=versioned, device=delivered)
        with pytest.raises(BufferError, match="announced") as caught:
            enter(kind(given, announced))
        del caught
        given.assert_released()


@every_entry
@types
@pytest.mark.parametrize(
    ("announced", "delivered"),
    [
        ((3, 0), CPU),  # torch announces pinned memory as such and delivers CPU
        (CPU, (3, 0)),
        ((11, 0), CPU),
        (CUDA, MANAGED),
        (MANAGED, CUDA),
        (ONEAPI, (8, 0)),
    ],
)
def test_p4_memory_of_another_kind_in_the_same_order(enter, of_type, announced, delivered):
    """Nothing that orders it differs: the capsule is right."""
    given = Given(device=delivered)
    tensor = enter(of_type(Producer)(given, announced))
    assert tensor.device == delivered
    del tensor
    given.assert_released()


@entries
@pytest.mark.parametrize(
    "attribute", [None, property(lambda self: None), 5, "text", property(lambda self: 5)]
)
def test_p5_export_that_is_no_method(enter, attribute):
    kind = type("Opted", (), {"__dlpack__": attribute, "__dlpack_device__": lambda self: CPU})
    for _ in range(2):
        with pytest.raises(TypeError) as caught:
            enter(kind())
        assert caught.type is TypeError


@every_entry
@pytest.mark.parametrize(
    "x",
    [None, 5, "text", b"bytes", memoryview(b"a"), [1.0], {}, object(), int, np.ndarray, Producer,
     fastdl.Tensor],
)  # fmt: skip
def test_p5_object_that_is_no_producer(enter, x):
    words = f"expected a (DLPack producer or capsule|tensor), got .*{type(x).__qualname__}"
    for _ in range(2):  # a negative answer is remembered, and stays one
        with pytest.raises(TypeError, match=words) as caught:
            enter(x)
        assert caught.type is TypeError


@entries
@pytest.mark.parametrize("versioned", [True, False])
def test_p6_copy_true_of_a_producer_that_does_not_copy(enter, versioned):
    """The copy is made here: other memory, and the producer's is given back at once."""
    for bring in (lambda g: g.capsule(), Producer, OldProducer):
        given = Given(versioned=versioned)
        original = given.owner().memory
        tensor = enter(bring(given), copy=True)
        given.assert_released()
        assert tensor.is_copied
        original[0] = 99.0
        assert tensor.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


@every_entry
@types
def test_p12_producer_that_drops_itself_while_asked(enter, of_type):
    """Held for as long as it runs, by whoever called; collected afterwards."""

    def act(self):
        holders.clear()
        gc.collect()
        return self.managed.capsule()

    holders = [of_type(Producer)(Given(), act=act)]
    given, seen = holders[0].managed, weakref.ref(holders[0])
    result = enter(holders[0])
    assert result.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert seen() is None
    del result
    given.assert_released()


@pytest.mark.parametrize("stranger", [5, None, np.zeros(2), fastdl.Tensor], ids=repr)
def test_p14_methods_on_what_is_no_tensor(stranger):
    kind = fastdl.Tensor
    calls = [
        lambda: kind.__dlpack__(stranger),
        lambda: kind.__dlpack_device__(stranger),
        lambda: kind.__getitem__(stranger, 0),
        lambda: kind.__len__(stranger),
        lambda: kind.__repr__(stranger),
        lambda: kind.shape.__get__(stranger),
        lambda: kind.data_ptr.__get__(stranger),
        lambda: kind.tolist(stranger),
    ]
    for call in calls:
        with pytest.raises(TypeError):
            call()
