# SPDX-License-Identifier: Apache-2.0
"""What is particular to torch: gradients, lazy views, tensors without memory, four-bit floats."""

import gc
import re
import sys
import weakref
from contextlib import suppress

import numpy as np
import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import fastdl
from fastdl._bridges import lookup
from fastdl._native import dtype_facts
from fastdl._protocol import consumer
from tests.support.producers import Given

from .common import both_entries, freed
from .memoryless import LACKING, holding

ENTRIES = pytest.mark.parametrize("from_dlpack", both_entries(), ids=("compiled", "python"))


# ---- gradients ------------------------------------------------------------------------------


@ENTRIES
@pytest.mark.parametrize(
    "keywords",
    [{}, {"device": "cpu"}, {"copy": False}, {"copy": True}, {"stream": -1}],
    ids=repr,
)
@pytest.mark.parametrize("kind", ["leaf", "result", "parameter"])
def test_gradients_are_left_behind(from_dlpack, keywords, kind):
    leaf = torch.arange(3.0, requires_grad=True)
    array = {
        "leaf": lambda: leaf,
        "result": lambda: leaf * 2,
        "parameter": lambda: torch.nn.Parameter(torch.arange(3.0)),
    }[kind]()
    assert array.requires_grad
    tensor = from_dlpack(array, **keywords)
    assert tensor.tolist() == array.tolist()
    assert (tensor.data_ptr == array.data_ptr()) is not tensor.is_copied
    assert not torch.from_dlpack(tensor).requires_grad


@pytest.mark.parametrize(
    "keywords", [{}, {"device": "cpu"}, {"copy": False}, {"copy": True}], ids=repr
)
@pytest.mark.parametrize("like", [np.ndarray, fastdl.Tensor, np, "jax.Array"], ids=str)
def test_convert_loses_no_gradient(like, keywords):
    leaf = torch.arange(3.0, requires_grad=True)
    for array in (leaf, leaf * 2, torch.nn.Parameter(torch.arange(3.0))):
        with pytest.raises(BufferError, match=r"x\.detach\(\)"):
            fastdl.convert(array, like, **keywords)
        with torch.no_grad(), pytest.raises(BufferError, match="requires grad"):
            fastdl.convert(array, like, **keywords)
        assert fastdl.convert(array.detach(), np.ndarray, **keywords).tolist() == array.tolist()


def test_convert_to_torch_keeps_the_tensor_and_its_gradient():
    leaf = torch.arange(3.0, requires_grad=True)
    for keywords in ({}, {"device": "cpu"}, {"copy": False}):
        assert fastdl.convert(leaf, torch.Tensor, **keywords) is leaf
    with pytest.raises(BufferError, match="requires grad"):
        fastdl.convert(leaf, torch.Tensor, copy=True)


# ---- integers of fewer bits -----------------------------------------------------------------


NARROW = [f"{kind}{bits}" for kind in ("int", "uint") for bits in range(1, 8)]
NARROW = [name for name in NARROW if hasattr(torch, name)]  # newer ones have more


@ENTRIES
@pytest.mark.parametrize("name", NARROW)
def test_integers_of_fewer_bits_are_refused(from_dlpack, name):
    """torch exports them as int8 and uint8."""
    array = torch.empty(3, dtype=getattr(torch, name))
    for keywords in ({}, {"copy": True}, {"copy": False}, {"device": "cpu"}, {"stream": -1}):
        with pytest.raises(BufferError, match=rf"dtype torch\.{name}, which"):
            from_dlpack(array, **keywords)
    for take in (fastdl.asarray, lambda x: fastdl.convert(x, np.ndarray)):
        with pytest.raises(BufferError, match=rf"dtype torch\.{name}, which"):
            take(array)
    plain = array.view(torch.int8 if name.startswith("int") else torch.uint8)
    assert from_dlpack(plain).dtype == plain.dtype


# ---- lazy conjugates and negatives ----------------------------------------------------------


COMPLEX = [1 + 2j, 3 - 4j, 0 + 1j, 2 + 0j]


@ENTRIES
def test_a_complex_view_with_its_negative_bit_is_refused(from_dlpack):
    array = torch._neg_view(torch.tensor(COMPLEX))
    assert array.is_neg() and not array.is_conj()
    with pytest.raises(BufferError, match=r"resolve_neg\(\)"):
        from_dlpack(array)


@ENTRIES
@pytest.mark.parametrize(
    "keywords", [{"copy": True}, {"copy": False}, {"device": "cpu"}, {"stream": -1}], ids=repr
)
@pytest.mark.parametrize("kind", ["conj", "neg"])
def test_lazy_views_are_refused_whatever_is_asked(from_dlpack, keywords, kind):
    array = torch.tensor(COMPLEX).conj()
    with pytest.raises(BufferError):
        from_dlpack(array if kind == "conj" else array.imag, **keywords)


