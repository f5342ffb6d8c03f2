# SPDX-License-Identifier: Apache-2.0
"""Views: fastdl.Tensor's basic indexing against NumPy's."""

import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastdl
from tests.support.ctypes_dlpack import (
    CUDA,
    INT64_MAX,
    INT64_MIN,
    ONEAPI,
    OPENCL,
    capsule_of,
    opened,
)
from tests.support.views import arrays, assert_same

bounds = st.none() | st.integers(-8, 8) | st.sampled_from([INT64_MIN, INT64_MAX, -(2**70), 2**70])
steps = st.none() | st.integers(-4, 4).filter(bool) | st.sampled_from([INT64_MIN, INT64_MAX, 2**80])
slices = st.builds(slice, bounds, bounds, steps)


@st.composite
def keys(draw, ndim):
    """Keys that mostly fit `ndim` dimensions; their integers may be out of bounds."""
    count = draw(st.integers(0, ndim))
    entries = [draw(slices | st.integers(-3, 3)) for _ in range(count)]
    for _ in range(draw(st.integers(0, 2))):
        entries.insert(draw(st.integers(0, len(entries))), None)
    if draw(st.booleans()):
        entries.insert(draw(st.integers(0, len(entries))), Ellipsis)
    if len(entries) == 1 and draw(st.booleans()):
        return entries[0]
    return tuple(entries)


def of_numpy(array, key):
    """The view that NumPy has, also where it copies a scalar out."""
    view = array[key]
    if isinstance(view, np.ndarray):
        return view
    return array[(*key, Ellipsis) if isinstance(key, tuple) else (key, Ellipsis)]


@given(st.data())
def test_views_of_views(data):
    array = data.draw(arrays())
    tensor = fastdl.from_dlpack(array)
    for _ in range(3):
        if array.ndim == 0:
            break
        key = tuple(data.draw(slices) for _ in range(array.ndim))
        array, tensor = array[key], tensor[key]
    assert_same(tensor, array)


@given(arrays())
def test_iteration_as_numpy(array):
    if array.ndim:
        tensor = fastdl.from_dlpack(array)
        rows = list(tensor)
        assert len(rows) == len(tensor) == len(array)
        for i, row in enumerate(rows):
            assert_same(row, array[i, ...])


# ---- keys -----------------------------------------------------------------------------------


class Two:
    def __index__(self):
        return 2


CUBE = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
DEEP = np.arange(4).reshape((1,) * 62 + (2, 2))
CASES = [
    *((CUBE, key) for key in [
        (), ..., None, (None, ...), (..., None), (1, ..., 2), (0, None, 1, None, 2, None), -1,
        (1, 2), (1, Two()), (slice(None), np.int64(2), slice(Two(), Two(), np.uint8(1))),
    ]),
    *((np.array(5.0), key) for key in [(), ..., None]),
    (DEEP, (0,) * 62 + (np.s_[::-1],)), (DEEP, np.s_[..., ::-1]),
    (np.arange(3), (None,) * 63),
    (np.arange(2).reshape((1,) * 63 + (2,)), (0, None)),  # a new one in the place of another
]  # fmt: skip


@pytest.mark.parametrize(("array", "key"), CASES)
def test_forms_of_keys(array, key):
    assert_same(fastdl.from_dlpack(array)[key], of_numpy(array, key))


@given(st.data())
def test_as_numpy(data):
    array = data.draw(arrays())
    key = data.draw(keys(array.ndim))
    tensor = fastdl.from_dlpack(array)
    try:
        expected = of_numpy(array, key)
    except IndexError:
        with pytest.raises(IndexError):
            tensor[key]
        return
    assert_same(tensor[key], expected)


@pytest.fixture
def array():
    return CUBE.copy()


def test_a_view_is_a_new_tensor(array):
    tensor = fastdl.from_dlpack(array)
    assert type(tensor[...]) is fastdl.Tensor
    assert tensor[...] is not tensor
    assert tensor[()].data_ptr == tensor.data_ptr


# ---- errors ---------------------------------------------------------------------------------


def test_what_an_index_raises_is_the_cause():
    class Index:
        def __index__(self):
            raise TypeError("no number today")

    with pytest.raises(TypeError, match="got 'Index'") as caught:
        fastdl.from_dlpack(np.zeros(3))[Index()]
    assert str(caught.value.__cause__) == "no number today"
    with pytest.raises(TypeError, match="got 'list'") as caught:
        fastdl.from_dlpack(np.zeros(3))[[0]]
    assert caught.value.__cause__ is None


