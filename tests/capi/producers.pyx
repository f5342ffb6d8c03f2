# SPDX-License-Identifier: Apache-2.0
# cython: language_level=3
"""A cdef class that fastdl.publish makes a producer: it describes what Python says, as producer.c.
"""
cimport fastdl
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uintptr_t


cdef class Given:
    cdef object owner, before
    cdef uintptr_t data
    cdef int64_t[65] shape, strides
    cdef fastdl.DLDataType dtype
    cdef int ndim
    cdef int flags

    def __init__(self, owner, data, shape, strides, dtype, flags, before=None):
        self.owner, self.data, self.flags, self.before = owner, data, flags, before
        self.dtype.code, self.dtype.bits, self.dtype.lanes = dtype
        self.ndim = len(shape)
        for i in range(self.ndim):
            self.shape[i], self.strides[i] = shape[i], strides[i]


cdef int describe(object self, fastdl.description *out) except -1:
    cdef Given given = <Given>self
    if given.before is not None:
        given.before(self)
    out.owner = <PyObject *>given.owner
    out.dl.data = <void *>given.data
    out.dl.ndim = given.ndim
    out.dl.shape = given.shape
    out.dl.strides = given.strides
    out.dl.dtype = given.dtype
    out.flags = given.flags
    return 0


cdef class OnStream(Given):
    pass


cdef class Alike(Given):
    pass


cdef int stream_7(fastdl.DLDeviceType kind, int32_t number, void **out) except -1:
    out[0] = <void *><uintptr_t>7
    return 0


fastdl.publish(Given, describe, fastdl.LENDS, fastdl.default_stream)
fastdl.publish(OnStream, describe, fastdl.LENDS, stream_7)
fastdl.publish(Alike, describe)


def same(x):
    fastdl.import_fastdl()
    return fastdl.wrap(fastdl.own(x), None)
