"""Checks of a driver: what waits for what. Something that holds a stream until it is told (`Latch`)
is the work that is not over."""

from tests.simulated.conformance_driver import PATIENCE, Checks, Latch, about
from tests.support.simulation import ADDRESS, LEGACY, PER_THREAD


class Order(Checks):
    def waits(self, first, second, between=lambda: None):
        """Whether work on `second` waits for earlier work on `first`. The later work is queued and
        waited for by another thread, which has a per-thread stream of its own."""
        d = self.driver
        data = d.allocate()
        for stream in (first, second):  # what is slow the first time is over
            d.ok("cuMemsetD8Async", data, 1, 8, stream)
            d.ok("cuStreamSynchronize", stream)
        latch = Latch(d, first)
        between()

        def work():
            d.ok("cuMemsetD8Async", data, 2, 8, second)
            return d.call("cuStreamSynchronize", second)

        join = self.begin_thread(work)
        ended = join(PATIENCE) is not None
        latch.open()
        assert join() == 0
        d.ok("cuStreamSynchronize", first)
        return not ended

    @about("implicit-order")
    def check_order(self):
        d = self.driver
        kinds = {
            "legacy": LEGACY,
            "per-thread": PER_THREAD,
            "blocking": d.stream(True),
            "non-blocking": d.stream(),
        }
        for first, second, expected in [
            ("legacy", "blocking", True),
            ("legacy", "non-blocking", False),
            ("legacy", "per-thread", True),
            ("blocking", "legacy", True),
            ("non-blocking", "legacy", False),
            ("per-thread", "legacy", True),
            ("per-thread", "per-thread", False),  # of another thread
            ("blocking", "non-blocking", False),
        ]:
            got = self.waits(kinds[first], kinds[second])
            self.expect(f"{second} waits for {first}", got, expected)
        self.expect("0 is legacy", self.waits(0, kinds["blocking"]), True)

    @about("last-record")
    def check_order_by_events(self):
        d = self.driver
        first, second, third, event = d.stream(), d.stream(), d.stream(), d.event()

        def edge():
            d.ok("cuEventRecord", event, first)
            d.ok("cuStreamWaitEvent", second, event, 0)

        def edge_then_again():
            edge()
            d.ok("cuEventRecord", event, third)

        def edge_then_destroyed():
            passing = d.event()
            d.ok("cuEventRecord", passing, first)
            d.ok("cuStreamWaitEvent", second, passing, 0)
            d.ok("cuEventDestroy_v2", passing)

        def early_record():
            d.ok("cuEventRecord", event, third)
            d.ok("cuStreamWaitEvent", second, event, 0)

        name = "a stream waits for "
        self.expect(name + "what an event holds", self.waits(first, second, edge), True)
        got = self.waits(first, second, edge_then_again)
        self.expect(name + "it though it is recorded again", got, True)
        got = self.waits(first, second, edge_then_destroyed)
        self.expect(name + "it though it is destroyed", got, True)
        got = self.waits(first, second, early_record)
        self.expect(name + "another event's work", got, False)

    @about("events")
    def check_work_that_is_not_over(self):
        d = self.driver
        stream, event = d.stream(), d.event()
        latch = Latch(d, stream)
        d.ok("cuEventRecord", event, stream)
        got = d.call("cuStreamQuery", stream), d.call("cuEventQuery", event)
        latch.open()
        self.expect("queries while there is work", got, (600, 600))
        d.ok("cuEventSynchronize", event)
        got = d.call("cuEventQuery", event)
        self.expect("and after a wait for it", got, 0)

    @about("blocking-calls")
    def check_what_waits_without_a_promise(self):
        d = self.driver
        for name, prepare, call in [
            ("cuMemFree_v2", d.allocate, lambda data: d.call("cuMemFree_v2", data)),
            ("cuMemAlloc_v2", lambda: 0, lambda _: d.call("cuMemAlloc_v2", ADDRESS[d.kind](), 64)),
            ("cuEventDestroy_v2", self.pending_event, lambda e: d.call("cuEventDestroy_v2", e)),
        ]:
            stream = self.stream = d.stream()
            data = prepare()
            latch = Latch(d, stream)
            if name.startswith("cuEvent"):
                d.ok("cuEventRecord", data, stream)
            join = self.begin_thread(lambda call=call, data=data: call(data))
            self.note(f"{name} waits for a stream", join(PATIENCE) is None)
            latch.open()
            join()
            d.ok("cuStreamSynchronize", stream)

    def pending_event(self):
        return self.driver.event()
