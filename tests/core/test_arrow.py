# SPDX-License-Identifier: Apache-2.0
"""Arrow arrays and tables, over the Arrow C data and stream interfaces, in both directions."""

import ctypes
import gc
import struct
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import fastdl
from fastdl._core import tensor as core
from tests.support import arrow

# From the specification of the interface.
FORMATS = {
    "int8": "c", "uint8": "C", "int16": "s", "uint16": "S", "int32": "i", "uint32": "I",
    "int64": "l", "uint64": "L", "float16": "e", "float32": "f", "float64": "g",
}  # fmt: skip


def bytes_at(address, size):
    return ctypes.string_at(address, size) if size else b""


# ---- out ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*FORMATS, "bool"])
@pytest.mark.parametrize("size", [0, 1, 5, 7, 8, 9, 64, 100])
def test_export(name, size):
    """Gaps are left out, and bools become bits."""
    array = np.random.default_rng(size).integers(0, 2, size).astype(name)
    read_only = array.view()
    read_only.flags.writeable = False
    for view in (array, read_only, array[::2], array[::-1], array[1:4]):
        tensor = fastdl.from_dlpack(view)
        schema_capsule, array_capsule = tensor.__arrow_c_array__()
        schema, exported = arrow.schema_in(schema_capsule), arrow.array_in(array_capsule)
        assert schema.format.decode() == (FORMATS | {"bool": "b"})[name]
        assert schema.name == b"" and schema.metadata is None
        assert (schema.n_children, schema.children, schema.dictionary) == (0, None, None)
        assert (exported.length, exported.null_count, exported.offset) == (view.size, 0, 0)
        assert (exported.n_buffers, exported.n_children) == (2, 0)
        assert exported.buffers[0] is None
        if name != "bool" and view.flags.c_contiguous:
            assert exported.buffers[1] == tensor.data_ptr
        expected = np.packbits(view, bitorder="little") if name == "bool" else view
        assert bytes_at(exported.buffers[1], expected.nbytes) == expected.tobytes()


def exported_array():
    """A capsule pair, and a reference that dies with the memory."""
    array = np.arange(5.0)
    return fastdl.from_dlpack(array).__arrow_c_array__(), weakref.ref(array)


def test_capsules_that_no_one_takes_release_what_they_hold():
    capsules, memory = exported_array()
    assert memory() is not None
    del capsules
    gc.collect()
    assert memory() is None


@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "on another thread"])
def test_a_moved_array_outlives_its_capsule(elsewhere):
    capsules, memory = exported_array()
    array = arrow.moved(arrow.array_in(capsules[1]))
    del capsules
    gc.collect()
    assert memory() is not None
    assert bytes_at(array.buffers[1], 40) == struct.pack("5d", *range(5))
    if elsewhere:
        thread = threading.Thread(target=arrow.release, args=[array])
        thread.start()
        thread.join()
    else:
        arrow.release(array)
    assert array.release is None
    gc.collect()
    assert memory() is None


def test_the_schema_is_released():
    capsules, _ = exported_array()
    schema = arrow.moved(arrow.schema_in(capsules[0]))
    arrow.release(schema)
    assert schema.release is None


@pytest.mark.parametrize("requested", [None, "anything"])
def test_a_requested_schema_is_ignored(requested):
    schema, _ = fastdl.asarray(b"abc").__arrow_c_array__(requested_schema=requested)
    assert arrow.schema_in(schema).format == b"C"


@pytest.mark.parametrize(
    ("dtype", "shape", "message"),
    [
        ("float32", (), "one dimension"),
        ("float32", (1, 2, 3), "tables of two"),
        ("bfloat16", (3,), "Arrow has no type like bfloat16"),
        ("float32x2", (3,), "no type like"),
        ("int4", (3,), "no type like"),
        ("float8_e4m3fn", (3,), "no type like"),
    ],
)
def test_what_arrow_cannot_express(dtype, shape, message):
    with pytest.raises(BufferError, match=message):
        fastdl.empty(shape, dtype).__arrow_c_array__()


