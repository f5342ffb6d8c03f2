# SPDX-License-Identifier: Apache-2.0
# cython: language_level=3
"""take(x): a float32 vector on the host, bound with `cimport fastdl`."""
cimport fastdl
from libc.stdint cimport uint32_t

fastdl.import_fastdl()

cdef uint32_t[1] TYPES = [fastdl.FLOAT32]
cdef volatile float sink  # so that the tensor is read


def take(x):
    global sink
    cdef fastdl.view view
    cdef fastdl.spec spec = fastdl.anything()
    spec.dtypes, spec.dtype_count, spec.ndim = TYPES, 1, 1
    fastdl.borrow(x, &view)
    try:
        fastdl.expect(&view, b"x", &spec)
        sink = (<const float *>view.dl.data)[0]
    finally:
        fastdl.release(&view)
