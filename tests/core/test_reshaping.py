# SPDX-License-Identifier: Apache-2.0
"""Views of a whole tensor: reshape, flatten, permute, T, mT, squeeze, unsqueeze, expand, view and
as_readonly, and contiguous, against NumPy's."""

import gc
import math
import weakref

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import fastdl
from fastdl._core.tensor import is_immutable
from tests.support.ctypes_dlpack import (
    CUDA,
    INT64_MAX,
    OPENCL,
    SUBBYTE_PADDED,
    Managed,
    capsule_of,
    opened,
)
from tests.support.views import arrays, assert_same

TYPES = ["uint8", "int16", "float32", "int64", "complex64", "complex128", "bool"]


def tensor_of(*shape, dtype=np.float32):
    return fastdl.from_dlpack(np.arange(math.prod(shape)).astype(dtype).reshape(shape))


def spelled(draw, method, numbers):
    """method(*numbers) in one of the ways to write it."""
    form = draw(st.sampled_from(["ints", "tuple", "list", "NumPy's"]))
    if form == "ints" and numbers:
        return method(*numbers)
    if form == "NumPy's":
        return method(tuple(np.int64(n) for n in numbers))
    return method(list(numbers) if form == "list" else tuple(numbers))


# ---- reshape --------------------------------------------------------------------------------


@st.composite
def shapes_of(draw, size):
    """Shapes of `size` elements, with sizes of 1 in between."""
    shape = []
    while size > 1:
        factor = draw(st.sampled_from([n for n in range(2, size + 1) if size % n == 0]))
        shape.append(factor)
        size //= factor
    if size == 0:
        shape = draw(st.lists(st.integers(0, 4), max_size=3))
        shape.insert(draw(st.integers(0, len(shape))), 0)
    for _ in range(draw(st.integers(0, 2))):
        shape.insert(draw(st.integers(0, len(shape))), 1)
    return shape


def is_view(made, array):
    return made.size == 0 or np.may_share_memory(made, array)


@given(st.data())
def test_reshape_and_flatten_as_numpy(data):
    array = data.draw(arrays())
    shape = data.draw(shapes_of(array.size))
    expected = array.reshape(shape)
    if array.size and shape and data.draw(st.booleans()):
        shape[data.draw(st.integers(0, len(shape) - 1))] = -1
    tensor = fastdl.from_dlpack(array)
    if is_view(expected, array):
        assert_same(spelled(data.draw, tensor.reshape, shape), expected_flags(expected, array))
    else:
        with pytest.raises(fastdl.CopyRequiredError, match=r"use copy\(\)\.reshape"):
            tensor.reshape(shape)
        assert tensor.copy().reshape(shape).tolist() == expected.tolist()
    expected = array.reshape(-1)
    if is_view(expected, array):
        assert_same(tensor.flatten(), expected_flags(expected, array))
    else:
        with pytest.raises(fastdl.CopyRequiredError, match=r"use copy\(\)"):
            tensor.flatten()
        assert tensor.copy().flatten().tolist() == array.flatten().tolist()


def expected_flags(expected, array):
    """NumPy copies arrays without elements, which are then writable."""
    if not array.flags.writeable and expected.flags.writeable:
        expected.flags.writeable = False
    return expected


NOTHING, REPEATED = np.zeros((3, 0, 2))[::2], np.broadcast_to(np.int8(7), (4, 6))


@pytest.mark.parametrize(
    ("array", "asked", "shape", "strides"),
    [
        (NOTHING, (0,), (0,), None),
        (NOTHING, (5, 0, 2**62, 2**62), (5, 0, 2**62, 2**62), None),
        (NOTHING, (2, -1), (2, 0), None),
        (np.array(5), (1, 1, 1), (1, 1, 1), (1, 1, 1)),
        (np.array(5), (-1,), (1,), (1,)),
        (np.ones((1, 1)), ((),), (), ()),
        (np.ones((1, 1)), (), (), ()),
        (REPEATED, (3, 8), (3, 8), (0, 0)),
        (REPEATED, (24,), (24,), (0,)),
    ],
)
def test_reshape_of_one_number_or_none(array, asked, shape, strides):
    view = fastdl.from_dlpack(array).reshape(*asked)
    assert view.shape == shape
    if strides is not None:
        assert view.strides == strides
        assert set(view.flatten().tolist()) == set(array.flatten().tolist())