@pytest.mark.parametrize("name", [*FORMATS, "bool"])
@pytest.mark.parametrize("shape", [(3, 2), (1, 1), (0, 2), (9, 1), (2, 0)])
def test_export_of_a_table(name, shape):
    """Columns without gaps are shared; each can be moved out, and keeps the memory alive."""
    array = np.random.default_rng(0).integers(0, 2, shape).astype(name)
    for source in (array, np.asfortranarray(array)):
        tensor = fastdl.from_dlpack(source)
        schema_capsule, array_capsule = tensor.__arrow_c_array__()
        schema, exported = arrow.schema_in(schema_capsule), arrow.array_in(array_capsule)
        assert (schema.format, exported.length, exported.n_buffers) == (b"+s", shape[0], 1)
        assert exported.buffers[0] is None
        names = [child.name.decode() for child in arrow.children_of(schema)]
        assert names == [f"column_{i}" for i in range(shape[1])]
        columns = [arrow.moved(child) for child in arrow.children_of(exported)]
        del schema, exported, schema_capsule, array_capsule
        gc.collect()
        assert len(columns) == shape[1]
        for i, column in enumerate(columns):
            expected = source[:, i]
            if name == "bool":
                expected = np.packbits(expected, bitorder="little")
            assert bytes_at(column.buffers[1], expected.nbytes) == expected.tobytes()
            if name != "bool" and source.flags.f_contiguous and shape[0]:
                assert column.buffers[1] == source[:, i].ctypes.data
            arrow.release(column)


def test_the_memory_of_a_table_is_released_with_its_last_column():
    array = np.arange(6.0).reshape(2, 3).T
    memory = weakref.ref(array)
    capsules = fastdl.from_dlpack(array).__arrow_c_array__()
    column = arrow.moved(next(arrow.children_of(arrow.array_in(capsules[1]))))
    del array, capsules
    gc.collect()
    assert memory() is not None
    arrow.release(column)
    gc.collect()
    assert memory() is None


# ---- in -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMATS)
def test_import(name):
    values = np.arange(6).astype(name)
    data = bytearray(values.tobytes())
    producer = arrow.Producer(data, FORMATS[name].encode(), 6)
    tensor = fastdl.asarray(producer)
    assert (tensor.shape, tensor.dtype, tensor.device) == ((6,), name, "cpu")
    assert tensor.readonly and not tensor.is_copied
    assert tensor.data_ptr == producer.buffers[1]
    assert tensor.tolist() == values.tolist()
    assert producer.released == []
    view = tensor[2:]
    del tensor
    assert producer.released == []
    del view
    assert producer.released == ["array"]


def floats(*values):
    return bytearray(struct.pack(f"{len(values)}f", *values))


def test_an_offset():
    producer = arrow.Producer(floats(0, 1, 2, 3, 4), length=2, offset=2)
    tensor = fastdl.asarray(producer)
    assert tensor.tolist() == [2, 3]
    assert tensor.data_ptr == producer.buffers[1] + 8


def test_an_empty_array():
    tensor = fastdl.asarray(arrow.Producer(None, length=0))
    assert tensor.shape == (0,)


@pytest.mark.parametrize(
    ("fields", "nulls"),
    [
        ({"null_count": 2}, 2),
        ({"null_count": -1}, 2),
        ({"null_count": -1, "offset": 1, "length": 3}, 1),
        ({"null_count": -1, "offset": 2, "length": 2}, 0),
        ({"null_count": 0}, 0),
    ],
)
def test_nulls_are_refused_with_their_number(fields, nulls):
    producer = arrow.Producer(floats(1, 2, 3, 4, 5), valid=bytearray([0b01101]), **fields)
    if nulls == 0:
        assert fastdl.asarray(producer).size
        return
    with pytest.raises(BufferError, match=rf"the Arrow array has nulls \({nulls} of \d values\)"):
        fastdl.asarray(producer)
    assert producer.array.release is not None  # still its own


