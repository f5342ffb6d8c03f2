"""The simulated drivers: what has an order, and what is noticed when something has none. Each rule
is a scene of its own; at the end the two engines inside are compared over random programs."""

import ctypes
import itertools
import threading
from random import Random
from types import SimpleNamespace

import pytest

from tests.support.fresh import fresh
from tests.support.simulation import (
    ADDRESS,
    LEGACY,
    PER_THREAD,
    in_thread,
    read,
    unordered,
    write,
)

cuda, hip, sim = fresh("cuda"), fresh("hip"), fresh("cuda", "hip")


class TestOrder:
    """Which pieces of work have an order, beside what conformance.py asks of the one engine and
    TestAgreement of the other. Each scene writes on one side and reads on the other."""

    def scene(self, sim, first, second, between=lambda: None):
        data = sim.allocate(64)
        sim.kernel(first, write(data, 64, 1))
        between()
        sim.kernel(second, read(data, 64))
        return unordered(sim)

    def test_per_thread_streams_are_two_on_two_threads(self, sim):
        data = sim.allocate(64)
        sim.kernel(PER_THREAD, write(data, 64, 1))

        def other():
            with sim.device(0):
                sim.kernel(PER_THREAD, read(data, 64))

        in_thread(other)
        assert unordered(sim) == 1

    def test_each_device_has_a_legacy_stream(self, sim):
        data = sim.allocate(64)
        sim.kernel(0, write(data, 64, 1))
        with sim.device(1):
            sim.kernel(0, read(data, 64))
        assert unordered(sim) == 1

    def test_an_event_orders_across_devices(self, sim):
        first, event, data = sim.stream(False), sim.event(), sim.allocate(8)
        sim.kernel(first, write(data, 8, 1))
        sim.record(event, first)
        with sim.device(1):
            second = sim.stream(False)
            sim.wait(second, event)
            sim.kernel(second, read(data, 8))
        assert unordered(sim) == 0

    def test_the_host_orders_what_it_waited_for(self, sim):
        first, second = sim.stream(False), sim.stream(False)
        assert self.scene(sim, first, second, lambda: sim.synchronize(first)) == 0
        assert self.scene(sim, first, second, lambda: sim.synchronize(second)) == 1

    def test_the_host_orders_what_it_saw_complete(self, sim):
        stream, event, data = sim.stream(False), sim.event(), sim.allocate(8, "pinned")
        sim.kernel(stream, write(data, 8, 1))
        sim.record(event, stream)
        assert sim.call("cuEventQuery", event) == 600
        sim.run()
        assert sim.races() == []
        assert sim.call("cuEventQuery", event) == 0
        assert sim.host_read(data, 8) == b"\1" * 8
        sim.check(depth=sim.context_depth())

    def test_every_pair_is_reported(self, sim):
        streams, data = [sim.stream() for _ in range(4)], sim.allocate(8)
        for stream in streams:
            sim.kernel(stream, write(data, 8, 1))
        races = sim.races()
        assert len(races) == 6
        assert "kernel" in races[0] and "stream" in races[0] and "thread" in races[0]

    @pytest.mark.parametrize("length", range(30, 36))
    def test_a_long_history_hides_nothing(self, sim, length):
        """Accesses are forgotten only for others that stand for them."""
        first, second, third = (sim.stream(False) for _ in range(3))
        event, data = sim.event(), sim.allocate(8)
        sim.kernel(first, write(data, 8, 1))
        for _ in range(length):
            sim.kernel(first, read(data, 8))
        sim.kernel(second, write(data, 8, 1))
        before = len(sim.races())
        sim.record(event, second)
        sim.wait(third, event)
        sim.kernel(third, read(data, 8))  # after the second stream's write, not the first's
        assert len(sim.races()) > before

    @pytest.mark.parametrize("length", range(30, 36))
    def test_reads_do_not_stand_for_writes(self, sim, length):
        first, second, third = (sim.stream(False) for _ in range(3))
        event, data = sim.event(), sim.allocate(8)
        sim.kernel(first, write(data, 8, 1))
        sim.record(event, first)
        sim.wait(second, event)
        for _ in range(length):
            sim.kernel(second, read(data, 8))
        assert sim.races() == []
        sim.kernel(third, read(data, 8))
        assert len(sim.races()) >= 1


