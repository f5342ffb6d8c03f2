# SPDX-License-Identifier: Apache-2.0
"""What every producer that fastdl makes answers, in whatever language its author wrote; and what a
fastdl.Tensor answers besides."""

import gc
import sys
import weakref

import ml_dtypes
import numpy as np
import pytest

import fastdl
from tests.support.ctypes_dlpack import (
    CUDA_HOST,
    IS_COPIED,
    READ_ONLY,
    SUBBYTE_PADDED,
    Table,
    address_in,
    capsule_of,
    name_of,
    opened,
    shape_in,
    strides_in,
)
from tests.support.every_producer import (
    EACH,
    OF_THE_DRAFT,
    PRODUCERS,
    bound,
    consumer,
    ways_to_hold,
)
from tests.support.isolate import run_isolated


@pytest.fixture
def array():
    return np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def tensor(array):
    return fastdl.from_dlpack(array)


@pytest.fixture
def readonly(array):
    array.flags.writeable = False
    return fastdl.from_dlpack(array)


@pytest.fixture(params=EACH)
def produce(request):
    """From an array to a producer on its memory, which keeps it."""
    return PRODUCERS[request.param]()


@pytest.fixture
def exporter(produce, array):
    return produce(array)


@pytest.fixture(params=OF_THE_DRAFT)
def drafting(request, array):
    """A producer that also follows the draft of 2022."""
    return PRODUCERS[request.param]()(array)


# ---- what consumers get ---------------------------------------------------------------------


def test_a_table_that_is_native(exporter):
    kind = type(exporter)
    table = Table.from_address(address_in(kind.__dlpack_c_exchange_api__))
    assert (table.version.major, table.version.minor) == (1, 3)
    assert address_in(fastdl.exchange_api(kind)) == address_in(kind.__dlpack_c_exchange_api__)
    held = consumer.from_object(kind.__dlpack_c_exchange_api__, exporter)
    fields = consumer.fields(held)
    assert fields["shape"] == (2, 3)
    assert fields["strides"] == (3, 1)
    held.release()


def by_torch(x):
    import torch

    return torch.from_dlpack(x)


def by_jax(x):
    import jax

    return jax.dlpack.from_dlpack(x)


def by_tvm_ffi(x):
    import tvm_ffi

    return fastdl.from_dlpack(tvm_ffi.from_dlpack(x))


@pytest.mark.library("torch", "jax", "tvm_ffi")
@pytest.mark.parametrize("read", [by_torch, by_jax, by_tvm_ffi])
def test_libraries_read_it(read, exporter, array):
    assert read(exporter).tolist() == array.tolist()


@pytest.mark.slow
def test_nanobind_reads_it(exporter, array):
    assert bound("nanobind").sum(exporter) == array.sum()


@pytest.mark.slow
def test_what_others_leave_open():
    """As docs/add-a-library.md has it: shorter there, once one of these fails."""
    theirs = bound("nanobind").array()
    assert not hasattr(theirs, "__dlpack_c_exchange_api__")
    assert theirs.__dlpack__(stream=77)
    for keywords in ({"copy": True}, {"dl_device": (2, 0)}):
        with pytest.raises(BufferError, match="support"):
            theirs.__dlpack__(**keywords)
    torch = pytest.importorskip("torch")
    with pytest.raises(AssertionError, match="stream should be None on cpu"):
        torch.ones(2).__dlpack__(stream=1)


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_copies(produce, array, version):
    for view in (array, array.T, array[:, ::-1], array[:0], array[0, :1].reshape(())):
        copy = fastdl.from_dlpack(produce(view).__dlpack__(copy=True, max_version=version))
        assert copy.tolist() == view.tolist()
        assert copy.is_contiguous()
        assert copy.size == 0 or not np.shares_memory(copy.numpy(), array)


# ---- the descriptor -------------------------------------------------------------------------


@pytest.mark.parametrize("max_version", [None, (1, 0), (1, 3)])
def test_descriptor(array, tensor, max_version):
    struct = opened(tensor[:, ::-2].__dlpack__(max_version=max_version))
    described = struct.tensor
    assert described.data == array[:, ::-2].ctypes.data
    assert (described.device_type, described.device_id) == (1, 0)
    assert (described.code, described.bits, described.lanes) == (2, 32, 1)
    assert shape_in(described) == (2, 2)
    assert strides_in(described) == (3, -2)
    assert described.byte_offset == 0
    assert struct.manager_ctx  # one library never frees without it
    assert struct.deleter


