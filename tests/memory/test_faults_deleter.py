# SPDX-License-Identifier: Apache-2.0
"""Deleters: missing, called late, from anywhere (faults D1 to D8). Those that raise, or use fastdl,
are in test_reliability.py (test_acts), and objects that go back on native threads in
test_producer.py."""

import gc
import threading
import weakref

import numpy as np
import pytest

import fastdl
from tests.support import consumer
from tests.support.headers import ALONE, every_entry
from tests.support.isolate import run_isolated
from tests.support.producers import Given, Producer, handing, types

forms = pytest.mark.parametrize("versioned", [True, False], ids=["versioned", "legacy"])


@every_entry
@types
@forms
def test_d1_no_deleter_keeps_the_producer(enter, of_type, versioned):
    """Nobody else could say how long the memory lives."""
    producer = of_type(Producer)(Given(versioned=versioned, deleter=False))
    seen = weakref.ref(producer)
    tensor = enter(producer)
    view = tensor[1:]
    del producer, tensor
    gc.collect()
    assert seen() is not None
    assert view.tolist() == [[3.0, 4.0, 5.0]]
    del view
    assert seen() is None


@forms
def test_d1_no_deleter_and_a_refused_descriptor(versioned):
    given = Given(versioned=versioned, deleter=False, shape=(-1,))
    with pytest.raises(BufferError):
        fastdl.from_dlpack(given.capsule())
    given.assert_alive()


def exports(tensor, form):
    """A further holder of the block of `tensor`, as a plain consumer has it."""
    if form == "table":
        return consumer.from_object(fastdl.exchange_api(fastdl.Tensor), tensor)
    return consumer.take(tensor.__dlpack__(max_version=(1, 3) if form == "versioned" else None))


every_export = pytest.mark.parametrize("form", ["versioned", "legacy", "table"])


@every_export
@pytest.mark.parametrize("last", [True, False])
def test_d4_deleter_while_an_exception_is_pending(form, last):
    """The exception stays as it is; the producer's deleter does not see it."""
    given = Given()
    tensor = fastdl.from_dlpack(given.capsule())
    held = exports(tensor, form)
    if last:
        del tensor
    assert held.release("pending") is True
    assert given.deleted == int(last)
    assert not given.error_was_pending


def chain(length):
    """Managed tensors whose deleters each delete the next, and what to call to delete the first."""
    keep = {}
    given = [Given(on_delete=lambda i=i: keep.pop(i + 1, None)) for i in range(length)]
    for i, one in enumerate(given):
        keep[i] = fastdl.from_dlpack(one.capsule())
    return given, lambda: keep.pop(0)


def assert_a_chain_is_released(length=60):
    """Deeper than owners may nest, and at once."""
    given, start = chain(length)
    start()
    assert [one.deleted for one in given] == [1] * length


def test_d6_chain_of_deleters():
    assert_a_chain_is_released(200)


def test_d6_chain_inside_a_deleter():
    """It does not wait for the end of that deleter, which may run for long."""
    ends = []

    def work():
        assert_a_chain_is_released()
        ends.append(True)

    tensor = fastdl.from_dlpack(Given(on_delete=work).capsule())
    del tensor
    assert ends == [True]


def test_d6_chain_while_another_thread_is_in_a_deleter():
    """Nor for the deleter of another thread."""
    inside, done = threading.Event(), threading.Event()

    def work():
        inside.set()
        assert done.wait(60)

    # Made on that thread: without a GIL the last reference would go where the tensor was made.
    thread = threading.Thread(target=lambda: fastdl.from_dlpack(Given(on_delete=work).capsule()))
    thread.start()
    assert inside.wait(60)
    try:
        assert_a_chain_is_released()
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize("who", ["the deleter itself", "another thread"])
def test_d6_chain_in_a_child_that_was_forked_during_a_deleter(who):
    """The deleter never ends in the child: what is deleted there must not wait for it."""
    printed = run_isolated(f"""
        import os, sys, threading, warnings
        import fastdl
        from tests.support.producers import Given
        from tests.memory.test_faults_deleter import assert_a_chain_is_released

        warnings.simplefilter("ignore", DeprecationWarning)  # fork in a process with threads
        inside, done = threading.Event(), threading.Event()

        def fork():
            child = os.fork()
            if child == 0:
                try:
                    assert_a_chain_is_released()
                    print("released", flush=True)
                finally:
                    os._exit(0)
            assert os.waitpid(child, 0) == (child, 0)

        def wait():
            inside.set()
            done.wait()

        def delete(on_delete):
            fastdl.from_dlpack(Given(on_delete=on_delete).capsule())

        if {who == "the deleter itself"}:
            delete(fork)
        else:
            thread = threading.Thread(target=delete, args=(wait,))
            thread.start()
            inside.wait()
            fork()
            done.set()
            thread.join()
    """)
    assert printed == "released\n"