class TestHost:
    def test_reading_too_early(self, sim):
        stream, data = sim.stream(), sim.allocate(8, "pinned")
        sim.kernel(stream, write(data, 8, 1))
        assert sim.host_read(data, 8) == b"\xcd" * 8
        assert len(sim.races()) == 1
        sim.synchronize(stream)
        assert sim.host_read(data, 8) == b"\1" * 8
        assert len(sim.races()) == 1

    def test_writing_too_early(self, sim):
        stream, data, copy = sim.stream(), sim.allocate(8, "pinned"), sim.allocate(8)
        sim.host_write(data, 8, 1)
        sim.copy(copy, data, 8, stream)
        sim.host_write(data, 8, 2)
        assert len(sim.races()) == 1
        sim.synchronize(stream)
        assert sim.peek(copy, 8) == b"\2" * 8

    @pytest.mark.parametrize("strict", [1, 0])
    def test_pageable_memory(self, sim, strict):
        sim.set("strict", strict)
        stream, data = sim.stream(), sim.allocate(8)
        host, back = ctypes.create_string_buffer(b"12345678"), ctypes.create_string_buffer(8)
        sim.copy(data, ctypes.addressof(host), 8, stream)
        sim.host_write(ctypes.addressof(host), 8, ord("x"))
        sim.copy(ctypes.addressof(back), data, 8, stream)
        early = sim.host_read(ctypes.addressof(back), 8)
        sim.synchronize(stream)
        assert early == (bytes(8) if strict else b"12345678")
        assert back.raw == (b"xxxxxxxx" if strict else b"12345678")
        assert len(sim.races()) == (2 if strict else 0)

    def test_waiting_runs_no_more_than_it_must(self, sim):
        first, second, data = sim.stream(), sim.stream(), sim.allocate(16)
        sim.kernel(first, write(data, 8, 1))
        sim.kernel(second, write(data + 8, 8, 2))
        sim.synchronize(first)
        assert sim.peek(data, 16) == b"\1" * 8 + b"\xcd" * 8
        assert sim.live("pending") == 1

    def test_threads_tell_each_other(self, sim):
        stream, data = sim.stream(), sim.allocate(8, "pinned")
        ready, done = threading.Event(), threading.Event()
        found = []

        def worker():
            sim.live("events")  # known from here on
            ready.set()
            done.wait()
            found.append(sim.host_read(data, 8))
            sim.acquire()
            found.append(sim.host_read(data, 8))

        thread = threading.Thread(target=worker)
        thread.start()
        ready.wait()
        sim.context_depth()
        sim.kernel(stream, write(data, 8, 1))
        sim.synchronize(stream)
        sim.publish()
        done.set()
        thread.join()
        assert found == [b"\1" * 8] * 2
        assert sim.violations() == []

    def test_a_thread_that_was_not_told(self, sim):
        stream, data = sim.stream(), sim.allocate(8, "pinned")
        go, done = threading.Event(), threading.Event()

        def worker():
            sim.context_depth()
            go.set()
            done.wait()
            sim.host_read(data, 8)

        thread = threading.Thread(target=worker)
        thread.start()
        go.wait()
        sim.kernel(stream, write(data, 8, 1))
        sim.synchronize(stream)
        done.set()
        thread.join()
        assert len(sim.races()) == 1