def test_parts_of_an_ordinary_complex_tensor_are_taken():
    array = torch.tensor(COMPLEX)
    assert fastdl.from_dlpack(array.real).tolist() == [z.real for z in COMPLEX]
    assert fastdl.from_dlpack(array.imag).tolist() == [z.imag for z in COMPLEX]
    assert fastdl.from_dlpack(array.conj().conj()).tolist() == COMPLEX
    # Conjugation leaves the real part alone.
    assert fastdl.from_dlpack(array.conj().real).tolist() == [z.real for z in COMPLEX]


@st.composite
def chains(draw):
    """A shape, and view operations, each with the randomness that decides its arguments."""
    shape = draw(st.lists(st.integers(0, 5), min_size=0, max_size=4))
    steps = []
    for _ in range(draw(st.integers(0, 4))):
        steps.append(draw(st.sampled_from(["slice", "transpose", "unsqueeze", "flip", "expand"])))
    return shape, [(step, draw(st.randoms(use_true_random=False))) for step in steps]


def apply(array, steps):
    for step, random in steps:
        if step == "unsqueeze":
            array = array.unsqueeze(random.randint(0, array.ndim))
        elif array.ndim == 0:
            continue
        axis = random.randrange(array.ndim) if array.ndim else 0
        if step == "slice":
            size = array.shape[axis]
            start = random.randint(0, size)
            index = [slice(None)] * array.ndim
            index[axis] = slice(start, random.randint(start, size), random.randint(1, 4))
            array = array[tuple(index)]
        elif step == "transpose":
            array = array.transpose(axis, random.randrange(array.ndim))
        elif step == "flip":
            array = array.flip(axis)  # a copy in torch
        elif step == "expand" and array.shape[axis] == 1:
            sizes = list(array.shape)
            sizes[axis] = random.randint(1, 3)
            array = array.expand(sizes)
    return array


# Views of one element have strides that say nothing.
ONE, SCALAR, ONE_OF_ONE = ([1], []), ([], []), ([1, 1], [])


@ENTRIES
@settings(deadline=None, max_examples=200)
@given(chains(), st.booleans(), st.sampled_from(["complex32", "complex64", "complex128"]))
@example(ONE, True, "complex64")
@example(SCALAR, True, "complex64")
@example(ONE_OF_ONE, True, "complex128")
@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_lazy_views_are_always_refused(from_dlpack, chain, imaginary, dtype):
    shape, steps = chain
    if dtype == "complex32":  # which torch does not flip
        steps = [(step, random) for step, random in steps if step != "flip"]
    base = torch.arange(int(np.prod(shape)), dtype=torch.float32).reshape(shape)
    array = torch.complex(base, base + 1).to(getattr(torch, dtype)).conj()
    array = apply(array.imag if imaginary else array, steps)
    assume(array.is_conj() or array.is_neg())
    assume(array.numel() > 0)
    with pytest.raises(BufferError, match="resolve_neg" if imaginary else "resolve_conj"):
        from_dlpack(array)
    resolved = array.resolve_conj().resolve_neg()
    assert from_dlpack(resolved).tolist() == array.tolist()


# ---- tensors without values of their own ----------------------------------------------------


def fake():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.ones(3)


WITHOUT_STRIDES = {
    "fake": fake,
    "bits": lambda: torch.ones(3, dtype=torch.uint8).view(torch.bits8),
}


@ENTRIES
@pytest.mark.parametrize("kind", WITHOUT_STRIDES)
@pytest.mark.filterwarnings("ignore")
def test_tensors_without_strided_memory_are_refused(from_dlpack, kind):
    """What `__dlpack__` raises for them: the table's own refusal says less."""
    with pytest.raises(BufferError):
        from_dlpack(WITHOUT_STRIDES[kind]())


WAYS = {
    "compiled": fastdl.from_dlpack,
    "python": consumer.from_dlpack,
    "asarray": fastdl.asarray,
    "convert": lambda x: fastdl.convert(x, np.ndarray),
    "device": lambda x: fastdl.from_dlpack(x, device="cpu"),
    "copy": lambda x: fastdl.from_dlpack(x, copy=True),
    "stream": lambda x: fastdl.from_dlpack(x, stream=-1),
}


#: To a C module without the package torch says less of the first than of the others.
REFUSED = {
    "meta": (holding(lambda: torch.ones(3, device="meta")), "on the device 'meta'"),
    **LACKING,
}


