"""The calls of the driver that fail in the tests of fastdl's own memory on devices and of copies to
it, by the names that memory.py has for them."""

import itertools

ALLOCATING_ELSEWHERE = ["pin", "manage"]
ALLOCATING = ["enter", "switch", "alloc", *ALLOCATING_ELSEWHERE]
FREEING = ["free", "unpin"]

FAILING = {
    "to a device": ["enter", "switch", "alloc", "line", "await stream"],
    "to pinned": ["enter", "switch", "pin", "line", "new event", "record", "is capturing"],
    "by the host": ["enter", "alloc", "line", "await stream"],
    "between devices": ["enter", "alloc", "record", "is capturing", "order"],
    "foreign": ["pointer", "enter", "record", "order"],
    "on a stream": ["alloc", "record", "is capturing"],
}
CALLS_OF_COPIES = {"peer", *itertools.chain(*FAILING.values())}  # see test_between_devices