class TestMemory:
    def test_addresses_are_used_again_at_once(self, sim):
        first, second = sim.allocate(64), sim.allocate(64)
        sim.free(first)
        sim.free(second)
        assert [sim.allocate(64), sim.allocate(60)] == [second, first]
        sim.check(depth=sim.context_depth())

    def test_devices_share_no_address(self, sim):
        data = sim.allocate(64)
        sim.free(data)
        with sim.device(1):
            assert sim.allocate(64) != data

    def test_freeing_too_early(self, sim):
        stream, data = sim.stream(), sim.allocate(8)
        sim.kernel(stream, write(data, 8, 1))
        sim.free(data)
        (race,) = sim.races()
        assert "write by free" in race and "write by kernel" in race

    def test_freeing_in_time(self, sim):
        stream, data = sim.stream(), sim.allocate(8)
        sim.kernel(stream, write(data, 8, 1))
        sim.synchronize(stream)
        sim.free(data)
        again = sim.allocate(8)
        sim.kernel(sim.stream(), write(again, 8, 1))
        assert again == data
        sim.check(depth=sim.context_depth())

    def test_use_after_free(self, sim):
        data = sim.allocate(8)
        sim.free(data)
        assert sim.launch(0, read(data, 8)) == 1
        assert "use after free" in sim.violations()[0]
        assert sim.peek(data, 8) == b"\xdd" * 8

    def test_freeing_twice(self, sim):
        data = sim.allocate(8)
        sim.free(data)
        assert sim.call("cuMemFree_v2", data) == 1
        assert len(sim.violations()) == 1

    def test_freeing_by_the_wrong_call(self, sim):
        pinned, data = sim.allocate(8, "pinned"), sim.allocate(8)
        assert sim.call("cuMemFree_v2", pinned) == 1
        assert sim.call("cuMemFreeHost", data) == 1
        assert len(sim.violations()) == 2

    def test_beyond_the_end(self, sim):
        data = sim.allocate(8)
        assert sim.launch(0, read(data + 4, 5)) == 1
        assert "beyond the end" in sim.violations()[0]

    def test_who_can_reach_what(self, sim):
        data, host = sim.allocate(8), ctypes.create_string_buffer(8)
        assert sim.driver.fk_host_read(data, 8, None) == 1
        assert sim.launch(0, read(ctypes.addressof(host), 8)) == 1
        assert len(sim.violations()) == 2
        for kind in ("managed", "pinned"):
            both = sim.allocate(8, kind)
            sim.host_write(both, 8, 1)
            sim.kernel(0, read(both, 8))
        assert len(sim.violations()) == 2

    def test_memory_is_finite(self, sim):
        sim.set("memory", 1000)
        data = ADDRESS[sim.kind]()
        assert sim.call("cuMemAlloc_v2", data, 600) == 0
        assert sim.call("cuMemAlloc_v2", data, 600) == 2
        with sim.device(1):
            assert sim.call("cuMemAlloc_v2", data, 600) == 0
        assert sim.live("allocations") == 2


class TestPool:
    """Memory that is allocated and freed on streams."""

    def allocate(self, sim, stream, length=64):
        return sim.made("cuMemAllocAsync", length, stream, kind=ADDRESS[sim.kind])

    def free(self, sim, pointer, stream):
        sim.ok("cuMemFreeAsync", pointer, stream)

    def test_on_one_stream(self, sim):
        stream = sim.stream(False)
        data = self.allocate(sim, stream)
        sim.kernel(stream, write(data, 64, 1))
        self.free(sim, data, stream)
        assert self.allocate(sim, stream) == data
        sim.kernel(stream, read(data, 64))
        assert unordered(sim) == 0

    def test_another_stream_needs_an_edge(self, sim):
        stream = sim.stream(False)
        data = self.allocate(sim, stream)
        sim.kernel(sim.stream(False), write(data, 64, 1))
        (race,) = sim.races()
        assert "allocation" in race

    def test_freeing_while_another_stream_reads(self, sim):
        """What torch's record_stream is there for."""
        stream, reader, event = sim.stream(False), sim.stream(False), sim.event()
        data = self.allocate(sim, stream)
        sim.record(event, stream)
        sim.wait(reader, event)
        sim.kernel(reader, read(data, 64))
        self.free(sim, data, stream)
        (race,) = sim.races()
        assert "free" in race and "read by kernel" in race

    def test_reuse_by_another_stream_is_ordered_by_the_driver(self, sim):
        first, second = sim.stream(False), sim.stream(False)
        data = self.allocate(sim, first)
        sim.kernel(first, write(data, 64, 1))
        self.free(sim, data, first)
        assert self.allocate(sim, second) == data
        sim.kernel(second, write(data, 64, 2))
        assert unordered(sim) == 0
        assert sim.peek(data, 64) == b"\2" * 64

    def test_after_the_free_the_memory_is_gone(self, sim):
        stream = sim.stream(False)
        data = self.allocate(sim, stream)
        self.free(sim, data, stream)
        assert sim.launch(stream, read(data, 64)) == 1
        assert "use after free" in sim.violations()[0]

    def test_a_device_without_pools(self, cuda):
        cuda.attribute(0, 115, 0)
        value = ctypes.c_int()
        cuda.ok("cuDeviceGetAttribute", value, 115, 0)
        assert value.value == 0
        assert cuda.call("cuMemAllocAsync", ctypes.c_uint64(), 8, 0) == 801


