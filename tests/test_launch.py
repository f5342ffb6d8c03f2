"""signature and signer: keys of launches, and the values that kernels take."""

import ctypes
import gc
import struct
import weakref

import numpy as np
import pytest

import fastdl
from tests.support.build import ROOT, load_module
from tests.support.c_producers import INSTALLED, given
from tests.support.ctypes_dlpack import OPENCL
from tests.support.threads import together

SIGN = fastdl.signature


def aligned(shape, dtype=np.float32, offset=0):
    """An array whose first element is at a multiple of 64 bytes, and so many bytes."""
    dtype = np.dtype(dtype)
    count = int(np.prod(shape))
    memory = np.zeros(count * dtype.itemsize + 128, np.uint8)
    start = -memory.ctypes.data % 64 + offset
    return memory[start : start + count * dtype.itemsize].view(dtype).reshape(shape)


def read_only(array):
    array = array[...]
    array.flags.writeable = False
    return array


BASE = aligned((2, 3))

#: What is compared with BASE, and the argument of signer that leaves the difference out.
DIFFERENCES = {
    "element type": (BASE.view(np.int32), {"dtype": False}),
    "element size": (aligned((2, 3), np.float64), {"dtype": False}),
    "a size": (aligned((3, 3))[:2], None),  # the same strides and dimensions: no difference
    "another size": (aligned((4, 3)), {"sizes": None}),
    "strides": (aligned((2, 4))[:, :3], {"strides": None}),
    "order": (aligned((3, 2)).T, {"strides": None}),
    "alignment": (aligned((2, 3), offset=4), {"alignment": 1}),
    "less alignment": (aligned((2, 3), offset=8), {"alignment": 8}),
    "read-only": (read_only(BASE), {"readonly": False}),
}


@pytest.mark.parametrize(("other", "rules"), DIFFERENCES.values(), ids=DIFFERENCES)
def test_each_difference_is_in_the_key_unless_it_is_left_out(other, rules):
    if rules is None:
        assert SIGN(other) == SIGN(BASE)
        return
    assert SIGN(other) != SIGN(BASE)
    sign = fastdl.signer(**rules)
    assert sign(other) == sign(BASE)
    for rule in ({"dtype": False}, {"sizes": None}, {"strides": None}, {"readonly": False}):
        if rule != rules:
            sign = fastdl.signer(**rule)
            assert sign(other) != sign(BASE)


def test_a_device_is_in_the_key_unless_it_is_left_out():
    here, there = (
        given(INSTALLED.Exporting, BASE),
        given(INSTALLED.Exporting, BASE, device=(OPENCL, 1)),
    )
    assert SIGN(here) != SIGN(there)
    sign = fastdl.signer(device=False)
    assert sign(here) == sign(there)


def test_dimensions_are_always_in_the_key():
    sign = fastdl.signer(
        dtype=False, device=False, readonly=False, sizes=None, strides=None, alignment=1
    )
    assert len({sign(aligned((1,) * ndim)) for ndim in range(6)}) == 6
    assert sign(BASE) == sign(aligned((7, 9), np.int8, 1)[::2])


def test_strides_that_nobody_uses_do_not_count():
    wide = aligned((4, 1, 5))
    assert SIGN(wide[:, :, :1].transpose(0, 2, 1)) == SIGN(wide[:, :, :1])
    assert SIGN(wide[:0]) == SIGN(aligned((0, 1, 5))[..., ::-1])


def test_coarse_sizes_and_strides():
    sign = fastdl.signer(sizes="coarse", strides="coarse", alignment=1)
    keys = [sign(np.zeros(size, np.int8)) for size in range(18)]
    classes = [0, 1, 2, 3, 3, 5, 5, 5, 5, *[9] * 8, 17]
    for i, key in enumerate(keys):
        for j, other in enumerate(keys):
            assert (key == other) == (classes[i] == classes[j]), (i, j)
    flat = fastdl.signer(sizes=None, strides="coarse", alignment=1)
    rows, columns, gaps = np.ones((4, 6)), np.ones((6, 4)).T, np.ones((4, 12))[:, ::2]
    assert len({flat(x) for x in (rows, columns, gaps)}) == 3
    assert flat(gaps) == flat(np.ones((8, 6))[::2])


