# SPDX-License-Identifier: Apache-2.0
"""FASTDL_COPY and FASTDL_CONVERT: a contiguous or converted copy where a function asks for one."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastdl
from tests.support.headers import INSTALLED, every_world, installed
from tests.support.named import NAMES, NotAsked, named
from tests.support.producers import CUDA, OPENCL, Given, Lending, Producer, TorchDtype
from tests.support.specs import ANY_DEVICE, CONVERT, COPY, IN_PLACE, WRITABLE, C, F, dtype

IS_COPIED = 2
FARTHEST = np.iinfo(np.intp).max // 2 + 1
MOST = getattr(np, "MAXDIMS", 64)  # dimensions; before NumPy 2: 32


def number(name):
    code, bits, lanes = fastdl.DType(name).__dlpack_data_type__()
    return dtype(code, bits, lanes)


def copied(api, x, **spec):
    """What borrowing x gives under a specification, as an array; checked to be a copy."""
    got = fastdl.from_dlpack(api.own_as(x, "x", spec))
    view = api.borrow_as(x, "x", spec)
    assert view["flags"] & IS_COPIED
    assert view["owned"]
    assert (view["shape"], view["strides"]) == (got.shape, got.strides)
    return got.numpy()


BASE = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
VIEWS = {
    "transposed": BASE.T,
    "reversed": BASE[::-1, :, ::-2],
    "broadcast": np.broadcast_to(BASE[:, :1], (2, 3, 4)),
    "column": BASE[:, 1, 2],
    "complex": BASE.T * 1j,
    "bool": (BASE > 3)[:, ::2],
    "uint8": BASE.astype("u1").T,
    "strides of one element": np.lib.stride_tricks.as_strided(
        BASE[0, ::2], (2, 1, 2, 1), (32, FARTHEST, 8, -FARTHEST)
    ),
    "most dimensions": BASE.T.reshape((4, 3, 2) + (1,) * (MOST - 3)),
}


@every_world
@pytest.mark.parametrize("order", [C, F])
@pytest.mark.parametrize("x", VIEWS.values(), ids=VIEWS)
def test_contiguous(api, x, order):
    flag = "C_CONTIGUOUS" if order == C else "F_CONTIGUOUS"
    if x.flags[flag]:
        assert not api.borrow_as(x, "x", {"layout": order, "rules": COPY})["flags"] & IS_COPIED
        return
    got = copied(api, x, layout=order, rules=COPY)
    assert got.flags[flag]
    assert got.dtype == x.dtype
    assert np.array_equal(got, x)


@every_world
def test_what_fits_is_not_copied(api):
    fits = [(BASE, C, COPY), (BASE, C, CONVERT), (BASE.T, C | F, COPY), (BASE.T, 0, COPY)]
    for x, layout, rules in fits:
        view = api.borrow_as(x, "x", {"layout": layout, "rules": rules})
        assert view["data"] == BASE.ctypes.data
        assert not view["flags"] & IS_COPIED
    assert copied(api, BASE[:, ::2], layout=C | F, rules=COPY).flags.c_contiguous


@every_world
@pytest.mark.parametrize("target", ["float32", "float64"])
def test_misaligned_elements(api, target):
    memory = np.arange(200, dtype=np.uint8)[1:]
    x = memory[-memory.ctypes.data % 16 + 1 :][: 4 * 7].view(np.float32)
    spec = {"dtypes": [number(target)]}
    assert np.array_equal(copied(api, x[::2], **spec, rules=CONVERT), x[::2].astype(target))
    if target == x.dtype:
        assert np.array_equal(copied(api, x, **spec, rules=COPY), x)
        for rules in (0, WRITABLE | COPY):
            with pytest.raises(BufferError, match="^x: expected data aligned to 4 bytes"):
                api.borrow_as(x, "x", {**spec, "rules": rules})
        view = api.borrow_as(x, "x", {**spec, "alignment": 1, "rules": CONVERT})
        assert view["data"] == x.ctypes.data


@every_world
def test_alignment_and_alias(api):
    memory = np.zeros(64, np.uint8)
    start = -memory.ctypes.data % 32 + 1
    odd = memory[start : start + 4]
    view = api.borrow_as(odd, "x", {"alignment": 256, "rules": COPY})
    assert view["data"] % 256 == 0
    arguments = [(BASE, "x", {}), (BASE, "y", {"no_alias": [0], "rules": COPY})]
    x, y = api.borrow_all(arguments)
    assert (x["data"], y["data"] == x["data"]) == (BASE.ctypes.data, False)


@every_world
@pytest.mark.parametrize("alignment", [1, 3, 48, 96, 128, 4096])
def test_any_alignment(api, alignment):
    """Of the copy, which is also aligned for every element type and for vectors."""
    memory = np.zeros(2 * alignment + 4, np.uint8)
    odd = memory[-memory.ctypes.data % alignment + alignment // 2 :][:3]
    spec = {"alignment": alignment, "layout": C, "rules": COPY}
    for x in (odd, odd[::-1]):
        view = api.borrow_as(x, "x", spec)
        assert view["data"] % alignment == 0
        assert view["data"] % 64 == 0 or not view["flags"] & IS_COPIED
    assert view["flags"] & IS_COPIED


@every_world
def test_no_elements(api):
    empty = BASE.astype("f8")[:, :0, ::2]
    got = copied(api, empty, dtypes=[number("float32")], rules=CONVERT)
    assert (got.shape, got.dtype) == ((2, 0, 2), np.float32)
    many = Producer(Given(shape=(2**62, 4, 0)))
    view = api.borrow_as(many, "x", {"dtypes": [number("float64")], "rules": CONVERT})
    assert (view["shape"], len(view["strides"])) == ((2**62, 4, 0), 3)


INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]
ALL = ["bool", *INTEGERS, *FLOATS]
KIND = {"b": 1, "i": 2, "u": 2, "f": 3}


@every_world
@pytest.mark.parametrize("target", ALL)
@pytest.mark.parametrize("source", ALL)
def test_conversion(api, source, target):
    """NumPy's values, wherever it is a bool or an integer that goes to a higher kind or fits."""
    x = np.array([0, 1, 5, 100, 77, 1, 0] * 20).astype(source)[::-2]
    spec = {"dtypes": [number(target)], "rules": CONVERT}
    if source == target:
        assert not api.borrow_as(x, "x", spec)["flags"] & IS_COPIED
    elif KIND[np.dtype(source).kind] > KIND[np.dtype(target).kind] or target == "bool":
        with pytest.raises(TypeError, match=f"^x: expected {target}, got {source}: fastdl does"):
            api.borrow_as(x, "x", spec)
    else:
        got = copied(api, x, **spec)
        assert got.dtype == target
        assert np.array_equal(got, x.astype(target))


