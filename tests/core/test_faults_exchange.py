# SPDX-License-Identifier: Apache-2.0
"""Exchange tables: hostile ones met by fastdl, and fastdl's own met by a plain C consumer that
was written from the specification alone (faults E1 to E10)."""

import ctypes
import gc

import numpy as np
import pytest

import fastdl
from dlpack_conformance.structs import managed_at
from fastdl._protocol import consumer as _consumer
from tests.support import consumer
from tests.support.headers import ENTRIES, every_entry
from tests.support.isolate import run_isolated
from tests.support.producers import (
    CPU,
    CUDA,
    FLOAT32,
    Given,
    Nulls,
    Producer,
    Tabled,
    TorchDtype,
    changed_table,
    entries,
    hostile,
    new_table,
    raises,
    tensors_of_pyarrow,
)


class Plain(Producer):
    """Has `__dlpack__` alone: its table is the general bridge."""


def published(value, name="__dlpack_c_exchange_api__", base=Producer, **attributes):
    return type("Published", (base,), {name: value, "mode": "give", **attributes})


def calls_of(enter, kind):
    """Whether `enter` of a `kind` goes through the hostile table: the answer, and a check that
    the tensor arrived and went either way."""
    before = hostile.table_calls()
    producer = kind(Given())
    tensor = enter(producer)
    assert tensor.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    del tensor
    producer.managed.assert_released()
    return hostile.table_calls() > before


# ---- hostile tables ----


@every_entry
@pytest.mark.parametrize("name", ["__dlpack_c_exchange_api__", "__c_dlpack_exchange_api__"])
def test_table_in_a_capsule_is_used(enter, name):
    assert calls_of(enter, published(hostile.table_capsule(hostile.table()), name))


WRONG = {
    "int": lambda: hostile.table(),
    "small int": lambda: 8,
    "another capsule": lambda: hostile.table_capsule(hostile.table(), False),
    "a tensor's capsule": lambda: Given().capsule(),
    "None": lambda: None,
    "text": lambda: "dlpack_exchange_api",
    "object": lambda: object(),
    "property": lambda: property(lambda self: hostile.table_capsule(hostile.table())),
    "method": lambda: lambda self: hostile.table_capsule(hostile.table()),
}


@every_entry
@pytest.mark.parametrize("name", ["__dlpack_c_exchange_api__", "__c_dlpack_exchange_api__"])
@pytest.mark.parametrize("value", WRONG.values(), ids=WRONG)
def test_e1_attribute_that_is_no_table(enter, name, value):
    """Not followed, whatever it points to: `__dlpack__` is asked, if there is one."""
    kind, nothing = published(value(), name), type("Nothing", (), {name: value()})
    for _ in range(2):
        assert not calls_of(enter, kind)
        with pytest.raises(TypeError):
            enter(nothing())


COMPLEX64 = (5, 64, 1)


@every_entry
@pytest.mark.parametrize("bit", ["conj", "neg"])
def test_a_lazy_view_of_torch_is_refused(enter, bit):
    """A table hands it out as it is: fastdl asks a complex tensor of torch whether it is one."""

    class Lazy(Tabled):
        lazy = False

        def is_conj(self):
            return self.lazy and bit == "conj"

        def is_neg(self):
            return self.lazy and bit == "neg"

    Lazy.__module__, Lazy.__qualname__ = "torch", "Tensor"
    plain, lazy = (Lazy(Given(dtype=COMPLEX64, shape=(3,))) for _ in range(2))
    assert enter(plain).dtype.name == "complex64"
    lazy.lazy = True
    with pytest.raises(BufferError, match=rf"{bit} bit set: call resolve_{bit}\(\) first"):
        enter(lazy)
    for producer in (plain, lazy):
        producer.managed.assert_released()


