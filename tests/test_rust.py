"""Exchange tables read from Rust: capi/consumer.rs, which has the structs from the specification
and no header of ours, takes, makes and gives back tensors of fastdl.
"""

import ctypes
import gc
import shutil
import sys
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest

import fastdl
from tests.support.build import SOURCES, folder, run_compiler
from tests.support.ctypes_dlpack import Table, capsule

TABLE_NAME = b"dlpack_exchange_api"
CPU, UNHEARD_OF = 1, 12345
READ_ONLY = 1


def rustc():
    """The path of the compiler, on PATH or where rustup puts it. Nothing else excuses a skip."""
    found = shutil.which("rustc") or shutil.which("rustc", path=Path.home() / ".cargo/bin")
    if found is None:
        pytest.skip("rustc is neither on PATH nor in ~/.cargo/bin")
    return found


@pytest.fixture(scope="module")
def rust():
    """The library: each function takes and returns what consumer.rs says."""
    output = folder() / "libconsumer_rs.so"
    command = [rustc(), "--edition=2021", "--crate-type=cdylib", "-O", "-Dwarnings"]
    if sys.platform == "darwin":
        command += ["-Clink-args=-undefined dynamic_lookup"]
    run_compiler([*command, SOURCES / "consumer.rs", "-o", output], timeout=300)
    library = ctypes.PyDLL(str(output))  # keeps the GIL, and raises what is pending afterwards
    pointer, thing, number = ctypes.c_void_p, ctypes.py_object, ctypes.c_int64
    for name, *arguments in (
        ("versions", thing),
        ("total_owned", thing, thing),
        ("total_borrowed", thing, thing),
        ("own", thing, thing),
        ("total", pointer),
        ("stamp", pointer),
        ("arange", thing, ctypes.c_int32, number, number),
        ("stream", thing, ctypes.c_int32, ctypes.c_int32),
    ):
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, thing
    return library


@pytest.fixture(scope="module")
def discard(rust):
    """A deleter's call as another thread of a program would make it: without the GIL."""
    function = ctypes.CDLL(rust._name).discard
    function.argtypes, function.restype = [ctypes.c_void_p], None
    return function


def tensor(array):
    return fastdl.from_dlpack(array)


# How a table is published -> (what is published, what makes an object of it).
PUBLISHED = {
    "capsule of Tensor": (lambda: fastdl.Tensor.__dlpack_c_exchange_api__, tensor),
    "integer of Tensor": (lambda: fastdl.Tensor.__c_dlpack_exchange_api__, tensor),
    "exchange_api(Tensor)": (lambda: fastdl.exchange_api(fastdl.Tensor), tensor),
    "exchange_api(ndarray)": (lambda: fastdl.exchange_api(np.ndarray), np.asarray),
}


@pytest.fixture(params=PUBLISHED)
def source(request):
    published, make = PUBLISHED[request.param]
    return published(), make


ARRAYS = {
    "contiguous": np.arange(24, dtype=np.float32).reshape(2, 3, 4),
    "strided": np.arange(24, dtype=np.float32).reshape(4, 6)[1:, ::2],
    "reversed": np.arange(24, dtype=np.float32)[::-3],
    "transposed": np.arange(6, dtype=np.float32).reshape(2, 3).T,
    "broadcast": np.lib.stride_tricks.as_strided(np.float32([1, 2]), (2, 5), (4, 0)),
    "scalar": np.array(7, dtype=np.float32),
    "empty": np.zeros((0, 3), np.float32),
}


def test_the_forms_are_one_table(rust):
    capsule_form, integer = (
        fastdl.Tensor.__dlpack_c_exchange_api__,
        fastdl.Tensor.__c_dlpack_exchange_api__,
    )
    assert type(integer) is int
    assert rust.versions(capsule_form) == rust.versions(integer)


def test_version(rust, source):
    assert rust.versions(source[0])[0] == fastdl.dlpack_version


@pytest.mark.parametrize("name", ARRAYS)
def test_owned(rust, source, name):
    published, make = source
    array = ARRAYS[name]
    assert rust.total_owned(published, make(array)) == array.sum()


@pytest.mark.parametrize("name", ARRAYS)
def test_borrowed(rust, name):
    array = ARRAYS[name]
    for published in (
        fastdl.Tensor.__dlpack_c_exchange_api__,
        fastdl.Tensor.__c_dlpack_exchange_api__,
    ):
        assert rust.total_borrowed(published, tensor(array)) == array.sum()


