"""Exchange tables: found, made and registered, as far as Python can see."""

import ctypes

import numpy as np
import pytest

import fastdl
from tests.support.ctypes_dlpack import Table, address_in, array_producer, capsule, name_of
from tests.support.fresh import in_fresh_process

TABLE_NAME = b"dlpack_exchange_api"
OWN = fastdl.Tensor.__c_dlpack_exchange_api__

_tables = []  # a table must stay valid until the process ends


def table_like_own(**changes):
    """(address, struct) of a new table: fastdl's own, changed."""
    table = Table.from_buffer_copy(Table.from_address(OWN))
    for name, value in changes.items():
        setattr(table, name, value)
    _tables.append(table)
    return ctypes.addressof(table), table


def new_producer(**members):
    """A producer type that fastdl has never seen."""
    return type("Producer", (array_producer(),), members)


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
    cls = new_producer()
    for subject in (cls, cls()):
        table = Table.from_address(address_in(fastdl.exchange_api(subject)))
        assert table.version.major == 1
        assert (
            table.managed_tensor_from_py_object_no_sync
            and not table.dltensor_from_py_object_no_sync
        )


def test_the_bridge_works_from_c():
    producer = new_producer()()
    for source in (producer, producer.array, fastdl.from_dlpack(producer)):
        table = Table.from_address(address_in(fastdl.exchange_api(source)))
        out = ctypes.c_void_p()
        assert (
            Counting.prototype(table.managed_tensor_from_py_object_no_sync)(
                id(source), ctypes.byref(out)
            )
            == 0
        )
        tensor = fastdl.from_dlpack(capsule(out.value, b"dltensor_versioned"))
        assert tensor.data_ptr == producer.array.ctypes.data


def test_the_bridge_refuses_other_objects():
    out = ctypes.c_void_p()
    other = object()
    for source in (np.zeros(1), fastdl.empty(1), new_producer()()):
        table = Table.from_address(address_in(fastdl.exchange_api(source)))
        with pytest.raises(TypeError, match="expected a"):
            Counting.prototype(table.managed_tensor_from_py_object_no_sync)(
                id(other), ctypes.byref(out)
            )
        assert out.value is None


@pytest.mark.parametrize("subject", [int, 1, None, "abc", object, b"abc"])
def test_of_other_types(subject):
    with pytest.raises(TypeError, match="expected a tensor type or a tensor"):
        fastdl.exchange_api(subject)


def test_of_a_type_that_opted_out():
    with pytest.raises(TypeError, match="expected a tensor type"):
        fastdl.exchange_api(new_producer(__dlpack__=None))


# ---- tables that types publish --------------------------------------------------------------


@pytest.mark.parametrize("name", ["__dlpack_c_exchange_api__", "__c_dlpack_exchange_api__"])
def test_a_published_capsule_is_used(name):
    counting = Counting(5)
    cls = new_producer(**{name: counting.capsule})
    producer = cls()
    assert address_in(fastdl.exchange_api(cls)) == counting.address
    assert fastdl.from_dlpack(producer).shape == (5,)
    assert fastdl.from_dlpack(producer).shape == (5,)
    assert fastdl.from_dlpack(producer, copy=False).shape == (5,)
    assert counting.calls == 3
    assert producer.calls == []


def test_a_table_alone_makes_a_producer():
    counting = Counting(5)
    cls = type("Array", (), {"__dlpack_c_exchange_api__": counting.capsule})
    assert fastdl.from_dlpack(cls()).shape == (5,)
    assert fastdl.asarray(cls()).shape == (5,)


def test_a_stream_means_nothing_for_host_data():
    counting = Counting(5)
    producer = new_producer(__dlpack_c_exchange_api__=counting.capsule)()
    assert fastdl.from_dlpack(producer, stream=-1).shape == (5,)
    assert counting.calls == 1