def test_d8_owner_that_comes_back_to_life():
    """An array that resurrects itself when its last tensor goes: both stay usable."""
    saved = []

    class Phoenix(np.ndarray):
        def __del__(self):
            saved.append(self)

    tensor = fastdl.from_dlpack(np.arange(3.0).view(Phoenix))
    view = tensor[1:]
    del tensor
    assert saved == []
    del view
    assert len(saved) == 1
    assert fastdl.from_dlpack(saved[0]).tolist() == [0.0, 1.0, 2.0]


def test_d8_owner_that_deletes_the_tensor_in_its_deleter():
    holder = {}
    given = Given(on_delete=holder.clear)
    holder["view"] = fastdl.from_dlpack(given.capsule())
    other = fastdl.from_dlpack(Given(on_delete=holder.clear).capsule())
    del other
    assert holder == {}
    given.assert_released()


def test_d8_weak_reference_dies_before_the_memory():
    seen = []
    given = Given()
    tensor = fastdl.from_dlpack(given.capsule())
    watch = weakref.ref(tensor, lambda ref: seen.append((ref(), given.deleted)))
    del tensor
    assert seen == [(None, 0)]
    assert watch() is None
    given.assert_released()


# ---- D9: the other struct under the name, and what only looks like it -----------------------

HEADER = ALONE["alone"]
takers = pytest.mark.parametrize(
    "take",
    [fastdl.from_dlpack, lambda capsule: HEADER.borrow(handing(capsule))],
    ids=["package", "header"],
)


@takers
@pytest.mark.parametrize("data", range(11))
@pytest.mark.parametrize(
    "fields",
    [
        {"shape": (0,), "dtype": (2, 7, 1)},  # an empty Rust vector has its alignment as data
        {"shape": (2, 0, 3), "dtype": (2, 32, 0)},
        {"shape": (0,), "strides": (1,), "dtype": (0, 4, 1), "device": (0, 0)},
        {"shape": (), "device": (7, 0), "dtype": (2, 7, 1)},  # one element, data is a handle
        {"shape": None, "ndim": 0, "device": (7, 0), "dtype": (2, 7, 1)},
    ],
    ids=["none", "no lanes", "no device", "handle", "handle, no shape"],
)
def test_d9_refused_legacy_tensor_with_a_small_number_as_data(take, fields, data):
    """It is given back, as every other."""
    given = Given(versioned=False, data=data, **fields)
    with pytest.raises(BufferError):
        take(given.capsule())
    given.assert_released()


@pytest.mark.parametrize("name", ["package", "header"])
def test_d9_versioned_tensor_under_the_legacy_name(name):
    """In the place of its deleter stands what may not be called: it is left alone, whatever it
    says of itself."""
    taken = "fastdl.from_dlpack" if name == "package" else "take"
    run_isolated(f"""
        import itertools
        import fastdl
        from tests.support.headers import ALONE
        from tests.support.producers import Given, handing
        def take(capsule):
            ALONE["alone"].borrow(handing(capsule))
        versions = [(1, 0), (1, 3), (2, 0), (9, 255)]
        shapes = [(), (0,), (2, 3), None, (1,) * 64, (-1,)]
        for version, shape, flags, deleter, data, dtype, device in itertools.product(
            versions, shapes, (0, 1, 7, 255), (True, False), (0, 8, 65536),
            ((2, 32, 1), (0, 0, 0), (200, 255, 9)), ((1, 0), (0, 0), (7, 3)),
        ):
            given = Given(version=version, shape=shape, ndim=None if shape else 0, flags=flags,
                          deleter=deleter, data=data, dtype=dtype, device=device)
            try:
                {taken}(given.capsule("dltensor", destructor=False))
            except BufferError:
                pass
            else:
                raise AssertionError("taken")
            assert given.deleted == 0
    """)
