# SPDX-License-Identifier: Apache-2.0
"""fastdl.h: borrowing, owning and results, with the installed package and without it."""

import ctypes
import gc
import re
import sys
import weakref

import numpy as np
import pytest

import fastdl
from fastdl._native import dtype_facts
from tests.support.build import ROOT, extension
from tests.support.ctypes_dlpack import address_in, capsule
from tests.support.headers import ALONE, alone, every_world, installed
from tests.support.isolate import run_isolated
from tests.support.producers import (
    CPU,
    CUDA,
    OPENCL,
    Given,
    Lending,
    LendingProducer,
    Nulls,
    OldProducer,
    Producer,
    Tabled,
    TabledProducer,
    hostile,
    new,
    new_table,
    tensors_of_pyarrow,
)

READ_ONLY = 1


# ---- what is borrowed -----------------------------------------------------------------------


def array_views():
    base = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    frozen = base.copy()
    frozen.flags.writeable = False
    return {
        "compact": base,
        "transposed": base.T,
        "reversed": base[::-1, :, ::-2],
        "broadcast": np.broadcast_to(base[:, :1], (2, 3, 4)),
        "no dimensions": np.array(5, dtype=np.int16),
        "no elements": base[:, :0],
        "read-only": frozen,
        "bool": base > 3,
        "complex": base.astype(np.complex64),
        "float16": base.astype(np.float16),
        "uint64": base.astype(np.uint64),
        "most dimensions": base.reshape((2, 3, 4) + (1,) * (getattr(np, "MAXDIMS", 64) - 3)),
    }