@pytest.mark.parametrize(
    "value",
    [None, 1, "table", object(), OWN, property(lambda self: 1), capsule(OWN, b"dltensor")],
    ids=["None", "int", "str", "object", "address", "property", "other capsule"],
)
def test_published_things_that_are_no_tables(value):
    # The integer form cannot be checked before it is followed: only registering trusts it.
    for name in ("__dlpack_c_exchange_api__", "__c_dlpack_exchange_api__"):
        producer = new_producer(**{name: value})()
        assert fastdl.from_dlpack(producer).shape == (3,)
        assert len(producer.calls) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"managed_tensor_allocator": None},
        {"managed_tensor_from_py_object_no_sync": None},
        {"managed_tensor_to_py_object_no_sync": None},
        {"current_work_stream": None},
    ],
)
def test_incomplete_tables_are_not_used(changes):
    address, _ = table_like_own(**changes)
    producer = new_producer(__dlpack_c_exchange_api__=capsule(address, TABLE_NAME))()
    assert fastdl.from_dlpack(producer).shape == (3,)
    with pytest.raises(ValueError, match="mandatory functions"):
        fastdl.register_exchange_api(type(producer), address)


def test_a_table_without_borrowing_is_complete():
    counting = Counting(5)
    counting.struct.borrow = None
    assert fastdl.from_dlpack(new_producer(__dlpack_c_exchange_api__=counting.capsule)()).shape == (
        5,
    )


def test_a_chain_of_tables():
    counting = Counting(5)
    newer, table = table_like_own(prev_api=counting.address)
    table.version.major = 2
    newest, table = table_like_own(prev_api=newer)
    table.version.major = 3
    cls = new_producer(__dlpack_c_exchange_api__=capsule(newest, TABLE_NAME))
    assert fastdl.from_dlpack(cls()).shape == (5,)
    assert address_in(fastdl.exchange_api(cls)) == counting.address


def test_a_chain_without_end():
    address, table = table_like_own()
    table.version.major, table.prev_api = 2, address
    producer = new_producer(__dlpack_c_exchange_api__=capsule(address, TABLE_NAME))()
    assert fastdl.from_dlpack(producer).shape == (3,)
    with pytest.raises(ValueError):
        fastdl.register_exchange_api(type(producer), address)


# ---- subclasses -----------------------------------------------------------------------------


def test_a_subclass_inherits_the_table():
    counting = Counting(5)
    base = new_producer(__dlpack_c_exchange_api__=counting.capsule)
    assert fastdl.from_dlpack(type("Sub", (base,), {})()).shape == (5,)


def test_a_subclass_that_overrides_the_export_means_it():
    counting = Counting(5)
    base = new_producer(__dlpack_c_exchange_api__=counting.capsule)
    sub = type("Sub", (base,), {"__dlpack__": array_producer().__dlpack__})
    assert fastdl.from_dlpack(sub()).shape == (3,)
    assert fastdl.from_dlpack(type("SubSub", (sub,), {})()).shape == (3,)
    assert counting.calls == 0


def test_a_subclass_that_brings_its_own_table_too():
    base = new_producer(__dlpack_c_exchange_api__=Counting(5).capsule)
    members = {
        "__dlpack__": array_producer().__dlpack__, "__dlpack_c_exchange_api__": Counting(6).capsule
    }  # fmt: skip
    assert fastdl.from_dlpack(type("Sub", (base,), members)()).shape == (6,)


def test_none_hides_an_inherited_table():
    counting = Counting(5)
    base = new_producer(__dlpack_c_exchange_api__=counting.capsule)
    sub = type("Sub", (base,), {"__dlpack_c_exchange_api__": None})
    assert fastdl.from_dlpack(sub()).shape == (3,)
    assert counting.calls == 0


# ---- a table that refuses -------------------------------------------------------------------


def refusing():
    """A table whose from_object fails without setting an exception."""

    def from_object(candidate, out):
        return -1

    function = Counting.prototype(from_object)
    address, _ = table_like_own(
        managed_tensor_from_py_object_no_sync=ctypes.cast(function, ctypes.c_void_p).value
    )
    _tables.append(function)
    return capsule(address, TABLE_NAME)


