# SPDX-License-Identifier: Apache-2.0
"""A device as a plain program uses it: through the driver's C functions, CUDA's or HIP's.

Nothing here knows of fastdl, nor whether the driver is real or simulated. An error is an
AssertionError with the name of the call and the code.
"""

import ctypes
from pathlib import Path

from tests.support.simulation import Calls

KERNEL = Path(__file__).with_name("latch.ptx")


def latch_texts():
    """The kernel that holds a stream, for the oldest devices first: a driver may have forgotten
    those."""
    text = KERNEL.read_bytes()
    for target in (b"sm_70", b"sm_75", b"sm_80"):
        yield text.replace(b".target sm_70", b".target " + target)


NOT_READY = 600


class Driver(Calls):
    """Device 0, current on the thread that makes this until `close`, when the streams, events and
    memory that were made with it end too.

    library: the loaded driver. kind: "cuda" or "hip". Streams are in DLPack's numbers, as they are
    the driver's.
    """

    def __init__(self, library, kind):
        super().__init__(library, kind)
        self.streams, self.events, self.memory = [], [], []
        if kind == "cuda":
            self.ok("cuInit", 0)
            self.ok("cuCtxPushCurrent_v2", self.made("cuDevicePrimaryCtxRetain", 0))
        else:
            self.ok("hipSetDevice", 0)

    def stream(self, blocking=False):
        self.streams.append(super().stream(blocking))
        return self.streams[-1]

    def event(self):
        self.events.append(super().event())
        return self.events[-1]

    def allocate(self, size, kind="device"):
        """Pinned: host memory that the device reads and writes under the same address."""
        self.memory.append((super().allocate(size, kind), kind))
        return self.memory[-1][0]

    def close(self):
        for stream in self.streams:
            self.synchronize(stream)
            self.ok("cuStreamDestroy_v2", stream)
        for event in self.events:
            self.ok("cuEventDestroy_v2", event)
        for memory in self.memory:
            self.free(*memory)
        if self.kind == "cuda":
            self.ok("cuCtxPopCurrent_v2", ctypes.c_void_p())

    def fill(self, stream, pointer, value, size):
        self.ok("cuMemsetD8Async", pointer, value, size, stream)

    def is_done(self, event):
        code = self.call("cuEventQuery", event)
        assert code in (0, NOT_READY), f"the query of an event answered {code}"
        return code == 0