def test_the_key_of_several_is_that_of_each_in_order():
    a, b = aligned((2, 3)), aligned((4,))
    assert SIGN() == b""
    assert SIGN(a, b) == SIGN(a) + SIGN(b)
    assert SIGN(a, b) != SIGN(b, a)
    many = [aligned((1,) * 16)] * 200  # more than the stack has room for
    assert SIGN(*many) == SIGN(many[0]) * 200


class Exporter:
    """Has `__dlpack__` and nothing else."""

    def __dlpack__(self, **keywords):
        return BASE.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return 1, 0


@pytest.mark.parametrize(
    "x", [fastdl.from_dlpack(BASE), Exporter(), given(INSTALLED.Lending, BASE)], ids=type
)
def test_the_same_tensor_of_every_kind(x):
    assert SIGN(x) == SIGN(BASE)
    assert SIGN(x, x) == SIGN(BASE, BASE)


@pytest.mark.library("torch")
def test_torch():
    import torch

    x = torch.from_numpy(BASE)
    assert SIGN(x) == SIGN(BASE)
    assert SIGN(x.requires_grad_()) == SIGN(BASE)
    with pytest.raises((BufferError, RuntimeError)):
        SIGN(x.detach().to_sparse())
    with pytest.raises(BufferError):
        SIGN(torch.conj(torch.ones(2, dtype=torch.complex64)))


# ---- what kernels take ----------------------------------------------------------------------


class Described(ctypes.Structure):
    """What the layout "dpnS" is for two dimensions."""

    _fields_ = [
        ("ndim", ctypes.c_int32),
        ("data", ctypes.c_void_p),
        ("sizes", ctypes.c_int32 * 2),
        ("strides", ctypes.c_int64 * 2),
    ]


def test_values_are_where_a_struct_has_them():
    x, y = aligned((2, 3)), aligned((3, 4)).T
    structs = (Described * 2)()
    key = fastdl.signer(layout="dpnS")(x, y, into=structs)
    assert key == SIGN(x, y)
    for array, got in zip((x, y), structs, strict=True):
        assert got.ndim == 2
        assert got.data == array.ctypes.data
        assert tuple(got.sizes) == array.shape
        assert tuple(got.strides) == tuple(s // 4 for s in array.strides)


def test_the_layout_of_signature():
    x = aligned((2, 3))[:, ::-1]
    buffer = bytearray(60)
    SIGN(x, aligned(()), into=buffer)
    values = struct.unpack("=QqqqqQ", buffer[:48])
    assert values[:5] == (x.ctypes.data, 2, 3, 3, -1)
    assert buffer[48:] == bytes(12)  # beyond, nothing is written
    assert SIGN(x, into=None) == SIGN(x)


def test_an_offset_is_in_the_address():
    tensor = fastdl.from_dlpack(aligned((4,)))[2:]
    buffer = bytearray(8)
    fastdl.signer(layout="p")(tensor, into=buffer)
    assert int.from_bytes(buffer, "little") == tensor.data_ptr


@pytest.mark.parametrize("letters", ["pNS", "pns", "N", "s", "d"])
def test_buffers_that_are_too_small(letters):
    sign, x = fastdl.signer(layout=letters), aligned((2, 3))
    needed = 8 * letters.count("p") + 4 * letters.count("d")
    needed += sum(2 * (8 if letter in "NS" else 4) for letter in letters if letter in "nsNS")
    sign(x, into=bytearray(needed))
    for size in range(needed):
        with pytest.raises(ValueError, match=f"{size} bytes end before argument 1 in the layout"):
            sign(x, into=bytearray(size))
    with pytest.raises(ValueError, match="argument 2"):
        sign(x, x, into=bytearray(needed))


def test_numbers_that_are_too_large():
    huge = np.broadcast_to(np.int8(0), (2**31,))
    with pytest.raises(OverflowError, match="argument 2 has a size or a stride beyond a 32-bit"):
        fastdl.signer(layout="n")(BASE, huge, into=bytearray(64))
    fastdl.signer(layout="s")(huge, into=bytearray(64))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: SIGN(BASE, [1]), TypeError, "argument 2: expected a tensor, got 'list'"),
        (lambda: SIGN(None), TypeError, "argument 1: "),
        (lambda: SIGN(BASE, out=bytearray(9)), TypeError, r"into=buffer.*'out'"),
        (lambda: SIGN(BASE, into=b"12345678"), BufferError, None),
        (lambda: SIGN(BASE, into=7), TypeError, "bytes-like"),
        (lambda: fastdl.signer(sizes="classes"), ValueError, "sizes='exact', 'coarse' or None"),
        (lambda: fastdl.signer(strides=1), ValueError, "strides='exact', 'coarse' or None"),
        (lambda: fastdl.signer(strides=[]), ValueError, "strides='exact', 'coarse' or None"),
        (lambda: fastdl.signer(alignment=3), ValueError, "a power of two"),
        (lambda: fastdl.signer(alignment=0), ValueError, "a power of two"),
        (lambda: fastdl.signer(alignment=2**32), ValueError, "a power of two"),
        (lambda: fastdl.signer(alignment=True), ValueError, "a power of two"),
        (lambda: fastdl.signer(layout="px"), ValueError, "letters of 'pnsNSd'"),
        (lambda: fastdl.signer(layout="p" * 16), ValueError, "at most 15 letters"),
        (lambda: fastdl.signer(layout=None), ValueError, "letters"),
    ],
)
def test_what_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_what_a_producer_raises_passes():
    class Broken:
        def __dlpack__(self, **keywords):
            raise ZeroDivisionError("mine")

        def __dlpack_device__(self):
            return 1, 0

    with pytest.raises(ZeroDivisionError, match="mine"):
        SIGN(BASE, Broken(), into=bytearray(100))