def test_versioned_capsules_are_stamped(exporter):
    for asked in [(1, 0), (1, 3), (1, 99), (2, 0)]:
        struct = opened(exporter.__dlpack__(max_version=asked))
        assert (struct.version.major, struct.version.minor) == (1, 3)


# ---- versions -------------------------------------------------------------------------------


class Whole:
    def __index__(self):
        return 1


LEGACY = [None, (0, 8), (0, 0), (0, 99)]
VERSIONED = [(1, 0), (1, 3), (1, 4), (2, 0), (10**6, 0), (2**40, 2**70), [1, 0],
             (np.int64(1), np.uint8(0)), (Whole(), 0)]  # fmt: skip


@pytest.mark.parametrize("max_version", LEGACY + VERSIONED)
def test_max_version(exporter, max_version):
    name = "dltensor" if max_version in LEGACY else "dltensor_versioned"
    assert name_of(exporter.__dlpack__(max_version=max_version)) == name


@pytest.mark.parametrize("version", [None, 0, 60, 69, 100, 110, 130, np.int64(60)])
def test_version_of_the_draft(drafting, version):
    name = "dltensor_versioned" if version is not None and version >= 100 else "dltensor"
    assert name_of(drafting.__dlpack__(version=version)) == name


def test_what_is_spoken_of_the_draft(drafting):
    info = drafting.__dlpack_info__()
    assert (info, type(info)) == (130, int)


@pytest.mark.parametrize("name", [x for x in EACH if x.values[0] not in OF_THE_DRAFT])
def test_the_header_does_not_know_the_draft(name, array):
    exporter = PRODUCERS[name]()(array)
    assert not hasattr(exporter, "__dlpack_info__")
    with pytest.raises(TypeError, match="version"):
        exporter.__dlpack__(version=100)


def test_both_versions(drafting):
    with pytest.raises(TypeError, match="max_version or version"):
        drafting.__dlpack__(max_version=(1, 0), version=100)
    assert name_of(drafting.__dlpack__(max_version=None, version=100)) == "dltensor_versioned"


# ---- read-only ------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [{"max_version": (1, 0)}, {"version": 100}])
def test_versioned_capsules_say_read_only(readonly, tensor, arguments):
    assert opened(readonly.__dlpack__(**arguments)).flags == READ_ONLY
    assert opened(readonly[1:].__dlpack__(**arguments)).flags == READ_ONLY


def test_legacy_capsules_of_the_draft_refuse_read_only(readonly):
    with pytest.raises(BufferError, match="read-only"):
        readonly.__dlpack__(version=60)
    assert name_of(readonly.__dlpack__(copy=True, version=60)) == "dltensor"


@pytest.mark.parametrize("arguments", [{}, {"max_version": (0, 8)}])
def test_a_copy_of_read_only_memory_may_be_legacy(array, produce, arguments):
    array.flags.writeable = False
    capsule = produce(array).__dlpack__(copy=True, **arguments)
    assert name_of(capsule) == "dltensor"
    copied = fastdl.from_dlpack(capsule)
    assert not copied.readonly
    assert copied.tolist() == array.tolist()


# ---- other flags ----------------------------------------------------------------------------


def test_padding_of_whole_bytes_is_no_reason_to_refuse():
    tensor = fastdl.from_dlpack(capsule_of((2,), data=bytearray(8), flags=SUBBYTE_PADDED))
    assert name_of(tensor.__dlpack__()) == "dltensor"


# ---- copy -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dl_device", [None, (1, 0)])
def test_copy_true(array, tensor, dl_device):
    capsule = tensor[:, ::2].__dlpack__(copy=True, max_version=(1, 0), dl_device=dl_device)
    struct = opened(capsule)
    assert struct.flags == IS_COPIED
    assert struct.tensor.data % 256 == 0
    assert strides_in(struct.tensor) == (2, 1)
    copied = fastdl.from_dlpack(capsule)
    copied.numpy()[:] = -1
    assert array.tolist() == [[0, 1, 2], [3, 4, 5]]