@every_world
@pytest.mark.parametrize("source", [*INTEGERS, *FLOATS])
def test_to_and_from_bfloat16(api, source):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.array([0, 1, 3, 100, 65]).astype(source)
    made = api.own_as(x, "x", {"dtypes": [number("bfloat16")], "rules": CONVERT})
    half = fastdl.from_dlpack(made)
    assert half.numpy().tolist() == x.astype(ml_dtypes.bfloat16).tolist()
    if source in FLOATS:
        got = copied(api, half, dtypes=[number(source)], rules=CONVERT)
        assert got.tolist() == x.tolist()


@every_world
@pytest.mark.parametrize(
    ("x", "target", "value", "index"),
    [
        (np.array([1, 300]), "int8", "300", "(1,)"),
        (np.array([1, -129]), "int8", "-129", "(1,)"),
        (np.array([-1]), "uint8", "-1", "(0,)"),
        (np.array([-1]), "uint64", "-1", "(0,)"),
        (np.array([2**63], np.uint64), "int64", str(2**63), "(0,)"),
        (np.array([2**64 - 1], np.uint64), "int8", str(2**64 - 1), "(0,)"),
        (np.array([0] * 2000 + [70000, 80000]), "uint16", "70000", "(2000,)"),
        (np.eye(40, 50, 9).astype(int).T * 300, "uint8", "300", "(9, 0)"),
        (np.array(-1), "uint8", "-1", "()"),
    ],
)
def test_an_integer_that_does_not_fit(api, x, target, value, index):
    spec = {"dtypes": [number(target)], "rules": CONVERT}
    words = f"x: expected numbers that fit {target}, got {value} at index {index}"
    for layout in (0, C, F):
        with pytest.raises(ValueError) as raised:
            api.borrow_as(x, "x", {**spec, "layout": layout})
        assert str(raised.value) == words