def test_an_unknown_number_of_nulls_without_a_mask_is_none():
    assert fastdl.asarray(arrow.Producer(floats(1, 2), null_count=-1)).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"format": b"u"}, "got format 'u'"),
        ({"format": b"tdD"}, "got format 'tdD': pyarrow"),
        ({"format": b"+w:3"}, "got format '.w:3'"),
        ({"format": b""}, "got format ''"),
        ({"length": -1}, "matches its type, got length -1"),
        ({"offset": -1}, "matches its type"),
        ({"offset": 2**62, "length": 2**62}, "matches its type"),
        ({"n_buffers": 3}, "two buffers"),
        ({"n_buffers": 0}, "two buffers"),
        ({"n_children": 1}, "matches its type"),
        ({"length": 2**60}, "."),
    ],
)
def test_arrays_that_cannot_be_imported(arguments, message):
    producer = arrow.Producer(floats(1, 2, 3), **arguments)
    with pytest.raises(BufferError, match=message):
        fastdl.asarray(producer)
    gc.collect()
    assert producer.released in ([], ["array"])


def test_values_without_memory():
    producer = arrow.Producer(None, length=3)
    with pytest.raises(BufferError):
        fastdl.asarray(producer)


def test_a_count_that_fails_is_no_reason():
    """The error of the library itself comes out."""

    class Broken:
        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **keywords):
            raise ValueError("its own words")

        def __arrow_c_array__(self, requested_schema=None):
            raise BufferError("the count failed")

    array = type("Array", (Broken,), {"__module__": "pyarrow.lib"})()
    with pytest.raises(ValueError, match="its own words"):
        fastdl.asarray(array)
    with pytest.raises(BufferError, match="its own words"):
        fastdl.convert(array, np.ndarray)


@pytest.mark.parametrize("copies", [False, True])
def test_an_array_that_is_made_for_each_export_is_a_copy(copies):
    class Column:
        def __init__(self):
            self.kept = [arrow.Producer(floats(1, 2)) for _ in range(6)]
            if not copies:
                for producer in self.kept[1:]:
                    producer.buffers[1] = self.kept[0].buffers[1]
            self.left = iter(self.kept)

        def __arrow_c_array__(self, requested_schema=None):
            return next(self.left).__arrow_c_array__()

    assert fastdl.asarray(Column()).is_copied is copies
    if copies:
        with pytest.raises(fastdl.CopyRequiredError, match="copied in spite of"):
            fastdl.convert(Column(), np.ndarray, copy=False)
    else:
        assert fastdl.convert(Column(), np.ndarray, copy=False).tolist() == [1, 2]


@pytest.mark.parametrize("answer", [None, (), (1, 2), ("a", "b"), 3, (1, 2, 3)])
def test_answers_of_other_forms(answer):
    class Wrong:
        def __arrow_c_array__(self):
            return answer

    with pytest.raises(TypeError, match="expected two capsules from __arrow_c_array__"):
        fastdl.asarray(Wrong())


def test_capsules_of_other_names():
    class Wrong:
        def __arrow_c_array__(self):
            schema, array = arrow.Producer(floats(1)).__arrow_c_array__()
            return array, schema

    with pytest.raises(ValueError):
        fastdl.asarray(Wrong())


def test_there_and_back():
    tensor = fastdl.from_dlpack(np.arange(4, dtype="i8"))

    class Again:
        def __arrow_c_array__(self):
            return tensor.__arrow_c_array__()

    result = fastdl.asarray(Again())
    assert result.data_ptr == tensor.data_ptr and result.readonly
    assert result.tolist() == tensor.tolist()


# ---- lists, bools, columns and streams ------------------------------------------------------

Node = arrow.Node


def int64s(*values):
    return bytearray(struct.pack(f"{len(values)}q", *values))


def lists(length=3, sizes=(2,), first=0, data=None, offset=0, valid=None, inner_valid=None):
    """An array of lists of these sizes, whose values count up from `first`."""
    count = length + offset
    for size in sizes:
        count *= size
    node = Node(b"l", count, inner_valid, data=data or int64s(*range(first, first + count)))
    for at in range(len(sizes) - 1, -1, -1):
        rows = length + offset
        for size in sizes[:at]:
            rows *= size
        outermost = at == 0
        fields = {"offset": offset, "length": length} if outermost else {"length": rows}
        node = Node(
            b"+w:%d" % sizes[at],
            valid=valid if outermost else None,
            children=[node],
            n_buffers=1,
            **fields,
        )
    return node


def table(*columns, **fields):
    return Node(b"+s", children=columns, n_buffers=1, **fields)


def below(node, depth):
    """The first child of a node, so many levels below."""
    for _ in range(depth):
        node = node.kept[0][0]
    return node


