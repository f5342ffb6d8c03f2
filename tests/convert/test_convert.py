# SPDX-License-Identifier: Apache-2.0
"""fastdl.convert: whose objects it makes, what it shares, what it copies, and what it says."""

import array
import functools
import gc
import itertools
import pickle
import random
import re
import sys
import types
import weakref

import ml_dtypes
import numpy as np
import pytest

import fastdl
from dlpack_conformance.elements import row_major
from fastdl._bridges import lookup
from fastdl._bridges.bridge import (
    ANY,
    ANYWHERE,
    COMPACT,
    COPIED,
    DENSE,
    DEVICE,
    HOST,
    IMMUTABLE,
    KEPT,
    POSITIVE,
)
from fastdl._convert import convert as front
from fastdl._convert.refusals import nearest_dtype
from fastdl._core import tensor as core
from fastdl._native import dtype_facts
from tests.interop.cases.common import aligned
from tests.support.library import Array, libraries
from tests.support.named import named
from tests.support.producers import CUDA, Given, OldProducer, Producer, Tabled, hostile, new, raises


@pytest.fixture
def library(monkeypatch):
    return libraries(monkeypatch)


def frozen(values):
    values.flags.writeable = False
    return values


def pointer(x):
    return fastdl.from_dlpack(x).data_ptr


# ---- what `like` may be ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "like"),
    [*((np.ndarray, like) for like in (np.ndarray, np, np.zeros(1), np.linalg)),
     *((fastdl.Tensor, like) for like in (fastdl.Tensor, fastdl, fastdl.empty(1)))],
    ids="tmxsTMX",
)  # fmt: skip
def test_like_is_a_type_a_module_or_an_example(kind, like):
    x = array.array("f", [1.0, 2.0])
    result = fastdl.convert(x, like)
    assert type(result) is kind
    assert result.tolist() == [1.0, 2.0]
    assert pointer(result) == x.buffer_info()[0]
    assert fastdl.convert(result, like) is result


def test_the_element_type_is_that_of_the_source():
    assert fastdl.convert(array.array("h", [1]), np.zeros(1, "f8")).dtype == np.int16


@pytest.mark.parametrize("copy", [None, False])
def test_an_object_of_that_kind_is_returned_itself(copy):
    x = np.arange(3)[::-1]
    assert fastdl.convert(x, np.ndarray, copy=copy) is x
    assert fastdl.convert(x, np, copy=copy) is x
    assert fastdl.convert(x, np.ma, copy=copy) is x


def test_libraries_whose_objects_hold_arrays():
    """How to make one: interop/cases/tables.py does as it is told, for the types of each."""
    frame = type("DataFrame", (), {"__module__": "polars.dataframe.frame"})
    for like in (frame(), types.ModuleType("xarray.core.dataarray")):
        with pytest.raises(TypeError, match="as `like`, got .* makes one from an array$"):
            fastdl.convert(np.zeros(1), like)


def test_a_type_that_cannot_be_hashed():
    class Meta(type):
        __hash__ = None

        def __eq__(cls, other):
            raise AssertionError("types are compared by identity")

    class Source(Producer, metaclass=Meta):
        pass

    for _ in range(2):
        assert fastdl.convert(Source(Given()), np.ndarray).shape == (2, 3)
        with pytest.raises(TypeError, match="the type '.*Source'"):
            fastdl.convert(np.zeros(1), Source)


@pytest.mark.skipif(
    not getattr(sys, "_is_gil_enabled", lambda: True)(),
    reason="CPython 3.13 without a GIL never ends a type once there are threads",
)
def test_types_that_are_no_library_are_not_kept():
    class Likeness:
        from_dlpack = staticmethod(lambda tensor: tensor.copy())

    class Source(Producer):
        pass

    fastdl.convert(Source(Given()), Likeness)
    seen = weakref.ref(Likeness), weakref.ref(Source)
    del Likeness, Source
    gc.collect()
    assert [ref() for ref in seen] == [None, None]


def test_subclasses_that_a_library_has_are_remembered(library):
    """Its own live as long as it does, and each takes the short way from the second call on."""
    cls = library()
    own = type("Special", (cls,), {"__module__": cls.__module__})
    users = type("Special", (cls,), {})
    for kind in (cls, own, users):
        fastdl.convert(kind(fastdl.from_dlpack(BASE)), np.ndarray)
    assert front.cached(own) is front.cached(cls) is not None
    assert front.cached(users) is None


class OptOut(np.ndarray):
    __dlpack__ = None


def test_a_class_that_leaves_dlpack_is_read_by_what_is_left():
    """It is one of a library that has __dlpack__, but a buffer as well."""
    array = BASE.view(OptOut)
    assert fastdl.asarray(array).data_ptr == BASE.ctypes.data
    assert fastdl.convert(array, fastdl.Tensor).data_ptr == BASE.ctypes.data


def test_a_function_of_a_tensor_makes_the_objects(library):
    """Found once, when the library is there."""
    found = []
    cls = library(make=None, quick=lambda: found.append(1) or (lambda tensor: [tensor]))
    for _ in range(3):
        (tensor,) = fastdl.convert(BASE, cls)
        assert tensor.data_ptr == BASE.ctypes.data
    assert found == [1]


# ---- what the source may be -----------------------------------------------------------------


@pytest.mark.parametrize("kind", [Producer, OldProducer, Tabled])
def test_any_producer(kind):
    given = Given()
    result = fastdl.convert(new(kind)(given), np.ndarray)
    assert result.tolist() == [[0, 1, 2], [3, 4, 5]]
    given.assert_alive()
    del result
    given.assert_released()


def raising(error):
    return new(Producer)(Given(), act=raises(error))