class TestHandles:
    def test_they_are_used_again_at_once(self, sim):
        first, second = sim.stream(), sim.stream()
        sim.ok("cuStreamDestroy_v2", first)
        sim.ok("cuStreamDestroy_v2", second)
        assert [sim.stream(), sim.stream()] == [second, first]

    def test_a_new_stream_knows_nothing_of_the_old_one(self, sim):
        stream, data = sim.stream(False), sim.allocate(8)
        sim.kernel(stream, write(data, 8, 1))
        sim.ok("cuStreamDestroy_v2", stream)
        again = sim.stream(False)
        assert again == stream
        sim.kernel(again, read(data, 8))
        assert unordered(sim) == 1
        assert sim.peek(data, 8) == b"\1" * 8  # the work of a destroyed stream goes on

    def test_destroyed_ones_are_noticed(self, sim):
        stream, event = sim.stream(), sim.event()
        sim.ok("cuStreamDestroy_v2", stream)
        sim.ok("cuEventDestroy_v2", event)
        assert sim.call("cuStreamQuery", stream) == 400
        assert sim.call("cuEventQuery", event) == 400
        assert all("after it was destroyed" in text for text in sim.violations())
        assert len(sim.violations()) == 2

    @pytest.mark.parametrize("handle", [2**64 - 1, 3, 4096, 1 << 40])
    def test_numbers_are_no_handles(self, sim, handle):
        assert sim.call("cuStreamQuery", handle) == 400
        assert sim.call("cuEventQuery", handle) == 400
        assert all("would dereference it" in text for text in sim.violations())
        assert len(sim.violations()) == 2

    def test_streams_are_no_events(self, sim):
        assert sim.call("cuEventQuery", sim.stream()) == 400
        assert len(sim.violations()) == 1


class TestAgreement:
    """Two engines that share no more than the queue must judge any program alike: the clocks report
    a race if and only if the executor, which only the graph restrains, can come to other bytes."""

    PROGRAMS = 200
    CELLS = 4
    STREAMS = 5

    def program(self, random):
        """Actions, each a function of the scene that `play` sets."""

        def kernel(on, accesses, sign):
            def act(sim, scene):
                data, own = scene.cells + 8 * accesses[0], scene.results[sign]
                touch = [read(data, 8 * accesses[1]), write(own, 8, -sign)]
                if accesses[2]:
                    touch[0] = write(data, 8 * accesses[1], -sign)
                sim.kernel(scene.streams[on], *touch)

            return act

        actions, streams = [], range(self.STREAMS)
        for sign in range(1, random.randint(3, 9)):
            first = random.randrange(self.CELLS)
            accesses = first, random.randint(1, self.CELLS - first), random.random() < 0.5
            actions.append(kernel(random.choice(streams), accesses, sign))
            event, on, other = random.randrange(2), random.choice(streams), random.choice(streams)
            edge = [
                lambda sim, s, event=event, on=on: sim.record(s.events[event], s.streams[on]),
                lambda sim, s, event=event, on=other: sim.wait(s.streams[on], s.events[event]),
            ]
            actions += random.sample(edge, random.randint(0, 2))
        return actions

    def play(self, sim, actions, scene, seed):
        """(whether the clocks see a race, the bytes that are left) of a program."""
        sim.forget()
        sim.set("seed", seed)
        ctypes.memset(scene.memory, 0, scene.size)
        scene.events = [sim.event(), sim.event()]
        for act in actions:
            act(sim, scene)
        sim.run(seed)
        assert sim.violations() == []
        return bool(sim.races()), sim.peek(scene.memory, scene.size)

    def disagreement(self, sim, count):
        """What the engines say of the first of `count` programs that they judge otherwise."""
        scene = SimpleNamespace(size=8 * 32)
        scene.memory = scene.cells = sim.allocate(scene.size)
        scene.results = [scene.memory + 8 * (self.CELLS + i) for i in range(10)]
        scene.streams = [LEGACY, PER_THREAD, sim.stream(), sim.stream(), sim.stream(False)]
        for number in range(count):
            actions = self.program(Random(number))
            race, bytes_left = self.play(sim, actions, scene, 0)
            others = (self.play(sim, actions, scene, seed)[1] for seed in range(1, 200))
            if not race:
                others = itertools.islice(others, 15)
            if race != any(other != bytes_left for other in others):
                return f"program {number}: the clocks {'see a' if race else 'see no'} race"
        return None

    def test_they_agree(self, sim):
        assert self.disagreement(sim, self.PROGRAMS) is None

    @pytest.mark.parametrize(("engine", "word"), [(1, "see a race"), (2, "see no race")])
    def test_a_fault_in_either_is_found(self, sim, engine, word):
        sim.set("broken", engine)
        assert word in self.disagreement(sim, self.PROGRAMS)
