# SPDX-License-Identifier: Apache-2.0
"""Exchange tables: found, made and registered, as far as Python can see."""

import ctypes

import numpy as np
import pytest

import fastdl
from tests.support.ctypes_dlpack import Table, address_in, capsule, name_of
from tests.support.recorder import Native, new_type

TABLE_NAME = b"dlpack_exchange_api"
OWN = fastdl.Tensor.__c_dlpack_exchange_api__

OVERRIDE = Native(lambda self, **keywords: self.export(**keywords))
_tables = []  # a table must stay valid until the process ends


def table_like_own(**changes):
    """(address, struct) of a new table: fastdl's own, changed."""
    table = Table.from_buffer_copy(Table.from_address(OWN))
    for name, value in changes.items():
        setattr(table, name, value)
    _tables.append(table)
    return ctypes.addressof(table), table


class Counting:
    """A table whose from_object counts, and hands out fastdl's own answer for a fixed tensor."""

    prototype = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))

    def __init__(self, size):
        self.calls = 0
        self.tensor = fastdl.from_dlpack(np.zeros(size, np.uint8))
        own = Counting.prototype(Table.from_address(OWN).managed_tensor_from_py_object_no_sync)

        def from_object(candidate, out):
            self.calls += 1
            return own(id(self.tensor), out)

        self.function = Counting.prototype(from_object)
        self.address, self.struct = table_like_own(
            managed_tensor_from_py_object_no_sync=ctypes.cast(self.function, ctypes.c_void_p).value
        )
        _tables.append(self)

    @property
    def capsule(self):
        return capsule(self.address, TABLE_NAME)


# ---- exchange_api ---------------------------------------------------------------------------


def test_of_tensor():
    for subject in (fastdl.Tensor, fastdl.empty(1)):
        found = fastdl.exchange_api(subject)
        assert name_of(found) == "dlpack_exchange_api"
        assert address_in(found) == OWN


@pytest.mark.parametrize("subject", [np.ndarray, np.zeros(1)])
def test_of_numpy(subject):
    table = Table.from_address(address_in(fastdl.exchange_api(subject)))
    assert (table.version.major, table.version.minor) == (1, 3)
    assert (
        table.managed_tensor_allocator
        and table.managed_tensor_from_py_object_no_sync
        and table.managed_tensor_to_py_object_no_sync
        and table.current_work_stream
    )
    assert not table.dltensor_from_py_object_no_sync  # NumPy's strides are in bytes
    assert address_in(fastdl.exchange_api(np.ndarray)) == address_in(fastdl.exchange_api(subject))


def test_of_any_producer():
    cls = new_type()
    for subject in (cls, cls()):
        table = Table.from_address(address_in(fastdl.exchange_api(subject)))
        assert table.version.major == 1
        assert (
            table.managed_tensor_from_py_object_no_sync
            and not table.dltensor_from_py_object_no_sync
        )


# ---- subclasses -----------------------------------------------------------------------------


def test_none_hides_an_inherited_table():
    counting = Counting(5)
    base = new_type(__dlpack_c_exchange_api__=counting.capsule)
    sub = type("Sub", (base,), {"__dlpack_c_exchange_api__": None})
    assert fastdl.from_dlpack(sub()).shape == (3,)
    assert counting.calls == 0


# ---- register_exchange_api ------------------------------------------------------------------


def test_registering_makes_a_producer():
    cls = type("Array", (), {})
    with pytest.raises(TypeError):
        fastdl.from_dlpack(cls())
    fastdl.register_exchange_api(cls, Counting(5).capsule)
    assert fastdl.from_dlpack(cls()).shape == (5,)


def test_a_registered_table_goes_before_a_published_one():
    cls = new_type(__dlpack_c_exchange_api__=Counting(5).capsule)
    assert fastdl.from_dlpack(cls()).shape == (5,)
    fastdl.register_exchange_api(cls, Counting(6).capsule)
    assert fastdl.from_dlpack(cls()).shape == (6,)


def test_registering_reaches_subclasses_that_are_known_already():
    base = new_type()
    sub = type("Sub", (base,), {})
    sub_sub = type("SubSub", (sub,), {})
    for cls in (base, sub, sub_sub):
        assert fastdl.from_dlpack(cls()).shape == (3,)
    fastdl.register_exchange_api(base, Counting(5).capsule)
    for cls in (base, sub, sub_sub, type("Late", (sub,), {})):
        assert fastdl.from_dlpack(cls()).shape == (5,)


def test_registering_does_not_reach_subclasses_with_their_own_export():
    base = new_type()
    sub = type("Sub", (base,), {"__dlpack__": OVERRIDE})
    below = type("Below", (sub,), {})
    fastdl.from_dlpack(sub())
    fastdl.register_exchange_api(base, Counting(5).capsule)
    assert fastdl.from_dlpack(base()).shape == (5,)
    assert fastdl.from_dlpack(sub()).shape == (3,)
    assert fastdl.from_dlpack(below()).shape == (3,)


def test_registering_for_a_subclass_leaves_its_base():
    base = new_type()
    sub = type("Sub", (base,), {})
    fastdl.register_exchange_api(sub, Counting(5).capsule)
    assert fastdl.from_dlpack(base()).shape == (3,)
    assert fastdl.from_dlpack(sub()).shape == (5,)


def test_a_registered_table_reaches_subclasses_that_publish_another():
    base = new_type()
    fastdl.register_exchange_api(base, Counting(5).capsule)
    publishing = {"__dlpack_c_exchange_api__": Counting(6).capsule}
    assert fastdl.from_dlpack(type("Sub", (base,), publishing)()).shape == (5,)
    exporting = {"__dlpack__": OVERRIDE, **publishing}
    assert fastdl.from_dlpack(type("Sub", (base,), exporting)()).shape == (6,)


def test_a_subclass_of_numpy_can_be_registered():
    array = type("Array", (np.ndarray,), {})
    fastdl.register_exchange_api(array, Counting(5).capsule)
    assert fastdl.from_dlpack(np.zeros(2).view(array)).shape == (5,)
    assert fastdl.from_dlpack(np.zeros(2)).shape == (2,)


@pytest.mark.parametrize(
    "address",
    [0, -1, -(2**64), OWN + 1, OWN + 4, 2**64, 2**64 + OWN],
    ids=["0", "-1", "-(2**64)", "own + 1", "own + 4", "2**64", "2**64 + own"],
)
def test_registering_addresses_that_cannot_be(address):
    with pytest.raises(ValueError):
        fastdl.register_exchange_api(new_type(), address)


def test_a_failed_registration_keeps_the_former_table():
    cls = new_type()
    fastdl.register_exchange_api(cls, Counting(5).capsule)
    address, _ = table_like_own(managed_tensor_to_py_object_no_sync=None)
    with pytest.raises(ValueError):
        fastdl.register_exchange_api(cls, address)
    assert fastdl.from_dlpack(cls()).shape == (5,)


def test_arguments_are_positional():
    with pytest.raises(TypeError):
        fastdl.register_exchange_api(cls=new_type(), table=OWN)
    with pytest.raises(TypeError):
        fastdl.exchange_api(producer=fastdl.Tensor)