LINES = RuntimeError("first line\n" + "second line\n" * 60)
INTERFACE = {**np.arange(3).__array_interface__, "typestr": np.zeros((40, 40))}
NO_DEVICE = named("NoDevice", "m", __dlpack__=lambda self, **keywords: 1 / 0)
NO_METHODS = named("NoMethods", "m", __dlpack__=None, __dlpack_device__=lambda self: (1, 0))
LONG = named("Odd", "a_package_with_a_long_name.and_a_module")
CANNOT = "cannot be converted to numpy.ndarray: "
#: What makes a source, and what its refusal begins and ends with: advice of fastdl's is never cut,
#: and messages of others are shortened.
REFUSED = {
    **{type(x).__name__: (lambda x=x: x, TypeError,
                          f"'{type(x).__name__}' {CANNOT}expected a tensor, an array or", "")
       for x in (3, None, "text", object())},
    "list": (lambda: [1.0, 2.0], TypeError, f"'list' {CANNOT}expected a tensor, an array or",
             "pass numpy.asarray(x)"),
    "long name": (LONG, TypeError, CANNOT, "with a function of its own library"),
    "no device": (NO_DEVICE, TypeError, f"NoDevice' {CANNOT}.*not __dlpa", ""),
    "no methods": (NO_METHODS, TypeError, f"NoMethods' {CANNOT}", ""),
    "lines": (lambda: raising(LINES), BufferError,
              f"Producer.*{CANNOT}RuntimeError: first line", ""),
    "type": (lambda: raising(TypeError("odd")), BufferError, f"Producer.*{CANNOT}odd", ""),
    "long text": (lambda: raising(BufferError("long " * 100)), BufferError, CANNOT, "long ..."),
    "lines of an interface": (
        lambda: type("Source", (), {"__array_interface__": INTERFACE})(), BufferError, CANNOT, ""),
}  # fmt: skip


