# SPDX-License-Identifier: Apache-2.0
"""Memory that is left behind."""

import ctypes
import gc
import sys
import time
from collections.abc import Callable
from typing import Any

from dlpack_conformance.suite import Failed, NotApplicable


def resident() -> int:
    """The resident memory of this process in bytes; the peak where the system does not report
    it."""
    if sys.platform == "win32":
        counters = (ctypes.c_size_t * 9)(72)  # a PROCESS_MEMORY_COUNTERS: first its size
        ctypes.WinDLL("psapi").GetProcessMemoryInfo(ctypes.c_void_p(-1), counters, 72)
        return counters[2]
    import resource

    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except FileNotFoundError:
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


class MallInfo(ctypes.Structure):
    """What mallinfo2 of the GNU C library returns, for all arenas: [4] is hblkhd, [7] uordblks."""

    _fields_ = [("numbers", ctypes.c_size_t * 10)]


try:
    mallinfo: Any = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = MallInfo
except (AttributeError, OSError, TypeError):  # another C library; Windows
    mallinfo = None


def allocated() -> int:
    """The bytes that malloc has given out, and 32 for each block of Python's own allocator."""
    numbers = mallinfo().numbers
    return numbers[4] + numbers[7] + 32 * sys.getallocatedblocks()


def clear_caches() -> None:
    """Those of Python: types, for instance, keep the names that C code looked up last."""
    if sys.version_info >= (3, 11):  # 3.10 restarts the numbers of types, on which libraries rely
        (getattr(sys, "_clear_internal_caches", None) or sys._clear_type_cache)()
    gc.collect()


def growth(
    step: Callable[[], Any], count: int, most: float, used: Callable[[], int], attempts: int = 8
) -> int:
    """The bytes that are left behind after `count` steps: 0 if it is less than `most` in one of
    some attempts, since allocators and caches may keep some memory, but not each time."""
    grown = 0
    for _ in range(attempts):
        clear_caches()
        before = used()
        for _ in range(count):
            step()
        clear_caches()
        limit = time.monotonic() + 0.5  # some libraries release on a thread of their own
        while (grown := used() - before) >= most and time.monotonic() < limit:
            time.sleep(0.01)
        if grown < most:
            return 0
    return grown


def expect_no_leak(step: Callable[[], Any], what: str, make: Any = None) -> None:
    """Checks that steps leave nothing behind, unless `make` does by itself: not even 32 bytes
    each where malloc can be read, and otherwise not a MiB."""
    count, begun = 0, time.perf_counter()
    while count < 8 or (not mallinfo and time.perf_counter() - begun < 0.02):
        step()
        count += 1
    count, most, used = (64, 24 * 64, allocated) if mallinfo else (count, 1 << 20, resident)
    if grown := growth(step, count, most, used):
        if make and growth(make, count, most, used):
            raise NotApplicable("making arrays leaves memory behind")
        raise Failed(f"{what}: {count} left {grown} bytes behind, {grown // count} each")


def expect_no_loss(step: Callable[[], Any], size: int) -> None:
    """Checks that no step leaves `size` bytes behind, not even one in some attempts of 24."""
    most, used = (size // 2, allocated) if mallinfo else (3 * size, resident)
    if grown := growth(step, 24, most, used, 3):
        raise Failed(f"{grown >> 10} KiB are left behind")


def expect_no_growth(step: Callable[[], Any], size: int, what: str) -> None:
    """Checks that `step`, which uses `size` bytes, frees them, whatever allocator has them."""
    for _ in range(4):
        step()
    if grown := growth(step, 12, 4 * size, resident):
        raise Failed(f"{what}: 12 times left {grown >> 10} KiB behind")
