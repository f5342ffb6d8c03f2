# SPDX-License-Identifier: Apache-2.0
"""Threads that meet at the same tensors, capsules, types and streams.

With a GIL they take turns between any two instructions of Python; without one they really meet.
What remains is counted: each deleter has run once, and nothing is kept.
"""

import gc
import shutil
import sysconfig
import weakref

import numpy as np
import pytest

import fastdl
from tests.support import consumer
from tests.support.build import load_module, module_path
from tests.support.frameworks import Array, Protocol, Table, simulated
from tests.support.headers import every_world
from tests.support.isolate import run_isolated
from tests.support.producers import Given, Lending, Producer, hostile
from tests.support.threads import ROUNDS, together

THREADS = 4
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


@pytest.mark.skipif(not FREE_THREADED, reason="a CPython with a GIL")
def test_importing_leaves_the_gil_off():
    printed = run_isolated(
        """
        import sys
        import fastdl
        assert not sys._is_gil_enabled()
        import numpy as np
        tensor = fastdl.from_dlpack(np.arange(3.0))  # loads the bridge
        assert tensor.numpy().tolist() == [0.0, 1.0, 2.0]
        assert not sys._is_gil_enabled()
        print("off")
        """,
        env={"PYTHON_GIL": ""},
    )
    assert printed == "off\n"


def assert_all_released(given):
    """Each of those that were handed over. Without a GIL some go only when their thread looks."""
    gc.collect()
    assert {one.deleted for one in given} <= {1}, [one.deleted for one in given]
    assert all(one.owner() is None for one in given)


# ---- one tensor -----------------------------------------------------------------------------


def use(tensor):
    """All that makes a reference to the block of `tensor`, and gives it back."""
    view = tensor[:1, ::2]
    watch = weakref.ref(view)
    held = consumer.take(view.__dlpack__(max_version=(1, 3)))
    legacy = tensor.__dlpack__()
    same = fastdl.from_dlpack(tensor.__dlpack__(max_version=(1, 3)))
    array = np.from_dlpack(tensor)
    buffer = memoryview(tensor)
    assert (array.tolist(), buffer.tolist()) == (same.tolist(), same.tolist())
    assert watch() is view
    assert tensor.numpy().tolist() == tensor.copy().tolist() == same.tolist()
    assert tensor.T.T.expand(1, *tensor.shape).squeeze(0).tolist() == same.tolist()
    assert tensor.unsqueeze(0).mT.mT.squeeze(0).as_readonly().tolist() == same.tolist()
    assert tensor.T.contiguous().flatten().tolist() == array.T.flatten().tolist()
    consumer.delete_on_threads([held], 1)
    del view, legacy, same, array, buffer
    assert watch() is None