def with_dictionary(node, depth=0):
    other = Node(b"l", 1, data=int64s(1))
    found = below(node, depth)
    found.schema.dictionary = ctypes.addressof(other.schema)
    found.array.dictionary = ctypes.addressof(other.array)
    node.kept.append(other)
    return node


def without_child(node):
    ctypes.memset(node.schema.children, 0, ctypes.sizeof(ctypes.c_void_p))
    return node


def described(node, depth=0, **entries):
    """With these entries in the metadata of a type."""
    parts = [struct.pack("i", len(entries))]
    for key, value in entries.items():
        for text in (key.replace("_", ":", 2).encode(), value):
            parts += [struct.pack("i", len(text)), text]
    text = ctypes.create_string_buffer(b"".join(parts))
    schema = below(node, depth).schema
    place = ctypes.addressof(schema) + type(schema).metadata.offset
    ctypes.c_void_p.from_address(place).value = ctypes.addressof(text)
    node.kept.append(text)
    return node


def of_tensors(node, depth=0, metadata=b'{"shape": [2]}'):
    entries = {
        "ARROW_extension_name": b"arrow.fixed_shape_tensor",
        "ARROW_extension_metadata": metadata,
    }
    return described(node, depth, **entries)


INDEX = b'{"index_columns": ["level"], "columns": []}'
BITS = {"format": b"b", "data": bytearray([0b0110_1001, 0b1])}
SEVEN = {"format": b"l", "data": int64s(*range(7))}
IMPORTED = {
    "lists": ([lists()], [[0, 1], [2, 3], [4, 5]]),
    "sliced lists": ([lists(length=2, offset=1)], [[2, 3], [4, 5]]),
    "nested lists": ([lists(length=2, sizes=(2, 3))], np.arange(12).reshape(2, 2, 3).tolist()),
    "nested, sliced": ([lists(1, (2, 2), offset=1)], [[[4, 5], [6, 7]]]),
    "lists of nothing": ([lists(length=2, sizes=(0,))], [[], []]),
    "no lists": ([lists(length=0, sizes=(3,))], []),
    "lists after a null": ([lists(length=2, offset=1, valid=0b110)], [[2, 3], [4, 5]]),
    "lists before a null": ([lists(length=2, inner_valid=0b1111)], [[0, 1], [2, 3]]),
    "an offset below": (
        [Node(b"+w:2", 2, children=[Node(**SEVEN, length=4, offset=3)])],
        [[3, 4], [5, 6]],
    ),
    "bools": ([Node(**BITS, length=9)], [True, False, False, True, False, True, True, False, True]),
    "sliced bools": ([Node(**BITS, length=3, offset=6)], [True, False, True]),
    "lists of bools": (
        [Node(b"+w:3", 2, offset=1, children=[Node(**BITS, length=9)])],
        [[True, False, True], [True, False, True]],
    ),
    "tensors": (
        [of_tensors(lists(2, (6,)), metadata=b'{"shape": [2, 3], "permutation": [1, 0]}')],
        np.arange(12).reshape(2, 2, 3).transpose(0, 2, 1).tolist(),
    ),
    "chunks": ([Node(**SEVEN, length=2), Node(**SEVEN, length=2, offset=4)], [0, 1, 4, 5]),
    "chunks of lists": ([lists(1), lists(2, first=6)], [[0, 1], [6, 7], [8, 9]]),
    "chunks of bools": (
        [Node(**BITS, length=2), Node(**BITS, length=1, offset=8)],
        [True, False, True],
    ),
    "an empty chunk": ([Node(**SEVEN, length=0), Node(**SEVEN, length=1)], [0]),
    "a table": ([table(Node(**SEVEN, length=2), Node(**SEVEN, length=2, offset=2), length=2)],
                [[0, 2], [1, 3]]),
    "a sliced table": (
        [table(Node(**SEVEN, length=3), Node(**SEVEN, length=3, offset=2), length=2, offset=1)],
        [[1, 3], [2, 4]],
    ),
    "chunks of a table": (
        [table(Node(**SEVEN, length=1, offset=i), length=1) for i in (3, 5)],
        [[3], [5]],
    ),
    "a table of lists": (
        [table(lists(2), lists(2, first=4), length=2)],
        [[[0, 1], [4, 5]], [[2, 3], [6, 7]]],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("nodes", "values"), IMPORTED.values(), ids=IMPORTED)
def test_import_of_a_stream(nodes, values):
    source = arrow.OfStream(*nodes)
    tensor = fastdl.asarray(source)
    shared = len(nodes) == 1 and tensor.dtype != "bool" and nodes[0].schema.format != b"+s"
    assert tensor.tolist() == values
    assert tensor.readonly is shared
    assert tensor.is_copied is not shared
    del tensor
    gc.collect()
    assert sorted(source.released) == sorted(source.given)


def test_a_stream_without_arrays_has_its_type():
    source = arrow.OfStream(lists(sizes=(2, 3)))
    source.nodes = ()
    source.form = lists(sizes=(2, 3))
    tensor = fastdl.asarray(source)
    assert (tensor.shape, tensor.dtype) == ((0, 2, 3), "int64")


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([lists(valid=0b101)], r"has nulls \(1 of 6 values\)"),
        ([lists(inner_valid=0b110111)], r"has nulls \(1 of 6 values\)"),
        ([lists(length=1, offset=1, valid=0b01)], r"has nulls \(1 of 2 values\)"),
        ([lists(), lists(inner_valid=0b111110)], r"has nulls \(1 of 6 values\)"),
        ([table(Node(b"l", 2, 0b01, data=int64s(1, 2)), length=2)], r"has nulls \(1 of 2 values\)"),
        ([Node(b"u", 1)], "got format 'u'"),
        ([Node(b"+l", 1, children=[Node(b"l", 2)])], r"pyarrow\.chunked_array\(x\)"),
        ([Node(b"+w:2", 1, children=[Node(b"u", 2)])], "got format '.w:2'"),
        ([Node(b"+w:2", 2, children=[Node(b"l", 3, data=int64s(1, 2, 3))])], "matches its type"),
        ([Node(b"+w:-1", 2, children=[Node(b"l", 3)])], "got format"),
        ([Node(b"+w:4611686018427387904", 0, children=[
            Node(b"+w:4611686018427387904", 0, children=[Node(b"l", 0)])])], "got format"),
        ([table(Node(b"l", 1), Node(b"g", 1), length=1)], r"pyarrow\.table\(x\)\.column\(0\)"),
        ([table(lists(1), Node(b"l", 1), length=1)], r"pyarrow\.table"),
        ([table(length=1)], "columns have one type"),
        ([table(Node(b"l", 1, data=int64s(1)), length=2)], "matches its type"),
        ([with_dictionary(lists(1))], "dictionary_decode"),
        ([with_dictionary(lists(1, (2, 2)), 1)], "got format"),
        ([without_child(table(Node(b"l", 1), length=1))], "columns have one type"),
        ([without_child(lists(1))], "got format"),
        ([table(of_tensors(lists(1)), length=1)], "columns have one type"),
        ([of_tensors(lists(1, (2, 2)), 1)], "got format"),
        ([described(table(Node(b"l", 1, data=int64s(1)), length=1), pandas=INDEX)], "the index"),
        ([described(Node(b"l", 1), ARROW_extension_name=b"meters")], r"\.storage"),
        ([table(described(lists(1), ARROW_extension_name=b"meters"), length=1)], "one type"),
        ([of_tensors(lists(1), metadata=b"[")], "metadata of a fixed_shape_tensor"),
        ([of_tensors(lists(1), metadata=b'{"shape": [-2, -1]}')], "metadata of a"),
        ([of_tensors(lists(1), metadata=b'{"shape": [9223372036854775808]}')], "metadata of a"),
        ([of_tensors(lists(1), metadata=b'{"shape": [true, 2]}')], "metadata of a"),
        ([of_tensors(lists(1), metadata=b"[" * 100_000)], "metadata of a"),
        ([of_tensors(lists(1), metadata=b'{"shape": [3]}')], "metadata of a"),
        ([of_tensors(lists(1), metadata=b'{"shape": [2], "permutation": [1]}')], "metadata of a"),
        ([Node(b"l", 1)], "two buffers"),
        ([Node(b"l", 1, data=int64s(1), n_buffers=3)], "two buffers"),
    ],
)  # fmt: skip
def test_streams_that_cannot_be_imported(nodes, message):
    source = arrow.OfStream(*nodes)
    with pytest.raises(BufferError, match=message) as caught:
        fastdl.asarray(source)
    del caught
    gc.collect()
    assert sorted(source.released) == sorted(source.given)


