# SPDX-License-Identifier: Apache-2.0
"""fastdl consumes from a library: through what, by both entries, ranks, arguments and flags.

Values of every type and layout, sharing, writes and lifetimes are measured by matrix/measure.py,
which goes by the compiled entry.
"""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import fastdl
from fastdl._core.exchange import TYPE_NATIVE, facts_of
from tests.support.ctypes_dlpack import address_in
from tests.support.producers import BareProducer

from ..arrays import sample
from ..matrix.cells import COPY, ZERO_COPY
from ..matrix.measure import exported, imported
from ..matrix.rows import arrays_of
from ..peers import BRIDGE, TABLE
from .common import aligned, both_entries, peer_under_test

peer = peer_under_test()
ENTRIES = pytest.mark.parametrize("from_dlpack", both_entries(), ids=("compiled", "python"))

one_d_only = pytest.mark.skipif(peer.max_ndim < 2, reason=f"{peer} has one dimension")


def described(from_dlpack, array):
    """All that an entry says of an array, or the words in which it refuses it."""
    try:
        tensor = from_dlpack(array)
    except Exception as error:
        return type(error), str(error)
    assert tensor.device == fastdl.Device("cpu")
    assert not tensor.is_copied
    facts = (tensor.dtype, tensor.shape, tensor.strides, tensor.data_ptr, tensor.readonly)
    return *facts, tensor.tolist()


def test_both_entries_say_the_same():
    compared = set()
    for case, build, *_ in arrays_of(peer):
        try:
            array = build()
        except Exception:  # the library has no such array
            continue
        compiled, python = (described(entry, array) for entry in both_entries())
        assert compiled == python, case
        compared.add(case)
    assert compared >= {"float32", "compact"}


@ENTRIES
def test_memory_is_kept_and_given_back(from_dlpack):
    values = sample("float32")
    build = partial(peer.make, values, "float32")
    assert imported(peer, from_dlpack, build, values, "float32").outcome == ZERO_COPY
    through = replace(peer, give=from_dlpack)
    assert exported(through, peer.take, partial(aligned, values)).outcome in (ZERO_COPY, COPY)


def table_of(x):
    return address_in(fastdl.exchange_api(x))


def test_what_it_is_imported_through():
    array = peer.make([1.0], "float32")
    assert bool(facts_of(type(array)) & TYPE_NATIVE) is (peer.through == TABLE)
    assert (table_of(array) == table_of(BareProducer)) is (peer.through not in (TABLE, BRIDGE))


@ENTRIES
@one_d_only
@pytest.mark.parametrize("ndim", range(2, 9))
def test_ranks(from_dlpack, ndim):
    shape = (2, 1, 3, 1, 1, 2, 1, 1)[:ndim]
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    tensor = from_dlpack(peer.make(values.tolist(), "float32"))
    assert tensor.shape == shape
    assert tensor.tolist() == values.tolist()


@ENTRIES
@pytest.mark.filterwarnings("ignore:Exporting an unversioned DLPack")  # pyarrow's opinion
def test_raw_capsules(from_dlpack):
    """A capsule does not tell who made it, so a legacy one is writable whatever its maker is."""
    array = peer.make([1.0, 2.0], "float32")
    capsule = array.__dlpack__()
    tensor = from_dlpack(capsule)
    assert not tensor.readonly
    assert tensor.data_ptr == from_dlpack(array).data_ptr
    with pytest.raises(ValueError, match="consumed already"):
        from_dlpack(capsule)
    with pytest.raises(TypeError, match="no stream"):
        from_dlpack(array.__dlpack__(), stream=-1)
    assert from_dlpack(array.__dlpack__(), copy=True).tolist() == [1.0, 2.0]


@ENTRIES
def test_a_forced_copy_is_one(from_dlpack):
    array = peer.make([1.0, 2.0, 3.0], "float32")
    tensor = from_dlpack(array, copy=True)
    assert tensor.is_copied
    assert not tensor.readonly
    assert tensor.data_ptr != from_dlpack(array).data_ptr
    tensor.numpy()[0] = 9.0
    assert peer.values(array) == [1.0, 2.0, 3.0]


@ENTRIES
def test_a_forbidden_copy_is_none(from_dlpack):
    array = peer.make([1.0, 2.0, 3.0], "float32")
    assert described(partial(from_dlpack, copy=False), array) == described(from_dlpack, array)


@ENTRIES
def test_device_arguments(from_dlpack):
    array = peer.make([1.0, 2.0], "float32")
    assert from_dlpack(array, device="cpu").data_ptr == from_dlpack(array).data_ptr
    with pytest.raises(Exception) as caught:
        from_dlpack(array, device="cuda:0")
    # The producer's own exception, or fastdl's that neither can make the copy, for that reason.
    assert isinstance(caught.value.__cause__ or caught.value, peer.elsewhere)
    with pytest.raises(fastdl.CopyRequiredError):
        from_dlpack(array, device="cuda:0", copy=False)


def test_the_exchange_table_of_the_type_serves_repeated_imports():
    """The second import goes the way that was learned at the first: nothing may differ."""
    array = peer.make(sample("int32"), "int32")
    seen = {
        (t.data_ptr, t.shape, t.strides, t.dtype, t.readonly)
        for t in (fastdl.from_dlpack(array) for _ in range(5))
    }
    assert len(seen) == 1
    assert "dlpack_exchange_api" in repr(fastdl.exchange_api(type(array)))
