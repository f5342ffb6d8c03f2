# SPDX-License-Identifier: Apache-2.0
"""The fuzzers: each is a function of a random.Random, and raises if fastdl did what it must not.
worker.py says where the numbers come from."""

import array
import contextlib
import ctypes
import gc
import math
import mmap
import random

import numpy as np

import fastdl
from fastdl._protocol import consumer
from tests.support import arrow as structs
from tests.support import producers
from tests.support.model import Model
from tests.support.producers import Given, Lending, Producer, hostile

SIZES = (0, 1, 2, 3, 5, -1, 2**31, 2**62, 2**63 - 1, -(2**63))
NUMBERS = (*SIZES, 2**63, 2**64, 2**70, True, 2.5, None, "a", b"<f4", (), [3], np.array([1, 2]))

FAULTS = ("shape", "strides", "ndim", "dtype", "byte_offset", "device", "version")
KINDS = tuple(producers.KINDS.values())


def use(tensor) -> None:
    """Reads all that a tensor says, and its elements if they are few."""
    repr(tensor)
    assert 0 <= tensor.ndim <= 64
    assert len(tensor.shape) == len(tensor.strides) == tensor.ndim
    assert tensor.nbytes >= 0
    if not tensor.device.is_host or tensor.size > 10_000:
        return
    has_few_lists = math.prod(filter(None, tensor.shape)) <= 10_000  # (2**31, 0) has many
    reads = (fastdl.Tensor.numpy, fastdl.Tensor.tobytes, memoryview)
    for read in (*reads, fastdl.Tensor.tolist) if has_few_lists else reads:
        try:
            read(tensor)
        except (BufferError, TypeError):
            continue
        except (ValueError, MemoryError):  # of sizes that are too large, without elements
            assert tensor.size == 0
            return
    if has_few_lists and tensor.dtype.format is not None and tensor.ndim <= 32:
        np.testing.assert_array_equal(np.array(tensor.tolist()).ravel(), tensor.numpy().ravel())
        assert tensor.numpy().flags.writeable == (not tensor.readonly)


# ---- managed tensors: in memory that holds their elements, or refused -----------------------


def descriptors(rng: random.Random) -> None:
    """Fields of a managed tensor, by capsules, producers of each generation, and tables."""
    memory = bytearray(rng.randbytes(4096))
    ndim = rng.choice((0, 1, 1, 2, 2, 3, 5, 64))
    fields = {
        "memory": memory,
        "shape": tuple(rng.choice((0, 1, 2, 3)) if ndim < 6 else 1 for _ in range(ndim)),
        "dtype": rng.choice(((0, 8, 1), (2, 32, 1), (1, 16, 2), (6, 8, 1), (5, 64, 1), (0, 4, 1))),
        "flags": rng.choice((0, 0, 1, 2, 4, 5, 2**40)),
    }
    if rng.random() < 0.5:
        fields["strides"] = tuple(rng.choice((0, 1, 2, 4, 8)) for _ in range(ndim))
    faults = set()
    for _ in range(rng.choice((0, 1, 1, 2))):  # what makes it malformed
        fault = rng.choice(FAULTS)
        faults.add(fault)
        fields[fault] = {
            "shape": tuple(rng.choice((0, 1, 2, -1, 2**40, 2**62)) for _ in range(ndim)),
            "strides": tuple(rng.choice((-1, 2**61, -(2**61), 2**62)) for _ in range(ndim)),
            "ndim": rng.choice((-1, 65, 2**31 - 1, -(2**31))),
            "dtype": (rng.randrange(25), rng.choice((0, 1, 3, 4, 7, 8, 64, 255)), rng.randrange(4)),
            "byte_offset": rng.choice((2**64 - 1, 2**63)),
            "device": (rng.choice((0, -1, 4, 99)), 0),
            "version": (rng.choice((0, 2, 9)), 0),
        }[fault]
    if faults & {"shape", "strides", "dtype", "byte_offset"}:
        fields["device"] = (4, 0)  # perhaps consistent, but of memory that is not there
    versioned = rng.random() < 0.7
    kind = rng.choice((None, *KINDS)) if versioned else rng.choice((None, *KINDS[:3]))
    if not versioned:
        fields.pop("flags"), fields.pop("version", None)
    given = Given(versioned=versioned, **fields)
    enter = rng.choice((fastdl.from_dlpack, consumer.from_dlpack, fastdl.asarray))
    try:
        tensor = enter(given.capsule() if kind is None else kind(given))
    except (BufferError, MemoryError):
        tensor = None
    described = {key: value for key, value in fields.items() if key != "memory"}
    may_have_strides = fields["dtype"][1] >= 8 or "strides" not in fields
    assert tensor is not None or faults or not may_have_strides, described
    if tensor is not None:
        assert given.deleted == 0
        assert tensor.shape == fields["shape"], described
        assert is_possible(fields, hostile.address(memory)), described
        use(tensor)
        assert given.deleted == 0
        tensor = None
    assert given.deleted == given.handed or kind is Lending, (given.deleted, given.handed)