@pytest.mark.parametrize(("make", "error", "words", "end"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_and_how_it_is_said(make, error, words, end):
    with pytest.raises(error, match=words) as caught:
        fastdl.convert(make(), np.ndarray)
    text, cause = str(caught.value), caught.value.__cause__
    assert text.endswith(end) and "second" not in text and "\n" not in text
    if end:
        assert len(text) < 400 if end == "long ..." else len(text) > 250
    if "RuntimeError" in words:
        assert cause is LINES
    elif "\n" in str(cause):  # a text of fastdl's
        assert str(cause).splitlines()[-1] in text


# ---- layouts --------------------------------------------------------------------------------

BASE = aligned(range(24)).reshape(4, 6)

LAYOUTS = {
    "compact": (BASE, COMPACT),
    "a row": (BASE[1], COMPACT),
    "scalar": (BASE[0, 0:1].reshape(()), COMPACT),
    "size 1": (BASE[:, ::-1][:1, :1], COMPACT),
    "empty": (BASE[::-1][:, :0], COMPACT),
    "transposed": (BASE.T, DENSE),
    "permuted": (BASE.reshape(2, 3, 4).transpose(1, 2, 0), DENSE),
    "size 1 inside": (BASE.reshape(4, 1, 6).transpose(2, 1, 0), DENSE),
    "gaps": (BASE[:, ::2], POSITIVE),
    "part": (BASE[:2, :2], POSITIVE),
    "broadcast": (np.lib.stride_tricks.as_strided(BASE, (3, 6), (0, 4)), POSITIVE),
    "overlapping": (np.lib.stride_tricks.as_strided(BASE, (3, 3), (4, 4)), POSITIVE),
    "reversed": (BASE[::-1], ANY),
    "reversed inside": (BASE[:, ::-1], ANY),
}


@pytest.mark.parametrize("like_example", [False, True])
@pytest.mark.parametrize("takes", [ANY, POSITIVE, DENSE, COMPACT])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(library, layout, takes, like_example):
    source, fits = LAYOUTS[layout]
    cls = library(strides=takes)
    like = cls(None) if like_example else cls
    for _ in range(2):  # not known, and known
        result = fastdl.convert(source, like)
        assert type(result) is cls
        assert np.array_equal(result.tensor.numpy(), source)
        assert (result.tensor.data_ptr == source.ctypes.data) is (fits >= takes)
        if fits < takes or (fits == COMPACT and takes != ANY):  # also strides that mean nothing
            assert result.tensor.strides == tuple(row_major(result.tensor.shape))


def test_settled_strides_are_never_negative(library):
    """A library that takes any gets those of the source."""
    source = BASE.reshape(4, 1, 6)[:, ::-1, ::2]
    assert fastdl.convert(source, library()).tensor.strides == (6, -6, 2)
    tensor = fastdl.convert(source, library(strides=POSITIVE)).tensor
    assert tensor.data_ptr == source.ctypes.data
    assert tensor.strides[0] == 6 and tensor.strides[2] == 2
    assert tensor.strides[1] > 0


def test_strides_that_multiply_to_more_than_64_bits(library):
    tensor = fastdl.from_pointer(1 << 20, (1, 2), "int8", strides=(7, 2**62))
    for takes in (POSITIVE, ANY):
        strides = fastdl.convert(tensor, library(strides=takes)).tensor.strides
        assert strides[0] > 0 and strides[1] == 2**62


def test_the_source_is_left_alone(library):
    """What is adapted is convert's own, and not the Tensor that was passed."""
    tensor = fastdl.from_dlpack(frozen(aligned([[1.0], [2.0]])))[:1, ::-1]
    before = tensor.strides, tensor.readonly
    fastdl.convert(tensor, library(strides=COMPACT, readonly=IMMUTABLE))
    fastdl.convert(tensor, library(strides=COMPACT))
    assert (tensor.strides, tensor.readonly) == before


@pytest.mark.parametrize("alignment", [1, 16, 64])
@pytest.mark.parametrize("offset", [0, 4, 16])
def test_alignment(library, alignment, offset):
    source = aligned(range(32))[offset // 4 :]
    tensor = fastdl.convert(source, library(alignment=alignment)).tensor
    assert tensor.data_ptr % alignment == 0
    assert (tensor.data_ptr == source.ctypes.data) is (offset % alignment == 0)
    assert tensor.tolist() == source.tolist()


# ---- read-only data -------------------------------------------------------------------------


@pytest.fixture
def immutable():
    """An object of a library whose values never change: the name is in _bridges/jax.py."""
    cls = type("ArrayImpl", (Producer,), {"__module__": "jaxlib.of_the_tests"})
    return cls(Given(versioned=False, memory=aligned(range(6))))


def test_read_only_data_stays_so(library):
    source = frozen(aligned([1.0, 2.0]))
    tensor = fastdl.convert(source, library(readonly=KEPT)).tensor
    assert (tensor.data_ptr, tensor.readonly) == (source.ctypes.data, True)
    array = fastdl.convert(fastdl.from_dlpack(source), np.ndarray)
    assert not array.flags.writeable


@pytest.mark.parametrize("policy", [IMMUTABLE, COPIED])
def test_read_only_data_that_may_change_is_copied(library, policy):
    source = frozen(aligned([1.0, 2.0]))
    for _ in range(2):
        tensor = fastdl.convert(source, library(readonly=policy)).tensor
        assert tensor.data_ptr != source.ctypes.data
        assert not tensor.readonly
        assert tensor.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("copy", [None, False])
@pytest.mark.parametrize("policy", [IMMUTABLE, COPIED])
def test_read_only_data_without_elements_is_no_obstacle(library, policy, copy):
    source = frozen(aligned([1.0, 2.0])[2:])
    for _ in range(2):
        tensor = fastdl.convert(source, library(readonly=policy), copy=copy).tensor
        assert (tensor.shape, tensor.readonly) == ((0,), False)
        assert tensor.data_ptr == source.ctypes.data
        tensor.__dlpack__()


def test_data_that_never_changes_is_shared_by_an_immutable_library(library, immutable):
    memory = fastdl.from_dlpack(immutable)
    cls = library(readonly=IMMUTABLE)
    immutable.managed = Given(versioned=False, memory=aligned(range(6)))
    tensor = fastdl.convert(immutable, cls).tensor
    assert memory.readonly
    assert not tensor.readonly  # so that a legacy capsule can be had
    tensor.__dlpack__()
    given = immutable.managed
    given.assert_alive()
    del tensor
    given.assert_released()


@pytest.mark.parametrize("policy", [KEPT, COPIED])
def test_data_that_never_changes_elsewhere(library, immutable, policy):
    tensor = fastdl.convert(immutable, library(readonly=policy)).tensor
    assert tensor.readonly is (policy == KEPT)
    assert (
        (tensor.data_ptr == hostile.address(immutable.managed.owner().memory))
        if (policy == KEPT)
        else immutable.managed.owner() is None
    )


WAYS = {
    "a Tensor": lambda x: x,
    "another Tensor": fastdl.from_dlpack,
    "a view": lambda x: x[:].reshape(6),
    "a Tensor by convert": lambda x: fastdl.convert(x, fastdl.Tensor),
    "an array of convert's": lambda x: fastdl.convert(x, np.ndarray),
    "a view of such an array": lambda x: fastdl.convert(x, np.ndarray)[:].view(),
    "numpy()": lambda x: x.numpy(),
    "a capsule": lambda x: fastdl.from_dlpack(x.__dlpack__(max_version=(1, 0))),
    "a memoryview": lambda x: fastdl.asarray(memoryview(memoryview(x))),
    "a pickle out of band": lambda x: pickled(x, []),
}


def pickled(x, buffers):
    text = pickle.dumps(x, 5, buffer_callback=buffers.append)
    return pickle.loads(text, buffers=buffers)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_tensor_knows_that_its_memory_never_changes(library, immutable, way):
    tensor = fastdl.from_dlpack(immutable)
    source = way(tensor)
    shared = fastdl.convert(source, library(readonly=IMMUTABLE), copy=False).tensor
    assert shared.data_ptr == tensor.data_ptr
    assert not shared.readonly  # what that library asks for
    assert tensor.readonly


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_read_only_tensor_may_change(way):
    source = aligned(range(6))
    assert not core.is_immutable(fastdl.asarray(way(fastdl.from_dlpack(frozen(source)))))


def unpickled(x, protocol):
    return pickle.loads(pickle.dumps(x, protocol))


def of_pyarrow(name):
    """Arrays that are read-only may be on memory that is not, such as an array of NumPy."""
    cls = type(name, (Producer,), {"__module__": "pyarrow.of_the_tests"})
    return cls(Given(versioned=False, memory=aligned(range(6))))


FROZEN = fastdl.from_dlpack(frozen(aligned([1.0])))


@pytest.mark.parametrize(
    ("make", "never"),
    [
        (lambda immutable: fastdl.from_dlpack(immutable), True),
        (lambda immutable: fastdl.from_dlpack(immutable).copy(), False),
        (lambda immutable: fastdl.from_dlpack(immutable, copy=True), False),
        (lambda _: b"abc", True),
        (lambda _: memoryview(memoryview(b"abc"))[1:], True),
        (lambda _: np.frombuffer(b"abc", np.uint8)[1:], True),
        (lambda _: bytearray(b"abc"), False),
        (lambda _: memoryview(bytearray(b"abc")).toreadonly(), False),
        (lambda _: np.frombuffer(bytearray(b"abc"), np.uint8), False),
        (lambda _: FROZEN.numpy(), False),
        (lambda _: np.broadcast_to(aligned([1.0]), (3, 1)), False),
        (lambda _: memoryview(fastdl.empty(3).expand(2, 3)), False),
        *((lambda _, n=n: unpickled(FROZEN, n), True) for n in (2, 4, 5)),
        *((lambda _, n=n: unpickled(fastdl.empty(3), n), False) for n in (2, 4, 5)),
        *((lambda _, name=name: of_pyarrow(name), False) for name in ("Array", "Tensor")),
    ],
)
def test_what_never_changes(immutable, make, never):
    for _ in range(2):
        immutable.managed = Given(versioned=False, memory=aligned(range(6)))
        tensor = fastdl.asarray(make(immutable))
        assert core.is_immutable(tensor) is never
        assert tensor.readonly or not never


def test_memory_that_comes_back_is_read_only_again(library, immutable):
    """A library that was not told hands out what it got."""
    tensor = fastdl.from_dlpack(immutable)
    shared = fastdl.convert(tensor, library(readonly=IMMUTABLE)).tensor
    assert not shared.readonly
    assert fastdl.from_dlpack(shared.__dlpack__()).readonly
    assert fastdl.from_dlpack(shared.__dlpack__(max_version=(1, 0))).readonly


# ---- copy -----------------------------------------------------------------------------------


def test_a_copy_that_the_producer_made_is_forbidden(library):
    x = new(Producer)(Given(flags=2))
    with pytest.raises(fastdl.CopyRequiredError, match="copied in spite of"):
        fastdl.convert(x, library(), copy=False)


@pytest.mark.parametrize("keywords", [{}, {"device": "cpu"}], ids=["", "device"])
def test_a_forbidden_copy_is_forbidden_to_the_producer(library, keywords):
    """Who takes `copy` is asked once; of who does not, a second export shows whether it copied."""
    memory = array.array("f", range(6))
    answers = (Producer, [(None, (1, 3), None, False)]), (OldProducer, [None, None])
    for kind, asked in answers:
        versioned = kind is Producer
        x = new(kind)(None, act=lambda x, v=versioned: Given(versioned=v, memory=memory).capsule())
        x.asked = []
        result = fastdl.convert(x, library(), copy=False, **keywords)
        assert result.tensor.data_ptr == hostile.address(memory)
        assert x.asked == asked


@pytest.mark.parametrize("accept", [fastdl.from_dlpack, fastdl.asarray, "convert"])
def test_a_capsule_of_a_copy_needs_no_further_one(library, accept):
    """Whoever made the capsule has copied; `copy=False` is about what follows."""
    like = library()
    given = Given(flags=2)
    if accept == "convert":
        tensor = fastdl.convert(given.capsule(), like, copy=False).tensor
    else:
        tensor = accept(given.capsule(), copy=False)
    assert tensor.data_ptr == hostile.address(given.owner().memory)


def test_no_copy_where_none_is_needed(library):
    source = aligned([1.0, 2.0])
    for facts in ({}, {"strides": COMPACT, "alignment": 64, "readonly": COPIED}):
        tensor = fastdl.convert(source, library(**facts), copy=False).tensor
        assert tensor.data_ptr == source.ctypes.data


@pytest.mark.parametrize("source", [BASE, BASE[::-1], frozen(aligned([1.0]))], ids=["c", "n", "r"])
def test_a_copy_that_is_asked_for(library, source):
    tensor = fastdl.convert(source, library(), copy=True).tensor
    assert tensor.data_ptr != source.ctypes.data
    assert not tensor.readonly
    assert np.array_equal(tensor.numpy(), source)


def test_one_copy_is_enough(library):
    """That of a library which copies by itself, or of the producer."""
    tensor = fastdl.convert(BASE, library(copies=True), copy=True).tensor
    assert tensor.data_ptr == BASE.ctypes.data
    given = Given(flags=2)
    address = hostile.address(given.owner().memory)
    tensor = fastdl.convert(new(Producer)(given), library(), copy=True).tensor
    assert tensor.data_ptr == address


# ---- how a library is read ------------------------------------------------------------------


def converted(x, like):
    """By the compiled front, and by what completes it."""
    return fastdl.convert(x, like), fastdl.convert(x, like, copy=False)


def test_a_library_that_dlpack_cannot_read(library):
    cls = library(read=lambda x: fastdl.from_dlpack(x.inside))
    x = cls(None)
    x.inside = aligned([1.0, 2.0])
    for _ in range(3):  # not known, known
        for result in (*converted(x, np.ndarray), *converted(x, fastdl.Tensor), fastdl.asarray(x)):
            assert pointer(result) == x.inside.ctypes.data


def test_element_types_that_dlpack_describes_wrongly(library):
    cls = library(read=lambda x, tensor: tensor.view("bool"), reads=("uint8",))
    for dtype, read in (("uint8", "bool"), ("int16", "int16"), ("float32", "float32")):
        x = cls(fastdl.from_dlpack(np.ones(3, dtype)))
        for _ in range(3):
            assert [result.dtype for result in converted(x, np.ndarray)] == [np.dtype(read)] * 2
            assert fastdl.asarray(x).dtype == read
            assert fastdl.from_dlpack(x).dtype == dtype  # which takes a capsule at its word


def test_a_reader_comes_before_a_table(library):
    """Of a class whose base has a table: it may be that the table describes it wrongly."""
    right = aligned([1.0, 2.0])
    cls = library(base=np.ndarray, read=lambda x: fastdl.from_dlpack(right))
    target = library(quick=lambda: fastdl.exchange_api(fastdl.Tensor))
    for _ in range(3):  # not known, known, started
        assert fastdl.convert(cls(3), target).data_ptr == right.ctypes.data


def test_a_reader_that_copies(library):
    def read(x):
        return core.mark_copied(fastdl.from_dlpack(np.ones(3)))

    x = library(read=read)(None)
    assert fastdl.asarray(x).is_copied
    with pytest.raises(fastdl.CopyRequiredError, match="copied in spite of"):
        fastdl.convert(x, np.ndarray, copy=False)


def test_a_reader_that_fails(library):
    def read(x):
        raise LookupError("nothing there")

    x = library(read=read)(None)
    for _ in range(2):
        with pytest.raises(BufferError, match="cannot be converted to numpy.ndarray: LookupError"):
            fastdl.convert(x, np.ndarray)
        with pytest.raises(LookupError, match="nothing there"):
            fastdl.asarray(x)


def test_a_copy_of_what_cannot_be_read_otherwise(library):
    cls = library(
        base=Unreadable,
        read_otherwise=lambda x: x.tensor[::2].copy(),
    )
    x = cls(fastdl.from_dlpack(aligned(range(6))))
    for copy in (None, True) * 2:
        result = fastdl.convert(x, np.ndarray, copy=copy)
        assert result.tolist() == [0.0, 2.0, 4.0]
    assert fastdl.convert(x, fastdl.Tensor).is_copied
    with pytest.raises(fastdl.CopyRequiredError, match="copied in spite of"):
        fastdl.convert(x, np.ndarray, copy=False)
    assert fastdl.asarray(x).is_copied


# ---- earlier calls --------------------------------------------------------------------------


class Exposed:
    """An array of a library without DLPack, with one other interface."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __array__(self, dtype=None, copy=None):
        return self.tensor.numpy()


class Interfaced(Exposed):
    __array__ = None

    @property
    def __array_interface__(self):
        return self.tensor.numpy().__array_interface__


class Unreadable(Array):
    def __dlpack__(self, **keywords):
        raise BufferError("in another way")


class Bare:
    """Of a known library, and no array at all."""

    def __init__(self, tensor):
        self.tensor = tensor


def each_source(library):
    """Objects of classes that nobody has met yet, by what they are."""
    given = fastdl.from_dlpack(aligned(range(6)).reshape(2, 3))
    never = type("ArrayImpl", (Array,), {"__module__": "jaxlib.of_the_tests"})
    asked = library()
    return {
        "protocol": asked(given),
        "derived": type("Derived", (asked,), {})(given),
        "opted out": type("OptOut", (asked, Exposed), {"__dlpack__": None})(given),
        "__array__": library(base=Exposed)(given),
        "__array_interface__": library(base=Interfaced)(given),
        "nothing": library(base=Bare)(given),
        "reader": library(base=Bare, read=lambda x: x.tensor[::-1])(given),
        "reader of others": library(
            base=Exposed, read=lambda x, tensor: x.tensor[::-1], reads=("float32",))(given),
        "reader of some": library(read=lambda x, tensor: x.tensor[::-1], reads=("float32",))(given),
        "ndarray": type("Subclass", (np.ndarray,), {})((2, 3), "f4", given.numpy()),
        "never changes": never(given),
        "read-only": asked(fastdl.from_dlpack(frozen(given.numpy()))),
        "copied": library(base=Unreadable, read_otherwise=lambda x: x.tensor.copy())(given),
        "refusing": type("Refusing", (asked,), {"__dlpack__": refusing})(given),
    }  # fmt: skip


def refusing(self, **keywords):
    raise LookupError("nothing there")


def each_target(library):
    return {
        "any": library(),
        "compact": library(strides=COMPACT),
        "immutable": library(readonly=IMMUTABLE),
        "writable": library(readonly=COPIED),
        "table": library(quick=lambda: fastdl.exchange_api(fastdl.Tensor)),
        "function": library(quick=lambda: lambda tensor: tensor),
        "ndarray": np.ndarray,
        "Tensor": fastdl.Tensor,
    }


def outcome(x, like, copy, **keywords):
    """What convert answers, in words that are equal if the answers are."""
    try:
        result = fastdl.convert(x, like, copy=copy, **keywords)
    except Exception as error:
        return type(error), re.sub(r"fakelib\d+", "fakelib", str(error))[:150]
    if result is x:
        return "itself"
    tensor = fastdl.asarray(result)
    shared = tensor.data_ptr - fastdl.asarray(x.tensor if hasattr(x, "tensor") else x).data_ptr
    return type(result).__qualname__, tensor.tolist(), tensor.readonly, 0 <= shared < 24


ELSEWHERE = {}, {"device": "cpu"}, {"stream": -1}, {"device": "cpu", "stream": -1}


def test_results_do_not_depend_on_earlier_calls(library):
    """Every pair, twice, in several orders, each with classes that nobody has met. For data on the
    host, device="cpu" and stream=-1 say what is so already."""
    found = {}
    for seed in range(6):
        sources, targets = each_source(library), each_target(library)
        pairs = [(s, t, c) for s in sources for t in targets for c in (None, False, True)] * 2
        random.Random(seed).shuffle(pairs)
        for (source, target, copy), keywords in zip(pairs, itertools.cycle(ELSEWHERE)):
            answer = outcome(sources[source], targets[target], copy, **keywords)
            assert found.setdefault((source, target, copy), answer) == answer, (source, target)


# ---- versions -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "strides", "dtypes"),
    [
        ("0.9", COMPACT, {"float32"}),
        ("1.0.7", COMPACT, {"float32"}),
        ("1.1rc1", POSITIVE, None),
        ("1.10", ANY, None),
        ("2", ANY, None),
        ("", ANY, None),  # it does not say
        ("main", ANY, None),
        (None, ANY, None),
    ],
)
def test_what_a_library_takes_is_that_of_the_version_that_is_there(
    library, monkeypatch, version, strides, dtypes
):
    cls = library(before={"1.1": {"strides": COMPACT, "dtypes": ("float32",)}, "1.10": TAKES_1_10})
    loaded = types.ModuleType(cls.__module__.partition(".")[0])
    loaded.__version__ = version
    monkeypatch.setitem(sys.modules, loaded.__name__, loaded)
    for source, takes in LAYOUTS.values():
        tensor = fastdl.convert(source, cls).tensor
        assert (tensor.data_ptr == source.ctypes.data) is (takes >= strides)
    if dtypes is None:
        fastdl.convert(np.ones(3), cls)
    else:
        with pytest.raises(BufferError, match="has no float64"):
            fastdl.convert(np.ones(3), cls)


TAKES_1_10 = {"strides": POSITIVE}


def test_what_a_library_takes_is_that_of_its_build(library):
    calls = []

    def built():
        calls.append(1)
        return {"devices": HOST, "dtypes": ("float32",)}

    cls = library(devices=ANYWHERE, built=built)
    on_cuda = fastdl.from_dlpack(Given(device=(2, 0)).capsule())
    for _ in range(2):
        with pytest.raises(BufferError, match="holds host memory only"):
            fastdl.convert(on_cuda, cls)
        with pytest.raises(BufferError, match="has no float64"):
            fastdl.convert(np.ones(3), cls)
        fastdl.convert(np.ones(3, np.float32), cls)
    assert calls == [1]


@pytest.mark.parametrize("copy", [None, True, False])
def test_a_version_that_is_too_old(library, monkeypatch, copy):
    cls = library(since="1.10", quick=lambda: fastdl.exchange_api(fastdl.Tensor))
    loaded = types.ModuleType(cls.__module__.partition(".")[0])
    loaded.__version__ = "1.9.3+cpu"
    monkeypatch.setitem(sys.modules, loaded.__name__, loaded)
    words = r"expected Fakelib 1\.10 or newer, got 1\.9\.3\+cpu. Upgrade it"
    for _ in range(2):
        with pytest.raises(BufferError, match=words):
            fastdl.convert(np.ones(3), cls, copy=copy)
    x = cls(fastdl.from_dlpack(np.ones(3)))
    assert fastdl.convert(x, np.ndarray).tolist() == [1, 1, 1]  # they are read all the same
    assert fastdl.convert(x, cls) is x


def test_a_library_that_may_copy(library):
    cls = library(copies=lambda tensor: None)
    source = aligned([1.0, 2.0])
    assert fastdl.convert(source, cls).tensor.data_ptr == source.ctypes.data
    assert fastdl.convert(source, cls, copy=True).tensor.data_ptr != source.ctypes.data
    with pytest.raises(fastdl.CopyRequiredError, match="may copy such data"):
        fastdl.convert(source, cls, copy=False)


# ---- what a library cannot have -------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "dtypes", "target"),
    [
        ("float16", {"float32", "float64"}, "float32"),
        ("bfloat16", {"float32", "float16"}, "float32"),
        ("bool", {"uint8", "int8"}, "uint8"),
        ("uint16", {"int32", "int64", "int8"}, "int32"),
        ("uint16", {"uint8", "uint64", "int32"}, "int32"),
        ("int32", {"int16", "float32", "float64"}, "float64"),
        ("float32", {"float64", "complex64"}, "float64"),
        ("float8_e5m2", {"float16", "bfloat16", "int8"}, "float16"),
        ("float8_e8m0fnu", {"float16", "bfloat16", "float32"}, "bfloat16"),
    ],
)
def test_element_types_that_a_library_does_not_have(library, dtype, dtypes, target):
    """Casts are left to the libraries: the message ends with the line that does it."""
    cls = library(dtypes=dtypes)
    source = np.ones(2, getattr(ml_dtypes, dtype, dtype))
    line = f"fastdl.convert(x, numpy.ndarray).astype('{target}')"
    for x in (source, memoryview(source)) if source.dtype.isbuiltin == 1 else (source,):
        with pytest.raises(BufferError, match=rf"fakelib\d\.Array has no {dtype}") as caught:
            fastdl.convert(x, cls)
        assert str(caught.value).endswith(f"Convert the elements to {target} first: {line}")
        cast = eval(line, {"fastdl": fastdl, "numpy": np, "x": x})
        assert fastdl.convert(cls(fastdl.convert(cast, cls).tensor), np).tolist() == [1, 1]
    assert fastdl.convert(source, library(dtypes={dtype, *dtypes})).tensor.dtype.name == dtype


IN_NUMPY = [name for name, *_, code in dtype_facts() if code or hasattr(ml_dtypes, name)]


@functools.cache
def extremes(name):
    """All values of a narrow type; of others, those at the ends of its range and precision."""
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    if dtype.itemsize == 1:
        bits = 1 if name == "bool" else fastdl.DType(name).bits
        return np.arange(1 << bits, dtype="u1").view(dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return np.array([info.min, info.min + 1, 0, info.max - 1, info.max], dtype)
    info = ml_dtypes.finfo(dtype)
    ends = info.smallest_subnormal, info.smallest_normal, info.max, -info.max, 1 + info.eps, np.inf
    return np.array(ends).astype(dtype)


@functools.cache
def is_kept(dtype, name):
    """Whether NumPy's cast to a type preserves each value; that no cast is from a wider kind."""
    if ("complex" in dtype) > ("complex" in name):
        return False
    x = extremes(dtype)
    with np.errstate(all="ignore"):
        cast = x.astype(getattr(ml_dtypes, name, name))
    pairs = zip(fastdl.from_dlpack(x).tolist(), fastdl.from_dlpack(cast).tolist(), strict=True)
    return all(old == new or (old != old and new != new) for old, new in pairs)


@pytest.mark.parametrize("dtype", IN_NUMPY)
def test_the_remedy_changes_no_value(dtype):
    """It is a line exactly if the library has a wider type that holds every value."""
    x = extremes(dtype)
    known = {
        bridge.dtypes
        for package in lookup.LIBRARIES
        for bridge in lookup.bridges_of(package)
        if bridge.dtypes and dtype not in bridge.dtypes
    }
    for dtypes in [*known, {"uint8", "float16"}, {"int64", "float32"}, {"bool"}]:
        found = nearest_dtype(fastdl.from_dlpack(x), dtypes - {dtype})
        advice, _, line = found.partition(" first: ")
        wide = [name for name in dtypes - {dtype, "bool", "complex32"} if "_" not in name]
        if line:
            found = eval(line, {"fastdl": fastdl, "numpy": np, "x": x}).dtype.name
            assert found in wide
            assert is_kept(dtype, found)
        else:
            assert not [name for name in wide if is_kept(dtype, name)], advice
            assert f"None of its types holds every {dtype}: " in advice


@pytest.mark.parametrize("device", [(1, 0), CUDA], ids=["cpu", "cuda"])
@pytest.mark.parametrize("lane", ["float32", "bfloat16"])
def test_vectors_for_a_library_without_vectors(library, device, lane):
    code, bits, _ = fastdl.DType(lane).__dlpack_data_type__()
    x = new(Producer)(Given(dtype=(code, bits, 4), shape=(1,), device=device), device=device)
    x = fastdl.from_dlpack(x)
    like = library(dtypes={lane}, devices=ANYWHERE)
    with pytest.raises(BufferError, match=f"Array has no {lane}x4. fastdl.*its lanes as") as caught:
        fastdl.convert(x, like)
    line = str(caught.value).partition("x4. ")[2].removesuffix(" has its lanes as elements")
    lanes = eval(line, {"fastdl": fastdl, "x": x})
    assert (lanes.dtype, lanes.shape, lanes.data_ptr) == (lane, (4,), x.data_ptr)
    assert fastdl.convert(lanes, like).tensor.shape == (4,)


@pytest.mark.parametrize(("dtype", "shape"), [("float32x4", ()), ("int4x2", (3,))])
def test_vectors_that_cannot_be_viewed_as_their_lanes(library, dtype, shape):
    x = fastdl.empty(shape, dtype)
    line = "fastdl.convert(x, numpy.ndarray) has its lanes in a further dimension"
    with pytest.raises(BufferError, match=f"Array has no {dtype}. {re.escape(line)}$"):
        fastdl.convert(x, library(dtypes={"float32"}))
    assert fastdl.convert(x, np.ndarray).shape == (*shape, fastdl.DType(dtype).lanes)
    x = new(Producer)(Given(dtype=(2, 32, 4), shape=(), device=CUDA), device=CUDA)
    with pytest.raises(BufferError, match=r"fastdl.convert\(x, numpy.ndarray, device='cpu'\) has"):
        fastdl.convert(x, library(dtypes={"float32"}, devices=ANYWHERE))


def test_devices_that_a_library_does_not_have(library):
    x = new(Producer)(Given(device=CUDA), device=CUDA)
    for like in (library(), np.ndarray):
        with pytest.raises(BufferError, match="on cuda:0, .* holds host memory only") as caught:
            fastdl.convert(x, like)
        assert "pass device='cpu' to convert" in str(caught.value)
        del caught
        x.managed.assert_released()
        x.managed = Given(device=CUDA)
    with pytest.raises(BufferError, match="on cpu:0, .* holds device memory only"):
        fastdl.convert(BASE, library(devices=DEVICE))
    assert fastdl.convert(x, library(devices=ANYWHERE)).tensor.device == fastdl.Device("cuda:0")


def test_a_library_that_refuses(library):
    def make(tensor, like):
        raise ValueError("no such thing\n" + "and sixty more lines\n" * 60)

    given = Given()
    with pytest.raises(BufferError, match=r"refused it \(no such thing\)") as caught:
        fastdl.convert(new(Producer)(given), library(make=make))
    assert "a float32 tensor of shape (2, 3) on cpu:0, of type" in str(caught.value)
    assert "sixty" not in str(caught.value)
    assert "fastdl.convert(x, numpy.ndarray)" in str(caught.value)
    assert isinstance(caught.value.__cause__, ValueError)
    del caught
    given.assert_released()


def test_a_library_that_is_broken_or_has_no_memory(library):
    def make(tensor, like):
        raise error

    error = ImportError("No module")
    with pytest.raises(BufferError, match=r"refused it \(ImportError: No module") as caught:
        fastdl.convert(BASE, library(make=make))
    assert caught.value.__cause__ is error
    error = MemoryError("a lot")
    with pytest.raises(MemoryError, match="a lot"):
        fastdl.convert(BASE, library(make=make))


# ---- libraries without a bridge -------------------------------------------------------------


def module(**members):
    result = types.ModuleType("some.namespace")
    vars(result).update(members)
    return result


def test_a_module_with_from_dlpack():
    for source in (BASE, BASE[::-1]):
        result = fastdl.convert(source, module(from_dlpack=Array))
        assert type(result) is Array
        assert (result.tensor.data_ptr == BASE.ctypes.data) is (source is BASE)
        assert result.tensor.strides == (6, 1)  # which an unknown library gets, no negative ones
        assert np.array_equal(result.tensor.numpy(), source)
    # NumPy's bridge takes them, of a module that passes on the function of a known library.
    result = fastdl.convert(fastdl.from_dlpack(BASE[::-1]), module(from_dlpack=np.from_dlpack))
    assert result.strides == BASE[::-1].strides
    with pytest.raises(TypeError, match="the module 'some.namespace'"):
        fastdl.convert(BASE, module(from_dlpack=None))


def test_the_from_dlpack_that_a_module_has_now_is_called():
    results = []
    for _ in range(2):
        changing = module(from_dlpack=lambda tensor: ("first", tensor))
        results += [fastdl.convert(BASE, changing)[0] for _ in range(2)]
        changing.from_dlpack = lambda tensor: ("second", tensor)
        results += [fastdl.convert(BASE, changing)[0] for _ in range(2)]
        changing.from_dlpack = np.from_dlpack
        assert fastdl.convert(BASE, changing) is BASE
        assert type(fastdl.convert(fastdl.from_dlpack(BASE), changing)) is np.ndarray
    assert results == ["first", "first", "second", "second"] * 2


class Container(Array):
    @classmethod
    def from_dlpack(cls, x):
        return cls(x)


def test_a_type_with_from_dlpack():
    one = Container(fastdl.from_dlpack(BASE[::-1]))  # which the type would not be handed
    for like in (Container, Container(None)):
        result = fastdl.convert(BASE, like)
        assert type(result) is Container
        assert result.tensor.data_ptr == BASE.ctypes.data
        assert fastdl.convert(one, like) is one
        assert fastdl.convert(one, like, copy=False) is one
        assert fastdl.convert(one, like, copy=True) is not one


def test_an_object_of_the_array_api():
    class Standard(Array):
        def __array_namespace__(self):
            return module(from_dlpack=Standard)

    assert type(fastdl.convert(BASE, Standard(None))) is Standard
    with pytest.raises(TypeError, match="the type '.*Standard'"):
        fastdl.convert(BASE, Standard)


class TestTables:
    """A type that publishes an exchange table: its objects are made by it."""

    @pytest.fixture(autouse=True)
    def maker(self):
        yield
        hostile.set_maker("raise")

    @pytest.mark.parametrize("source", [BASE, BASE[::-1], new(Producer)], ids=["c", "n", "p"])
    @pytest.mark.parametrize(
        ("mode", "words"),
        [
            ("give", None),
            ("give and raise", None),
            ("raise", "LookupError: .?from the hostile table"),
            ("fail", "without setting an exception"),
            ("nothing", "without setting an exception"),
        ],
    )
    def test_it_makes_objects_or_fails(self, source, mode, words):
        hostile.set_maker(mode)
        for cls in (Tabled, new(Tabled)):
            x = source(Given()) if isinstance(source, type) else source
            if words is None:
                assert fastdl.convert(x, cls) is ...
            else:
                with pytest.raises(BufferError, match=words):
                    fastdl.convert(x, cls)

    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_the_table_of_a_bridge_gets_what_fits(self, library, layout):
        """The table is that of fastdl.Tensor, whose objects show what it got."""
        source, fits = LAYOUTS[layout]
        facts = {"strides": POSITIVE, "quick": lambda: fastdl.exchange_api(fastdl.Tensor)}
        cls = library(**facts)
        for x in (source, fastdl.from_dlpack(source)):
            for _ in range(3):  # not known, known, started
                result = fastdl.convert(x, cls)
                assert (result.data_ptr == source.ctypes.data) is (fits >= POSITIVE)
                assert min(result.strides, default=0) >= 0
                assert front.cached(cls)  # or all three would take the long way
                assert np.array_equal(result.numpy(), source)
        frozen = fastdl.from_dlpack(source.view())
        for _ in range(3):
            result = fastdl.convert(frozen, library(readonly=COPIED, **facts))
            assert not result.readonly

    def test_the_table_of_a_bridge_gets_no_other_element_types(self, library):
        cls = library(dtypes=("float64", "int8"), quick=lambda: fastdl.exchange_api(fastdl.Tensor))
        for dtype in ("float64", "float32", "int8", "int16", "float32"):
            given = np.zeros(3, dtype)
            for x in (given, fastdl.from_dlpack(given)):
                if dtype in ("float64", "int8"):
                    assert fastdl.convert(x, cls).data_ptr == given.ctypes.data
                else:
                    with pytest.raises(BufferError, match=rf"fakelib\d\.Array has no {dtype}"):
                        fastdl.convert(x, cls)
        for lanes in (1, 2):
            lent = Given(dtype=(2, 64, lanes), shape=(1,), strides=(1,))
            tensor = fastdl.from_dlpack(new(Producer)(lent))
            if lanes == 1:
                assert fastdl.convert(tensor, cls).dtype == "float64"
            else:
                with pytest.raises(BufferError, match=r"fakelib\d\.Array has no float64x2"):
                    fastdl.convert(tensor, cls)

    @pytest.mark.parametrize("index", [slice(None), slice(None, None, -1)], ids=["fits", "not"])
    def test_nothing_is_leaked_on_the_way_to_the_table(self, library, index):
        cls = library(strides=POSITIVE, quick=lambda: fastdl.exchange_api(fastdl.Tensor))
        given = Given()
        tensor = fastdl.from_dlpack(new(Producer)(given))[index]
        for _ in range(3):
            assert fastdl.convert(tensor, cls).shape == (2, 3)
        given.assert_alive()
        del tensor
        given.assert_released()

    def test_a_failure_of_the_table_of_a_bridge(self, library):
        hostile.set_maker("raise")
        cls = library(quick=lambda: hostile.table_capsule(hostile.table()))
        for _ in range(3):
            with pytest.raises(BufferError, match="a float32 tensor of .*hostile table") as caught:
                fastdl.convert(BASE, cls)
            assert isinstance(caught.value.__cause__, LookupError)


# ---- NumPy ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype",
    [
        *("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"),
        *(ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, ml_dtypes.int4),
    ],
    ids=str,
)
def test_arrays_of_numpy(dtype):
    source = np.ones((2, 3), dtype)
    result = fastdl.convert(fastdl.from_dlpack(source), np.ndarray)
    assert result.dtype == source.dtype
    assert result.dtype.num == source.dtype.num  # long is not long long
    assert result.ctypes.data == source.ctypes.data
    assert np.array_equal(result, source)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_numpy_takes_every_layout(layout):
    source, _ = LAYOUTS[layout]
    tensor = fastdl.from_dlpack(source)
    result = fastdl.convert(tensor, np.ndarray, copy=False)
    assert (result.ctypes.data, result.shape) == (source.ctypes.data, source.shape)
    assert np.array_equal(result, source)


PACKED = np.zeros(3, [("pad", "u1"), ("little", "<f4"), ("big", ">f4"), ("date", "M8[s]")])
PACKED["little"] = PACKED["big"] = [1, -2, 3.5]


@pytest.mark.parametrize(
    "source",
    [
        np.array([1, -2, 3.5], ">f4"),
        PACKED["little"],
        PACKED["big"],
        PACKED["big"][::-1][::-1],
        np.ma.array(PACKED["big"], mask=False),
    ],
)
@pytest.mark.parametrize("like", [np.ndarray, fastdl.Tensor])
def test_arrays_that_only_a_copy_can_describe(source, like):
    """Of another byte order, or of strides that are no multiples of the elements."""
    for copy in (None, True, None):
        result = fastdl.convert(source, like, copy=copy)
        assert result.tolist() == [1, -2, 3.5]
        if result is not source:
            assert result.dtype == fastdl.DType("float32")
            assert not np.shares_memory(np.asarray(result), source)
    if like is not np.ndarray:
        with pytest.raises(fastdl.CopyRequiredError):
            fastdl.convert(source, like, copy=False)


@pytest.mark.parametrize("copy", [None, True, False])
@pytest.mark.parametrize(
    ("source", "words"),
    [
        (PACKED["date"], "datetime64"),
        (np.array([1, 2], object), "object"),
        (np.array(["a"], np.dtypes.StringDType()), "StringDType"),
        (PACKED, "pad"),
        (np.ma.array(PACKED["big"], mask=[0, 1, 0]), r"masked elements \(1 of 3\)"),
    ],
)
def test_arrays_that_no_copy_can_describe(source, words, copy):
    with pytest.raises(BufferError, match=words):
        fastdl.convert(source, fastdl.Tensor, copy=copy)
    if not isinstance(source, np.ma.MaskedArray):
        assert lookup.load("numpy").read_copy(source) is None  # nor is one made


def test_numpy_has_no_packed_elements():
    packed = Given(dtype=(17, 4, 1), shape=(4,), strides=(1,))  # float4_e2m1fn
    capsule = packed.capsule()
    with pytest.raises(fastdl.CopyRequiredError, match="numpy.ndarray always copies such data"):
        fastdl.convert(capsule, np.ndarray, copy=False)


# ---- the rows -------------------------------------------------------------------------------


@pytest.mark.parametrize("package", sorted(lookup.LIBRARIES))
def test_every_row_has_a_bridge(package):
    """And no file on a library imports it."""
    file = lookup.load(package)
    assert file.BRIDGES
    for bridge in file.BRIDGES:
        assert bridge.title and bridge.name
        assert all(name.count(":") == 1 for name in bridge.classes)


def test_every_file_has_a_row():
    from pathlib import Path

    import fastdl._bridges

    folder = Path(fastdl._bridges.__file__).parent
    files = {path.stem for path in folder.glob("[!_]*.py")} - {"bridge", "lookup"}
    rows = set(lookup.LIBRARIES.values())
    assert files - rows == set(), "add a row to LIBRARIES in src/fastdl/_bridges/lookup.py"
    assert rows - files == set(), "add a file to src/fastdl/_bridges, as docs/add-a-library.md says"
