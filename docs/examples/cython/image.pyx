# SPDX-License-Identifier: Apache-2.0
# cython: language_level=3
# Build: CFLAGS="$(python -m fastdl --cflags)" python -m Cython.Build.Cythonize -q -i image.pyx
"""A type that is a tensor to others: numpy.from_dlpack(Image(480, 640)) is a view of its pixels."""
# [image]
cimport fastdl
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport calloc, free


cdef class Image:
    cdef uint8_t *pixels
    cdef int64_t[2] shape

    def __cinit__(self, unsigned int height, unsigned int width):
        self.shape = [height, width]
        self.pixels = <uint8_t *>calloc(height * <size_t>width + 1, 1)
        if self.pixels is NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.pixels)


cdef int describe(object self, fastdl.description *out) except -1:
    cdef Image image = <Image>self
    out.dl.data = image.pixels
    out.dl.ndim = 2
    out.dl.shape = image.shape
    out.dl.dtype = fastdl.data_type(fastdl.UINT8)
    return 0


fastdl.publish(Image, describe)
# [/image]