def is_possible(fields: dict, data: int) -> bool:
    """Whether a managed tensor with its elements at `data` may be accepted."""
    device, _ = fields.get("device", (1, 0))
    model = Model(fields["shape"], fields["dtype"], fields.get("strides"), data,
                  fields.get("byte_offset", 0), fields.get("flags", 0),
                  has_addresses=device not in (4, 99))  # fmt: skip
    return model.representable() and device > 0 and not fields.get("ndim") and model.itemsize > 0


# ---- array interfaces, buffers, pickles, headers --------------------------------------------


class Interface:
    pass


def interface(rng: random.Random):
    source = np.arange(24.0).reshape(rng.choice(((24,), (2, 12), (2, 3, 4))))
    entries = dict(source.__array_interface__)
    if rng.random() < 0.6:
        buffers = (bytearray(192), bytes(192), b"", memoryview(bytearray(192))[::2], released())
        entries["data"] = rng.choice(buffers)
    for _ in range(rng.choice((0, 1, 2))):
        key = rng.choice(("shape", "strides", "typestr", "version", "mask", "offset", "data"))
        value = rng.choice(NUMBERS)
        if key in ("shape", "strides") and rng.random() < 0.8:
            value = tuple(rng.choice(NUMBERS) for _ in range(rng.choice((0, 1, 2, 65))))
        if key == "data" and rng.random() < 0.5:
            value = (rng.choice((0, -1, 2.5, 2**64, None)), rng.choice(NUMBERS))
        entries[key] = value
    if isinstance(entries["data"], tuple) and {"shape", "strides", "typestr"} & changed(
        entries, source
    ):
        entries["data"] = bytearray(192)  # an address may be believed
    one = Interface()
    one.__array_interface__ = entries
    one.keep = source
    return one


def changed(entries: dict, source: np.ndarray) -> set:
    same = source.__array_interface__
    return {key for key, value in entries.items() if key not in same or value is not same[key]}


def released():
    view = memoryview(b"abc")
    view.release()
    return view


def closed():
    memory = mmap.mmap(-1, 8)
    memory.close()
    return memory


def descriptions(rng: random.Random) -> None:
    """What an array interface, a buffer, a pickle or a header describes: a tensor, or the right
    error."""
    kind = rng.randrange(4)
    if kind == 0:
        source = interface(rng)
        with contextlib.suppress(BufferError, MemoryError):
            use(fastdl.asarray(source))
    elif kind == 1:
        forms = "bBhHiIqQfd?c"
        view = memoryview(bytearray(rng.randbytes(48))).cast(rng.choice(forms))
        slow = view[:: rng.choice((1, 2, -1, -3))]
        source = rng.choice((view, slow, released(), closed(), array.array("d", [1, 2])))
        with contextlib.suppress(BufferError):
            use(fastdl.asarray(source))
    elif kind == 2:
        header = bytearray(fastdl.encode(np.zeros((2, 3), "f4"))[0])
        for _ in range(rng.choice((0, 1, 2, 3))):
            header[rng.randrange(len(header))] = rng.choice((0, 1, 2, 4, 64, 127, 255))
        del header[rng.choice((len(header), len(header), rng.randrange(len(header)))) :]
        with contextlib.suppress(ValueError):
            use(fastdl.decode(header, bytearray(rng.choice((0, 23, 24, 96)))))
    else:
        arguments = [bytearray(96), (2, 32, 1), (2, 3), rng.choice("CF"), False]
        for _ in range(rng.choice((0, 1, 2))):
            place = rng.randrange(5)
            value = rng.choice(NUMBERS[:-1])
            if place in (1, 2) and rng.random() < 0.8:
                value = tuple(rng.choice(NUMBERS[:-1]) for _ in range(rng.choice((1, 2, 3, 65))))
            arguments[place] = value
        try:
            tensor = fastdl._unpickle(*arguments)
        except (TypeError, ValueError, BufferError):
            return
        assert tensor.shape == arguments[2], arguments
        assert all(type(size) is int for size in arguments[2]), arguments
        assert tensor.dtype.__dlpack_data_type__() == arguments[1], arguments
        use(tensor)