@every_entry
@pytest.mark.parametrize("code", [0, 1], ids=["int", "uint"])
def test_integers_that_torch_exports_as_wider_ones(enter, code):
    """The dtypes of torch are one object each; here, each has a twin."""
    name = ("torch.int8", "torch.uint8")[code]

    class Narrow(Tabled):
        dtype = TorchDtype(name)

    Narrow.__module__, Narrow.__qualname__ = "torch", "Tensor"
    producers = [Narrow(Given(dtype=(code, 8, 1), shape=(3,))) for _ in range(4)]
    for producer in producers[:2]:
        assert enter(producer).shape == (3,)
    Narrow.dtype = TorchDtype(name.replace("8", "4"))
    with pytest.raises(BufferError, match=name.replace("8", "4")):
        enter(producers[2])
    del Narrow.dtype
    with pytest.raises(AttributeError, match="dtype"):
        enter(producers[3])
    for producer in producers:
        producer.managed.assert_released()


@entries
def test_nulls_that_a_library_exports_as_numbers(enter):
    kind = tensors_of_pyarrow(Producer)
    sound, unsound = (kind(Given(), storage=Nulls(nulls)) for nulls in (0, 2))
    assert enter(sound).shape == (2, 3)
    with pytest.raises(BufferError, match=r"missing values \(2 in all\)"):
        enter(unsound)
    with pytest.raises(AttributeError, match="storage"):
        enter(kind(Given()))
    assert unsound.asked == []
    sound.managed.assert_released()


@entries
def test_e1_table_on_the_instance(enter):
    producer = Producer(Given(), mode="give")
    producer.__dlpack_c_exchange_api__ = hostile.table_capsule(hostile.table())
    before = hostile.table_calls()
    tensor = enter(producer)
    assert hostile.table_calls() == before
    del tensor
    producer.managed.assert_released()


def chain(length, last_major):
    table = new_table(major=last_major)
    for _ in range(length):
        table = new_table(major=2, prev=table)
    return table


def cycle():
    first = new_table(major=2)
    changed_table(first, major=2, prev=new_table(major=3, prev=first))
    return first


CHAINS = {
    "major 2": (lambda: new_table(major=2), False),
    "major 0": (lambda: new_table(major=0), False),
    "major 2 before 1": (lambda: chain(1, 1), True),
    "15 before 1": (lambda: chain(15, 1), True),
    "16 before 1": (lambda: chain(16, 1), False),
    "major 2, 3 before 1": (lambda: new_table(major=3, prev=chain(1, 1)), True),
    "cycle": (cycle, False),
    "self": (lambda: changed_table(t := hostile.table(), major=2, prev=t), False),
    "a hundred thousand": (lambda: chain(100_000, 1), False),
    "misaligned": (lambda: new_table(major=2, prev=hostile.table() + 1), False),
}


@every_entry
@pytest.mark.parametrize(("make", "used"), CHAINS.values(), ids=CHAINS)
def test_e2_table_of_another_major_version(enter, make, used):
    """The chain is walked to the first that fastdl reads, and not for ever."""
    assert calls_of(enter, published(hostile.table_capsule(make()))) is used


@pytest.mark.parametrize("without", ["allocator", "from_object", "to_object", "stream"])
def test_e3_incomplete_table_is_not_used_nor_registered(without):
    table = new_table(without=without)
    for enter in ENTRIES.values():
        assert not calls_of(enter, published(hostile.table_capsule(table)))
    for candidate in (table, hostile.table_capsule(table), new_table(major=2)):
        with pytest.raises(ValueError, match="mandatory"):
            fastdl.register_exchange_api(type("Mine", (), {}), candidate)


@pytest.mark.parametrize("table", [None, "8", True, 8.0])
def test_e3_what_is_no_table_cannot_be_registered(table):
    """Addresses that cannot be are in test_exchange.py."""
    with pytest.raises(TypeError):
        fastdl.register_exchange_api(type("Mine", (), {}), table)