# ---- dl_device ------------------------------------------------------------------------------


class NumberedCpu:
    """A device of a library that numbers its CPUs. fastdl knows one."""

    def __dlpack_device__(self):
        return (1, 3)


@pytest.mark.parametrize(
    "dl_device",
    [
        (1, 0),
        [1, 0],
        (fastdl.DeviceType.CPU, 0),
        fastdl.Device("cpu"),
        (np.int8(1), 0),
        NumberedCpu(),
    ],
)
@pytest.mark.parametrize("copy", [None, False])
def test_dl_device_where_it_is(array, exporter, dl_device, copy):
    capsule = exporter.__dlpack__(dl_device=dl_device, copy=copy, max_version=(1, 0))
    assert opened(capsule).tensor.data == array.ctypes.data


def test_dl_device_of_pinned_memory():
    # Memory that the CPU reads as it is, and is still said to be what it is.
    tensor = fastdl.from_dlpack(capsule_of((2,), data=bytearray(8), device=(CUDA_HOST, 0)))
    struct = opened(tensor.__dlpack__(dl_device=(1, 0), max_version=(1, 0)))
    assert struct.tensor.device_type == CUDA_HOST


@pytest.mark.parametrize("dl_device", [(2, 0), (10, 0), (14, 3), (99, 0), (3, 0)])
def test_dl_device_out_of_reach(exporter, dl_device):
    why = "cannot be copied to.* (has no .* driver|fastdl copies)"
    with pytest.raises(BufferError, match=why):
        exporter.__dlpack__(dl_device=dl_device)
    with pytest.raises(BufferError, match=why):
        exporter.__dlpack__(dl_device=dl_device, copy=True)
    with pytest.raises(fastdl.CopyRequiredError):
        exporter.__dlpack__(dl_device=dl_device, copy=False)


# ---- the call -------------------------------------------------------------------------------


REFUSED = {
    ("max_version", TypeError, "max_version"): [
        1, "1.0", (1,), (1, 0, 0), (), (1.0, 0), ("1", "0"), (None, 0), (True, 0), (-1, 0), (1, -1),
        (1, None), (True, False), {1: 0}, {1: 0, 2: 0}, 1.0, True,
    ],
    ("copy", TypeError, "copy"): [0, 1, "yes", np.False_, 1.0],
    ("dl_device", BufferError, "."): [(-1, 0)],
    ("dl_device", BufferError, r"one CPU, \(1, 0\)"):
        [(1, 1), [1, -1], (fastdl.DeviceType.CPU, 2)],
    ("dl_device", TypeError, "."): [
        1, "cpu", (1,), (1, 0, 0), (), ("cpu", 0), (1, None), (True, 0), (1.0, 0), ("1", "0"), 1.5,
        np.ones(2), fastdl.empty(2),
    ],
    **{(name, TypeError, "unexpected keyword"): [None]
       for name in ("device", "maxversion", "strea\u043c")},
}  # fmt: skip
REFUSED_OF_THE_DRAFT = {
    (BufferError, "expected version"): [70, 80, 99, 131, 140, 200, 2**70],
    (TypeError, "version"): ["60", 60.0, (1, 0), True, b""],
}


@pytest.mark.parametrize(
    ("name", "error", "words", "value"),
    [(*key, value) for key, values in REFUSED.items() for value in values],
)
def test_keywords_that_are_refused(exporter, name, error, words, value):
    for more in ({}, {"copy": True}) if name != "copy" else ({},):  # before anything is copied
        with pytest.raises(error, match=words):
            exporter.__dlpack__(**{name: value}, **more)


@pytest.mark.parametrize(
    ("error", "words", "version"),
    [(*key, value) for key, values in REFUSED_OF_THE_DRAFT.items() for value in values],
)
def test_versions_of_the_draft_that_are_refused(drafting, error, words, version):
    with pytest.raises(error, match=words):
        drafting.__dlpack__(version=version)