ROWS = np.arange(3 * 7 * 500, dtype=np.int16).reshape(3, 7, 500)


@every_world
@pytest.mark.parametrize("order", [C, F])
@pytest.mark.parametrize(
    "x",
    [
        ROWS[:, ::2, 1::3],
        ROWS.transpose(1, 0, 2)[:, :, ::-1],
        np.broadcast_to(ROWS[:, :, :1], ROWS.shape),
        np.broadcast_to(ROWS[:, :1], ROWS.shape),
        ROWS[::-1],
        ROWS[:, :, None, 3:4].T,
        ROWS[2, 3, 4:5].reshape(()),
    ],
    ids=["steps", "permuted", "repeated", "repeated rows", "reversed", "columns", "one"],
)
@pytest.mark.parametrize("target", ["int16", "float32", "float64", "int64", "float16"])
def test_more_than_one_run(api, x, order, target):
    """Elements are converted some at a time, which are not the rows."""
    if x.dtype == target and x.flags["C_CONTIGUOUS" if order == C else "F_CONTIGUOUS"]:
        return  # not copied
    got = copied(api, x, layout=order, rules=CONVERT, dtypes=[number(target)])
    assert got.dtype == target
    assert np.array_equal(got, x.astype(target))


integers = st.integers(-(2**63), 2**63 - 1)


@given(value=st.one_of(integers, st.integers(0, 2**64 - 1)), target=st.sampled_from(FLOATS))
def test_integers_round_once(value, target):
    """By exact arithmetic: no other number of the type is nearer."""
    api = INSTALLED["installed"]
    x = np.array([value], np.uint64 if value > 2**63 - 1 else np.int64)
    got = copied(api, x, dtypes=[number(target)], rules=CONVERT)[0]
    if np.isinf(got):
        assert abs(value) >= 65520  # half a unit above the largest float16
        return
    with np.errstate(over="ignore"):
        around = [np.nextafter(got, got.dtype.type(side)) for side in (-np.inf, np.inf)]
    error = abs(int(got) - value)
    assert all(error <= abs(int(other) - value) for other in around if np.isfinite(other))


@given(value=st.floats(), source=st.sampled_from(FLOATS), target=st.sampled_from(FLOATS))
def test_floats_round_as_numpy_does(value, source, target):
    if source == target:
        return
    with np.errstate(all="ignore"):
        x = np.array([value]).astype(source)
        expected = x.astype(target)
    got = copied(INSTALLED["installed"], x, dtypes=[number(target)], rules=CONVERT)
    assert np.array_equal(got, expected, equal_nan=True)
    assert np.signbit(got[0]) == np.signbit(expected[0]) or np.isnan(value)


@given(data=st.data())
def test_any_strides(data):
    shape = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=4))
    x = np.arange(np.prod([2 * n + 1 for n in shape], dtype=int)).reshape(
        [2 * n + 1 for n in shape]
    )
    steps = data.draw(st.lists(st.sampled_from([1, 2, -1, -2]), min_size=4, max_size=4))
    x = x[tuple(slice(None, None, s) for s in steps[: len(shape)])]
    x = x.transpose(data.draw(st.permutations(range(len(shape)))))
    got = copied(INSTALLED["installed"], x, dtypes=[number("float64")], rules=CONVERT, layout=F)
    assert np.array_equal(got, x)
    assert got.flags.f_contiguous


@every_world
def test_like_gives_the_type(api):
    arguments = [(BASE, "x", {}), (np.ones(3, "i2"), "y", {"like": 0, "rules": CONVERT})]
    assert api.borrow_all(arguments)[1]["dtype"] == (2, 32, 1)
    with pytest.raises(TypeError, match="^y: expected float32, as x has, got int16"):
        api.borrow_all([(BASE, "x", {}), (np.ones(3, "i2"), "y", {"like": 0, "rules": COPY})])