def test_a_table_that_refuses_leaves_the_word_to_the_export():
    producer = new_producer(__dlpack_c_exchange_api__=refusing())()
    for times in (1, 2):
        assert fastdl.from_dlpack(producer).shape == (3,)
        assert len(producer.calls) == times


def test_the_answer_of_the_export_is_final():
    def fail(self, **keywords):
        self.calls.append(keywords)
        raise RuntimeError("the export's")

    producer = new_producer(__dlpack__=fail, __dlpack_c_exchange_api__=refusing())()
    with pytest.raises(RuntimeError, match="the export's"):
        fastdl.from_dlpack(producer)
    assert len(producer.calls) == 1


def test_a_table_that_refuses_without_an_export_or_a_reason():
    cls = type("Array", (), {"__dlpack_c_exchange_api__": refusing()})
    with pytest.raises(BufferError, match="without giving a reason"):
        fastdl.from_dlpack(cls())


# ---- register_exchange_api ------------------------------------------------------------------


@pytest.mark.parametrize("as_capsule", [True, False])
def test_register(as_capsule):
    counting = Counting(5)
    cls = new_producer()
    result = fastdl.register_exchange_api(cls, counting.capsule if as_capsule else counting.address)
    assert result is None
    producer = cls()
    assert fastdl.from_dlpack(producer).shape == (5,)
    assert producer.calls == []
    assert address_in(fastdl.exchange_api(producer)) == counting.address


def test_registering_makes_a_producer():
    cls = type("Array", (), {})
    with pytest.raises(TypeError):
        fastdl.from_dlpack(cls())
    fastdl.register_exchange_api(cls, Counting(5).capsule)
    assert fastdl.from_dlpack(cls()).shape == (5,)


def test_a_registered_table_goes_before_a_published_one():
    cls = new_producer(__dlpack_c_exchange_api__=Counting(5).capsule)
    assert fastdl.from_dlpack(cls()).shape == (5,)
    fastdl.register_exchange_api(cls, Counting(6).capsule)
    assert fastdl.from_dlpack(cls()).shape == (6,)


def test_registering_again_replaces():
    cls = new_producer()
    for size in (5, 6, 7):
        fastdl.register_exchange_api(cls, Counting(size).capsule)
        assert fastdl.from_dlpack(cls()).shape == (size,)


def test_registering_after_the_type_was_learned():
    cls = new_producer()
    assert fastdl.from_dlpack(cls()).shape == (3,)
    fastdl.register_exchange_api(cls, Counting(5).capsule)
    assert fastdl.from_dlpack(cls()).shape == (5,)


def test_registering_reaches_subclasses_that_are_known_already():
    base = new_producer()
    sub = type("Sub", (base,), {})
    sub_sub = type("SubSub", (sub,), {})
    for cls in (base, sub, sub_sub):
        assert fastdl.from_dlpack(cls()).shape == (3,)
    fastdl.register_exchange_api(base, Counting(5).capsule)
    for cls in (base, sub, sub_sub, type("Late", (sub,), {})):
        assert fastdl.from_dlpack(cls()).shape == (5,)


def test_registering_does_not_reach_subclasses_with_their_own_export():
    base = new_producer()
    sub = type("Sub", (base,), {"__dlpack__": array_producer().__dlpack__})
    below = type("Below", (sub,), {})
    fastdl.from_dlpack(sub())
    fastdl.register_exchange_api(base, Counting(5).capsule)
    assert fastdl.from_dlpack(base()).shape == (5,)
    assert fastdl.from_dlpack(sub()).shape == (3,)
    assert fastdl.from_dlpack(below()).shape == (3,)


def test_registering_for_a_subclass_leaves_its_base():
    base = new_producer()
    sub = type("Sub", (base,), {})
    fastdl.register_exchange_api(sub, Counting(5).capsule)
    assert fastdl.from_dlpack(base()).shape == (3,)
    assert fastdl.from_dlpack(sub()).shape == (5,)


