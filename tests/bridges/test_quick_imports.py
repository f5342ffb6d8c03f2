# SPDX-License-Identifier: Apache-2.0
"""Imports that take a quicker way than `__dlpack__` in full: TYPES in _bridges says which.

The types here have the names that fastdl goes by. The libraries themselves are in
tests/interop.
"""

import array
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import fastdl
from fastdl._bridges import lookup
from fastdl._cli.import_paths import keywords_of
from fastdl._core import exchange
from tests.support.named import NAMES, NotAsked, named
from tests.support.producers import CUDA, Given, OldProducer, Producer, hostile, raises

# ---- buffers --------------------------------------------------------------------------------

libraries = pytest.mark.parametrize("library", NAMES)


@libraries
@pytest.mark.parametrize("device", [None, "cpu"])
def test_a_buffer_is_read_and_locked(library, device):
    cls = named(*NAMES[library], NotAsked, bytearray)
    for _ in range(2):  # not known, and known
        x = cls(b"abc")
        tensor = fastdl.from_dlpack(x, device=device) if device else fastdl.from_dlpack(x)
        assert tensor.tolist() == [97, 98, 99]
        assert tensor.readonly  # values of these libraries never change
        assert not tensor.is_copied
        with pytest.raises(BufferError):
            x.append(1)
        del tensor
        x.append(1)


@pytest.mark.parametrize(
    "source",
    [
        np.arange(6, dtype="f4").reshape(2, 3),
        np.arange(6, dtype="f8").reshape(2, 3).T,
        np.arange(6, dtype="i8")[::-2],
        np.arange(6, dtype="u2").reshape(1, 2, 3)[:, :, 1:],
        np.array(3, "i4"),
        np.zeros((0, 3), "c8"),
        np.ones((3, 0), "c16").T,
        np.broadcast_to(np.float16(1), (2, 2)),
        np.array([True, False]),
        np.arange(3, dtype=np.longlong),
        np.arange(3, dtype=np.byte),
    ],
    ids=lambda x: f"{x.dtype}{x.shape}",
)
def test_layouts_and_element_types(source):
    tensor = fastdl.from_dlpack(source.view(named(*NAMES["jax"], NotAsked, np.ndarray)))
    expected = fastdl.from_dlpack(source)
    for name in ("shape", "dtype", "device", "data_ptr"):
        assert getattr(tensor, name) == getattr(expected, name)
    if source.size:
        assert tensor.strides == expected.strides
    assert tensor.readonly


class Answers:
    def __dlpack__(self, **keywords):
        self.given = Given()
        return self.given.capsule()

    def __dlpack_device__(self):
        return (1, 0)


@pytest.mark.parametrize(
    "source",
    [
        np.arange(3, dtype=">i4"),
        np.zeros(2, "i4,i4"),
        np.zeros(2, "S3"),
        *([np.zeros(2, np.longdouble)] if np.dtype("g").itemsize > 8 else []),
        np.zeros(2, np.dtype([("a", "u1"), ("b", "f4")]))["b"],  # strides in parts of elements
        np.zeros(8, "u1")[:7].view("u1")[3:].view(np.dtype({"names": ["a"], "formats": ["f4"]})),
    ],
    ids=lambda x: str(x.dtype),
)
def test_what_a_buffer_says_in_other_words_is_asked_for(source):
    x = source.view(named(*NAMES["jax"], Answers, np.ndarray))
    assert fastdl.from_dlpack(x).shape == (2, 3)
    x.given.assert_released()


ENTRIES = [
    fastdl.from_dlpack,
    lambda x: fastdl.from_dlpack(x, device="cpu"),
    lambda x: fastdl.from_dlpack(x, device=(1, 0)),
    lambda x: fastdl.from_dlpack(x, device=CUDA),
    lambda x: fastdl.from_dlpack(x, copy=True),
    lambda x: fastdl.from_dlpack(x, copy=False),
    lambda x: fastdl.from_dlpack(x, stream=-1),
    fastdl.asarray,
    lambda x: fastdl.convert(x, np.ndarray),
    lambda x: fastdl.convert(x, np.ndarray, copy=False),
    keywords_of,
]


@pytest.mark.parametrize(
    ("library", "attributes", "words"),
    [
        *(
            ("tensorflow", {"dtype": SimpleNamespace(name=name)}, f"a tensor of dtype {name}")
            for name in ("string", "resource", "variant")
        ),
        ("jax", {"is_deleted": lambda self: True}, "got one that was deleted"),
    ],
    ids=("string", "resource", "variant", "deleted"),
)
@pytest.mark.parametrize("take", ENTRIES)
def test_what_has_no_memory_is_not_asked(library, attributes, words, take):
    """TensorFlow would end the process."""
    kind = named(*NAMES[library], NotAsked, **attributes)
    for cls in (kind, type("Derived", (kind,), {})):
        with pytest.raises(BufferError, match=words):
            take(cls())


@pytest.mark.parametrize(
    ("library", "attributes"),
    [
        ("tensorflow", {"dtype": SimpleNamespace(name="float32")}),
        ("tensorflow", {"dtype": SimpleNamespace(name=5)}),
        ("tensorflow", {"dtype": None}),
        ("tensorflow", {}),
        ("jax", {"is_deleted": lambda self: False}),
        ("jax", {"is_deleted": None}),
        ("jax", {}),
    ],
)
def test_what_does_not_say_so_is_asked(library, attributes):
    kind = named(*NAMES[library], Producer, **attributes)
    for keywords in ({}, {"copy": True}):
        assert fastdl.from_dlpack(kind(Given()), **keywords).shape == (2, 3)