@every_world
def test_the_first_type_that_an_element_can_become(api):
    spec = {"dtypes": [number("int32"), number("float32"), number("float64")], "rules": CONVERT}
    assert copied(api, np.ones(3, np.float16), **spec).dtype == np.float32
    assert copied(api, np.ones(3, np.int16), **spec).dtype == np.int32
    assert not api.borrow_as(np.ones(3), "x", spec)["flags"] & IS_COPIED


@every_world
def test_what_a_copy_cannot_mend(api):
    wide = {"dtypes": [number("float64")], "rules": CONVERT}
    for x, spec, error in [
        (BASE, {**wide, "ndim": 2}, ValueError),
        (BASE, {**wide, "ndim": 3, "shape": [2, 3, 5]}, ValueError),
        (BASE * 1j, wide, TypeError),
        (Lending(Given(dtype=(0, 8, 4))), wide, TypeError),
        (BASE, {"dtypes": [number("complex64")], "rules": CONVERT}, TypeError),
        (BASE.T, {"layout": C, "rules": COPY | WRITABLE}, BufferError),
        (BASE, {**wide, "rules": CONVERT | WRITABLE}, TypeError),
        (BASE, {"dtypes": [number("float64")], "rules": COPY}, TypeError),
        (Lending(Given(device=CUDA)), wide, TypeError),
        (Lending(Given(device=CUDA, strides=(1, 2))),
         {"layout": C, "rules": COPY, "device": ANY_DEVICE}, BufferError),
        (Lending(Given(device=OPENCL)), {"rules": COPY}, BufferError),
        (Lending(Given()), {"device": 3, "alignment": 1 << 20, "rules": COPY}, BufferError),
    ]:  # fmt: skip
        for enter in (api.borrow_as, api.own_as):
            with pytest.raises(error, match="^x: expected"):
                enter(x, "x", spec)


@every_world
def test_a_copy_is_not_pinned(api):
    """So where pinned memory is asked for, what is wrong is what a copy would have mended."""
    pinned = Lending(Given(device=(3, 0), strides=(1, 2)))
    like = Lending(Given(device=(3, 0)))
    spec = {"layout": C, "rules": COPY}
    assert api.borrow_as(pinned, "x", spec)["device"] == (1, 0)
    with pytest.raises(BufferError, match="^x: expected a row-major contiguous layout, got"):
        api.borrow_as(pinned, "x", {**spec, "device": 3})
    with pytest.raises(BufferError, match="^x: expected a row-major contiguous layout, got"):
        api.borrow_all([(like, "like", {}), (pinned, "x", {**spec, "like": 0})])


@every_world
def test_vectors_of_lanes_are_copied(api):
    given = Given(dtype=(2, 32, 3), shape=(2,), strides=(-1,), byte_offset=12)
    view = api.borrow_as(Lending(given), "x", {"layout": C, "rules": COPY})
    assert (view["dtype"], view["strides"]) == ((2, 32, 3), (1,))


@every_world
def test_who_owns_what(api):
    given = Given(strides=(1, 2))
    view = api.borrow_as(Producer(given), "x", {"layout": C, "rules": COPY})
    assert view["strides"] == (3, 1)
    given.assert_released()
    given = Given(strides=(1, 2))
    capsule = api.own_as(Producer(given), "x", {"layout": C, "rules": COPY})
    given.assert_released()  # the copy needs it no more
    assert fastdl.from_dlpack(capsule).numpy().strides == (12, 4)
    given = Given()
    capsule = api.own_as(Producer(given), "x", {"layout": C, "rules": COPY})
    given.assert_alive()
    del capsule
    given.assert_released()
    given = Given()
    with pytest.raises(ValueError, match="^x: expected 1 dimension"):
        api.own_as(Producer(given), "x", {"ndim": 1})
    given.assert_released()
    with pytest.raises(TypeError, match="^x: expected a tensor, got 'list'"):
        api.own_as([1.0], "x", {})


def huge(bits):
    return np.broadcast_to(np.zeros(1, np.uint8), (2 ** (bits - 20), 2**20))


