# SPDX-License-Identifier: Apache-2.0
"""fastdl_publish: a type in C or C++ as a whole producer, with the package and without it."""

import ctypes
import gc
import sys
import weakref

import numpy as np
import pytest

import fastdl
from fastdl._core import exchange
from tests.support import consumer, headers
from tests.support.c_producers import ALONE, INSTALLED, LIMITED_API, WORLDS, given
from tests.support.ctypes_dlpack import CPU, CUDA, IS_COPIED, OPENCL, address_in, opened, strides_in
from tests.support.every_producer import ways_to_hold
from tests.support.isolate import run_isolated
from tests.support.producers import hostile

with_a_gil = pytest.mark.skipif(
    not getattr(sys, "_is_gil_enabled", lambda: True)(),
    reason="without a GIL there is no limited API, and types die later",
)


KINDS = {
    f"{name}: {kind}": getattr(api, kind)
    for name, api in WORLDS.items()
    for kind in ("Lending", "Exporting", "Roomy", "Static")
    if hasattr(api, kind)
}
every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
every_world = pytest.mark.parametrize("api", WORLDS.values(), ids=WORLDS)
NAMES = (
    "__dlpack_c_exchange_api__",
    "__c_dlpack_exchange_api__",
    "__dlpack__",
    "__dlpack_device__",
)


@pytest.fixture
def array():
    return np.arange(6, dtype=np.float32).reshape(2, 3)


class Owner:
    """Keeps memory, and can be watched."""

    def __init__(self, array):
        self.array = array


def owned(kind, array, **changes):
    """A producer whose memory an Owner keeps, and weak eyes on that."""
    owner = Owner(array)
    return given(kind, array, owner=owner, **changes), weakref.ref(owner)


# ---- what consumers get ---------------------------------------------------------------------


@every_kind
def test_what_it_lends_is_not_checked_again(kind):
    class Derived(kind):
        pass

    class WithAnotherTable(kind):
        __dlpack_c_exchange_api__ = hostile.table_capsule(hostile.table())

    def is_checked(cls):
        return bool(exchange.facts_of(cls) & 4)  # FASTDL_TYPE_CHECKED

    assert is_checked(kind)
    assert is_checked(Derived)
    assert not is_checked(WithAnotherTable)


@every_world
def test_lending(api, array):
    address = array.ctypes.data
    flat = np.arange(4, dtype=np.float32)

    def borrowed(x):
        view = api.borrow(x)
        return view["owned"], view["data"], view["shape"], view["strides"]

    assert borrowed(given(api.Lending, array)) == (False, address, (2, 3), (3, 1))
    assert borrowed(given(api.Lending, flat, strides=None)) == (False, flat.ctypes.data, (4,), (1,))
    assert api.lend(given(api.Lending, array)) == (2, address, 0)
    assert api.lend(given(api.Lending, array, offset=8)) == (2, address + 8, 0)
    assert api.lend(given(api.Exporting, array)) is None
    assert borrowed(given(api.Exporting, array)) == (True, address, (2, 3), (3, 1))
    # What cannot be lent is exported.
    for x in (given(api.Roomy, array), given(api.Lending, array, strides=None)):
        assert borrowed(x) == (True, address, (2, 3), (3, 1))
        with pytest.raises(BufferError, match="stores no shape and strides that could be lent"):
            api.lend(x)
    array.flags.writeable = False
    assert api.borrow(given(api.Lending, array))["owned"]
    with pytest.raises(BufferError, match="read-only"):
        api.lend(given(api.Lending, array))


@every_kind
def test_strides_are_filled_in(kind, array):
    x = given(kind, array, strides=None)
    for version in (None, (1, 3)):
        assert strides_in(opened(x.__dlpack__(max_version=version)).tensor) == (3, 1)
    held = consumer.from_object(kind.__dlpack_c_exchange_api__, x)
    assert consumer.fields(held)["strides"] == (3, 1)
    held.release()


@every_kind
def test_an_offset_is_folded_into_an_address(kind, array):
    x = given(kind, array[:1], offset=4, shape=(2,), strides=(1,))
    tensor = opened(x.__dlpack__(max_version=(1, 0))).tensor
    assert (tensor.data, tensor.byte_offset) == (array.ctypes.data + 4, 0)
    x = given(kind, array, offset=4, device=(OPENCL, 1))
    tensor = opened(x.__dlpack__(max_version=(1, 0))).tensor
    assert (tensor.data, tensor.byte_offset) == (array.ctypes.data, 4)


@every_kind
def test_a_cpu_with_a_number_is_the_cpu(kind, array):
    """Lent or exported: fastdl_spec.like compares devices."""
    x = given(kind, array, device=(CPU, 5))
    assert x.__dlpack_device__() == (CPU, 0)
    assert {api.borrow(x)["device"] for api in {**headers.ALONE, **headers.INSTALLED}.values()} == {
        (CPU, 0)
    }
    y = opened(x.__dlpack__(max_version=(1, 0))).tensor
    assert (y.device_type, y.device_id) == (CPU, 0)


