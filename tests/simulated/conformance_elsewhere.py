"""Checks that one NVIDIA GPU cannot answer: each says what it would take."""

import ctypes

from tests.simulated.beliefs import BY_NAME
from tests.simulated.conformance_driver import Assumed, Checks, about


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
        source, target = d.pinned(), d.pinned()
        ctypes.memmove(source, bytes(range(64)), 64)
        here = d.allocate()
        d.push(other)
        there = d.allocate()
        codes = [d.copy(there, source, 64, theirs), d.copy(here, there, 64, theirs)]
        codes.append(d.copy(target, here, 64, theirs))
        d.ok("cuStreamSynchronize", theirs)
        d.pop()
        self.expect("to a device, to the other, and back", codes, [0, 0, 0])
        same = ctypes.string_at(target, 64) == bytes(range(64))
        self.expect("and it is what was sent", same, True)

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
