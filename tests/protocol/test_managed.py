# SPDX-License-Identifier: Apache-2.0
"""fastdl.from_managed and fastdl.to_managed: managed tensors at addresses. Every malformed one goes
through from_managed too: see WAYS in tests/support/producers.py."""

import ctypes
import gc
import weakref

import numpy as np
import pytest

import fastdl
from dlpack_conformance.structs import managed_at
from tests.support.ctypes_dlpack import Managed
from tests.support.isolate import in_fresh_process

DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@pytest.mark.parametrize("versioned", [True, False])
def test_the_deleter_is_called_once_after_the_last_use(versioned):
    managed = Managed((3,), data=bytearray(12), versioned=versioned)
    tensor = fastdl.from_managed(managed.address, versioned=versioned)
    view = tensor[1:]
    del tensor
    gc.collect()
    assert managed.deleted == 0
    assert view.tolist() == [0, 0]
    assert not view.readonly
    del view
    gc.collect()
    assert managed.deleted == 1


@pytest.mark.parametrize("versioned", [True, False])
def test_a_malformed_tensor_is_deleted_once(versioned):
    managed = Managed((-1,), data=bytearray(12), versioned=versioned)
    with pytest.raises(BufferError):
        fastdl.from_managed(managed.address, versioned=versioned)
    assert managed.deleted == 1


@pytest.mark.parametrize("versioned", [True, False])
def test_without_a_deleter(versioned):
    managed = Managed((3,), data=bytearray(12), versioned=versioned, no_deleter=True)
    for _ in range(2):
        assert fastdl.from_managed(managed.address, versioned=versioned).tolist() == [0, 0, 0]


def test_another_major_version():
    managed = Managed((3,), data=bytearray(12), version=(2, 0))
    with pytest.raises(BufferError, match="2.0"):
        fastdl.from_managed(managed.address)
    assert managed.deleted == 1


@pytest.mark.parametrize("versioned", [True, False])
def test_the_other_form_is_refused_and_stays_with_the_caller(versioned):
    managed = Managed((3,), data=bytearray(12), versioned=not versioned)
    with pytest.raises(BufferError, match=f"versioned={not versioned}"):
        fastdl.from_managed(managed.address, versioned=versioned)
    assert managed.deleted == 0


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0,), BufferError, "address of a DLManagedTensorVersioned, got 0x0"),
        ((4097,), BufferError, "got 0x1001"),
        ((-8,), BufferError, "64 bits"),
        ((2**64,), BufferError, "64 bits"),
        ((None,), TypeError, "addressof"),
        (("8",), TypeError, "expected an address"),
        ((1.0,), TypeError, "expected an address"),
        ((ctypes.c_void_p(8),), TypeError, "expected an address"),
    ],
)
def test_addresses(arguments, error, message):
    with pytest.raises(error, match=message):
        fastdl.from_managed(*arguments)


def test_a_form_that_is_no_bool():
    with pytest.raises(TypeError, match="versioned=True or False"):
        fastdl.from_managed(8, versioned=1)


@pytest.mark.parametrize("max_version", [(1, 0), (1, 3), (2, 0), None, (0, 8)])
def test_what_is_given_away(max_version):
    array = np.arange(6, dtype="i2").reshape(2, 3)[:, ::2]
    end = weakref.ref(array)
    address = fastdl.to_managed(array, max_version=max_version)
    versioned = max_version is not None and max_version[0] >= 1
    struct = managed_at(address, versioned)
    tensor = struct.tensor
    assert (tensor.code, tensor.bits, tensor.ndim) == (0, 16, 2)
    assert (tensor.shape[0], tensor.shape[1]) == (2, 2)
    assert (tensor.strides[0], tensor.strides[1]) == (3, 2)
    assert tensor.data + tensor.byte_offset == array.ctypes.data
    del array
    gc.collect()
    assert end() is not None
    DELETER(struct.deleter)(address)
    gc.collect()
    assert end() is None


@pytest.mark.parametrize("max_version", [(1, 0), None])
def test_taken_back(max_version):
    array = np.arange(3.0)
    end = weakref.ref(array)
    address = fastdl.to_managed(array, max_version=max_version)
    tensor = fastdl.from_managed(address, versioned=max_version is not None)
    assert tensor.data_ptr == array.ctypes.data
    del array, tensor
    gc.collect()
    assert end() is None


def test_what_a_form_cannot_say():
    with pytest.raises(BufferError, match="read-only"):
        fastdl.to_managed(b"abc", max_version=None)
    assert fastdl.from_managed(fastdl.to_managed(b"abc")).readonly
    with pytest.raises(BufferError, match="1.1"):
        fastdl.to_managed(fastdl.empty(3, "int4"))
    taken = fastdl.from_managed(fastdl.to_managed(fastdl.empty(3, "int4"), max_version=(1, 1)))
    assert taken.dtype == "int4"


@pytest.mark.parametrize("max_version", ["1.0", (1,), 1, (1, "0")])
def test_versions_that_are_none(max_version):
    with pytest.raises((TypeError, ValueError)):
        fastdl.to_managed(fastdl.empty(3), max_version=max_version)


@in_fresh_process
def test_a_deleter_on_another_thread():
    import threading

    array = np.arange(3)
    end = weakref.ref(array)
    address = fastdl.to_managed(array)
    del array
    thread = threading.Thread(target=DELETER(managed_at(address, True).deleter), args=(address,))
    thread.start()
    thread.join()
    gc.collect()
    assert end() is None