@pytest.mark.parametrize("arguments", [(None,), ((1, 0),), (-1,), (None, (1, 0))])
def test_positional_arguments(exporter, arguments):
    with pytest.raises(TypeError, match="positional"):
        exporter.__dlpack__(*arguments)
    with pytest.raises(ValueError):
        exporter.__dlpack__(copy=True, stream=5)  # which is refused before anything is copied


def test_keywords_are_compared_by_value(exporter):
    text = "".join(["max_", "version"])  # another object than the name in the code
    assert name_of(exporter.__dlpack__(**{text: (1, 0)})) == "dltensor_versioned"


def test_unbound(tensor):
    capsule = fastdl.Tensor.__dlpack__(tensor, max_version=(1, 0))
    assert name_of(capsule) == "dltensor_versioned"


# ---- lifetime -------------------------------------------------------------------------------


@pytest.fixture
def watched(produce):
    """A producer on memory that nobody else keeps, and weak eyes on that."""
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    return [produce(array)], weakref.ref(array)


def test_exports_keep_the_memory(watched):
    (x,), memory = watched
    held = list(ways_to_hold(x))
    watched[0].clear()
    del x
    gc.collect()
    for one in held:
        assert memory() is not None
        assert consumer.fields(one)["shape"] == (2, 3)
        one.release()
    gc.collect()
    assert memory() is None


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_a_capsule_that_is_never_consumed(watched, version):
    memory = watched[1]
    capsule = watched[0].pop().__dlpack__(max_version=version)
    gc.collect()
    assert memory() is not None
    try:
        raise LookupError
    except LookupError:
        del capsule
    gc.collect()
    assert memory() is None


def test_a_consumer_that_fails(produce):
    array = np.zeros(3, ml_dtypes.bfloat16)  # which NumPy takes from nobody
    memory, x = weakref.ref(array), produce(array)
    with pytest.raises((BufferError, RuntimeError)):
        np.from_dlpack(x)
    del x, array
    gc.collect()
    assert memory() is None


@pytest.mark.parametrize("when", ["delete_at_exit", "delete_during_exit"])
@pytest.mark.parametrize("name", EACH)
def test_deleters_when_the_interpreter_is_gone(name, when):
    PRODUCERS[name]()  # or skips
    printed = run_isolated(f"""
        import numpy as np
        from tests.support.every_producer import PRODUCERS, consumer, ways_to_hold
        produce = PRODUCERS[{name!r}]()
        held = []
        for _ in range(100):
            x = produce(np.arange(3.0))
            held.extend(ways_to_hold(x))
        del x
        consumer.{when}(held)
    """)
    assert printed == ("deleted 300, interpreter alive: 0\n" if when == "delete_at_exit" else "")


def test_nothing_is_leaked(exporter, array):
    before = sys.getrefcount(array), sys.getrefcount(exporter), sys.getrefcount(type(exporter))
    for _ in range(100):
        exporter.__dlpack__(max_version=(1, 0), stream=-1, dl_device=(1, 0), copy=False)
        exporter.__dlpack__(copy=True)
        for keywords in ({"copy": 1}, {"max_version": 1}, {"dl_device": (1, 1)}, {"version": 80}):
            with pytest.raises((TypeError, BufferError)):
                exporter.__dlpack__(**keywords)
    after = sys.getrefcount(array), sys.getrefcount(exporter), sys.getrefcount(type(exporter))
    assert after == before


@pytest.mark.parametrize("asked", [{"max_version": (1, 0)}, {"version": 100}])
def test_packed_elements_are_for_those_who_know_them(asked):
    """DLPack has had words for them since 1.1; others take each for a byte (mpi4py does)."""
    packed = fastdl.empty(8, "int4")
    with pytest.raises(BufferError, match=r"packed.*need DLPack 1\.1.*encode\(x\)\[1\]"):
        packed.__dlpack__(**asked)
    assert fastdl.empty(8, "int4x2").__dlpack__(**asked)  # of whole bytes
    assert fastdl.from_dlpack(packed.__dlpack__(max_version=(1, 1))).dtype == "int4"
    assert fastdl.from_dlpack(packed.__dlpack__(version=110)).dtype == "int4"
    assert fastdl.from_dlpack(packed.__dlpack__()).dtype == "int4"