def assert_describes(view, array):
    """The fields of a view against what NumPy says of the array."""
    kind = "iufcb".index(array.dtype.kind)
    code = (0, 1, 2, 5, 6)[kind]  # DLPack's numbers
    assert view["dtype"] == (code, 8 * array.itemsize, 1)
    assert view["device"] == CPU
    assert view["shape"] == array.shape
    assert view["byte_offset"] == 0
    assert bool(view["flags"] & READ_ONLY) == (not array.flags.writeable)
    if array.size:
        assert view["data"] == array.__array_interface__["data"][0]
        steps = [s // array.itemsize for s in array.strides]
        used = [i for i, n in enumerate(array.shape) if n > 1]
        assert [view["strides"][i] for i in used] == [steps[i] for i in used]
    assert len(view["strides"]) == array.ndim


@every_world
@pytest.mark.parametrize("of", [lambda array: array, fastdl.from_dlpack], ids=["array", "tensor"])
@pytest.mark.parametrize("array", array_views().values(), ids=array_views())
def test_arrays_and_tensors(api, array, of):
    assert_describes(api.borrow(of(array)), array)
    assert_describes(api.held(api.own(of(array))), array)


@installed
@pytest.mark.parametrize("name", ["bfloat16", "float8_e5m2", "float4_e2m1fn"])
def test_types_of_ml_dtypes(api, name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    view = api.borrow(np.ones(4, dtype=getattr(ml_dtypes, name)))
    assert view["dtype"] == fastdl.DType(name).__dlpack_data_type__()
    assert bool(view["flags"] & 4) == (name == "float4_e2m1fn")  # a byte each


@installed
def test_fastdl_tensor_is_read_directly(api):
    frozen = array_views()["read-only"]
    assert api.borrow(fastdl.from_dlpack(frozen))["owned"] is False


@every_world
def test_tensor_on_an_opaque_device_keeps_its_offset(api):
    given = Given(device=OPENCL, byte_offset=16, data=4096)
    tensor = fastdl.from_dlpack(given.capsule())
    view = api.borrow(tensor)
    assert (view["device"], view["data"], view["byte_offset"]) == (OPENCL, 4096, 16)


@every_world
def test_offset_is_folded_into_data(api):
    given = Given(byte_offset=4, shape=(5,))
    plain = Given(memory=given.owner().memory, shape=(5,))
    assert api.borrow(Lending(given))["data"] == api.borrow(Lending(plain))["data"] + 4


# ---- who owns what --------------------------------------------------------------------------


@every_world
@pytest.mark.parametrize("kind", [Producer, OldProducer, Tabled, Lending, LendingProducer])
def test_owned_tensor_is_given_back_once(api, kind):
    given = Given(versioned=kind is not OldProducer)
    capsule = api.own(kind(given))
    given.assert_alive()
    api.delete_unattached(api.leave(capsule))
    given.assert_released()


@every_world
@pytest.mark.parametrize("kind", [Producer, OldProducer])
def test_a_missing_deleter_keeps_the_producer(api, kind):
    producer = kind(Given(versioned=kind is Producer, deleter=False))
    alive = weakref.ref(producer)
    capsule = api.own(producer)
    del producer
    gc.collect()
    assert alive() is not None
    api.delete_unattached(api.leave(capsule))
    gc.collect()
    assert alive() is None


@every_world
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_release_keeps_a_pending_exception(api):
    given = Given(on_delete=lambda: 1 / 0)
    with pytest.raises(ArithmeticError, match="pending"):
        api.release_in_error(Producer(given))
    given.assert_released()


def test_a_pending_exception_on_entry():
    """Each function succeeds, or fails with an exception; nothing crashes and nothing leaks."""
    run_isolated("""
        from tests.support.headers import ALONE, INSTALLED
        from tests.support.producers import Given, Lending, OldProducer, Producer, Tabled, new
        import fastdl
        import numpy as np
        FUNCTIONS = ("borrow", "borrow_as", "borrow_all", "expect", "own", "empty", "work_stream",
                     "exchange_api", "import", "wrap")
        LENT = ("borrow", "borrow_as", "borrow_all")
        for world, api in {**ALONE, **INSTALLED}.items():
            for function in FUNCTIONS:
                if function == "import" and api in ALONE.values():
                    continue  # it would not be alone any more
                for base in (Producer, OldProducer, Tabled, Lending):
                    for again in range(2):  # a type that is new, and known
                        kind = new(base)
                        if again:
                            api.exchange_api(kind)
                        given = Given(versioned=base is not OldProducer)
                        api.under_error(function, kind(given), fastdl.empty(3))
                        lent = base is Lending and function in LENT
                        assert given.deleted == (0 if lent else given.handed)
                        again = Given(versioned=base is not OldProducer)
                        assert api.borrow(kind(again))["shape"] == (2, 3)
                for known in (np.ones(3), fastdl.empty(3)):
                    api.under_error(function, known, known)
    """)


@alone
def test_a_library_whose_capsules_keep_nothing_alive(api):
    kind = new(Producer, __module__="onnxruntime.capi", __qualname__="OrtValue")
    producer = kind(Given())
    alive = weakref.ref(producer)
    capsule = api.own(producer)
    del producer
    gc.collect()
    assert alive() is not None
    del capsule
    gc.collect()
    assert alive() is None


@every_world
@pytest.mark.parametrize(
    ("module", "name", "immutable"),
    [("jaxlib._jax", "ArrayImpl", True), ("pyarrow.lib", "Array", True), ("mine", "Array", False),
     ("mlx.core", "array", True), ("jaxlibrary", "ArrayImpl", False)],
)  # fmt: skip
def test_legacy_capsules_of_immutable_types_are_read_only(api, module, name, immutable):
    kind = new(OldProducer, __module__=module, __qualname__=name)
    for _ in range(2):
        view = api.borrow(kind(Given(versioned=False)))
        assert bool(view["flags"] & READ_ONLY) is immutable


# ---- what is refused ------------------------------------------------------------------------


@every_world
def test_a_capsule_is_no_tensor(api):
    """And is not consumed for being mistaken for one."""
    given = Given()
    capsule = given.capsule()
    for enter in (api.borrow, api.own):
        with pytest.raises(TypeError, match="expected a tensor, got 'PyCapsule'"):
            enter(capsule)
    del capsule
    given.assert_released(by_destructor=True)


@every_world
@pytest.mark.parametrize("versioned", [True, False])
def test_capsule_with_the_name_of_the_other_form(api, versioned):
    """What stands in the place of its deleter is none."""
    name = "dltensor" if versioned else "dltensor_versioned"
    given = Given(versioned=versioned)
    with pytest.raises(BufferError):
        api.borrow(new(Producer)(given, act=lambda self: self.managed.capsule(name=name)))
    given.assert_alive()


@installed
def test_nulls_that_a_library_exports_as_numbers(api):
    """The package knows an array of PyArrow's tensors, whatever form the capsule has."""
    forms = (Producer, {"strides": (3, 1)}), (Producer, {}), (OldProducer, {"versioned": False})
    for kind, form in forms:
        unsound = tensors_of_pyarrow(kind)(Given(**form), storage=Nulls(3))
        for enter in (api.borrow, api.own):
            with pytest.raises(BufferError, match=r"missing values \(3 in all\)"):
                enter(unsound)
        assert unsound.asked == []


MODES = {
    "raise": (LookupError, "from the hostile table"),
    "fail": (BufferError, "without setting an exception"),
    "interrupt": (KeyboardInterrupt, "^$"),
    "nothing and raise": (LookupError, "from the hostile table"),
}


@every_world
@pytest.mark.parametrize(
    ("kind", "mode"),
    [*((Tabled, mode) for mode in (*MODES, "nothing")),
     *((Lending, mode) for mode in ("raise", "fail", "interrupt", "nothing"))],
)  # fmt: skip
def test_table_that_fails(api, kind, mode):
    error, match = MODES.get(mode, (BufferError, "without setting an exception"))
    if (kind, mode) == (Lending, "nothing"):  # success, and nothing in the view
        match = "the tensor has"
    for enter in (api.borrow, api.own) if kind is Tabled else (api.borrow,):
        given = Given()
        with pytest.raises(error, match=match):
            enter(kind(given, mode))
        given.assert_alive()
        for good in ("give", "give and raise"):  # nothing is wrongly remembered
            assert api.borrow(kind(Given(), good))["shape"] == (2, 3)


@every_world
def test_a_type_without_a_module(api):
    nameless = eval("type('Mine', (Producer,), {})", {"Producer": Producer, "type": type})
    with pytest.raises(AttributeError):
        nameless.__module__  # noqa: B018
    assert api.borrow(nameless(Given()))["shape"] == (2, 3)


@every_world
@pytest.mark.parametrize("name", ["__module__", "__qualname__", "__mro__", "__dict__"])
@pytest.mark.parametrize("answer", ["raises", 5, ()], ids=repr)
def test_no_metaclass_is_asked_what_its_classes_are(api, name, answer):
    class Meta(type):
        def __getattribute__(cls, asked):
            if asked != name:
                return super().__getattribute__(asked)
            if answer == "raises":
                raise LookupError("from the metaclass")
            return answer

    assert api.borrow(Meta("Odd", (Producer,), {})(Given()))["shape"] == (2, 3)
    assert api.borrow(Meta("Odd", (Lending,), {})(Given()))["owned"] is False


@every_world
@pytest.mark.parametrize(
    ("module", "name"),
    [("torch._subclasses.fake_tensor", "FakeTensor"), ("jax._src.core", "Tracer")],
)
@pytest.mark.parametrize("kind", [Lending, Producer])
def test_a_tensor_that_is_traced_has_no_memory(api, kind, module, name):
    tracer = new(new(kind, __module__=module, __qualname__=name))
    for enter in (api.borrow, api.own, fastdl.from_dlpack, fastdl.asarray):
        given = Given()
        with pytest.raises(BufferError, match="tracer.*custom operator"):
            enter(tracer(given))
        assert given.handed == 0
    with pytest.raises(BufferError, match="^weights: .*tracer"):
        api.borrow_as(tracer(Given()), "weights", {})
    with pytest.raises(BufferError, match="tracer"):
        api.empty(np.ones(3), tracer)
    given = Given()
    with pytest.raises(BufferError, match="tracer"):
        api.wrap(api.own(Tabled(given)), tracer)
    given.assert_released()


@every_world
def test_trust_is_in_the_table_of_the_library(api):
    """Not in that of a class which derives from the library's."""
    base = new(Producer, __module__="torch", __qualname__="Tensor")
    kind = type("Mine", (base,), {"__dlpack_c_exchange_api__": Lending.__dlpack_c_exchange_api__})
    with pytest.raises(BufferError, match="a negative dimension"):
        api.borrow(kind(Given(shape=(2, -1)), mode="give"))


# ---- the protocol ---------------------------------------------------------------------------


def test_what_a_type_does_not_take_is_remembered():
    """By its signature, which the limited API alone cannot read safely."""
    run_isolated("""
        import sysconfig
        from tests.support.headers import ALONE, INSTALLED
        from tests.support.producers import Given, OldProducer, new
        MAX_VERSION = 2  # FASTDL_KEYWORD_*
        for name, api in (ALONE | INSTALLED).items():
            kind = new(OldProducer)
            sources = [kind(Given(versioned=False)) for _ in range(2)]
            for source in sources:
                api.borrow(source)
            assert len(sources[1].asked) == 1
            _, refused = api.record(kind)
            limited = "alone, limited" in name and not sysconfig.get_config_var("Py_GIL_DISABLED")
            assert bool(refused & MAX_VERSION) is not limited
    """)


@every_world
@pytest.mark.parametrize("kind", [Tabled, Lending, Producer])
def test_there_is_one_host(api, kind):
    assert api.borrow(kind(Given(device=(1, 7))))["device"] == CPU


@every_world
@pytest.mark.parametrize(("device", "stream"), [(CPU, None), (CUDA, 1), ((10, 0), 0)])
def test_stream_that_is_asked_for(api, device, stream):
    """The default one by its number, where there are streams."""
    source = new(Producer)(Given(device=device), device=device)
    view = api.borrow(source)
    assert view["device"] == device
    assert [asked[0] for asked in source.asked] == [stream]
    assert api.work_stream(type(source)(Given(device=device), device=device)) == 0


@every_world
@pytest.mark.parametrize("shape", [(), (0,), (2, 3), (2, 0, 3), (2**20, 2**20, 2**20, 0)], ids=str)
def test_counted(api, shape):
    """fastdl_size, and fastdl_data_type of what fastdl_dtype gave."""
    x = np.broadcast_to(np.zeros((1,) * len(shape), np.float32), shape)
    assert api.counted(x) == (x.size, (2, 32, 1))


@installed
@pytest.mark.parametrize(
    "x",
    [
        np.array(["a"]),
        np.arange(3).astype(">i4"),
        np.ma.masked_array([1, 2], [0, 1]),
        np.zeros(2, dtype="i1,i4")["f1"],
    ],
    ids=["text", "big-endian", "masked", "in a structure"],
)
def test_what_the_bridge_to_numpy_refuses_has_the_name_of_the_argument(api, x):
    with pytest.raises(BufferError, match="^x: (expected|the array has masked)"):
        api.borrow_as(x, "x", {})


# ---- results --------------------------------------------------------------------------------


@installed
def test_result_as_a_numpy_array(api):
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    result = api.wrap(api.own(array), np.ndarray)
    assert type(result) is np.ndarray
    assert np.shares_memory(result, array)
    made = api.wrap(api.empty(array, np.ndarray), np.ndarray)
    assert (made.shape, made.dtype, made.flags.c_contiguous) == ((2, 3), np.int16, True)
    made[...] = 7
    frozen = np.arange(3.0)
    frozen.flags.writeable = False
    assert not api.wrap(api.own(frozen), np.ndarray).flags.writeable


@installed
def test_no_python_runs_for_a_result_as_a_numpy_array(api):
    def result():
        return api.wrap(api.empty(array, np.ndarray), np.ndarray)

    array = np.zeros((2, 3), np.float32)
    result()
    called = []
    sys.setprofile(lambda frame, event, argument: called.append(frame.f_code.co_filename))
    try:
        result()
    finally:
        sys.setprofile(None)
    assert not [path for path in called if "bridges" in path]


@installed
@pytest.mark.parametrize("like", [None, fastdl.Tensor, Producer], ids=repr)
def test_result_where_a_type_has_no_table_that_makes_objects(api, like):
    result = api.wrap(api.own(np.arange(3.0)), like)
    assert type(result) is fastdl.Tensor
    assert result.tolist() == [0, 1, 2]
    made = api.wrap(api.empty(np.ones((2, 3)), like), like)
    assert type(made) is fastdl.Tensor
    assert (made.shape, str(made.dtype)) == ((2, 3), "float64")


@pytest.fixture
def tvm_ffi():
    return pytest.importorskip("tvm_ffi")  # there is none for a free-threaded CPython


@installed
def test_result_as_an_object_of_a_library_with_a_bridge(api, tvm_ffi):
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    for _ in range(2):
        result = api.wrap(api.own(array), tvm_ffi.Tensor)
        assert type(result) is tvm_ffi.Tensor
        assert result.data_ptr() == array.ctypes.data
    made = api.wrap(api.empty(array, tvm_ffi.Tensor), tvm_ffi.Tensor)
    assert (type(made), made.shape) == (tvm_ffi.Tensor, (2, 3))
    frozen = np.arange(3.0)
    frozen.flags.writeable = False
    result = api.wrap(api.own(frozen), tvm_ffi.Tensor)  # which has no read-only tensors
    assert result.data_ptr() != frozen.ctypes.data


@installed
def test_result_that_a_library_with_a_bridge_refuses(api, tvm_ffi):
    given = Given(shape=(2, -3))
    with pytest.raises(BufferError, match="a negative dimension"):
        api.wrap(given.capsule(), tvm_ffi.Tensor)
    given.assert_released()
    given = Given(dtype=(99, 8, 1))
    result = api.wrap(given.capsule(), tvm_ffi.Tensor)
    del result
    given.assert_released()


@every_world
def test_result_of_a_fastdl_tensor_needs_only_its_table(api):
    given = Given()
    result = api.wrap(api.own(Tabled(given)), fastdl.Tensor)
    assert result.shape == (2, 3)
    given.assert_alive()
    del result
    given.assert_released()


class Proxy:
    """Of a tensor: the type has no `__dlpack__`, and the object has."""

    def __init__(self, x):
        self.__dlpack__, self.__dlpack_device__ = x.__dlpack__, x.__dlpack_device__


@installed
@pytest.mark.parametrize("like", [bytes, Proxy])
def test_result_like_an_argument_that_is_no_tensor(api, like):
    given = Given()
    result = api.wrap(api.own(Proxy(Producer(given))), like)
    assert type(result) is fastdl.Tensor
    given.assert_alive()
    del result
    given.assert_released()
    result = api.wrap(api.zeros(np.ones(3), like), like)
    assert (type(result), result.tolist()) == (fastdl.Tensor, [0, 0, 0])


@installed
def test_our_table_that_fails_to_wrap_gives_the_tensor_back(api):
    for given in (
        Given(dtype=(99, 8, 1)),  # NumPy has no such type
        Given(shape=(1,) * 64, dtype=(2, 32, 2)),  # nor 65 dimensions
        Given(device=CUDA),  # nor any on a device
    ):
        with pytest.raises((TypeError, BufferError)):
            api.wrap(api.own(Tabled(given)), np.ndarray)
        given.assert_released()


@alone
@pytest.mark.parametrize("source", [Tabled, Producer])
@pytest.mark.parametrize("like", [None, np.ndarray, Producer, bytes, Proxy], ids=repr)
def test_result_that_needs_the_package(api, source, like):
    given = Given()
    capsule = api.own(source(given))
    get = "" if like not in (bytes, Proxy) else " to get a fastdl.Tensor"
    with pytest.raises(TypeError, match=rf"fastdl_import\(\){get}"):
        api.wrap(capsule, like)
    given.assert_released()  # our own refusal
    allocate = "" if like not in (bytes, Proxy) else " to allocate for it"
    with pytest.raises(TypeError, match=rf"fastdl_import\(\){allocate}"):
        api.empty(np.ones(3), like)


@pytest.fixture
def maker():
    yield hostile.set_maker
    hostile.set_maker("raise")


SILENT = BufferError, "without setting an exception"


@every_world
@pytest.mark.parametrize(
    ("mode", "of_the_allocator", "of_the_maker"),
    [
        ("raise", (NotImplementedError, "the hostile table allocates nothing"),
         (LookupError, "from the hostile table")),
        ("fail", SILENT, SILENT),
        ("no words", (RuntimeError, "failed without a message"), None),
        ("odd kind", (RuntimeError, "no exception"), None),
        ("nothing", SILENT, SILENT),
    ],
)  # fmt: skip
def test_a_table_that_allocates_and_makes_nothing(api, maker, mode, of_the_allocator, of_the_maker):
    """It is not second-guessed."""
    maker(mode)
    error, words = of_the_allocator
    with pytest.raises(error, match=words):
        api.empty(np.ones(3), Tabled)
    if of_the_maker is not None:
        given = Given()
        error, words = of_the_maker
        with pytest.raises(error, match=words):
            api.wrap(api.own(Tabled(given)), Tabled)
        given.assert_alive()  # whether it took the tensor is unknown


@every_world
@pytest.mark.parametrize("mode", ["give", "give and raise"])
def test_what_an_allocator_gives_keeps_the_promises_of_fastdl_empty(api, maker, mode):
    given = Given(byte_offset=4, shape=(5,), strides=None)
    maker(mode, given)
    capsule = api.empty(np.ones(3), Tabled)
    held = api.held(capsule)
    assert (held["strides"], held["byte_offset"]) == ((1,), 0)
    del capsule
    given.assert_released()
    maker("give and raise")
    assert api.wrap(api.own(Tabled(Given())), Tabled) is ...
    given = Given(shape=(2, -3))
    maker(mode, given)
    with pytest.raises(BufferError, match="a negative dimension"):
        api.empty(np.ones(3), Tabled)
    given.assert_released()


@installed
@pytest.mark.parametrize("like", [None, fastdl.Tensor], ids=repr)
def test_what_fastdl_refuses_to_wrap_is_given_back(api, like):
    given = Given(shape=(2, -3))
    with pytest.raises(BufferError, match="a negative dimension"):
        api.wrap(given.capsule(), like)
    given.assert_released()


# ---- streams --------------------------------------------------------------------------------


@every_world
@pytest.mark.parametrize("kind", [Tabled, Lending])
def test_work_stream(api, kind):
    try:
        hostile.set_stream(0, 0x5EED, False)
        assert api.work_stream(kind(Given(device=CUDA))) == 0x5EED
        assert api.work_stream(kind(Given())) == 0  # the host has none, so nobody is asked
        hostile.set_stream(-1, 0, False)
        assert api.work_stream(kind(Given())) == 0
        assert api.work_stream(kind(Given(device=(3, 0)))) == 0  # pinned memory is the host's
        with pytest.raises(BufferError, match="does not report its current stream"):
            api.work_stream(kind(Given(device=CUDA)))
        hostile.set_stream(-1, 0, True)
        with pytest.raises(LookupError, match="no stream from the hostile table"):
            api.work_stream(kind(Given(device=CUDA)))
    finally:
        hostile.set_stream(0, 0, False)


@every_world
@pytest.mark.parametrize("kind", [TabledProducer, LendingProducer])
def test_work_stream_of_what_dlpack_gave_after_a_refusal(api, kind):
    """The default one, for which it was asked, not that of the table."""
    try:
        hostile.set_stream(0, 0x5EED, False)
        assert api.work_stream(kind(Given(device=CUDA), device=CUDA, mode="raise")) == 0
        hostile.set_stream(0, 0x5EED, True)
        assert api.work_stream(Lending(Given(device=CUDA))) == 0x5EED  # raises in passing
    finally:
        hostile.set_stream(0, 0, False)


@every_world
def test_work_stream_of_a_tensor_is_that_of_the_thread(api):
    tensor = fastdl.from_dlpack(Given(device=CUDA).capsule())
    assert api.work_stream(tensor) == 0
    with fastdl.use_stream("cuda:0", 0x5EED):
        assert api.work_stream(tensor) == 0x5EED
    with fastdl.use_stream("cuda:1", 0x5EED):
        assert api.work_stream(tensor) == 0


@installed
def test_a_tensor_that_cannot_be_ordered_for_the_thread_is_not_lent(api):
    tensor = fastdl.from_dlpack(Tabled(Given(device=CUDA)))
    with fastdl.use_stream("cuda:0", 0x5EED), pytest.raises(BufferError, match="driver"):
        api.work_stream(tensor)


@alone
def test_a_tensor_that_its_table_does_not_lend_comes_on_the_default_stream(api):
    tensor = fastdl.from_dlpack(Tabled(Given(device=CUDA)))
    with fastdl.use_stream("cuda:0", 0x5EED):
        assert api.work_stream(tensor) == 0


# ---- the cache of types ---------------------------------------------------------------------


@every_world
def test_threads_that_make_an_interpreter_the_home_at_once(api):
    """All succeed, and what another thread has imported stays."""
    before = api.borrow(np.ones(3))
    assert api.make_home_again() is True
    after = api.borrow(np.ones(3))
    assert after["owned"] == before["owned"] == (api in ALONE.values())


def test_what_modules_share():
    """Alone nothing; with the package, what it and they find."""
    run_isolated("""
        import fastdl
        from tests.support.headers import ALONE, INSTALLED
        from tests.support.producers import Given, Lending, new
        one, other = ALONE.values()
        kind = new(Lending)
        one.borrow(kind(Given()))
        assert one.record(kind) is not None and other.record(kind) is None
        assert other.borrow(kind(Given()))["shape"] == (2, 3)
        one, other = INSTALLED.values()
        assert other.record(kind) is None
        one.borrow(kind(Given()))
        assert other.record(kind) == one.record(kind) != None
        kind = new(Lending)
        fastdl.from_dlpack(kind(Given()))
        assert one.record(kind) is not None
    """)


@installed
def test_a_table_registered_later_is_used(api):
    """By modules that have met the type before, too."""
    kind = new(Producer)
    source = kind(Given(), mode="give")
    api.borrow(source)
    assert len(source.asked) == 1
    fastdl.register_exchange_api(kind, new_table(lends=True))
    source = kind(Given(), mode="give")
    assert api.borrow(source)["owned"] is False
    assert source.asked == []


@installed
def test_a_table_registered_while_its_type_is_described_is_not_lost(api):
    class Registering:
        def __get__(self, instance, owner):
            if not registered:
                registered.append(owner)
                fastdl.register_exchange_api(owner, new_table(lends=True))
            raise AttributeError

    registered = []
    kind = new(Producer, __dlpack_c_exchange_api__=Registering())
    for _ in range(2):
        assert api.borrow(kind(Given(), mode="give"))["owned"] is False


# ---- finding the package --------------------------------------------------------------------


def test_the_package_is_not_needed():
    """A process in which fastdl cannot be imported: the header is all there is."""
    printed = run_isolated("""
        import sys
        sys.modules["fastdl"] = None
        from tests.support.build import ROOT, extension
        api = extension("header", "header_without")
        try:
            api.import_runtime()
        except ImportError as error:
            print(type(error).__name__)
        import numpy as np
        view = api.borrow(np.arange(3.0))
        assert view["shape"] == (3,), view
        capsule = api.own(np.arange(3.0))
        assert api.held(capsule)["dtype"] == (2, 64, 1)
        try:
            api.borrow([1.0])
        except TypeError as error:
            print(error)
    """)
    first, second = printed.splitlines()
    assert first == "ModuleNotFoundError"  # Python's own word
    assert "'list'" in second


class Runtime(ctypes.Structure):
    """What each runtime begins with; it has ``size`` bytes."""

    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("size", ctypes.c_uint64)]


def changed(runtime, *, size=None, **fields):
    memory = (ctypes.c_char * (size or runtime.size))()
    ctypes.memmove(memory, ctypes.addressof(runtime), runtime.size)
    copy = Runtime.from_buffer(memory)
    copy.size = len(memory)
    for name, value in fields.items():
        setattr(copy, name, value)
    return copy


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"major": 2}, "fastdl.h of interface 1.0, .* 2.0, which is newer: upgrade the module"),
        ({"major": 0}, "fastdl.h of interface 1.0, .* 0.0, which is older: upgrade fastdlpack"),
        ({"minor": 9, "size": 4096}, None),  # a newer package serves
        (None, "has no C interface"),  # an older one, from before there was one
        ("another capsule", "has no C interface"),
    ],
    ids=repr,
)
def test_packages_of_other_releases(monkeypatch, change, error):
    api = extension("header", f"header_release_{abs(hash(repr(change)))}")
    runtime = Runtime.from_address(address_in(fastdl._core.exchange.runtime))
    other = None
    if change is None:
        monkeypatch.delattr(fastdl._core.exchange, "runtime")
    elif isinstance(change, str):
        other_capsule = hostile.table_capsule(hostile.table())
        monkeypatch.setattr(fastdl._core.exchange, "runtime", other_capsule)
    else:
        other = changed(runtime, **change)
        other_capsule = capsule(ctypes.addressof(other), b"fastdl._core.exchange.runtime")
        monkeypatch.setattr(fastdl._core.exchange, "runtime", other_capsule)
    if error is None:
        api.import_runtime()
    else:
        with pytest.raises(ImportError, match=error):
            api.import_runtime()
    array = np.arange(3.0)
    assert_describes(api.borrow(array), array)
    assert api.borrow(array)["owned"] is (error is not None)
    sys.modules.setdefault("kept for good", []).append((other, api)) if error is None else None