def test_any_size_would_do():
    with pytest.raises(ValueError, match="same number of elements"):
        fastdl.from_dlpack(NOTHING).reshape(0, -1)


def test_reshape_ignores_strides_that_mean_nothing():
    # Strides of a dimension of size 1 may be anything; they must not be multiplied or compared.
    capsule = capsule_of(
        (1, 2, 1, 3, 1), strides=(INT64_MAX, 3, -INT64_MAX, 1, 77), data=bytearray(24)
    )
    view = fastdl.from_dlpack(capsule).reshape(3, 2)
    assert (view.shape, view.strides) == ((3, 2), (2, 1))
    assert fastdl.from_dlpack(
        capsule_of((1, 1), strides=(INT64_MAX, INT64_MAX), data=bytearray(4))
    ).reshape(1, 1, 1).shape == (1, 1, 1)


@pytest.mark.parametrize("ndim", [63, 64])
def test_reshape_to_many_dimensions(ndim):
    view = tensor_of(2, 3).reshape(*[1] * (ndim - 1), 6)
    assert view.ndim == ndim
    assert view.reshape(3, 2).tolist() == [[0, 1], [2, 3], [4, 5]]


@given(arrays())
def test_contiguous_as_numpy(array):
    tensor = fastdl.from_dlpack(array)
    made = tensor.contiguous()
    assert made.is_contiguous()
    assert (made.shape, made.tolist()) == (array.shape, array.tolist())
    if array.flags.c_contiguous:
        assert made is tensor
    else:
        assert made.is_copied and not made.readonly
        assert not np.may_share_memory(made.numpy(), array)


def test_contiguous_is_about_row_major_order():
    tensor = tensor_of(2, 3)
    assert tensor.T.is_contiguous("F")
    assert tensor.T.contiguous().strides == (2, 1)
    readonly = tensor.as_readonly()
    assert readonly.contiguous() is readonly and readonly.contiguous().readonly
    unreachable = fastdl.from_dlpack(
        capsule_of((2, 3), data=0x1000, strides=(1, 2), device=(OPENCL, 0))
    )
    with pytest.raises(BufferError, match="opencl:0"):
        unreachable.contiguous()


# ---- permute, T and mT ----------------------------------------------------------------------


@given(st.data())
def test_permute_as_numpy(data):
    array = data.draw(arrays())
    order = data.draw(st.permutations(range(array.ndim)))
    axes = [n - array.ndim if data.draw(st.booleans()) else n for n in order]
    tensor = fastdl.from_dlpack(array)
    assert_same(spelled(data.draw, tensor.permute, axes), array.transpose(axes))


@given(arrays())
@example(np.arange(24, dtype=np.int16).reshape(4, 6)[::-2, 1:])
@example(np.zeros(()))
@example(np.zeros(3))
@example(np.zeros((1, 2, 3)))
def test_transposes_as_numpy(array):
    tensor = fastdl.from_dlpack(array)
    if array.ndim == 2:
        assert_same(tensor.T, array.T)
        assert_same(tensor.T.T, array)
    else:  # as the array API standard says; NumPy reverses any number of dimensions
        with pytest.raises(ValueError, match=r"permute\(\.\.\.\)"):
            tensor.T  # noqa: B018 - reading it is the test
    if array.ndim < 2:
        with pytest.raises(ValueError, match="two dimensions or more"):
            tensor.mT  # noqa: B018
    else:
        assert_same(tensor.mT, array.swapaxes(-1, -2))


def test_transposes_of_a_stack_of_64_dimensions():
    tensor = tensor_of(2, 3).reshape(*[1] * 62, 2, 3)
    assert tensor.mT.shape == (*[1] * 62, 3, 2)
    assert tensor.mT.mT.strides == tensor.strides


# ---- squeeze and unsqueeze ------------------------------------------------------------------


@given(st.data())
def test_squeeze_as_numpy(data):
    array = data.draw(arrays())
    for _ in range(data.draw(st.integers(0, 2))):
        array = np.expand_dims(array, data.draw(st.integers(0, array.ndim)))
    ones = [i for i, n in enumerate(array.shape) if n == 1]
    tensor = fastdl.from_dlpack(array)
    assert_same(tensor.squeeze(), array.squeeze())
    chosen = data.draw(st.lists(st.sampled_from(ones), unique=True)) if ones else []
    axes = tuple(i - array.ndim if data.draw(st.booleans()) else i for i in chosen)
    assert_same(tensor.squeeze(axes), array.squeeze(axes))
    if len(axes) == 1:
        assert_same(tensor.squeeze(axis=axes[0]), array.squeeze(axes[0]))