OUTCOMES = {
    "fail": BufferError,  # -1 and no exception
    "fail and raise": LookupError,
    "nothing": BufferError,  # 0 and NULL
    "nothing and raise": LookupError,  # without a tensor, the exception is the reason
}


@every_entry
@pytest.mark.parametrize(("mode", "error"), OUTCOMES.items(), ids=OUTCOMES)
def test_e4_table_that_breaks_its_word(enter, mode, error):
    """One exception, never a SystemError; nothing was handed over, so nothing is given back."""
    managed = Given()
    with pytest.raises(error) as caught:
        enter(Tabled(managed, mode))
    assert caught.type is error
    managed.assert_alive()


@every_entry
def test_e4_table_that_gives_a_tensor_and_raises(enter):
    """0 is success: the tensor is taken, and the stale exception is not left pending, unless it is
    an interrupt."""
    managed, interrupted = Given(), Given()
    tensor = enter(Tabled(managed, "give and raise"))
    assert tensor.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    with pytest.raises(KeyboardInterrupt):
        enter(Tabled(interrupted, "give and interrupt"))
    del tensor
    managed.assert_released()
    interrupted.assert_released()


@every_entry
@pytest.mark.parametrize("mode", OUTCOMES)
def test_e4_refusal_of_a_type_with_dlpack_is_asked_there(enter, mode):
    """Once, and its answer counts."""
    kind = published(hostile.table_capsule(hostile.table()))
    for _ in range(2):
        producer = kind(Given())
        producer.mode = mode
        tensor = enter(producer)
        assert len(producer.asked) == 1
        del tensor
        producer.managed.assert_released()
    producer = kind(Given(), act=raises(RuntimeError("of the producer")))
    producer.mode = mode
    with pytest.raises(RuntimeError, match="of the producer") as caught:
        enter(producer)
    assert caught.value.__context__ is None


@every_entry
def test_e4_interrupt_in_a_table_is_no_refusal(enter):
    """The user's Ctrl-C ends the call; it is not taken for "ask `__dlpack__`"."""
    kind = published(hostile.table_capsule(hostile.table()))
    producer = kind(Given())
    producer.mode = "fail and interrupt"
    with pytest.raises(KeyboardInterrupt):
        enter(producer)
    assert producer.asked == []


@entries
@pytest.mark.parametrize(
    ("result", "raises", "error"),
    [(-1, False, BufferError), (-1, True, LookupError), (0, False, None)],
)
def test_e4_stream_function_that_fails(enter, result, raises, error):
    """A tensor whose order is unknown is refused, and given back."""
    managed = Given(device=CUDA)
    hostile.set_stream(result, 0, raises)
    try:
        if error is None:
            assert enter(Tabled(managed)).__dlpack_device__() == CUDA
        else:
            with pytest.raises(error) as caught:
                enter(Tabled(managed))
            assert caught.type is error
            del caught
    finally:
        hostile.set_stream(0, 0, False)
    managed.assert_released()


@every_entry
def test_e5_subclass_that_overrides_dlpack(enter):
    """The override is meant: the inherited table is not used. Without override it is."""
    base = published(hostile.table_capsule(hostile.table()))
    override = type("Override", (base,), {"__dlpack__": Producer.__dlpack__})
    assert not calls_of(enter, override)
    assert calls_of(enter, type("Heir", (base,), {}))
    again = type("Again", (override,), {"__dlpack_c_exchange_api__": hostile.table_capsule(
        hostile.table())})  # fmt: skip
    assert calls_of(enter, again)


@every_entry
def test_e5_subclass_of_ndarray_that_overrides_dlpack(enter):
    class Masked(np.ndarray):
        def __dlpack__(self, **keywords):
            raise BufferError("the mask would be lost")

    with pytest.raises(BufferError, match="the mask would be lost"):
        enter(np.zeros(3).view(Masked))