def test_types_and_devices_that_nobody_saw():
    """Each is made by one thread or another, and remembered by one of them."""

    def ask(i):
        for lanes in (1 + i, 1 + i // 2):
            tensor = fastdl.from_dlpack(Given(shape=(0,), dtype=(99, 8, lanes)).capsule())
            assert tensor.dtype.lanes == lanes
            tensor = fastdl.from_dlpack(Given(shape=(0,), device=(2, lanes)).capsule())
            assert tensor.device.id == lanes

    together(*[ask] * THREADS)


def test_one_tensor():
    given = Given()
    shared = [fastdl.from_dlpack(given.capsule())]
    together(*[lambda i: use(shared[0])] * THREADS)
    given.assert_alive()
    shared.clear()
    given.assert_released()


def test_one_array():
    """What the bridge to NumPy gives: its owner is an object."""
    arrays = [np.arange(6.0, dtype=np.float32).reshape(2, 3)]
    watch = weakref.ref(arrays[0])
    tensors = [fastdl.from_dlpack(arrays[0])]
    together(*[lambda i: (use(tensors[0]), fastdl.from_dlpack(arrays[0])[0])] * THREADS)
    arrays.clear()
    gc.collect()
    assert watch() is not None
    tensors.clear()
    gc.collect()
    assert watch() is None


def test_the_shape_is_made_once():
    tensors = [fastdl.from_dlpack(Given().capsule()) for _ in range(ROUNDS)]
    seen = [[] for _ in tensors]
    together(*[lambda i: seen[i].append(tensors[i].shape)] * THREADS)
    assert all(len({id(shape) for shape in shapes}) == 1 for shapes in seen)


def test_the_last_reference_may_be_anybodys():
    """A tensor, views of it and exports, each dropped on another thread."""
    given = [Given() for _ in range(ROUNDS)]
    tensors = [fastdl.from_dlpack(one.capsule()) for one in given]
    parts = [
        [tensor[1:] for tensor in tensors],
        [consumer.take(tensor.__dlpack__(max_version=(1, 3))) for tensor in tensors],
        [consumer.take(tensor[:1].__dlpack__()) for tensor in tensors],
        tensors,
    ]

    def drop(part):
        def drop_one(i):
            one, part[i] = [part[i]], None
            if type(one[0]) is fastdl.Tensor:
                one.clear()
            else:
                consumer.delete_on_threads(one, 1)

        return drop_one

    del tensors
    together(*map(drop, parts))
    assert_all_released(given)


class Counted(np.ndarray):
    """An array that can be part of a cycle."""


def test_the_collector_counts_views():
    """It sees the array behind a Tensor if nothing but that and its views holds the block."""
    array = np.arange(4.0).view(Counted)
    array.tensor = fastdl.from_dlpack(array)
    held = [array]

    def is_seen():
        return any(one is held[0] for one in gc.get_referents(held[0].tensor))

    together(*[lambda i: [held[0].tensor[1:] for _ in range(20)]] * THREADS)
    assert is_seen()
    export = array.tensor.__dlpack__(max_version=(1, 3))
    assert not is_seen()
    del export
    assert is_seen()
    watch = weakref.ref(array)
    held.clear()
    del array
    gc.collect()
    assert watch() is None


# ---- types ----------------------------------------------------------------------------------


def test_types_that_come_and_go():
    """Each thread makes some, imports twice from each (the second time is the learned one), and
    forgets them."""
    given = []

    def use_new_type(i):
        mine = [Given(), Given()]
        given.extend(mine)
        kind = type("Passing", (Producer,), {})
        for one in mine:
            assert fastdl.from_dlpack(kind(one)).shape == (2, 3)

    together(*[use_new_type] * THREADS)
    assert_all_released(given)


def test_a_type_that_changes():
    """Its method is replaced and deleted while others call it: each call is one or the other."""
    given, outcomes = [], []

    class Base:
        def __dlpack_device__(self):
            return (1, 0)

    def first(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        one = Given(shape=(1,))
        given.append(one)
        return one.capsule()

    def second(self, stream=None):
        one = Given(shape=(2,), versioned=False)
        given.append(one)
        return one.capsule()

    class Changing(Base):
        pass

    def change(i):
        Changing.__dlpack__ = second if i % 2 else first
        if i % 3 == 0:
            del Changing.__dlpack__

    def use_it(i):
        try:
            outcomes.append(fastdl.from_dlpack(Changing()).shape)
        except (TypeError, AttributeError):
            outcomes.append(None)

    together(change, *[use_it] * (THREADS - 1))
    assert set(outcomes) <= {(1,), (2,), None}
    assert_all_released(given)
    Changing.__dlpack__ = first
    assert fastdl.from_dlpack(Changing()).shape == (1,)


def test_registering_while_others_import():
    """Afterwards the registered table is used, on whichever thread the type was described."""
    for _ in range(max(1, ROUNDS // 20)):
        given = []
        table = hostile.table_capsule(hostile.table())
        kind = type("Registered", (Producer,), {})
        kind.__dlpack__ = kind.__dlpack__  # of its own: no table of a base serves
        below = type("Below", (kind,), {})

        def use_it(i, kind=kind, below=below, given=given):
            mine = [Given(), Given()]
            given.extend(mine)
            for one, cls in zip(mine, (kind, below), strict=True):
                producer = cls(one)
                producer.mode = "give"
                assert fastdl.from_dlpack(producer).shape == (2, 3)

        def register(i, kind=kind, table=table):
            fastdl.register_exchange_api(kind, table)

        together(register, *[use_it] * (THREADS - 1), rounds=3, collect=False)
        assert_all_released(given)
        for cls in (kind, below):
            one = cls(Given())
            one.mode = "give"
            fastdl.from_dlpack(one)
            assert one.asked == [], "the table was forgotten"


@every_world
def test_the_header(api):
    """Borrowing from objects of all kinds: by a table, by a bridge, by the protocol."""
    lent = Given()
    given = [Given()]
    objects = [
        fastdl.from_dlpack(given[0].capsule()),
        np.arange(6.0, dtype=np.float32).reshape(2, 3),
        Lending(lent),
    ]

    def borrow(i):
        api.borrow_on(3, objects[i % 3])
        mine = Given()
        given.append(mine)
        kind = type("Passing", (Producer,), {})
        assert api.borrow(kind(mine))["shape"] == (2, 3)

    together(*[borrow] * THREADS)
    objects.clear()
    assert_all_released(given)
    lent.assert_alive()


def test_a_module_that_is_imported_while_it_is_used(tmp_path):
    """What a thread gets is right, whether it finds the package yet or not. In the end all do."""
    array = np.arange(3.0)
    compiled = module_path("header", "header_alone")
    for number in range(max(ROUNDS // 10, 2)):
        fresh = tmp_path / str(number) / compiled.name  # with a state of its own
        fresh.parent.mkdir()
        shutil.copy(compiled, fresh)
        api = load_module("header", fresh)

        def bring(i, api=api):
            api.import_runtime()

        def use(i, api=api):
            view = api.borrow(array)
            assert (view["data"], view["shape"]) == (array.ctypes.data, (3,))
            assert fastdl.from_dlpack(api.own(array)).data_ptr == array.ctypes.data

        together(bring, bring, use, use, rounds=3, collect=False)
        assert api.borrow(array)["owned"] is False
        assert api.make_home_again() is True
        assert type(api.wrap(api.empty(array, None), None)) is fastdl.Tensor


# ---- streams --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["cuda", "hip"])
@pytest.mark.parametrize("way", [Protocol, Table])
def test_streams(kind, way):
    """Each thread imports the same memory for a stream of its own, reads it there, and hands on
    what it has. The simulation reports every read that does not wait for the write."""
    device = "cuda:0" if kind == "cuda" else "rocm:0"
    with simulated(kind) as sim:
        array = Array(sim, stream=sim.side(blocking=True))
        array.write()
        with fastdl.use_stream(device, array.stream):
            shared = [fastdl.from_dlpack(way(array), stream=array.stream)]
        sim.publish()

        def reader(stream):
            def read(i):
                sim.acquire()
                with sim.device(0), fastdl.use_stream(device, stream):
                    tensor = fastdl.from_dlpack(shared[0][1:], stream=stream)
                    array.read(stream)
                    tensor.record(stream)
                    tensor.__dlpack__(max_version=(1, 3), stream=stream)

            return read

        readers = [reader(sim.side(blocking=True)) for _ in range(THREADS)]
        together(*readers, rounds=max(1, ROUNDS // 10))
        shared.clear()
        gc.collect()
        assert array.given.deleted == 1