@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.filterwarnings("ignore")
def test_a_tensor_without_memory_is_refused_with_what_has_it(kind):
    run, words = REFUSED[kind]
    seen = []

    def use(x):
        for name, way in WAYS.items():
            with pytest.raises(BufferError, match=words) as caught:
                way(x)
            cause = caught.value.__cause__
            assert cause is not None or "NULL" in words
            seen.append(name)

    run(use)
    assert seen[: len(WAYS)] == list(WAYS)


@pytest.mark.parametrize(
    ("kind", "remedy", "values"),
    [
        ("sparse", "x.to_dense()", [1, 1, 1]),
        ("mkldnn", "x.to_dense()", [1, 1, 1]),
        ("quantized", "x.dequantize()", [1, 1, 1]),
        ("quantized", "x.int_repr()", [10, 10, 10]),  # of a scale of 0.1
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_the_remedy_has_the_values(kind, remedy, values):
    def use(x):
        with pytest.raises(BufferError, match=re.escape(remedy)):
            fastdl.from_dlpack(x)
        assert fastdl.from_dlpack(eval(remedy, {"x": x})).tolist() == values

    LACKING[kind][0](use)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_memory_under_a_subclass_is_taken(way):
    """Also if the subclass refuses all of torch's functions."""

    class Opaque(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            raise NotImplementedError(function)

    x = torch.Tensor._make_subclass(Opaque, torch.arange(3.0))
    assert way(x).tolist() == [0, 1, 2]
    empty = torch.Tensor._make_wrapper_subclass(Opaque, (0,))
    assert way(empty).shape == (0,)


def test_a_refused_tensor_is_not_kept():
    array = torch.ones(3).to_sparse()
    alive = weakref.ref(array)
    with pytest.raises(BufferError):
        fastdl.from_dlpack(array)
    del array
    assert freed(alive)


# ---- element types ---------------------------------------------------------------------------

PAIRS = [[0.5, 1.0], [1.5, -2.0], [6.0, -0.5]]  # 0x21, 0xC3, 0x97: the first is the low half


def float4():
    return torch.tensor([0x21, 0xC3, 0x97], dtype=torch.uint8).view(torch.float4_e2m1fn_x2)


@ENTRIES
def test_pairs_of_four_bit_floats(from_dlpack):
    array = float4()
    tensor = from_dlpack(array)
    assert tensor.dtype == fastdl.DType("float4_e2m1fnx2")
    assert (tensor.shape, tensor.itemsize, tensor.nbytes) == ((3,), 1, 3)
    assert tensor.data_ptr == array.data_ptr()
    assert tensor.tolist() == [tuple(pair) for pair in PAIRS]


def test_pairs_of_four_bit_floats_elsewhere():
    array = float4()
    tensor = fastdl.from_dlpack(array)
    for step in (slice(None), slice(1, None), slice(None, None, 2)):
        assert tensor[step].tolist() == [tuple(pair) for pair in PAIRS[step]]
        assert tensor[step].numpy().astype(np.float32).tolist() == PAIRS[step]
    back = torch.from_dlpack(tensor)
    assert back.dtype is torch.float4_e2m1fn_x2
    assert back.view(torch.uint8).tolist() == [0x21, 0xC3, 0x97]
    assert back.data_ptr() == array.data_ptr()


# ---- lifetime and what torch does with exports ----------------------------------------------


def test_an_import_holds_one_reference():
    """To the storage: torch need not make a managed tensor."""
    array = torch.ones(3)
    storage = array.untyped_storage()
    before = array._use_count(), sys.getrefcount(storage)
    tensor = fastdl.from_dlpack(array)
    view, array_of = tensor[1:], np.from_dlpack(tensor)
    assert (array._use_count(), sys.getrefcount(storage)) == (before[0], before[1] + 1)
    del tensor, view
    assert sys.getrefcount(storage) == before[1] + 1
    del array_of
    gc.collect()
    assert (array._use_count(), sys.getrefcount(storage)) == before


def test_the_collector_is_not_shown_the_tensor():
    """It would clear it, and with it give up the memory, while the import still uses it."""
    array = torch.ones(3)
    tensor = fastdl.from_dlpack(array)
    assert not gc.is_tracked(tensor)
    assert id(array) not in map(id, gc.get_referents(tensor))


# ---- element types --------------------------------------------------------------------------


def test_the_bridge_names_what_torch_takes():
    """Exactly that: its table leaks what it refuses, so it must not be asked."""
    taken = set()
    for _, code, bits, _ in dtype_facts():
        for lanes in (1, 2, 4):
            given = Given(dtype=(code, bits, lanes), shape=(2,), strides=(1,))
            with suppress(BufferError):
                torch.from_dlpack(given.capsule())
                taken.add(fastdl.DType(code, bits, lanes).name)
    (bridge,) = lookup.load("torch").BRIDGES
    assert taken == bridge.dtypes