@given(st.data())
def test_unsqueeze_as_numpy(data):
    array = data.draw(arrays())
    axis = data.draw(st.integers(-array.ndim - 1, array.ndim))
    tensor = fastdl.from_dlpack(array)
    view = tensor.unsqueeze(np.int64(axis) if data.draw(st.booleans()) else axis)
    assert_same(view, np.expand_dims(array, axis))
    assert view.squeeze(axis).strides == tensor.strides


def test_unsqueeze_up_to_64_dimensions():
    tensor = tensor_of(2, 3).reshape(*[1] * 61, 2, 3)
    assert tensor.unsqueeze(-1).shape == (*tensor.shape, 1)
    with pytest.raises(ValueError, match="fewer than 64"):
        tensor.unsqueeze(0).unsqueeze(0)


# ---- expand ---------------------------------------------------------------------------------


@given(st.data())
def test_expand_as_numpy(data):
    array = data.draw(arrays())
    for _ in range(data.draw(st.integers(0, 2))):
        array = np.expand_dims(array, data.draw(st.integers(0, array.ndim)))
    front = data.draw(st.lists(st.integers(0, 3), max_size=2))
    own = [data.draw(st.integers(0, 3)) if n == 1 else n for n in array.shape]
    expected = np.broadcast_to(array, front + own)
    asked = [-1 if n == m and data.draw(st.booleans()) else n
             for n, m in zip(own, array.shape, strict=True)]  # fmt: skip
    tensor = fastdl.from_dlpack(array)
    assert_same(spelled(data.draw, tensor.expand, front + asked), expected)


def test_expand_is_read_only_and_copies_are_not():
    tensor = tensor_of(3)
    assert not tensor.readonly
    for view in (tensor.expand(2, 3), tensor.expand(3), tensor.expand(2, 3)[0], tensor.expand(-1)):
        assert view.readonly
        assert not view.numpy().flags.writeable
        assert not view.copy().readonly
    assert not tensor.readonly


def test_expand_counts_its_bytes():
    tensor = tensor_of(1)
    assert tensor.expand(2**61 - 1).nbytes == 2**63 - 4
    for shape in [(2**61,), (2**31, 2**31), (2**62, 2**62), (INT64_MAX, INT64_MAX)]:
        with pytest.raises(ValueError, match="more bytes than a 64-bit count"):
            tensor.expand(shape)
    assert tensor.expand(0, 2**62, 2**62).size == 0


# ---- as_readonly ----------------------------------------------------------------------------


@given(arrays())
def test_as_readonly_as_numpy(array):
    tensor = fastdl.from_dlpack(array)
    expected = array.view()
    expected.flags.writeable = False
    assert_same(tensor.as_readonly(), expected)
    assert tensor.readonly is not array.flags.writeable


def test_as_readonly_stays_so_until_a_copy():
    array = np.zeros(3)
    tensor = fastdl.from_dlpack(array)
    view = tensor.as_readonly()
    for made in (view[1:], view.as_readonly(), fastdl.from_dlpack(view), view.reshape(1, 3)):
        assert made.readonly
        assert not np.from_dlpack(made).flags.writeable
    with pytest.raises(BufferError, match="read-only"):
        view.__dlpack__()
    with pytest.raises(ValueError, match="read-only"):
        view.numpy()[0] = 1
    assert not view.copy().readonly
    tensor.numpy()[0] = 5  # what still may write shows
    assert view[0].item() == 5


def test_as_readonly_promises_nothing_about_other_writers():
    # Libraries whose values never change get a copy.
    assert not is_immutable(tensor_of(3).as_readonly())


# ---- view -----------------------------------------------------------------------------------


@given(st.data())
def test_view_as_numpy(data):
    array = data.draw(arrays())
    name = data.draw(st.sampled_from(TYPES))
    tensor = fastdl.from_dlpack(array)
    try:
        expected = array.view(name)
    except ValueError:
        with pytest.raises(ValueError, match="cannot be viewed as"):
            tensor.view(name)
        return
    try:
        view = tensor.view(name)
    except fastdl.CopyRequiredError:
        # NumPy takes strides in bytes and any address.
        size = np.dtype(name).itemsize
        assert any(s % size for s, n in zip(array.strides, array.shape, strict=True) if n > 1) or (
            array.ctypes.data % np.dtype(name).alignment
        )
        view = tensor.copy().view(name)
        assert bytes(view) == expected.tobytes()
        return
    assume(not array.size or not np.isnan(expected).any())
    assert_same(view, expected)