@every_kind
@pytest.mark.parametrize("version", [None, (1, 0)])
def test_copies_of_elements_that_share_bytes(kind, version):
    packed = np.frombuffer(b"\x21\x43", np.uint8)
    x = given(kind, packed, shape=(4,), strides=(1,), dtype=(0, 4, 1))
    tensor = opened(x.__dlpack__(copy=True, max_version=version)).tensor
    assert ctypes.string_at(tensor.data, 2) == packed.tobytes()


@every_kind
def test_flags_that_producers_do_not_set(kind, array):
    x = given(kind, array, flags=2**63 | IS_COPIED | 8)
    assert opened(x.__dlpack__(max_version=(1, 0))).flags == 0


@every_kind
def test_a_subclass(kind, array):
    class Derived(kind):
        pass

    class Own(kind):
        def __dlpack__(self, **keywords):
            return array.__dlpack__(**keywords)

    assert fastdl.from_dlpack(given(Derived, array)).tolist() == array.tolist()
    table = address_in(kind.__dlpack_c_exchange_api__)
    assert table == kind.__c_dlpack_exchange_api__ == Derived.__c_dlpack_exchange_api__
    x = given(Own, np.zeros(2, np.float32))
    assert fastdl.from_dlpack(x).tolist() == array.tolist()  # what it overrides counts


@with_a_gil
def test_several_types_in_a_module(array):
    tables = {kind.__c_dlpack_exchange_api__ for kind in KINDS.values()}
    assert len(tables) == len(KINDS) - 2  # static types share the table of Lending
    static = given(ALONE.Static, array), given(ALONE.OtherStatic, array)
    assert [fastdl.from_dlpack(x).tolist() for x in static] == [array.tolist()] * 2
    with pytest.raises(TypeError):
        ALONE.Static.__dlpack__(static[1])
    with pytest.raises(TypeError):
        ALONE.Lending.__dlpack__(1)


@every_kind
def test_it_is_documented(kind):
    assert "stream=None" in kind.__dlpack__.__text_signature__
    assert "capsule" in kind.__dlpack__.__doc__


# ---- devices and streams --------------------------------------------------------------------


def without_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "fastdl", None)


@every_world
def test_device_memory_without_the_package(api, array, monkeypatch):
    without_package(monkeypatch)
    on_default = given(api.Lending, array, device=(CUDA, 0))
    on_own = given(api.Exporting, array, device=(CUDA, 0))
    api.set_stream(4096)
    for x, streams in ((on_default, [None, 1, -1]), (on_own, [4096, -1])):
        for stream in streams:
            capsule = x.__dlpack__(stream=stream, max_version=(1, 0))
            assert opened(capsule).tensor.device_type == CUDA
    for x, streams in ((on_default, [2, 4096]), (on_own, [None, 1, 2, 5000])):
        for stream in streams:
            with pytest.raises(BufferError, match="ready only on its producer's stream.*import"):
                x.__dlpack__(stream=stream)
    for x in (on_default, on_own):
        assert x.__dlpack_device__() == (CUDA, 0)
        with pytest.raises(ValueError, match="ambiguous"):
            x.__dlpack__(stream=0)
        for keywords in ({"dl_device": (1, 0)}, {"dl_device": (2, 1)}):
            with pytest.raises(BufferError, match="cannot be copied to (cpu:0|cuda:1).*import"):
                x.__dlpack__(**keywords)
        with pytest.raises(BufferError, match="import fastdl first"):
            x.__dlpack__(copy=True)


@every_world
def test_other_streams(api, array):
    with pytest.raises(ValueError, match="cpu:0 has no streams"):
        given(api.Lending, array).__dlpack__(stream=5)
    with pytest.raises(ValueError, match="ROCm has no stream 1"):
        given(api.Lending, array, device=(10, 0)).__dlpack__(stream=1)
    with pytest.raises(BufferError, match="no stream numbers for opencl:0"):
        given(api.Lending, array, device=(OPENCL, 0)).__dlpack__(stream=7)
    for stream in (True, "1", 1.5):
        with pytest.raises(TypeError, match="stream"):
            given(api.Lending, array).__dlpack__(stream=stream)
    for stream in (-2, 2**63):
        with pytest.raises(ValueError, match=r"a stream handle from 0 to 2\*\*63 - 1, or -1"):
            given(api.Lending, array).__dlpack__(stream=stream)
    with pytest.raises(BufferError, match="does not report its stream"):
        given(api.Roomy, array, device=(CUDA, 0)).__dlpack__(stream=1)
    assert given(api.Roomy, array).__dlpack__()  # which is not asked about host memory