def test_a_stream_that_fails_or_was_consumed():
    with pytest.raises(BufferError, match="reading the Arrow stream failed: the disk is full"):
        fastdl.asarray(arrow.OfStream(lists(), failure=b"the disk is full"))
    source = arrow.OfStream(lists())
    capsule = source.__arrow_c_stream__()
    tensor = core.from_arrow_stream(capsule)[0]
    with pytest.raises(ValueError, match="the Arrow stream has been consumed already"):
        core.from_arrow_stream(capsule)
    # A second reading fails, so the memory may be shared.
    assert not fastdl.asarray(arrow.Once(lists())).is_copied
    del tensor, capsule
    with pytest.raises(TypeError, match="a capsule from __arrow_c_stream__ of .*, got 1"):
        fastdl.asarray(type("Wrong", (), {"__arrow_c_stream__": lambda self: 1})())


def test_threads_that_read_one_stream():
    """One gets it; the others see that it was consumed."""
    for _ in range(20):
        source = arrow.OfStream(lists(), lists())
        capsule = source.__arrow_c_stream__()
        with ThreadPoolExecutor(4) as pool:
            started = [pool.submit(core.from_arrow_stream, capsule) for _ in range(4)]
        failed = [type(one.exception()) for one in started if one.exception() is not None]
        assert failed == [ValueError] * 3