@entries
def test_e6_types_that_come_and_go(enter):
    """A type at the address of a dead one is a type of its own: more of them than any cache."""
    for i in range(600):
        if i % 2:
            kind = published(hostile.table_capsule(hostile.table()))
        else:
            kind = type("Unpublished", (Producer,), {})
        assert calls_of(enter, kind) is bool(i % 2)
        del kind
        if i % 50 == 0:
            gc.collect()


def test_e6_registering_again_replaces_the_table():
    kind = type("Registered", (Producer,), {"mode": "give"})
    assert not calls_of(fastdl.from_dlpack, kind)
    fastdl.register_exchange_api(kind, hostile.table())
    assert calls_of(fastdl.from_dlpack, kind)
    assert calls_of(_consumer.from_dlpack, kind)
    fastdl.register_exchange_api(kind, fastdl.exchange_api(Producer))
    assert not calls_of(fastdl.from_dlpack, kind)


@pytest.mark.parametrize("how", ["register", "publish"])
def test_general_bridge_as_the_table_of_a_type(how):
    """A third party that gives its class the table which fastdl made for it: no recursion,
    which a high limit would let run into the end of the stack."""
    run_isolated(f"""
        import sys
        import fastdl
        from tests.support.producers import Given, Producer
        class Mine(Producer):
            pass
        if {how!r} == "register":
            fastdl.register_exchange_api(Mine, fastdl.exchange_api(Mine))
        else:
            Mine.__dlpack_c_exchange_api__ = fastdl.exchange_api(Producer)
        sys.setrecursionlimit(10**6)
        producer = Mine(Given())
        assert fastdl.from_dlpack(producer).shape == (2, 3)
        assert len(producer.asked) == 1
        producer.managed.assert_released()
    """)


class Meta(type):
    def __getattr__(cls, name):
        if name.startswith(("__dlpack", "__c_dlpack")):
            raise LookupError(f"asked the metaclass for {name}")
        raise AttributeError(name)


class Unhashable(type):
    def __eq__(cls, other):
        return NotImplemented

    __hash__ = None


class Endless(type):
    def __getattr__(cls, name):
        return getattr(cls, name + "_")


@every_entry
@pytest.mark.parametrize("meta", [Meta, Unhashable, Endless])
def test_e7_metaclass_that_gets_in_the_way(enter, meta):
    """Tables are found in the classes themselves: no metaclass is asked."""
    kind = meta("Odd", (Producer,), {})
    for _ in range(2):
        assert not calls_of(enter, kind)
    kind = meta("Odd", (Tabled,), {})
    assert calls_of(enter, kind)


@every_entry
@pytest.mark.parametrize("error", [LookupError, RecursionError, KeyboardInterrupt])
def test_e7_descriptor_that_raises(enter, error):
    class Raising:
        def __get__(self, instance, owner):
            raise error("from the descriptor")

    kind = published(Raising())
    for _ in range(2):
        with pytest.raises(error, match="from the descriptor"):
            enter(kind(Given()))


# ---- fastdl's tables, and a plain consumer ----


def tables():
    return {
        "Tensor": (fastdl.exchange_api(fastdl.Tensor), fastdl.from_dlpack(Given().capsule())),
        "ndarray": (fastdl.exchange_api(np.ndarray), np.arange(6, dtype="f4").reshape(2, 3)),
        "general": (fastdl.exchange_api(Plain), Plain(Given())),
    }


every_table = pytest.mark.parametrize("which", ["Tensor", "ndarray", "general"])

