# SPDX-License-Identifier: Apache-2.0
"""fastdl_expect: what a function asks of its arguments, and how it says what came instead."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastdl
from tests.support.headers import INSTALLED, installed
from tests.support.producers import CUDA, OPENCL, Given, Lending
from tests.support.specs import (
    ANY_DEVICE,
    CONVERT,
    FLOAT32,
    FLOAT64,
    IN_PLACE,
    INNER,
    SCALAR,
    TRAILING,
    WRITABLE,
    C,
    F,
    dtype,
)


def tensor(**fields):
    return Lending(Given(**fields))


def refused(api, error, *words, arguments):
    """Exactly `error`, whose text has all the words."""
    with pytest.raises(error) as caught:
        api.expect(arguments)
    assert caught.type is error
    for word in words:
        assert word in str(caught.value), (word, str(caught.value))


def one(obj, name="x", **spec):
    return [(obj, name, spec)]


BASE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
FROZEN = BASE.copy()
FROZEN.flags.writeable = False


@installed
@pytest.mark.parametrize(
    ("obj", "spec"),
    [
        (BASE, {}),
        (BASE, {"dtypes": [FLOAT64, FLOAT32]}),
        (BASE, {"ndim": 3, "shape": [2, None, "n"]}),
        (BASE, {"ndim": 3, "shape": ["m", 3, "n"], "layout": C}),
        (BASE, {"ndim": 2, "shape": [3, 4], "rules": TRAILING}),
        (BASE[0, 0], {"ndim": 1, "max_ndim": 2, "rules": TRAILING}),
        (BASE, {"max_ndim": 3}),
        (BASE[0], {"ndim": 1, "max_ndim": 2, "shape": [4], "rules": TRAILING}),
        (BASE.T, {"layout": F}),
        (BASE.T, {"layout": C | F}),
        (BASE[:, 1:], {"layout": INNER}),
        (BASE[:, :, :1], {"layout": INNER}),
        (BASE[:, :0], {"layout": C, "rules": WRITABLE, "alignment": 4096}),
        (BASE[:, :0, ::2], {"layout": INNER}),
        (BASE[0, :, :1].T[:, ::-1], {"rules": WRITABLE}),
        (tensor(device=OPENCL, data=3, byte_offset=64), {"device": ANY_DEVICE, "alignment": 64}),
        (BASE[:, ::2, ::-1], {"rules": WRITABLE}),
        (BASE[None, :1], {"rules": WRITABLE, "layout": C}),
        (np.broadcast_to(BASE[:, :1], (2, 3, 4)), {}),
        (np.array(3, dtype=np.float32), {"ndim": SCALAR}),
        (BASE, {"alignment": 4}),
        (tensor(device=CUDA), {"device": CUDA[0]}),
        (tensor(device=(3, 0)), {}),  # pinned: the CPU may touch it
        (tensor(device=OPENCL, data=3, byte_offset=8), {"device": ANY_DEVICE}),
        (BASE, {"device": ANY_DEVICE}),
    ],
)
def test_what_fits(api, obj, spec):
    api.expect(one(obj, **spec))


@installed
@pytest.mark.parametrize(
    ("obj", "spec", "error", "words"),
    [
        (BASE, {"dtypes": [FLOAT64]}, TypeError, ["x: expected float64, got float32"]),
        (
            BASE,
            {"dtypes": [FLOAT64, dtype(4, 16), dtype(5, 64, 2)]},
            TypeError,
            ["expected float64, bfloat16 or complex64x2, got float32", "convert it first"],
        ),
        (tensor(dtype=(99, 24, 1)), {"dtypes": [FLOAT64]}, TypeError, ["type 99 of 24 bits"]),
        (BASE > 1, {"dtypes": [FLOAT64]}, TypeError, ["got bool"]),
        (BASE, {"ndim": 1}, ValueError, ["expected 1 dimension, got 3"]),
        (BASE, {"shape": [2, 3, 4]}, ValueError, ["ndim as well as shape"]),
        (BASE.astype(np.int32), {"dtypes": [FLOAT64]}, TypeError, ["an int32 tensor"]),
        (tensor(device=OPENCL, data=64, byte_offset=4), {"device": ANY_DEVICE, "alignment": 64},
         BufferError, ["an offset 4 bytes past a multiple"]),
        (BASE, {"ndim": SCALAR}, ValueError, ["expected 0 dimensions, got 3"]),
        (BASE, {"ndim": 4, "rules": TRAILING}, ValueError, ["4 or more dimensions, got 3"]),
        (BASE, {"ndim": 1, "max_ndim": 2, "rules": TRAILING}, ValueError,
         ["expected 1 to 2 dimensions, got 3"]),
        (BASE, {"ndim": 2, "max_ndim": 3}, ValueError, ["expected 2 dimensions, got 3"]),
        *((BASE, {"max_ndim": 2, "rules": rules}, ValueError, ["expected 0 to 2 dimensions, got 3"])
          for rules in (0, TRAILING)),
        (BASE, {"ndim": 3, "shape": [2, None, 5]}, ValueError,
         ["expected shape (2, any, 5), got (2, 3, 4)"]),
        (BASE, {"ndim": 2, "shape": ["n", "n"], "rules": TRAILING}, ValueError,
         ["expected shape (..., n=3, n=3), got (2, 3, 4)", "n is 3 in x"]),
        (BASE[:, :, 0].copy(), {"ndim": 2, "shape": [2, 4]}, ValueError, ["(2, 4), got (2, 3)"]),
        (BASE[0, 0], {"ndim": 1, "shape": [5]}, ValueError, ["(5,), got (4,)"]),
        (BASE.T, {"layout": C}, BufferError, ["a row-major contiguous", "(1, 4, 12)", "copy it"]),
        (BASE, {"layout": F}, BufferError, ["a column-major contiguous", "(12, 4, 1)"]),
        (BASE[:, 1:], {"layout": C | F}, BufferError, ["contiguous layout, in either order"]),
        (BASE[:, :, ::2], {"layout": INNER}, BufferError, ["a last dimension of stride 1"]),
        (np.broadcast_to(BASE, (2, 2, 3, 4)), {"rules": WRITABLE}, BufferError, ["read-only"]),
        (FROZEN, {"rules": WRITABLE}, BufferError, ["writable tensor, got a read-only one"]),
        (tensor(strides=(0, 1)), {"rules": WRITABLE}, BufferError, ["do not overlap", "(0, 1)"]),
        (tensor(strides=(1, 1)), {"rules": WRITABLE}, BufferError, ["do not overlap"]),
        (tensor(strides=(2, -1)), {"rules": WRITABLE}, BufferError, ["do not overlap"]),
        (tensor(device=CUDA), {}, BufferError, ["expected host memory, got cuda:0", "move it"]),
        (BASE, {"device": 2}, BufferError, ["expected cuda, got cpu:0"]),
        (tensor(device=(77, 3)), {"device": 2}, BufferError, ["got device type 77:3"]),
        (tensor(data=4100), {"alignment": 64}, BufferError,
         ["aligned to 64 bytes, got an address 4 bytes past a multiple"]),
    ],
)  # fmt: skip
def test_what_does_not_fit(api, obj, spec, error, words):
    refused(api, error, *words, "x: expected", "tensor of shape", arguments=one(obj, **spec))


#: Element types, and the alignment that each needs.
NEEDS = {(0, 8, 1): 1, (6, 8, 1): 1, (4, 16, 1): 2, (2, 32, 1): 4, (1, 64, 1): 8, (5, 64, 1): 4,
         (5, 128, 1): 8, (2, 128, 1): 16, (2, 32, 3): 4, (0, 4, 2): 1, (17, 4, 1): 1, (15, 6, 1): 1,
         (3, 24, 1): 1, (3, 192, 1): 8}  # fmt: skip


@installed
@pytest.mark.parametrize("dtype", NEEDS, ids=str)
@pytest.mark.parametrize("device", [(1, 0), CUDA, OPENCL])
def test_elements_are_aligned_unless_any_address_will_do(api, device, dtype):
    for past in (0, 1, 2, 4, 8, 12):
        where = {"data": 7, "byte_offset": past} if device == OPENCL else {"data": 4096 + past}
        obj, empty = (tensor(device=device, dtype=dtype, shape=(n,), **where) for n in (2, 0))
        wrong = past % NEEDS[dtype]
        for borrow in (api.expect, api.borrow_all):
            borrow(one(empty, device=ANY_DEVICE))
            borrow(one(obj, device=ANY_DEVICE, alignment=1))
            if not wrong:
                borrow(one(obj, device=ANY_DEVICE))
                continue
            words = f"x: expected data aligned to {NEEDS[dtype]} bytes, got an .* {wrong} byte"
            with pytest.raises(BufferError, match=words):
                borrow(one(obj, device=ANY_DEVICE))


@installed
def test_the_message_describes_the_whole_argument(api):
    frozen = BASE[:, ::-1].copy()[:, ::2]
    frozen.flags.writeable = False
    with pytest.raises(TypeError) as caught:
        api.expect(one(frozen, "weights", dtypes=[FLOAT64]))
    assert str(caught.value) == (
        "weights: expected float64, got float32: convert it first (weights is a float32 tensor of "
        "shape (2, 2, 4) and strides (12, 8, 1) on cpu:0, read-only)"
    )


@installed
def test_a_message_of_any_length_fits(api):
    ones = np.ones((1,) * 64, dtype=np.float32)
    name = "a name " * 300
    with pytest.raises(ValueError) as caught:
        api.expect(one(ones, name, ndim=1))
    assert str(caught.value).startswith("a name a name")


def products(*shape):
    """Of a matrix product: the third argument may not fit."""
    return [
        (np.ones((3, 4)), "a", {"ndim": 2, "shape": ["m", "k"]}),
        (np.ones((4, 5)), "b", {"ndim": 2, "shape": ["k", "n"]}),
        (np.ones(shape), "out", {"ndim": 2, "shape": ["m", "n"]}),
    ]


def alike(x, y, **spec):
    return [(x, "x", spec), (y, "y", {**spec, "like": 0})]


THREE = np.ones(3, np.float32)
ON_CUDA, ON_ANOTHER = tensor(device=CUDA), tensor(device=(2, 1))


@installed
@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (products(3, 5), None, ""),
        (products(3, 4), ValueError, "out: expected shape (m=3, n=5), got (3, 4): n is 5 in b"),
        ([(np.ones(n), "a name " * n, {"ndim": 1, "shape": ["n"]}) for n in (20, 1)], ValueError,
         "a name : expected shape (n=20,), got (1,): n is 20 in a name a name a name a n"),
        (alike(THREE, THREE * 2), None, ""),
        (alike(THREE, np.ones(3)), TypeError, "y: expected float32, as x has, got float64"),
        (alike(ON_CUDA, ON_ANOTHER, device=ANY_DEVICE), BufferError,
         "y: expected cuda:0, where x is, got cuda:1"),
        (alike(THREE, ON_CUDA, device=ANY_DEVICE), BufferError,
         "y: expected cpu:0, where x is, got cuda:0"),
    ],
)  # fmt: skip
def test_arguments_that_depend_on_each_other(api, arguments, error, words):
    if error is None:
        api.expect(arguments)
    else:
        refused(api, error, words, arguments=arguments)


@installed
@pytest.mark.parametrize("spec", [{"like": 1}, {"no_alias": [1]}, {"like": 1, "rules": CONVERT}])
def test_a_specification_that_refers_to_a_later_argument(api, spec):
    for borrow in (api.expect, api.borrow_all):
        for x in (THREE, np.ones(3)):
            with pytest.raises(ValueError, match=r"^x: expected .* earlier .* itself is at fault"):
                borrow([(x, "x", {"dtypes": [FLOAT32], **spec}), (THREE * 2, "y", {})])


# ---- overlap --------------------------------------------------------------------------------

LINE = np.arange(16, dtype=np.float32)
SQUARE = LINE.reshape(4, 4)


@pytest.mark.parametrize(
    ("one_view", "other", "shared"),
    [
        (LINE, LINE, True),
        (LINE[:8], LINE[8:], False),
        (LINE[:9], LINE[8:], True),
        (LINE[::2], LINE[1::2], False),
        (LINE[::-2], LINE[::2], False),
        (LINE[::-2], LINE[1::2], True),
        (SQUARE[:, :2], SQUARE[:, 2:], False),
        (SQUARE[:, :3], SQUARE[:, 2:], True),
        (SQUARE[:, 0], SQUARE[:, 1], False),
        (SQUARE[:, 0], SQUARE[1], True),
        (LINE[:0], LINE, False),
        (LINE[3:4], LINE[3:4], True),
        (LINE[3:4], LINE[4:5], False),
        (LINE, LINE.copy(), False),
        (LINE.view(np.int16)[::2], LINE.view(np.int16)[1::2], False),
        (LINE.view(np.int16)[1::2], LINE, True),
        (SQUARE[::2, 1:3], SQUARE[1::2], False),
        (SQUARE[:, ::2], SQUARE[:, 1::2], False),
        (SQUARE[:, 2::-1], SQUARE[:, 3:], False),
        (SQUARE[:, 3:0:-1], SQUARE[:, :2], True),
        (BASE[:, 1:, 2:], BASE[:, :, :2], False),
        (BASE[:, :1], BASE[:, 1:], False),
    ],
)
@installed
def test_overlap(api, one_view, other, shared):
    assert np.shares_memory(one_view, other) == shared  # NumPy works it out exactly
    for first, second in ((one_view, other), (other, one_view)):
        arguments = [(first, "x", {}), (second, "y", {"no_alias": [0]})]
        if shared:
            refused(api, ValueError, "y: expected no memory shared with x", arguments=arguments)
        else:
            api.expect(arguments)


@installed
def test_overlap_of_handles(api):
    """No addresses: another handle is other memory, and the same one is compared by its offset."""
    spec = {"device": ANY_DEVICE}
    first = tensor(device=OPENCL, data=4096, byte_offset=0)

    def expect(rules=0, **fields):
        second = tensor(device=OPENCL, **fields)
        api.expect([(first, "x", spec), (second, "y", {**spec, "no_alias": [0], "rules": rules})])

    expect(data=4097, byte_offset=0)
    expect(data=4096, byte_offset=24)
    with pytest.raises(ValueError, match="no memory shared with"):
        expect(data=4096, byte_offset=20)
    with pytest.raises(ValueError, match="no memory shared with"):  # not this very tensor
        expect(data=4096, byte_offset=4, rules=IN_PLACE)
    expect(data=4096, byte_offset=0, rules=IN_PLACE)


@installed
def test_packed_elements_that_share_a_range_may_share_a_byte(api):
    memory = bytearray(64)
    fields = {"memory": memory, "dtype": (0, 4, 1), "shape": (8,)}
    first, second = tensor(**fields), tensor(**fields, byte_offset=2)
    with pytest.raises(ValueError, match="no memory shared with"):
        api.expect([(first, "x", {}), (second, "y", {"no_alias": [0]})])
    api.expect([(first, "x", {}), (tensor(**fields, byte_offset=4), "y", {"no_alias": [0]})])


@installed
def test_extreme_strides(api):
    """Of a dimension of size 1 any stride is legal, and none is used."""
    limits = (-(2**63), 2**63 - 1, -1, 1)
    for stride in limits:
        odd = tensor(shape=(1, 6), strides=(stride, 1))
        spec = {"rules": WRITABLE, "layout": C | F, "no_alias": [0]}
        api.expect([(BASE, "x", {}), (odd, "y", spec)])
    empty = tensor(shape=(2, 2, 0), strides=limits[:3])
    api.expect([(empty, "x", {"rules": WRITABLE, "layout": C})])


@installed
def test_in_place(api):
    def expect(first, second):
        spec = {"no_alias": [0], "rules": IN_PLACE}
        api.expect([(first, "x", {}), (second, "y", spec)])

    expect(SQUARE, SQUARE)
    expect(SQUARE, SQUARE[:])
    for second in (SQUARE.T, SQUARE[1:], SQUARE[::-1], SQUARE.view(np.int32)):
        with pytest.raises(ValueError, match="no memory shared with"):
            expect(SQUARE, second)


slices = st.slices(8)


@given(first=st.tuples(slices, slices), second=st.tuples(slices, slices))
def test_no_overlap_is_missed(first, second):
    """It may be claimed where there is none, never the other way round."""
    api = INSTALLED["installed"]
    base = np.zeros((8, 8), dtype=np.float32)
    one_view, other = base[first], base[second]
    arguments = [(one_view, "x", {}), (other, "y", {"no_alias": [0]})]
    if np.shares_memory(one_view, other):
        with pytest.raises(ValueError, match="no memory shared with"):
            api.expect(arguments)
    else:
        try:
            api.expect(arguments)
        except ValueError:
            assert np.may_share_memory(one_view, other)


@given(
    shape=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    strides=st.lists(st.integers(-6, 6), min_size=3, max_size=3),
)
def test_an_output_that_shares_memory_with_itself(shape, strides):
    """Never missed, by the definition: two indices that lead to one element."""
    api = INSTALLED["installed"]
    strides = strides[: len(shape)]
    reached = [
        sum(i * s for i, s in zip(index, strides, strict=True)) for index in np.ndindex(*shape)
    ]
    memory = np.zeros(max(reached) - min(reached) + 1, dtype=np.float32)
    view = np.ndarray(
        shape, np.float32, memory, offset=-4 * min(reached), strides=[4 * s for s in strides]
    )
    try:
        api.expect(one(view, rules=WRITABLE))
        refused_it = False
    except BufferError:
        refused_it = True
    if len(set(reached)) < len(reached):
        assert refused_it
    nested = sorted((abs(s), n) for s, n in zip(strides, shape, strict=True) if n > 1)
    if all(nested[i][0] * nested[i][1] <= nested[i + 1][0] for i in range(len(nested) - 1)) and all(
        step for step, _ in nested
    ):
        assert not refused_it  # each dimension steps over the whole of the one before


@installed
def test_a_tensor_of_fastdl(api):
    x = fastdl.from_dlpack(LINE)
    api.expect([(x, "x", {"dtypes": [FLOAT32]}), (x, "y", {"no_alias": [0], "rules": IN_PLACE})])