@pytest.mark.parametrize("library", ["tensorflow", "jax"])
def test_an_interrupt_while_asking_for_the_type_is_raised(library):
    def interrupted(self):
        raise KeyboardInterrupt

    kind = named(*NAMES[library], NotAsked, dtype=property(interrupted), is_deleted=interrupted)
    for take in (fastdl.from_dlpack, lambda x: fastdl.from_dlpack(x, copy=True)):
        with pytest.raises(KeyboardInterrupt):
            take(kind())


@libraries
def test_what_has_no_buffer_is_asked(library):
    x = named(*NAMES[library], Producer)(Given(versioned=False))
    tensor = fastdl.from_dlpack(x)
    assert tensor.readonly
    assert len(x.asked) == 1
    del tensor
    x.managed.assert_released()


@libraries
def test_others_are_asked(library):
    """A class derived from it; one of another library with the same name; wide characters."""
    base = named(*NAMES[library], bytearray, __dlpack__=NotAsked.__dlpack__)
    kind = "w" if sys.version_info >= (3, 13) else "u"
    for x in (
        type("Derived", (Answers, base), {})(b"abc"),
        type("ArrayImpl", (Answers, bytearray), {})(b"abc"),
        named(*NAMES["jax"], Answers, array.array)(kind, "abc"),
    ):
        tensor = fastdl.from_dlpack(x)
        assert tensor.shape == (2, 3)
        x.append(x[0])  # its buffer is not locked


# ---- one call -------------------------------------------------------------------------------


def later(kind=Producer, library="tvm_ffi"):
    """A type that need not say where its data is before it is asked for a capsule."""
    return named("Tensor", f"{library}.of_the_tests", kind)


def no_device(self):
    raise AssertionError("the capsule says it")


def test_host_data_takes_one_call():
    cls = later()
    cls.__dlpack_device__ = no_device
    for _ in range(2):
        x = cls(Given())
        tensor = fastdl.from_dlpack(x)
        assert tensor.data_ptr == hostile.address(x.managed.owner().memory)
        assert not tensor.readonly
        assert x.asked == [(None, (1, 3), None, None)]
        del tensor
        x.managed.assert_released()


@pytest.mark.parametrize("library", ["pyarrow", "tvm_ffi"])
def test_a_legacy_capsule_will_do(library):
    """Read-only, if values of the library never change."""
    x = later(library=library)(Given(versioned=False))
    x.device = None
    tensor = fastdl.from_dlpack(x)
    assert tensor.readonly == (library == "pyarrow")
    assert len(x.asked) == 1
    del tensor
    x.managed.assert_released()


@pytest.mark.parametrize("versioned", [True, False])
def test_other_capsules_are_dropped_and_asked_for_properly(versioned):
    given = []

    def act(self):
        given.append(Given(device=CUDA, versioned=versioned))
        return given[-1].capsule()

    x = later(library="pyarrow")(None, device=CUDA, act=act)
    for _ in range(2):
        given.clear()
        tensor = fastdl.from_dlpack(x)
        assert tensor.device.type == x.device[0]
        assert len(given) == 2
        given[0].assert_released(by_destructor=True)
        given[1].assert_alive()
        del tensor
        given[1].assert_released()


def test_device_data_of_a_library_that_ignores_streams():
    """The capsule of tvm-ffi is dropped, and the data is not used."""
    given = []

    def act(self):
        given.append(Given(device=CUDA))
        return given[-1].capsule()

    x = later()(None, device=CUDA, act=act)
    for _ in range(2):
        with pytest.raises(BufferError, match="ignores `stream`"):
            fastdl.from_dlpack(x)
    assert given
    for one in given:
        one.assert_released(by_destructor=True)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"shape": (-1, 3)}, "negative dimension"),
        ({"version": (2, 0), "device": CUDA}, "version 2"),
    ],
)
def test_nonsense_in_the_capsule(fields, words):
    x = later()(Given(**fields))
    with pytest.raises(BufferError, match=words):
        fastdl.from_dlpack(x)
    assert len(x.asked) == 1
    x.managed.assert_released()


def test_a_keyword_and_what_is_no_capsule_are_refused():
    assert fastdl.from_dlpack(later(OldProducer)(Given(versioned=False))).shape == (2, 3)
    with pytest.raises(TypeError, match="expected a DLPack capsule, got 'int'"):
        fastdl.from_dlpack(later()(None, act=lambda self: 3))


@pytest.mark.parametrize("error", [BufferError, RuntimeError, KeyboardInterrupt, MemoryError])
def test_what_it_raises_passes(error):
    x = later()(None, act=raises(error("from the producer")))
    with pytest.raises(error, match="from the producer"):
        fastdl.from_dlpack(x)
    assert len(x.asked) == 1


# ---- what a file on a library refuses -------------------------------------------------------


@pytest.mark.parametrize("quick", [exchange.TYPE_EXPORT_DOES_NOT_SYNC, 0], ids=["quick", "in full"])
def test_a_refusal_comes_before_the_export(monkeypatch, quick):
    def refuse(x):
        raise BufferError("this one is special")

    facts = exchange.TYPE_REFUSES | quick
    file = SimpleNamespace(TYPES={"imaginary:Producer": facts}, refuse=refuse)
    monkeypatch.setitem(lookup.LIBRARIES, "imaginary", "imaginary")
    monkeypatch.setitem(sys.modules, "fastdl._bridges.imaginary", file)
    for dtype in ((2, 32, 1), (0, 32, 1)):
        x = type("Producer", (Producer,), {"__module__": "imaginary"})(Given(dtype=dtype))
        for arguments in ({}, {"copy": True}):
            with pytest.raises(BufferError, match="special"):
                fastdl.from_dlpack(x, **arguments)
        assert x.asked == []