def test_a_registered_table_reaches_subclasses_that_publish_another():
    base = new_producer()
    fastdl.register_exchange_api(base, Counting(5).capsule)
    publishing = {"__dlpack_c_exchange_api__": Counting(6).capsule}
    assert fastdl.from_dlpack(type("Sub", (base,), publishing)()).shape == (5,)
    exporting = {"__dlpack__": array_producer().__dlpack__, **publishing}
    assert fastdl.from_dlpack(type("Sub", (base,), exporting)()).shape == (6,)


def test_a_subclass_of_numpy_can_be_registered():
    array = type("Array", (np.ndarray,), {})
    fastdl.register_exchange_api(array, Counting(5).capsule)
    assert fastdl.from_dlpack(np.zeros(2).view(array)).shape == (5,)
    assert fastdl.from_dlpack(np.zeros(2)).shape == (2,)


@pytest.mark.parametrize("cls", [1, None, "Array", np.zeros(1), fastdl.empty(1)])
def test_registering_for_what_is_no_type(cls):
    with pytest.raises(TypeError, match="expected a type"):
        fastdl.register_exchange_api(cls, fastdl.Tensor.__dlpack_c_exchange_api__)


@pytest.mark.parametrize(
    "table", [None, "table", 1.0, True, b"", object(), capsule(OWN, b"dltensor")]
)
def test_registering_what_is_no_table(table):
    cls = new_producer()
    with pytest.raises(TypeError, match="expected a capsule 'dlpack_exchange_api' or an address"):
        fastdl.register_exchange_api(cls, table)
    assert fastdl.from_dlpack(cls()).shape == (3,)


@pytest.mark.parametrize(
    "address",
    [0, -1, -(2**64), OWN + 1, OWN + 4, 2**64, 2**64 + OWN],
    ids=["0", "-1", "-(2**64)", "own + 1", "own + 4", "2**64", "2**64 + own"],
)
def test_registering_addresses_that_cannot_be(address):
    with pytest.raises(ValueError):
        fastdl.register_exchange_api(new_producer(), address)


@pytest.mark.parametrize("major", [0, 2])
def test_registering_another_major_version(major):
    address, table = table_like_own()
    table.version.major = major
    with pytest.raises(ValueError, match="DLPack 1.x"):
        fastdl.register_exchange_api(new_producer(), address)


def test_a_failed_registration_keeps_the_former_table():
    cls = new_producer()
    fastdl.register_exchange_api(cls, Counting(5).capsule)
    address, _ = table_like_own(managed_tensor_to_py_object_no_sync=None)
    with pytest.raises(ValueError):
        fastdl.register_exchange_api(cls, address)
    assert fastdl.from_dlpack(cls()).shape == (5,)


def test_arguments_are_positional():
    with pytest.raises(TypeError):
        fastdl.register_exchange_api(cls=new_producer(), table=OWN)
    with pytest.raises(TypeError):
        fastdl.exchange_api(producer=fastdl.Tensor)


@in_fresh_process
def test_more_types_than_are_remembered():
    # The cache has a fixed size; types beyond it are looked up each time.
    known = []
    for i in range(2000):
        cls = new_producer()
        if i % 3 == 0:

            def __dlpack__(self):
                return self.array.__dlpack__()

            cls.__dlpack__ = __dlpack__
        producer = cls()
        for _ in range(2):
            assert fastdl.from_dlpack(producer).data_ptr == producer.array.ctypes.data
        array = np.zeros(i).view(type("Array", (np.ndarray,), {}))
        assert fastdl.from_dlpack(array).shape == (i,)
        known.append(cls)
    counting = Counting(5)
    for cls in known[::50]:
        fastdl.register_exchange_api(cls, counting.capsule)
        assert fastdl.from_dlpack(cls()).shape == (5,)