def test_a_table_there_and_back():
    for array in (np.arange(6).reshape(2, 3), np.arange(6).reshape(3, 2).T, np.eye(3) > 0):
        tensor = fastdl.from_dlpack(array)

        class Again:
            def __arrow_c_array__(self, tensor=tensor):
                return tensor.__arrow_c_array__()

        assert fastdl.asarray(Again()).tolist() == array.tolist()


# ---- nulls of nested arrays -----------------------------------------------------------------

TEN = {"length": 2, "valid": 0b10}  # a null, then a value


def long_chain(depth):
    node = Node(b"l", **TEN)
    for _ in range(depth):
        node = Node(b"+s", 2, children=[node])
    return node


@pytest.mark.parametrize(
    ("node", "nulls"),
    [
        (Node(b"l", 3), 0),
        (Node(b"g", 3, 0b101), 1),
        (Node(b"g", 3, 0b101, null_count=0), 0),
        (Node(b"b", 9, 0b1_0000_0001), 7),
        (Node(b"l", 2, 0b1100, offset=2), 0),
        (Node(b"l", 2, 0b0011, offset=2), 2),
        (Node(b"n", 4, n_buffers=0), 4),
        (Node(b"+s", 2, children=[Node(b"l", 2), Node(b"l", **TEN)]), 1),
        # The second struct is null, whatever is in it.
        (Node(b"+s", 3, 0b101, children=[Node(b"l", 3, 0b001)]), 2),
        (Node(b"+s", 2, offset=1, children=[Node(b"l", 3, 0b110)]), 0),
        (Node(b"+w:2", 2, children=[Node(b"l", 4, 0b1101)]), 1),
        (Node(b"+w:2", 2, 0b10, children=[Node(b"l", 4, 0b1100)]), 1),
        (Node(b"+w:2", 1, offset=1, children=[Node(b"l", 4, 0b1100)]), 0),
        (Node(b"+w:2", 1, children=[Node(b"+w:1", 2, children=[Node(b"l", **TEN)])]), 1),
        (Node(b"+w:0", 2, children=[Node(b"l", 0)]), 0),
        (Node(b"i", **TEN, dictionary=Node(b"l", 3)), 1),
        (Node(b"i", 2, dictionary=Node(b"l", 3, 0b101)), 1),
        (Node(b"+s", 2, children=[Node(b"i", 2, dictionary=Node(b"l", **TEN))]), 1),
        (Node(b"+s", 3, 0b101, children=[Node(b"i", 3, dictionary=Node(b"l", 2))]), 1),
        (Node(b"+r", 3, n_buffers=0, children=[Node(b"i", 2), Node(b"l", **TEN)]), 1),
        (long_chain(60), 1),
    ],
)
def test_nulls_are_counted_at_every_level(node, nulls):
    array = np.array([7.0])
    for nodes, expected in (([node], nulls), ([node, node], 2 * nulls), ([Node(b"l", 0)], 0)):
        source = arrow.Streamer(*nodes, array=array)
        if expected == 0:
            assert fastdl.asarray(source).data_ptr == array.ctypes.data
        else:
            with pytest.raises(BufferError, match=rf"missing values \({expected} in all\)"):
                fastdl.asarray(source)
        assert sorted(source.released) == sorted(source.given)