@pytest.mark.parametrize("form", ["int32", np.int32, np.dtype("i4"), (0, 32, 1), (0, 32)])
def test_view_takes_what_dtype_takes(form):
    tensor = tensor_of(2, 3)
    assert tensor.view(form).dtype == fastdl.DType("int32")
    assert tensor.view(fastdl.DType(form)).tolist() == tensor.numpy().view(np.int32).tolist()


@pytest.mark.parametrize(("form", "error"), [("int33", ValueError), (None, TypeError),
                                             (7, TypeError), ((2, 24, 1), ValueError)])  # fmt: skip
def test_view_in_a_type_that_is_none(form, error):
    with pytest.raises(error):
        tensor_of(2, 3).view(form)


def test_view_of_vector_types():
    tensor = tensor_of(3, 4)
    pairs = tensor.view("float32x2")
    assert (pairs.shape, pairs.strides) == ((3, 2), (2, 1))
    assert pairs.tolist()[0] == [(0.0, 1.0), (2.0, 3.0)]
    assert pairs.view("float32").tolist() == tensor.tolist()


def test_view_of_sizes_that_do_not_divide_each_other():
    data = bytearray(range(24))
    triples = fastdl.from_dlpack(capsule_of((2, 4), (1, 8, 3), data=data))
    pairs = triples.view("uint8x2")
    assert (pairs.shape, pairs.strides) == ((2, 6), (6, 1))
    assert bytes(pairs) == bytes(data)
    with pytest.raises(ValueError, match="multiple of the new element size"):
        triples[:, :3].view("uint8x2")
    odd = fastdl.from_dlpack(capsule_of((2, 2), (1, 8, 3), data=data, strides=(3, 1)))
    with pytest.raises(fastdl.CopyRequiredError, match="strides"):
        odd.view("uint8x2")


def test_view_without_dimensions():
    number = fastdl.from_dlpack(np.array(1.0, np.float32))
    assert hex(number.view("int32").item()) == "0x3f800000"
    with pytest.raises(ValueError, match="last dimension"):
        number.view("uint8")


@pytest.mark.parametrize("offset", range(1, 8))
def test_view_needs_an_aligned_address(offset):
    data = np.arange(32, dtype=np.uint8)
    start = -data.ctypes.data % 16 + offset
    tensor = fastdl.from_dlpack(data[start : start + 8])
    for name, alignment in [("int16", 2), ("float32", 4), ("complex64", 4), ("int16x4", 2),
                            ("float64", 8), ("bool", 1)]:  # fmt: skip
        if offset % alignment:
            with pytest.raises(fastdl.CopyRequiredError, match="address"):
                tensor.view(name)
        else:
            assert tensor.view(name).data_ptr == tensor.data_ptr
        assert bytes(tensor.copy().view(name)) == bytes(tensor)


def test_view_of_a_misaligned_tensor_in_a_type_of_its_own_size():
    data = bytearray(13)
    address = fastdl.asarray(data).data_ptr
    tensor = fastdl.from_dlpack(
        capsule_of((2,), (2, 32, 1), data=memoryview(data)[1 if address % 2 == 0 else 2 :])
    )
    assert tensor.view("int32").data_ptr == tensor.data_ptr


def test_views_of_padded_narrow_types_are_of_bytes():
    padded = fastdl.from_dlpack(
        capsule_of((3,), (0, 4, 1), data=bytearray([1, 7, 15]), flags=SUBBYTE_PADDED)
    )
    view = padded.view("uint8")
    assert view.tolist() == [1, 7, 15]
    assert opened(view.__dlpack__(max_version=(1, 3))).flags == 0
    assert padded.view("int4").tolist() == padded.tolist()
    with pytest.raises(BufferError, match="share bytes"):
        padded.view("uint4")


def test_views_of_vectors_that_fill_bytes():
    data = bytearray([0x21, 0xF8])
    tensor = fastdl.from_dlpack(capsule_of((2,), (1, 8, 1), data=data))
    assert tensor.view("int4x2").tolist() == [(1, 2), (-8, -1)]
    assert tensor.view("int4x2").view("uint8").tolist() == [0x21, 0xF8]