BAD_PROTOTYPES = {
    "negative ndim": ((-1, (3,), FLOAT32, CPU), "BufferError", "dimensions"),
    "ndim 65": ((65, (3,), FLOAT32, CPU), "BufferError", "dimensions"),
    "NULL shape": ((2, None, FLOAT32, CPU), "BufferError", "NULL shape"),
    "negative dimension": ((1, (-3,), FLOAT32, CPU), "BufferError", "negative"),
    "overflow": ((2, (2**40, 2**40), FLOAT32, CPU), "BufferError", "more bytes"),
    "bits": ((1, (3,), (2, 7, 1), CPU), "BufferError", "element size"),
    "lanes": ((1, (3,), (2, 32, 0), CPU), "BufferError", "lanes"),
    "CUDA": ((1, (3,), FLOAT32, CUDA), "BufferError", "host memory"),
    "OpenCL": ((1, (3,), FLOAT32, (4, 0)), "BufferError", "host memory"),
    "device 0": ((1, (3,), FLOAT32, (0, 0)), "BufferError", "device"),
    "out of memory": ((1, (2**58,), FLOAT32, CPU), "MemoryError", "memory"),
    "beyond ptrdiff_t": ((1, (2**61 - 1,), FLOAT32, CPU), "MemoryError", "memory"),
}


@every_table
@pytest.mark.parametrize(
    ("prototype", "kind", "words"), BAD_PROTOTYPES.values(), ids=BAD_PROTOTYPES
)
def test_e8_allocator_refuses(which, prototype, kind, words):
    """-1, SetError called once with the name of an exception, *out untouched; no GIL needed."""
    table, _ = tables()[which]
    held, calls, said, message = consumer.allocate(table, *prototype)
    assert (held, calls, said) == (None, 1, kind)
    assert words in message
    assert consumer.allocate(table, *prototype, False) == (None, 0, "", "")


@every_table
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 5), (4, 5, 6), (1,) * 64])
def test_e8_allocator_allocates(which, shape):
    """Own memory of the prototype's type and shape; every other field of it is rubbish."""
    table, _ = tables()[which]
    held, calls, _, _ = consumer.allocate(table, len(shape), shape or None, (5, 64, 1), (1, 7))
    assert calls == 0
    fields = consumer.fields(held)
    assert (fields["shape"], fields["dtype"], fields["device"]) == (shape, (5, 64, 1), CPU)
    assert fields["byte_offset"] == fields["flags"] == fields["data"] % 256 == 0
    assert fields["version"] == (1, 3)
    assert fields["has_context"]
    assert consumer.to_object(table, held).shape == shape


@every_table
def test_e10_object_of_another_type(which):
    table, good = tables()[which]
    for wrong in (5, None, [1.0], object(), fastdl.Tensor, np.float32(1)):
        if which == "general" and hasattr(wrong, "__dlpack__") and not isinstance(wrong, type):
            continue
        with pytest.raises(TypeError):
            consumer.from_object(table, wrong)
        if consumer.borrow(table, good) is not None:
            with pytest.raises(TypeError):
                consumer.borrow(table, wrong)


def set_shape(tensor, *shape):
    ctypes.memmove(tensor.shape, (ctypes.c_int64 * len(shape))(*shape), 8 * len(shape))


def turn(tensor):
    set_shape(tensor, 3, 2)
    ctypes.memmove(tensor.strides, (ctypes.c_int64 * 2)(1, 3), 16)