def test_the_buffer_is_free_again_after_a_failure():
    buffer = bytearray(8)
    for tensors in ((BASE, BASE), ([],), (BASE,)):
        with pytest.raises((ValueError, TypeError)):
            SIGN(*tensors, into=buffer)
        buffer.append(0)
        del buffer[-1]


def test_a_key_keeps_nothing():
    class Owned(Exporter):
        def __init__(self):
            self.array = np.ones(3)

        def __dlpack__(self, **keywords):
            return self.array.__dlpack__(**keywords)

    x = Owned()
    array = weakref.ref(x.array)
    assert SIGN(x, x) != b""
    with pytest.raises(TypeError):
        SIGN(x, [])
    with pytest.raises(ValueError, match="end before argument 1"):
        SIGN(x, into=bytearray(1))
    del x
    gc.collect()
    assert array() is None


def test_a_signer_outlives_its_making():
    signs = [fastdl.signer(alignment=2**n, layout="p" * n) for n in range(1, 10)]
    del signs[::2]
    assert all(sign(BASE) == sign(BASE) for sign in signs)


def test_many_threads():
    x, keys = aligned((2, 3)), set()
    sign = fastdl.signer(sizes="coarse")

    together(*[lambda i: keys.add(sign(x, x, into=bytearray(80)))] * 4)
    assert keys == {sign(x, x)}


# ---- the example ----------------------------------------------------------------------------


@pytest.fixture
def cache():
    return load_module("cache", ROOT / "docs/examples/kernels/cache.py")


def test_a_cache_of_kernels(cache):
    for dtype in cache.TYPES:
        for step in (1, 2, -1):
            x = np.arange(1, 9).astype(dtype)[::step]
            y = np.ones(len(x), dtype)
            for again in (1, 2, 3):
                cache.axpy(2, x, fastdl.from_dlpack(y))
                assert y.tolist() == (1 + 2 * again * x).tolist()
    assert len(cache.kernels) == 2 * len(cache.TYPES)  # contiguous, or not
    cache.axpy(1, np.ones(100), np.ones(100))
    assert len(cache.kernels) == 2 * len(cache.TYPES)  # of any size


@pytest.mark.library("torch")
def test_a_cache_of_kernels_for_torch(cache):
    import torch

    y = np.ones(3)
    cache.axpy(2, torch.arange(3, dtype=torch.float64), y)
    cache.axpy(2, np.arange(3.0), torch.from_numpy(y))
    assert y.tolist() == [1, 5, 9]
    assert len(cache.kernels) == 1


def test_what_a_cache_of_kernels_refuses(cache):
    cases = [
        (np.ones(3), np.ones(4), ValueError, "one size, got 3 and 4"),
        (np.ones(3), read_only(np.ones(3)), BufferError, "may be written"),
        (np.ones(3), np.ones(3, np.float32), TypeError, "two vectors of one of float32"),
        (np.ones((3, 1)), np.ones(3), ValueError, "48 bytes end before argument 2"),
        (np.ones(()), np.ones(()), TypeError, "two vectors"),
        ([1.0], np.ones(1), TypeError, "argument 1"),
    ]
    for _ in range(2):
        for x, y, error, words in cases:
            with pytest.raises(error, match=words):
                cache.axpy(1, x, y)