# ---- elements that share bytes --------------------------------------------------------------


def packed(*shape):
    return fastdl.from_dlpack(capsule_of(shape, (1, 4, 1), data=bytearray([0x21, 0x43, 0x65])))


def test_packed_elements_keep_row_major_order():
    tensor = packed(2, 3)
    assert tensor.reshape(3, 2).tolist() == [[1, 2], [3, 4], [5, 6]]
    assert tensor.reshape(6).tolist() == [1, 2, 3, 4, 5, 6]
    assert tensor.permute(0, 1).tolist() == tensor.tolist()
    assert tensor.reshape(1, 6).T.tolist() == [[1], [2], [3], [4], [5], [6]]
    assert tensor.reshape(1, 6).squeeze(0).tolist() == [1, 2, 3, 4, 5, 6]
    assert tensor.view("uint4").tolist() == tensor.tolist()
    assert tensor.flatten().tolist() == [1, 2, 3, 4, 5, 6]
    assert tensor.unsqueeze(1).tolist() == [[[1, 2, 3]], [[4, 5, 6]]]
    assert tensor.reshape(6, 1).mT.tolist() == [[1, 2, 3, 4, 5, 6]]
    assert tensor.as_readonly().tolist() == tensor.tolist()
    assert tensor.contiguous() is tensor


@pytest.mark.parametrize("view", [lambda t: t.T, lambda t: t.mT, lambda t: t.permute(1, 0),
                                  lambda t: t.expand(2, 2, 3), lambda t: t.view("uint8"),
                                  lambda t: t.view("int4")])  # fmt: skip
def test_packed_elements_in_another_order_are_refused(view):
    with pytest.raises(BufferError, match="share bytes"):
        view(packed(2, 3))


# ---- arguments ------------------------------------------------------------------------------

METHODS = ["reshape", "permute", "expand", "squeeze"]  # which take sequences
#: What each method refuses of a tensor of a shape, and words of it.
REFUSED = {
    ("reshape", (2, 3), "same number of elements"):
        [(7,), (2, 2), (), (0,), (-1, 4), (0, -1), (-1, 0), (2**62, 4)],
    ("reshape", (2, 3), "one of which may be -1"):
        [(-2, 3), (-1, -1), (-1, -1, 6), (6, -(2**63))],
    ("permute", (2, 3, 4), "each of its dimensions once"):
        [(), (0,), (0, 1), (0, 1, 2, 3), (0, 0, 1), (0, 1, 3), (0, 1, -4), (0, -3, 1),
         (2**31, 0, 1), (0, 1, 2**62)],
    ("squeeze", (1, 3, 1), "dimensions of size 1, each once"):
        [1, -2, (0, 1), 3, -4, (0, 0), (0, -3), 2**62, (2, 7)],
    ("unsqueeze", (2, 3), "expected an axis from 0"): [3, -4, 2**31, -(2**62)],
    ("expand", (2, 3), "cannot be expanded to"):
        [(), (3,), (1, 3), (2, 2), (2, 6), (-2, 3), (-1, 2, 3), (2, -1, 4), (0, 3)],
    **{(method, (1,), "at most 64 ints"): [(1,) * 65] for method in METHODS},
    **{(method, (1,), None): [2**63, -(2**63) - 1, 2**100] for method in [*METHODS, "unsqueeze"]},
}  # fmt: skip


@pytest.mark.parametrize(
    ("method", "shape", "words", "argument"),
    [(*key, argument) for key, arguments in REFUSED.items() for argument in arguments],
)
def test_arguments_that_do_not_fit(method, shape, words, argument):
    with pytest.raises(ValueError, match=words):
        getattr(tensor_of(*shape), method)(argument)


@pytest.mark.parametrize("method", [*METHODS, "unsqueeze"])
@pytest.mark.parametrize("arguments", [(True,), (1.0,), ("1",), ([1.0],), ([[1]],), ({1},),
                                       ((None,),), (object(),), (np.True_,)])  # fmt: skip
def test_arguments_that_are_no_ints(method, arguments):
    with pytest.raises(TypeError):
        getattr(tensor_of(1), method)(*arguments)