# ---- cycles ---------------------------------------------------------------------------------


class Node:
    """Keeps what it is given, and can be part of a cycle."""

    def __init__(self):
        self.kept = []

    def method(self):
        return self.kept


class Holding(np.ndarray):
    """An array that can be part of a cycle."""


class Bytes(bytearray):
    """A buffer that can."""


def cycles(rng: random.Random) -> None:
    """A graph of objects and Tensors on them, dropped and collected in part: what is left reads as
    before, and what is found in what was collected is safe to read."""
    nodes = [Node() for _ in range(rng.randrange(1, 4))]
    tensors = []
    for _ in range(rng.randrange(1, 6)):
        node = rng.choice(nodes)
        kind = rng.randrange(4)
        if kind == 0:
            owner = np.arange(8.0).view(Holding)
        elif kind == 1:
            owner = Bytes(np.arange(8.0).tobytes())
        elif kind == 2:
            owner = memoryview(Bytes(np.arange(8.0).tobytes())).cast("d")
        else:
            owner = Producer(Given(memory=array.array("d", range(8)), dtype=(2, 64, 1), shape=(8,)))
        tensor = fastdl.asarray(owner)
        if tensor.dtype != "float64":
            tensor = tensor.view("float64")
        for part in (owner, tensor, node.method):
            if rng.random() < 0.7:
                node.kept.append(part)
        if isinstance(owner, Holding | Bytes | Producer):
            owner.node = node
        if rng.random() < 0.5:
            node.kept.append(tensor[rng.randrange(8) :])
        if rng.random() < 0.3:
            node.kept.append(np.from_dlpack(tensor) if not tensor.readonly else tensor.numpy())
        if rng.random() < 0.4:
            tensors.append(tensor)
    rng.choice(nodes).kept.append(nodes)
    del node, owner, tensor, nodes, part
    gc.collect(rng.randrange(3))
    for tensor in tensors:
        assert tensor.tolist() == [float(i) for i in range(8)]
    tensors.clear()
    gc.collect()
    gc.freeze()  # cycles through a buffer, which cannot be collected: not to be looked at again


# ---- Arrow ----------------------------------------------------------------------------------

FORMATS = {b"c": "i1", b"S": "u2", b"i": "i4", b"l": "i8", b"e": "f2", b"f": "f4", b"g": "f8"}
OTHERS = (b"b", b"n", b"u", b"", b"+s", b"+r", b"+w:2", b"+w:0", b"+w:-1", b"+l", None)
SLOTS = 16  # for which every array has memory


def arrow(rng: random.Random) -> None:
    """Structs of an array, or of a stream that says what its values lack."""
    if rng.random() < 0.5:
        nodes = [tree(rng, 3) for _ in range(rng.choice((1, 1, 2)))]
        nodes += nodes[:1] * rng.choice((0, 1))
        source = structs.Streamer(*nodes, array=np.arange(3.0))
        counts = [nulls(nodes[0].schema, node.array) for node in nodes]
        try:
            tensor = fastdl.asarray(source)
        except BufferError as error:
            said = str(error)
        else:
            said = "(0 in all)"
            use(tensor)
        total = "cannot be counted" if None in counts else f"({sum(counts)} in all)"
        assert total in said, (counts, said)
        return
    memory = bytearray(range(256))
    kind = rng.choice((*FORMATS, *OTHERS))
    valid = rng.choice((None, None, bytearray(rng.randbytes(32))))
    fields = {"length": rng.randrange(SLOTS)}
    for _ in range(rng.choice((0, 1, 1, 2))):
        name = rng.choice(("length", "offset", "null_count", "n_buffers", "n_children"))
        fields[name] = rng.choice((0, 1, 2, 5, 8, -1, *([] if valid else (2**60, 2**63 - 1))))
    producer = structs.Producer(memory, kind, valid=valid, **fields)
    length, offset = fields["length"], fields.get("offset", 0)
    try:
        tensor = fastdl.asarray(producer)
    except BufferError:
        assert (
            kind not in FORMATS or min(length, offset) < 0 or offset + length >= 2**59
            or fields.get("n_buffers", 2) != 2 or fields.get("n_children", 0)
            or (valid and fields.get("null_count", 0))
        ), (kind, fields)  # fmt: skip
        return
    assert tensor.shape == (length,) and producer.released == []
    if offset + length <= SLOTS:
        if kind == b"b":
            expected = np.unpackbits(np.array(memory), bitorder="little")[offset : offset + length]
        else:
            expected = np.frombuffer(memory, FORMATS[kind], length, offset * tensor.itemsize)
        assert tensor.tobytes() == expected.tobytes()
        use(tensor)
    del tensor
    # Bits are copied, so the array stays in its capsule.
    assert producer.released == ["array"] * (kind != b"b")


