"""Checks that one NVIDIA GPU cannot answer: each says what it would take."""

import ctypes

from tests.simulated.beliefs import BY_NAME
from tests.simulated.conformance_driver import Assumed, Checks, about

POOLED = {
    "cuMemAlloc": lambda d, stream: d.allocate(),
    "cuMemAllocAsync": lambda d, stream: d.made(
        "cuMemAllocAsync", 64, stream, kind=ctypes.c_uint64
    ),
}


class Elsewhere(Checks):
    def two_devices(self):
        """(context, stream of it) of the second device."""
        if self.count < 2:
            raise Assumed("needs two devices")
        d = self.driver
        other = d.made("cuDevicePrimaryCtxRetain", 1)
        d.push(other)
        try:
            return other, d.stream()
        finally:
            d.pop()

    @about("peer-copies")
    def check_copies_between_devices(self):
        d = self.driver
        other, theirs = self.two_devices()
        mine = d.made("cuCtxGetCurrent")
        ours = d.stream()
        for kind, allocate in POOLED.items():
            source, target = d.pinned(), d.pinned()
            ctypes.memmove(source, bytes(range(64)), 64)
            here = allocate(d, ours)
            d.ok("cuStreamSynchronize", ours)
            d.push(other)
            there = allocate(d, theirs)
            codes = [d.copy(there, source, 64, theirs)]
            self.note(f"cuMemcpyAsync, {kind}", d.copy(here, there, 64, theirs))
            arguments = (here, mine, there, other, 64, theirs)
            codes.append(d.call("cuMemcpyPeerAsync", *arguments))
            codes.append(d.copy(target, there, 64, theirs))
            d.ok("cuStreamSynchronize", theirs)
            d.pop()
            codes.append(d.copy(target, here, 64, ours))
            d.ok("cuStreamSynchronize", ours)
            self.expect(f"to one device, to the other, and back, {kind}", codes, [0, 0, 0, 0])
            same = ctypes.string_at(target, 64) == bytes(range(64))
            self.expect(f"and it is what was sent, {kind}", same, True)

    @about("producers-ignore")
    def check_nanobind_ignores(self):
        raise Assumed("needs a module that is compiled with nanobind")


def _needs(belief):
    @about(belief)
    def check(self):
        raise Assumed(f"needs {BY_NAME[belief].needs}")

    return check


for _name in ("hip-captures", "hip-callbacks", "hip-pointers"):
    setattr(Elsewhere, f"check_{_name.replace('-', '_')}", _needs(_name))