VAST = np.broadcast_to(np.float64(1), (2**45,))


@every_world
@pytest.mark.parametrize(
    ("x", "spec", "error", "words"),
    [
        *((huge(bits), {"dtypes": [number(name)], "layout": C, "rules": CONVERT}, MemoryError,
           f"cannot allocate {words}$") for name, bits, words in [
            ("uint8", 50, f"{2**50} bytes for a copy"),
            ("float64", 50, f"{2**53} bytes for a copy"),
            ("uint8", 60, "a copy larger than the address space"),
            ("float64", 60, "a copy larger than the address space")]),
        # What would be refused is not allocated.
        (VAST, {"dtypes": [number("float32")], "rules": COPY}, TypeError,
         "expected float32, got float64"),
        (VAST, {"dtypes": [number("int32")], "rules": CONVERT}, TypeError,
         "expected int32, got float64: fastdl does not"),
        (VAST, {"layout": C, "device": 3, "rules": COPY}, BufferError,
         "expected cuda_host, got cpu:0"),
    ],
)  # fmt: skip
def test_memory_that_cannot_be_had(api, x, spec, error, words):
    for enter in (api.borrow_as, api.own_as):
        with pytest.raises(error, match=f"^x: {words}"):
            enter(x, "x", spec)


@every_world
@pytest.mark.parametrize("code", [0, 1], ids=["int", "uint"])
def test_integers_that_torch_lends_as_wider_ones_are_not_copied(api, code):
    name = ("torch.int8", "torch.uint8")[code]

    def array(name):
        members = {"__module__": "torch", "dtype": TorchDtype(name)}
        return type("Tensor", (Lending,), members)(Given(dtype=(code, 8, 1), strides=(1, 2)))

    narrow = name.replace("8", "4")
    for spec in ({"dtypes": [number("float32")], "rules": CONVERT}, {"layout": C, "rules": COPY}):
        assert api.borrow_as(array(name), "x", spec)["flags"] & IS_COPIED
        for enter in (api.borrow_as, api.own_as):
            with pytest.raises(BufferError, match=r"^x: expected numbers, got .* torch\.u?int4"):
                enter(array(narrow), "x", spec)
    assert api.borrow_as(array(narrow), "x", {})["dtype"] == (code, 8, 1)


@every_world
def test_expect_makes_no_copies(api):
    with pytest.raises(BufferError, match="^x: expected a row-major"):
        api.expect([(BASE.T, "x", {"layout": C, "rules": COPY | IN_PLACE})])


# ---- zeros and drop -------------------------------------------------------------------------


@every_world
def test_zeros(api):
    for shape in ((3, 4), (), (0, 2)):
        capsule = api.zeros(np.ones(shape, np.int16), fastdl.Tensor)
        got = fastdl.from_dlpack(capsule).numpy()
        assert (got.shape, got.dtype) == (shape, np.int16)
        assert not got.any()
    with pytest.raises(BufferError, match="expected host memory"):
        api.zeros(Lending(Given(device=CUDA)), fastdl.Tensor)


@every_world
def test_drop(api):
    given = Given()
    assert api.drop(api.own(Producer(given))) is None
    given.assert_released()
    api.drop(None)
    api.drop(Given(deleter=False).capsule())


@every_world
def test_a_cpu_with_a_number_is_the_cpu(api):
    """However it is entered: a message shows the device that is compared."""
    for enter in (api.borrow_as, api.own_as):
        given = Given(device=(1, 3))
        with pytest.raises(BufferError, match="^x: expected opencl, got cpu:0: "):
            enter(Producer(given, device=(1, 3)), "x", {"device": OPENCL[0]})
        given.assert_released()


@installed
def test_an_element_type_that_dlpack_lacks_names_the_argument(api):
    """TensorFlow ends the process where it is asked for a capsule."""
    x = named(*NAMES["tensorflow"], NotAsked, dtype=SimpleNamespace(name="string"))()
    for enter in (api.borrow_as, api.own_as):
        with pytest.raises(BufferError, match="^weights: expected numbers, got .* dtype .*string"):
            enter(x, "weights", {})