FILLED = np.arange(6.0).reshape(2, 3)
CHANGES = {
    "nothing": (lambda t: None, FILLED),
    "fewer rows": (lambda t: set_shape(t, 1, 3), FILLED[:1]),
    "no rows": (lambda t: set_shape(t, 0, 3), FILLED[:0]),
    "no columns": (lambda t: set_shape(t, 2, 0), FILLED[:, :0]),
    "fewer columns": (lambda t: set_shape(t, 2, 2), FILLED[:, :2]),
    "turned": (turn, FILLED.T),
    "a byte offset": (lambda t: [setattr(t, "byte_offset", 24), set_shape(t, 1, 3)], FILLED[1:]),
    "another address": (lambda t: [setattr(t, "data", t.data + 24), set_shape(t, 1)], FILLED[1:]),
    "another type": (lambda t: setattr(t, "code", 0), FILLED.view("i8")),
    "another CPU": (lambda t: setattr(t, "device_id", 3), FILLED),
    "negative size": (lambda t: set_shape(t, -1, 3), None),
    "too many bytes": (lambda t: set_shape(t, 1 << 60, 3), None),
    "no such type": (lambda t: setattr(t, "bits", 24), None),
    "another device": (lambda t: setattr(t, "device_type", 7), None),
}


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize(("change", "expected"), CHANGES.values(), ids=CHANGES)
def test_e9_what_the_caller_changed_in_new_memory(change, expected, readonly):
    table, _ = tables()["ndarray"]
    held, *_ = consumer.allocate(table, 2, (2, 3), (2, 64, 1), CPU)
    managed = managed_at(held.address, True)
    ctypes.memmove(managed.tensor.data, FILLED.ctypes.data, FILLED.nbytes)
    managed.flags |= readonly
    change(managed.tensor)
    if expected is None:
        with pytest.raises(BufferError):
            consumer.to_object(table, held)
        held.release()
        return
    array = consumer.to_object(table, held)
    assert array.dtype == expected.dtype
    assert array.tolist() == expected.tolist()
    assert array.flags.writeable == (not readonly)
    assert fastdl.from_dlpack(array.base).tolist() == expected.tolist()
    assert array.base.device == "cpu:0"


REJECTED = {
    "negative dimension": {"shape": (-1,)},
    "NULL data": {"data": 0},
    "major 2": {"version": (2, 0)},
    "lanes": {"dtype": (2, 32, 0)},
}
REJECTED_BY_NUMPY = {
    "CUDA": {"device": CUDA},
    "opaque type": {"dtype": (3, 32, 1)},
    "65 dimensions with its lanes": {"shape": (1,) * 64, "dtype": (2, 32, 2)},
}


@pytest.mark.parametrize(
    ("which", "fields"),
    [
        *((which, f) for which in ("Tensor", "ndarray", "general") for f in REJECTED.values()),
        *(("ndarray", f) for f in REJECTED_BY_NUMPY.values()),
    ],
)
def test_e9_to_object_leaves_the_tensor_with_the_caller_on_failure(which, fields):
    table, _ = tables()[which]
    managed = Given(**fields)
    held = consumer.hold(managed.address)
    with pytest.raises((BufferError, TypeError)) as caught:
        consumer.to_object(table, held)
    del caught
    gc.collect()
    managed.assert_alive()
    held.release()
    managed.assert_released()


def test_e9_fastdls_own_tensor_comes_back_to_the_caller():
    """What fastdl exported is unwrapped on the way in; on failure it is whole again."""
    given = Given(device=CUDA)
    tensor = fastdl.from_dlpack(given.capsule())
    held = consumer.from_object(fastdl.exchange_api(fastdl.Tensor), tensor)
    fields = consumer.fields(held)
    with pytest.raises(BufferError):
        consumer.to_object(fastdl.exchange_api(np.ndarray), held)
    assert consumer.fields(held) == fields
    held.release()
    del tensor
    given.assert_released()


def test_e9_failure_leaves_no_broken_tensor_in_the_traceback():
    """Whatever a debugger finds in the frames of the exception can be looked at."""
    run_isolated("""
        import fastdl, numpy as np
        from tests.support.build import extension
        from tests.support.producers import CUDA, Given
        from tests.support import consumer
        managed = Given(device=CUDA)
        held = consumer.hold(managed.address)
        try:
            consumer.to_object(fastdl.exchange_api(np.ndarray), held)
        except BufferError as error:
            frame = error.__traceback__
            while frame is not None:
                for value in list(frame.tb_frame.f_locals.values()):
                    if isinstance(value, fastdl.Tensor):
                        try:
                            repr(value), value.shape, value.device
                        except (ValueError, BufferError):
                            pass
                frame = frame.tb_next
        held.release()
        assert managed.deleted == 1
    """)