@pytest.mark.parametrize("api", [ALONE, INSTALLED])
def test_the_package_orders_streams_and_copies(api, array, cuda_machine):
    memory, sim = cuda_machine.holding(array), cuda_machine.sim
    x = api.Exporting(
        owner=memory, data=memory.data_ptr, shape=(2, 3), strides=(3, 1), device=(CUDA, 0)
    )
    own, other = sim.side(blocking=True), sim.side(blocking=True)
    api.set_stream(own)
    assert x.__dlpack__(stream=own)
    before = sim.calls("cuStreamWaitEvent")
    capsule = x.__dlpack__(stream=other, max_version=(1, 0))
    assert opened(capsule).tensor.data == memory.data_ptr
    assert sim.calls("cuStreamWaitEvent") > before
    copied = fastdl.from_dlpack(x.__dlpack__(dl_device=(1, 0), max_version=(1, 0)))
    assert copied.tolist() == array.tolist()
    with pytest.raises(fastdl.CopyRequiredError):
        x.__dlpack__(dl_device=(1, 0), copy=False)


# ---- results of the same type ---------------------------------------------------------------


def test_results_are_tensors():
    assert type(INSTALLED.make(INSTALLED.Lending)) is fastdl.Tensor
    for api in (ALONE, LIMITED_API):
        with pytest.raises(
            TypeError, match=r"of a producer's type .* fastdl_import\(\) in that mod"
        ):
            api.make(api.Lending)


# ---- descriptions that are wrong ------------------------------------------------------------

WRONG = {
    "a negative size": ({"shape": (-1, 3)}, "negative dimension"),
    "65 dimensions": ({"shape": (1,) * 65, "strides": None}, "dimensions outside 0 to 64"),
    "a NULL address": ({"data": 0}, "elements but a NULL data pointer"),
    "no shape": ({"shape": None, "ndim": 2}, "dimensions but a NULL shape"),
    "sizes that overflow": ({"shape": (2**62, 2**62)}, "more bytes than"),
    "strides that overflow": ({"strides": (2**62, 1)}, "strides that reach outside"),
    "an offset that overflows": ({"offset": 2**64 - 1}, "outside the address space"),
    "no such type": ({"dtype": (2, 7, 1)}, "an element size that"),
    "no lanes": ({"dtype": (2, 32, 0)}, "0 lanes"),
    "no device": ({"device": (0, 0)}, "a device type that is not positive"),
}


def every_export(kind, x):
    yield lambda: x.__dlpack__()
    yield lambda: x.__dlpack__(max_version=(1, 0))
    yield lambda: x.__dlpack__(copy=True)
    yield lambda: x.__dlpack_device__()
    yield lambda: consumer.from_object(kind.__dlpack_c_exchange_api__, x)
    yield lambda: ALONE.borrow(x)
    yield lambda: INSTALLED.borrow(x)
    if any(api.Lending is kind for api in WORLDS.values()):
        yield lambda: ALONE.lend(x)
    yield lambda: fastdl.from_dlpack(x)


@every_kind
@pytest.mark.parametrize(("changes", "words"), WRONG.values(), ids=WRONG)
def test_a_wrong_description(kind, array, changes, words):
    x, owner = owned(kind, array, **changes)
    for export in every_export(kind, x):
        with pytest.raises(BufferError, match=words):
            export()
    del x, export
    gc.collect()
    assert owner() is None


@every_kind
@pytest.mark.parametrize(
    ("raised", "silent", "error", "words"),
    [
        (LookupError("gone"), False, LookupError, "gone"),
        (LookupError("gone"), True, LookupError, "gone"),  # and reports success
        (None, True, BufferError, "failed without setting an exception"),
        (KeyboardInterrupt(), False, KeyboardInterrupt, "^$"),
    ],
)
def test_a_description_that_fails(kind, array, raised, silent, error, words):
    def before(x):
        if raised is not None:
            raise raised

    x, owner = owned(kind, array, before=before, silent=silent)
    for export in every_export(kind, x):
        with pytest.raises(error, match=words):
            export()
        if raised is not None:
            raised.__traceback__ = None
    del x, export
    gc.collect()
    assert owner() is None


@every_kind
def test_a_description_that_enters_again(kind, array):
    depth = []

    def again(x):
        if len(depth) < 5:
            depth.append(x)
            assert fastdl.from_dlpack(x).shape == (2, 3)
        gc.collect()

    x = given(kind, array, before=again)
    assert fastdl.from_dlpack(x).tolist() == array.tolist()
    assert len(depth) == 5