def test_a_header_that_is_newer_than_the_package(tmp_path):
    """It may use what that package does not have."""
    for name in ("fastdl.h", "dlpack.h"):
        text = (ROOT / "include/fastdl" / name).read_text()
        text = text.replace("#define FASTDL_ABI_MINOR 0", "#define FASTDL_ABI_MINOR 1")
        (tmp_path / name).write_text(text)
    flags = ("-DPY_SSIZE_T_CLEAN=", "-include", tmp_path / "fastdl.h")
    api = extension("header", "header_newer", *flags)
    with pytest.raises(ImportError, match=r"of interface 1\.1, .* 1\.0, .*: upgrade fastdlpack"):
        api.import_runtime()
    assert api.borrow(np.arange(3.0))["owned"] is True  # as before the call


#: fastdl.h, fastdl.c and dlpack.h of the last release, once there is one.
HEADERS = [ROOT / "include" / "fastdl", *ROOT.glob("tests/header/released")]


@pytest.mark.parametrize("folder", HEADERS, ids=lambda folder: folder.name)
def test_the_header_of_the_last_release(folder):
    """And this one, so that the module is known to work. If the interface has another major number,
    the header goes on by itself."""
    header = folder / "fastdl.h"
    (major,) = re.findall(r"#define FASTDL_ABI_MAJOR (\d+)", header.read_text(encoding="utf-8"))
    api = extension("released", f"released_{folder.name}", f'-DHEADER="{header.as_posix()}"')
    x = fastdl.asarray(np.arange(3.0))
    assert api.doubled(x).tolist() == [0, 2, 4]
    if int(major) == Runtime.from_address(address_in(fastdl._core.exchange.runtime)).major:
        api.import_runtime()
        assert api.doubled(np.arange(3.0)[::-1]).tolist() == [4, 2, 0]
    else:
        with pytest.raises(ImportError, match="fastdl.h of interface"):
            api.import_runtime()
    assert api.doubled(x).tolist() == [0, 2, 4]


