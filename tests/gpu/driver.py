"""A device as a plain program uses it: through the driver's C functions, CUDA's or HIP's.

Nothing here knows of fastdl, nor whether the driver is real or simulated. An error is an
AssertionError with the name of the call and the code.
"""

import ctypes
from pathlib import Path

from tests.support.simulation import declare

# What is used, as CUDA and as HIP call it. The arguments are the same, but see `copy`.
_NAMES = {
    "stream_create": ("cuStreamCreate", "hipStreamCreateWithFlags"),
    "stream_wait": ("cuStreamWaitEvent", "hipStreamWaitEvent"),
    "stream_synchronize": ("cuStreamSynchronize", "hipStreamSynchronize"),
    "stream_destroy": ("cuStreamDestroy_v2", "hipStreamDestroy"),
    "event_create": ("cuEventCreate", "hipEventCreateWithFlags"),
    "event_record": ("cuEventRecord", "hipEventRecord"),
    "event_query": ("cuEventQuery", "hipEventQuery"),
    "event_synchronize": ("cuEventSynchronize", "hipEventSynchronize"),
    "event_destroy": ("cuEventDestroy_v2", "hipEventDestroy"),
    "alloc": ("cuMemAlloc_v2", "hipMalloc"),
    "free": ("cuMemFree_v2", "hipFree"),
    "pinned_alloc": ("cuMemHostAlloc", "hipHostMalloc"),
    "pinned_free": ("cuMemFreeHost", "hipHostFree"),
    "fill": ("cuMemsetD8Async", "hipMemsetAsync"),
    "copy": ("cuMemcpyAsync", "hipMemcpyAsync"),
    "host_call": ("cuLaunchHostFunc", "hipLaunchHostFunc"),
    "begin_capture": ("cuStreamBeginCapture_v2", "hipStreamBeginCapture"),
    "end_capture": ("cuStreamEndCapture", "hipStreamEndCapture"),
    "graph_destroy": ("cuGraphDestroy", "hipGraphDestroy"),
}

KERNEL = Path(__file__).with_name("latch.ptx")


def latch_texts():
    """The kernel that holds a stream, for the oldest devices first: a driver may have forgotten
    those."""
    text = KERNEL.read_bytes()
    for target in (b"sm_70", b"sm_75", b"sm_80"):
        yield text.replace(b".target sm_70", b".target " + target)


NON_BLOCKING, DISABLE_TIMING, MEMCPY_DEFAULT = 1, 2, 4
NOT_READY = 600


class Driver:
    """Device 0, current on the thread that makes this until `close`.

    library: the loaded driver. kind: "cuda" or "hip". Streams are in DLPack's numbers, as they are
    the driver's.
    """

    def __init__(self, library, kind):
        self.kind = kind
        self.library = declare(library, kind)
        self.streams, self.events, self.memory, self.pinned = [], [], [], []
        if kind == "cuda":
            self.named("cuInit", 0)
            context = ctypes.c_void_p()
            self.named("cuDevicePrimaryCtxRetain", context, 0)
            self.named("cuCtxPushCurrent_v2", context)
        else:
            self.named("hipSetDevice", 0)

    def named(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        assert code == 0, f"{name} answered {code}"

    def code(self, what, *arguments):
        return getattr(self.library, _NAMES[what][self.kind == "hip"])(*arguments)

    def do(self, what, *arguments):
        code = self.code(what, *arguments)
        assert code == 0, f"{_NAMES[what][self.kind == 'hip']} answered {code}"

    def make(self, what, *arguments, of=ctypes.c_void_p):
        result = of()
        self.do(what, ctypes.byref(result), *arguments)
        return result.value

    # ---- what lives until `close`

    def stream(self, blocking=False):
        """A new stream. Blocking: the legacy default stream waits for it and it for that."""
        self.streams.append(self.make("stream_create", 0 if blocking else NON_BLOCKING))
        return self.streams[-1]

    def event(self):
        self.events.append(self.make("event_create", DISABLE_TIMING))
        return self.events[-1]

    def allocate(self, size):
        type_ = ctypes.c_uint64 if self.kind == "cuda" else ctypes.c_void_p
        self.memory.append(self.make("alloc", size, of=type_))
        return self.memory[-1]

    def allocate_pinned(self, size):
        """Host memory that the device reads and writes under the same address."""
        self.pinned.append(self.make("pinned_alloc", size, 0))
        return self.pinned[-1]

    def close(self):
        for stream in self.streams:
            self.do("stream_synchronize", stream)
        for what, handles in (
            ("stream_destroy", self.streams),
            ("event_destroy", self.events),
            ("free", self.memory),
            ("pinned_free", self.pinned),
        ):
            for handle in handles:
                self.do(what, handle)
            handles.clear()
        if self.kind == "cuda":
            self.named("cuCtxPopCurrent_v2", ctypes.c_void_p())

    # ---- work

    def fill(self, stream, pointer, value, size):
        self.do("fill", pointer, value, size, stream)

    def copy(self, stream, to, source, size):
        kind = [] if self.kind == "cuda" else [MEMCPY_DEFAULT]
        self.do("copy", to, source, size, *kind, stream)

    def order(self, earlier, later):
        """`later` waits for what is queued on `earlier` now: what every library does."""
        event = self.make("event_create", DISABLE_TIMING)
        self.do("event_record", event, earlier)
        self.do("stream_wait", later, event, 0)
        self.do("event_destroy", event)  # in spite of the wait: the driver keeps what it needs

    def is_done(self, event):
        code = self.code("event_query", event)
        assert code in (0, NOT_READY), f"the query of an event answered {code}"
        return code == 0