def tree(rng: random.Random, depth: int) -> structs.Node:
    """An array of any kind, sometimes of a form that its kind has not."""
    kind = rng.choice((*FORMATS, *OTHERS))
    count = {b"+s": rng.choice((1, 2)), b"+r": 2}.get(kind, kind is not None and b"+" in kind)
    fields = {"n_children": rng.choice((0, 1, 2))} if rng.random() < 0.1 else {}
    children = [tree(rng, depth - 1) for _ in range(count)] if depth else []
    fields["n_children"] = min(fields.get("n_children", len(children)), len(children))
    fields["offset"] = rng.choice((0, 0, 0, 1, 2, -1, 2**61))
    fields["null_count"] = rng.choice((-1, -1, -1, 0, 3))
    fields["n_buffers"] = rng.choice((2, 2, 2, 1, 0, -1))
    valid = rng.choice((None, rng.randrange(2**SLOTS)))
    dictionary = tree(rng, 0) if depth and rng.random() < 0.2 else None
    length = rng.choice((0, 1, 2, 3, 5, 7))
    return structs.Node(kind, length, valid, children, dictionary, **fields)


def nulls(schema, array_, first=0, end=None) -> "int | None":
    """How many values are null; None if that cannot be known."""
    end = array_.length if end is None else end
    whole = (first, end) == (0, array_.length) and end > 0
    children = [
        [kind.from_address(ctypes.c_void_p.from_address(struct.children + 8 * i).value)
         for kind, struct in ((structs.Schema, schema), (structs.Array, array_))]
        for i in range(min(array_.n_children, schema.n_children))
    ]  # fmt: skip
    if schema.format is None or min(array_.offset, array_.n_buffers) < 0 or array_.offset > 2**59:
        return None
    if array_.n_children != schema.n_children or not first <= end <= array_.length:
        return None
    if schema.format == b"n":
        return end - first
    if schema.format == b"+r":
        return shared(nulls(*children[1]), whole) if len(children) == 2 else None
    bits = array_.buffers[0] if array_.null_count and array_.n_buffers else None
    slots = range(first + array_.offset, end + array_.offset)
    missing = [
        bool(bits) and not ctypes.c_uint8.from_address(bits + i // 8).value >> i % 8 & 1
        for i in slots
    ]
    counts = [sum(missing)]
    if schema.dictionary:
        if array_.dictionary:
            inner = structs.Schema.from_address(schema.dictionary)
            count = nulls(inner, structs.Array.from_address(array_.dictionary))
            counts.append(shared(count, whole))
        else:
            counts.append(None)
    elif schema.format not in (*FORMATS, b"b"):
        step = {b"+s": 1, b"+w:2": 2, b"+w:0": 0}.get(schema.format)
        if schema.format.startswith(b"+w") and len(children) != 1:
            step = None
        if step is None and slots:
            return None
        start = slots.start
        for end in [*(i for i, m in zip(slots, missing, strict=True) if m), slots.stop]:
            if start < slots.stop:
                counts += [nulls(*child, start * step, end * step) for child in children]
            start = end + 1
    return None if None in counts else sum(counts)


def shared(count, whole):
    """Of a dictionary or of the values of runs, to which any number of slots may refer."""
    return count if whole or count == 0 else None


FUZZERS = {f.__name__: f for f in (descriptors, descriptions, arrow, cycles)}
