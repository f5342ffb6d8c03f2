# SPDX-License-Identifier: Apache-2.0
"""Producers for the checks of a consumer, with managed tensors whose every field can be set."""

import array
import gc
import weakref
from collections.abc import Callable
from typing import Any

from dlpack_conformance import _dlpack, structs

hostile = _dlpack  # for other tests: tables that follow or break every rule

CPU = (1, 0)
CUDA = (2, 0)


class Owner:
    """The object that a real producer keeps alive until its deleter runs."""

    def __init__(self, memory: Any = None) -> None:
        self.memory = memory


def aligned(content: bytes, to: int = 64, past: int = 0) -> memoryview:
    """Writable memory at a multiple of `to` bytes, and `past` more."""
    room = bytearray(len(content) + 2 * to)
    start = -_dlpack.address(room) % to + past
    room[start : start + len(content)] = content
    return memoryview(room)[start : start + max(len(content), 1)]


class Given(_dlpack.Managed):
    """A managed tensor, by default six float32 in two rows, on `memory` (a buffer), with a weak
    reference to its owner. See _dlpack.c for the fields."""

    owner: Any
    versioned: bool

    def __new__(
        cls,
        *,
        versioned: bool = True,
        on_delete: Any = None,
        owner: Any = None,
        memory: Any = None,
        **fields: Any,
    ) -> "Given":
        memory = array.array("f", range(6)) if memory is None else memory
        owner = owner or Owner(memory)
        fields = {"data": _dlpack.address(memory), "shape": (2, 3), **fields}
        self: Any = super().__new__(cls, versioned, owner, on_delete, **fields)
        self.owner = weakref.ref(owner)
        self.versioned = versioned
        return self


FUNCTIONS = ("allocator", "from_object", "to_object", "borrow", "stream")


def changed_table(
    table: int, *, major: int = 1, minor: int = 3, prev: int = 0, without: str = ""
) -> int:
    """The address of a table that is now of another version, or lacks one of FUNCTIONS."""
    struct = structs.Table.from_address(table)
    struct.version = structs.Version(major, minor)
    struct.prev_api = prev
    if without:
        setattr(struct, structs.SLOTS[FUNCTIONS.index(without)], None)
    return table


def new_table(*, lends: bool = False, **changes: Any) -> int:
    """A new table, with changes: see table_from_object in _dlpack.c."""
    return changed_table(_dlpack.table(lends), **changes)


class Tabled:
    """Has an exchange table and nothing else. `mode`: see table_from_object in _dlpack.c."""

    __dlpack_c_exchange_api__ = _dlpack.table_capsule(_dlpack.table())

    def __init__(self, managed: Any, mode: str = "give") -> None:
        self.managed = managed
        self.mode = mode


class Offer:
    """A correct producer of possibly incorrect fields: it returns a versioned capsule for version
    1, and otherwise a legacy one, unless `form` is given.

    Each capsule has memory of its own, of `content`, aligned to 64 bytes and `past` more, with
    `data` at `start` bytes from there; it is overwritten by the deleter, as freed memory would be.
    Other keywords are fields: see _dlpack.c. `act`, where given, answers in its place.

    keywords: those of from_dlpack with which the library takes it; asked: those of each call;
    given, memories: the managed tensor and memory of each.
    """

    keywords: dict[str, Any] = {}
    bare = to_table = False

    def __init__(
        self,
        content: bytes,
        *,
        form: "str | None" = None,
        device: Any = CPU,
        start: int = 0,
        past: int = 0,
        act: "Callable[[Offer], Any] | None" = None,
        **fields: Any,
    ) -> None:
        self.content, self.form, self.device = content, form, device
        self.start, self.past, self.act, self.fields = start, past, act, fields
        self.asked: list[dict[str, Any]] = []
        self.given: list[Given] = []
        self.memories: list[memoryview] = []

    def __dlpack_device__(self) -> Any:
        return self.device

    def __dlpack__(self, **keywords: Any) -> Any:
        allowed = {"stream", "max_version", "dl_device", "copy"}
        if unknown := keywords.keys() - allowed:
            raise TypeError(f"__dlpack__() got an unexpected keyword argument {min(unknown)!r}")
        self.asked.append(keywords)
        return self.capsule() if self.act is None else self.act(self)

    def capsule(self) -> Any:
        """The capsule for the last request."""
        max_version = self.asked[-1].get("max_version") if self.asked else None
        versioned = max_version is not None and max_version[0] >= 1
        if self.form is not None:
            versioned = self.form == "versioned"
        return self.new(versioned).capsule()

    def new(self, versioned: bool) -> Given:
        fields = {"device": self.device, **self.fields}
        if self.copies():
            fields["flags"] = (fields.get("flags", 0) | structs.IS_COPIED) & ~structs.READ_ONLY
        if not versioned:
            fields = {k: v for k, v in fields.items() if k not in ("flags", "version")}
        memory = aligned(self.content, past=self.past)
        fields.setdefault("data", _dlpack.address(memory) + self.start)

        def overwrite() -> None:
            memory[:] = b"\xaa" * len(memory)

        self.memories.append(memory)
        self.given.append(
            Given(versioned=versioned, on_delete=overwrite, owner=Owner(memory), **fields)
        )
        return self.given[-1]

    @property
    def managed(self) -> Given:
        return self.new(True)

    def copies(self) -> bool:
        """Whether the last request was for a copy, which is the consumer's own."""
        return bool(self.asked and self.asked[-1].get("copy"))

    def counts(self) -> list[int]:
        """How often the deleter of each managed tensor was called."""
        gc.collect()
        return [given.deleted for given in self.given]


class OfferToTable(Offer):
    """The same that is given to the function of the library's own table that makes arrays."""

    to_table = True


class OfferByTable(Offer):
    """The same of a type that has an exchange table."""

    __dlpack_c_exchange_api__ = Tabled.__dlpack_c_exchange_api__
    mode = "give"

    @property
    def managed(self) -> Given:
        if self.act is not None:
            self.act(self)
        return self.new(True)