def test_descriptions_without_end():
    """Of an object that borrows itself, and of many that borrow each other."""
    run_isolated(
        """
        import os
        import numpy as np
        import fastdl
        from tests.support.c_producers import WORLDS, describe, given

        array = np.ones(3, np.float32)
        for api in WORLDS.values():
            for kind in (api.Lending, api.Exporting, api.Roomy):
                itself = last = given(kind, array)
                itself.__init__(**describe(array, owner=itself, before=...))
                for _ in range(30_000):
                    last = given(kind, array, owner=last, before=...)
                ways = [kind.__dlpack__, kind.__dlpack_device__, fastdl.from_dlpack]
                for enter in (*ways, np.from_dlpack, api.borrow, fastdl.asarray):
                    for x in (itself, last):
                        try:
                            enter(x)
                        except RecursionError as error:
                            assert "describing a tensor" in str(error), error
                        else:
                            raise AssertionError
                x = given(kind, array, owner=given(kind, array), before=...)
                assert fastdl.from_dlpack(x).tolist() == [1, 1, 1]
        print("done", flush=True)
        os._exit(0)  # chains end as deep as they are
        """
    )


# ---- lifetime -------------------------------------------------------------------------------


@every_kind
def test_exports_keep_the_object_that_owns_itself(kind, array):
    x = given(kind, array, owned_by_self=True)
    object_ = weakref.ref(x)
    held = list(ways_to_hold(x))
    del x
    for one in held:
        assert object_() is not None
        one.release()
    gc.collect()
    assert object_() is None


@every_kind
def test_memory_that_nobody_owns(kind, array):
    x = given(kind, array, owner=None)
    held = list(ways_to_hold(x))
    del x
    for one in held:
        assert consumer.fields(one)["data"] == array.ctypes.data
        one.release()


# ---- publishing -----------------------------------------------------------------------------


def published(kind):
    return [name for name in NAMES if name in vars(kind)]


@every_world
def test_publishing_makes_a_type_a_producer_at_once(api, array):
    kind = api.new_type(False)
    x = given(kind, array)
    for _ in range(2):
        with pytest.raises(TypeError, match="expected a DLPack producer"):
            fastdl.from_dlpack(x)
        with pytest.raises(TypeError, match="expected a tensor"):
            api.borrow(x)
    api.publish(kind, "spare")
    assert published(kind) == list(NAMES)
    assert fastdl.from_dlpack(x).tolist() == array.tolist()
    assert api.borrow(x)["shape"] == (2, 3)
    api.publish(kind, "spare")  # again: nothing to do
    assert fastdl.from_dlpack(x).tolist() == array.tolist()


@every_world
def test_two_producers_in_one_type(api, array):
    kind = api.new_type(False)
    api.publish(kind, "spare")
    for _ in range(3):
        with pytest.raises(TypeError, match=r"Given' already has __dlpack_c_exchange_api__"):
            api.publish(kind, "exporting")
    assert fastdl.from_dlpack(given(kind, array)).tolist() == array.tolist()
    derived = type("Derived", (kind,), {})
    api.publish(derived, "exporting")  # another class, another producer
    assert derived.__c_dlpack_exchange_api__ != kind.__c_dlpack_exchange_api__


@every_world
@pytest.mark.parametrize("name", NAMES)
def test_a_type_with_something_of_the_protocol(api, name):
    kind = api.new_type(False)
    setattr(kind, name, None)
    with pytest.raises(TypeError, match=f"already has {name}"):
        api.publish(kind, "spare")
    assert published(kind) == [name]


@with_a_gil
@every_world
def test_immutable_types(api, array):
    kind = api.new_type(True)
    if api is LIMITED_API:
        with pytest.raises(TypeError, match="is immutable, and the limited API"):
            api.publish(kind, "spare")
        assert published(kind) == []
    else:
        api.publish(kind, "spare")
        assert fastdl.from_dlpack(given(kind, array)).tolist() == array.tolist()
    for python in (int, list, type(None), BaseException, object):
        with pytest.raises(TypeError, match="a built-in type|is immutable"):
            api.publish(python, "spare")
        assert published(python) == []


@with_a_gil
@every_world
def test_types_that_die(api, array):
    for _ in range(50):
        kind = api.new_type(False)
        api.publish(kind, "spare")
        reference = weakref.ref(kind)
        capsule = given(kind, array).__dlpack__(max_version=(1, 0))
        del kind
        gc.collect()
        assert reference() is None
        assert fastdl.from_dlpack(capsule).tolist() == array.tolist()


def test_a_metaclass_that_forbids(array):
    """A type whose attributes cannot be set: what was added is taken away."""

    class Forbids(type):
        left = 2

        def __setattr__(cls, name, value):
            Forbids.left -= 1
            if Forbids.left < 0:
                raise LookupError(f"no {name}")
            super().__setattr__(name, value)

    class Given(ALONE.new_type(False), metaclass=Forbids):
        pass

    with pytest.raises(LookupError, match="no __dlpack__"):
        ALONE.publish(Given, "spare")
    assert published(Given) == []
