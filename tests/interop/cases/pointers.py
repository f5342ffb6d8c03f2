# SPDX-License-Identifier: Apache-2.0
"""from_managed and to_managed with other packages that pass pointers."""

import ctypes
import gc
import weakref

import cffi
import ctypes_dlpack
import numpy as np
import pytest

import fastdl

POINTER = ctypes.POINTER(ctypes_dlpack.DLManagedTensorVersioned)


def test_from_ctypes_dlpack():
    array = np.arange(6.0).reshape(2, 3)
    end = weakref.ref(array)
    pointer = ctypes_dlpack.array_as_dlpack(array)
    tensor = fastdl.from_managed(ctypes.addressof(pointer.contents))
    assert tensor.data_ptr == array.ctypes.data
    assert tensor.tolist() == array.tolist()
    del array, pointer
    gc.collect()
    assert end() is not None
    del tensor
    gc.collect()
    assert end() is None


@pytest.mark.parametrize("readonly", [False, True])
def test_to_ctypes_dlpack(readonly):
    array = np.arange(6.0).reshape(2, 3)
    array.flags.writeable = not readonly
    end = weakref.ref(array)
    address = fastdl.to_managed(array)
    theirs = ctypes_dlpack.DLPackArray(ctypes.cast(address, POINTER))
    again = np.from_dlpack(theirs)
    assert again.ctypes.data == array.ctypes.data
    assert again.flags.writeable is not readonly
    del array, theirs
    gc.collect()
    assert end() is not None
    del again
    gc.collect()
    assert end() is None


def test_what_it_never_imports_it_frees():
    array = np.arange(3)
    end = weakref.ref(array)
    theirs = ctypes_dlpack.DLPackArray(ctypes.cast(fastdl.to_managed(array), POINTER))
    del array, theirs
    gc.collect()
    assert end() is None


def test_with_cffi():
    ffi = cffi.FFI()
    pointer = ffi.cast("void *", fastdl.to_managed(bytearray(b"abc")))
    assert fastdl.from_managed(int(ffi.cast("uintptr_t", pointer))).tolist() == [97, 98, 99]
    with pytest.raises(TypeError, match="ffi.cast"):
        fastdl.from_managed(pointer)