def damaged(**fields):
    node = Node(b"+w:2", 1, children=[Node(b"l", 2)])
    for name, value in fields.items():
        setattr(node.schema if name == "format" else node.array, name, value)
    return node


@pytest.mark.parametrize(
    "node",
    [
        Node(b"u", 1),
        Node(b"tdD", 1),
        Node(b"+l", 1, children=[Node(b"l", 2)]),
        Node(b"+us:0", 1, n_buffers=1, children=[Node(b"l", 1)]),
        Node(b"i", 2, dictionary=Node(b"u", 2)),
        # Of these, the slots that are left may or may not refer to the null.
        Node(b"+w:0", 5, children=[Node(b"l", 3, dictionary=Node(b"l", **TEN))]),
        Node(b"+s", 3, 0b101, children=[Node(b"l", 3, dictionary=Node(b"l", **TEN))]),
        Node(
            b"+s", 3, 0b101, children=[Node(b"+r", 3, children=[Node(b"i", 2), Node(b"l", **TEN)])]
        ),
        Node(b"+w:2", 2, children=[Node(b"l", 3)]),
        Node(b"+w:-1", 2, children=[Node(b"l", 3)]),
        Node(b"+w:9223372036854775807", 2, children=[Node(b"l", 3)]),
        Node(b"+s", 3, children=[Node(b"l", 2)]),
        Node(b"+w:2", 1),
        Node(b"+r", 1, n_buffers=0),
        Node(b"l", 1, n_children=1),
        Node(b"l", -1),
        Node(b"l", 1, offset=-1),
        Node(b"l", 2**62, offset=2**62),
        Node(b"l", 1, n_buffers=-1),
        damaged(format=None),
        damaged(children=None),
        damaged(buffers=None),
        damaged(dictionary=None, n_children=-1),
        long_chain(64),
    ],
)
def test_what_cannot_be_counted_is_refused(node):
    source = arrow.Streamer(node, array=np.array([7.0]))
    with pytest.raises(BufferError, match="missing values in .*Streamer' cannot be counted"):
        fastdl.asarray(source)
    assert sorted(source.released) == sorted(source.given)


def test_what_the_array_says_comes_first_unless_it_has_objects():
    for array, message in (
        (np.array(["a"]), "one of <U1, which DLPack cannot describe"),
        (np.array(["a"], object), "got format 'u'"),
    ):
        with pytest.raises(BufferError, match=message):
            fastdl.asarray(arrow.Streamer(Node(b"u", 1), array=array))


def test_a_stream_that_fails():
    source = arrow.Streamer(Node(b"l", 1), array=np.array([7]), failure=b"the disk is full")
    with pytest.raises(BufferError, match="reading the Arrow stream failed: the disk is full"):
        fastdl.asarray(source)
    assert sorted(source.released) == sorted(source.given)


def test_a_stream_that_was_consumed():
    source = arrow.Streamer(Node(b"l", 1), array=np.array([7]), consumed=True)
    with pytest.raises(BufferError, match="missing values in .* cannot be counted"):
        fastdl.asarray(source)


def test_nothing_keeps_a_source_that_was_read_the_second_way():
    """Not even until the next collection."""
    inner = arrow.OfStream(lists())

    class Source:
        def __array__(self, dtype=None, copy=None):
            return np.array([object()])

        def __arrow_c_stream__(self, requested_schema=None):
            return inner.__arrow_c_stream__()

    gc.collect()
    gc.disable()
    try:
        source = Source()
        reference = weakref.ref(source)
        assert fastdl.asarray(source).tolist() == [[0, 1], [2, 3], [4, 5]]
        del source
        assert reference() is None
    finally:
        gc.enable()