# ---- facts ----------------------------------------------------------------------------------


@every_world
def test_types_that_exist_are_those_of_the_package(api):
    rows = {(code, bits) for _, code, bits, _ in dtype_facts()}
    codes = {code for code, _ in rows}
    for code in codes:
        for bits in range(256):
            assert api.dtype_exists(code, bits) == ((code, bits) in rows), (
                f"fastdl_dtype_families_ and dtypes.c differ in code {code} with {bits} bits"
            )
    unknown = set(range(256)) - codes  # with opaque handles, which have any size
    assert all(api.dtype_exists(code, 7) for code in unknown), "fastdl.h has a family without a row"
    assert not any(api.dtype_exists(code, 0) for code in range(256))


@installed
@pytest.mark.parametrize(("name", "code", "bits"), [row[:3] for row in dtype_facts()])
def test_types_have_the_names_of_the_package(api, name, code, bits):
    wanted = code | bits << 8 | 2 << 16
    with pytest.raises(TypeError, match=f"^x: expected {name}x2, got float32:"):
        api.expect([(np.zeros(1, "float32"), "x", {"dtypes": [wanted]})])


@installed
def test_exchange_api(api):
    for kind in (np.ndarray, fastdl.Tensor, Tabled, Producer):
        assert api.exchange_api(kind) == address_in(fastdl.exchange_api(kind))