@pytest.mark.parametrize("method", METHODS)
def test_an_error_inside_index_passes_unchanged(method):
    class Bad:
        def __index__(self):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        getattr(tensor_of(1), method)((Bad(),))
    with pytest.raises(KeyError, match="mine"):
        tensor_of(1).unsqueeze(Bad())


def test_a_tensor_without_dimensions_is_a_size():
    three = fastdl.from_dlpack(np.array(3))
    assert tensor_of(2, 3).reshape(three, 2).shape == (3, 2)
    assert tensor_of(6).reshape(-1, three).shape == (2, 3)


# ---- memory and devices ---------------------------------------------------------------------

VIEWS = {
    "index": lambda t: t[:, ::2][..., :1],
    "reshape": lambda t: t.reshape(3, 2),
    "permute": lambda t: t.permute(1, 0),
    "T": lambda t: t.T,
    "mT": lambda t: t.mT,
    "flatten": lambda t: t.flatten(),
    "squeeze": lambda t: t.squeeze(),
    "unsqueeze": lambda t: t.unsqueeze(1),
    "expand": lambda t: t.expand(4, 2, 3),
    "view": lambda t: t.view("int32"),
    "as_readonly": lambda t: t.as_readonly(),
}
every_view = pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)


@every_view
def test_a_view_keeps_the_memory_alive(view):
    managed = Managed((2, 3), data=bytearray(24))
    tensor = fastdl.from_dlpack(managed.capsule())
    made = view(tensor)
    assert made is not tensor and made.data_ptr == tensor.data_ptr
    capsule = made.__dlpack__(max_version=(1, 3))
    del tensor, made
    gc.collect()
    assert managed.deleted == 0
    del capsule
    gc.collect()
    assert managed.deleted == 1


@every_view
def test_the_collector_sees_through_a_view(view):
    class Array(np.ndarray):
        pass

    array = np.zeros((2, 3), np.float32).view(Array)
    array.cycle = view(fastdl.from_dlpack(array))
    reference = weakref.ref(array)
    del array
    gc.collect()
    assert reference() is None


@every_view
def test_a_view_keeps_flags_of_the_memory_alone(view):
    array = np.zeros((2, 3), np.float32)
    array.flags.writeable = False
    assert view(fastdl.from_dlpack(array)).readonly
    copied = fastdl.from_dlpack(array).copy()
    assert copied.is_copied
    assert not view(copied).is_copied


@every_view
@pytest.mark.parametrize("device", [(CUDA, 1), (OPENCL, 0), (99, 3)])
def test_views_of_device_memory_read_nothing(view, device):
    tensor = fastdl.from_dlpack(capsule_of((2, 3), data=0x1000, byte_offset=64, device=device))
    made = view(tensor)
    assert made.device == tensor.device
    before, after = (opened(t.__dlpack__(max_version=(1, 3), stream=-1)).tensor
                     for t in (tensor, made))  # fmt: skip
    assert (after.data, after.byte_offset) == (before.data, before.byte_offset)


def test_alignment_of_a_handle_is_that_of_its_offset():
    for offset, possible in [(8, True), (4, False)]:
        tensor = fastdl.from_dlpack(
            capsule_of((4,), data=0x1001, byte_offset=offset, device=(OPENCL, 0))
        )
        if possible:
            assert tensor.view("float64").shape == (2,)
        else:
            with pytest.raises(fastdl.CopyRequiredError, match="address"):
                tensor.view("float64")


def test_errors_leak_no_reference():
    array = np.arange(6).reshape(2, 3)
    reference = weakref.ref(array)
    tensor = fastdl.from_dlpack(array)
    for call in [
        lambda t: t.reshape(5), lambda t: t.T.reshape(6), lambda t: t.permute(0, 0),
        lambda t: t.squeeze(0), lambda t: t.expand(3, 3), lambda t: t[:, ::2].view("int8"),
        lambda t: t.view("int4"), lambda t: t.reshape([None]), lambda t: t.T.flatten(),
        lambda t: t.unsqueeze(3), lambda t: t[0].mT, lambda t: t + 1, lambda t: -t,
        lambda t: t[1.5], lambda t: t[..., ...], lambda t: t[0, 0, 0], lambda t: t[0:1:0],
    ]:  # fmt: skip
        with pytest.raises((ValueError, TypeError, BufferError, IndexError)):
            call(tensor)
    del array, tensor
    gc.collect()
    assert reference() is None