REFUSED = {
    (IndexError, "out of bounds|cannot fit"): [
        2, -3, (0, 3), (0, -4), (..., 4), (1, 2, -5), 2**62, -(2**63),
        2**63, -(2**63) - 1, 2**70, (0, -(2**100)),  # whatever the machine's integers hold
    ],
    (IndexError, "expected no more indices than dimensions"):
        [(0,) * 4, (slice(None),) * 4, (0, ..., 0, 0, 0), (None, *[0] * 4)],
    (IndexError, "Ellipsis"): [(..., ...), (..., 0, ...), (None, ..., ..., None)],
    (IndexError, "64 dimensions"): [(None,) * 62],
    (TypeError, "got '.*': a Tensor has basic indexing only"): [
        True, (0, False), np.True_, 1.0, "0", b"0", [0], ([0, 1], 0), np.array([0, 1]),
        np.array([True, False]), np.array([[0], [1]]), (0, np.array([0, 1])), {0: 0}, 1j,
    ],
    (TypeError, "got 'fastdl.Tensor': a Tensor has basic indexing only"):
        [fastdl.from_dlpack(np.array(key)) for key in ([1], True, 1.0)],
}  # fmt: skip


@pytest.mark.parametrize(
    ("error", "words", "key"), [(*kind, key) for kind, keys in REFUSED.items() for key in keys]
)
def test_keys_that_do_not_fit(array, error, words, key):
    with pytest.raises(error, match=words):
        fastdl.from_dlpack(array)[key]


def test_integers_without_dimensions_are_indices(array):
    tensor, one = fastdl.from_dlpack(array), fastdl.from_dlpack(np.array(1))
    assert tensor[one, one:].tolist() == array[1, 1:].tolist()


@pytest.mark.parametrize("key", [slice(1.0), slice(None, "a"), slice(0, 2, 0)])
def test_bad_slices_as_list(key):
    with pytest.raises((TypeError, ValueError)) as expected:
        operator.getitem([1, 2, 3], key)
    with pytest.raises(type(expected.value)):
        fastdl.from_dlpack(np.arange(3))[key]


def test_an_error_inside_index_passes_unchanged(array):
    class Bad:
        def __index__(self):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fastdl.from_dlpack(array)[Bad()]


def test_packed_elements_cannot_be_indexed():
    packed = fastdl.from_dlpack(capsule_of((4,), (0, 4, 1), data=bytearray(2)))
    for key in [0, ..., slice(1, 2), None]:
        with pytest.raises(BufferError, match="share bytes"):
            packed[key]


# ---- memory and devices ---------------------------------------------------------------------


@pytest.mark.parametrize("device", [CUDA, OPENCL, ONEAPI])
def test_views_on_devices(device):
    """data_ptr is the first element, but where it is a handle. Libraries measure oneAPI's memory
    from the start of the allocation."""
    tensor = fastdl.from_dlpack(
        capsule_of((4, 5), strides=(5, 1), data=0x1000, byte_offset=64, device=(device, 0))
    )
    for view, first in ((tensor[2, 1:], 11), (tensor[::-1], 15), (tensor[2, ::-1], 14)):
        offset = 64 + 4 * first
        assert view.data_ptr == (0x1000 if device == OPENCL else 0x1000 + offset)
        struct = opened(view.__dlpack__(max_version=(1, 3), stream=-1)).tensor
        held = (0x1000 + offset, 0) if device == CUDA else (0x1000, offset)
        assert (struct.data, struct.byte_offset) == held
    assert tensor[::-1].strides == (-5, 1)


def test_views_at_the_upper_end_of_the_address_space():
    tensor = fastdl.from_dlpack(capsule_of((4,), data=2**64 - 32, device=(CUDA, 0)))
    assert tensor[3].data_ptr == 2**64 - 20


@pytest.mark.parametrize("step", [INT64_MAX, INT64_MIN, 2**62, -(2**62), 2**100])
@pytest.mark.parametrize("stride", [1, -1, 2**40, -(2**40)])
def test_huge_steps_select_one_element(step, stride):
    tensor = fastdl.from_dlpack(
        capsule_of((3,), (1, 8, 1), strides=(stride,), data=2**63, device=(CUDA, 0))
    )
    view = tensor[::step]
    assert view.shape == (1,)
    assert view.data_ptr == 2**63 + (0 if step > 0 else 2 * stride)


def test_an_empty_selection_keeps_its_base_pointer_inside():
    tensor = fastdl.from_dlpack(np.arange(4, dtype=np.int8))
    view = tensor[4:]
    assert view.shape == (0,)
    assert tensor.data_ptr <= view.data_ptr <= tensor.data_ptr + 4


@pytest.mark.parametrize("shape", [(2**40,), (2**20, 2**20), (3, 2**59)])
def test_large_broadcasts_index_without_touching_memory(shape):
    array = np.broadcast_to(np.zeros(1, np.uint8), shape)
    view = fastdl.from_dlpack(array)[..., -1:]
    assert view.shape == (*shape[:-1], 1)
    assert view.data_ptr == array.__array_interface__["data"][0]


def test_strides_that_mean_nothing_are_not_multiplied():
    # No element is reached, so any stride is legal; a step must not overflow it.
    tensor = fastdl.from_dlpack(capsule_of((0, 5), (1, 8, 1), strides=(1, INT64_MAX), data=None))
    assert tensor[:, ::-2].shape == (0, 3)
    assert tensor[:, 1:].shape == (0, 4)