def test_numpy_does_not_lend(rust):
    with pytest.raises(TypeError, match="expected a table that borrows, got NULL"):
        rust.total_borrowed(fastdl.exchange_api(np.ndarray), np.ones(2, np.float32))


def test_other_elements_are_told_apart(rust, source):
    published, make = source
    with pytest.raises(TypeError, match="expected float32 on the host"):
        rust.total_owned(published, make(np.ones(3)))


def test_owned_outlives_the_object(rust, source, discard):
    published, make = source
    array = np.arange(5, dtype=np.float32)
    alive = weakref.ref(array)
    managed = rust.own(published, make(array))
    del array
    gc.collect()
    assert alive() is not None
    assert rust.total(managed) == 10
    assert rust.stamp(managed) == (*fastdl.dlpack_version, 0)
    thread = threading.Thread(target=discard, args=(managed,))
    thread.start()
    thread.join()
    gc.collect()
    assert alive() is None


def test_nothing_is_left_behind(rust, source):
    published, make = source
    array = np.ones(3, np.float32)
    before = sys.getrefcount(array)
    for _ in range(100):
        rust.total_owned(published, make(array))
        with pytest.raises(TypeError):
            rust.total_owned(published, make(array.view(np.int32)))
    assert sys.getrefcount(array) == before


def test_read_only(rust, source, discard):
    published, make = source
    array = np.ones(2, np.float32)
    array.flags.writeable = False
    managed = rust.own(published, make(array))
    assert rust.stamp(managed) == (*fastdl.dlpack_version, READ_ONLY)
    discard(managed)


def test_borrowing_refuses_read_only_data(rust):
    array = np.ones(2, np.float32)
    array.flags.writeable = False
    with pytest.raises(BufferError, match="read-only"):
        rust.total_borrowed(fastdl.Tensor.__dlpack_c_exchange_api__, tensor(array))


def test_made_in_rust(rust, source):
    published, make = source
    result = rust.arange(published, CPU, 2, 3)
    assert type(result) is type(make(np.zeros(1, np.float32)))
    assert np.array_equal(np.asarray(result), np.arange(6, dtype=np.float32).reshape(2, 3))


def test_a_failing_allocator_says_why_once(rust, source):
    calls, kind, message = rust.arange(source[0], UNHEARD_OF, 2, 3)
    assert calls == 1
    assert kind == "BufferError"
    assert message


def test_no_memory_is_said_too(rust, source):
    calls, kind, message = rust.arange(source[0], CPU, 2**40, 2**20)
    assert (calls, kind) == (1, "MemoryError"), message


def test_stream_of_the_host_is_none(rust, source):
    assert rust.stream(source[0], CPU, 0) == 0


# ---- chains ---------------------------------------------------------------------------------


def chain(*majors):
    """A capsule of tables of these major versions, the first newest; and what keeps it alive."""
    tables, next_address = [], None
    for major in reversed(majors):
        table = Table.from_buffer_copy(Table.from_address(fastdl.Tensor.__c_dlpack_exchange_api__))
        table.version.major, table.version.minor = major, 0
        table.prev_api = next_address
        next_address = ctypes.addressof(table)
        if major != 1:  # whatever is behind the header is not for this consumer
            for name in ("allocator", "from_object", "to_object", "borrow"):
                setattr(table, name, None)
        tables.append(table)
    return capsule(next_address, TABLE_NAME), tables


def test_an_older_table_is_found_behind_a_newer_one(rust):
    published, tables = chain(3, 2, 1)
    assert rust.versions(published) == [(3, 0), (2, 0), (1, 0)]
    assert rust.total_owned(published, tensor(np.float32([1, 2]))) == 3
    assert len(tables) == 3


def test_no_table_that_fits(rust):
    published, tables = chain(3, 2)
    with pytest.raises(BufferError, match="expected an exchange table of version 1"):
        rust.total_owned(published, tensor(np.float32([1, 2])))
    assert len(tables) == 2


def test_not_a_table(rust):
    with pytest.raises(ValueError, match="PyCapsule_GetPointer"):
        rust.versions(capsule(fastdl.Tensor.__c_dlpack_exchange_api__, b"something else"))
