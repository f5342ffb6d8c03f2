# SPDX-License-Identifier: Apache-2.0
# cython: language_level=3, freethreading_compatible=True
"""Each name of fastdl/__init__.pxd, used once; test_cython.py looks at what comes back, and adds
the numbers of element types and devices."""
cimport fastdl
from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint32_t


def import_fastdl():
    return fastdl.import_fastdl()


def name_of(int device):
    return fastdl.find_device(device).name.decode()


def borrow(argument):
    cdef fastdl.view x
    fastdl.borrow(argument, &x)
    fastdl.release(&x)
    return True


def describe(argument):
    """What a view says of a tensor."""
    cdef fastdl.view x
    cdef fastdl.layout layout
    cdef int64_t[fastdl.MAX_NDIM] compact
    fastdl.borrow(argument, &x)
    try:
        fault = fastdl.check(&x.dl, x.flags, &layout)
        fastdl.compact_strides(x.dl.ndim, x.dl.shape, compact)
        return {
            "address": <size_t>x.dl.data,
            "dtype": fastdl.dtype(x.dl.dtype),
            "same dtype": fastdl.DTYPE(x.dl.dtype.code, x.dl.dtype.bits, x.dl.dtype.lanes),
            "itemsize": fastdl.itemsize(x.dl.dtype),
            "packed": fastdl.is_packed(x.dl.dtype, x.flags),
            "shape": [x.dl.shape[i] for i in range(x.dl.ndim)],
            "strides": [x.dl.strides[i] for i in range(x.dl.ndim)],
            "compact strides": [compact[i] for i in range(x.dl.ndim)],
            "C": fastdl.is_contiguous(&x.dl, b"C"),
            "F": fastdl.is_contiguous(&x.dl, b"F"),
            "device": (x.dl.device.device_type, x.dl.device.device_id),
            "on host": bool(fastdl.find_device(x.dl.device.device_type).host),
            "read-only": bool(x.flags & fastdl.DLPACK_FLAG_BITMASK_READ_ONLY),
            "copied": bool(x.flags & fastdl.DLPACK_FLAG_BITMASK_IS_COPIED),
            "fault": None if fault == fastdl.OK else fastdl.fault_text(fault),
            "size": layout.size,
            "nbytes": layout.nbytes,
            "low": layout.low,
            "high": layout.high,
            "stream": <size_t>fastdl.work_stream(&x),
            "ordered": (fastdl.order(&x, NULL), fastdl.order_back(&x, NULL)),
        }
    finally:
        fastdl.release(&x)
        fastdl.release(&x)  # harmless


def expect(points, weights):
    """`points` is (n, 3), row-major float32 at a multiple of 4; `weights` the n of the same type
    and share no memory with them."""
    cdef fastdl.view p, w
    cdef uint32_t number = fastdl.FLOAT32
    cdef fastdl.dim n = fastdl.DIM(b"n"), three = fastdl.SIZE(3)
    cdef (fastdl.dim *)[2] of_points = [&n, &three]
    cdef (fastdl.dim *)[1] of_weights = [&n]
    cdef fastdl.argument first
    cdef fastdl.spec spec = fastdl.anything()
    spec.dtypes, spec.dtype_count = &number, 1
    spec.ndim, spec.shape = 2, of_points
    spec.layout, spec.device, spec.alignment = fastdl.C, fastdl.kDLCPU, 4
    fastdl.borrow(points, &p)
    try:
        fastdl.borrow(weights, &w)
        fastdl.expect(&p, b"points", &spec)
        first = fastdl.argument(&p, b"points")
        spec = fastdl.anything()
        spec.ndim, spec.shape, spec.rules = 1, of_weights, fastdl.WRITABLE
        spec.like, spec.no_alias, spec.no_alias_count = &first, &first, 1
        fastdl.expect(&w, b"weights", &spec)
        return n.size
    finally:
        fastdl.release(&w)
        fastdl.release(&p)


def sizes(first, second):
    """Vectors of one length and one element type: that length, twice."""
    cdef fastdl.view[2] views
    cdef fastdl.dim n = fastdl.DIM(b"n")
    cdef fastdl.dim *shape = &n
    cdef fastdl.argument x = fastdl.argument(&views[0], b"x")
    cdef fastdl.spec of_x = fastdl.anything(), of_y
    cdef fastdl.parameter[2] parameters
    cdef (PyObject *)[2] objects = [<PyObject *>first, <PyObject *>second]
    of_x.ndim, of_x.shape = 1, &shape
    of_y = of_x
    of_y.like = &x
    parameters[0] = fastdl.parameter(b"x", &of_x)
    parameters[1] = fastdl.parameter(b"y", &of_y)
    fastdl.borrow_all(objects, parameters, 2, views)
    try:
        return n.size, views[1].dl.shape[0]
    finally:
        fastdl.release_all(views, 2)


def total_as_double(argument):
    """Of a vector of any number type, kept for a while."""
    cdef uint32_t wanted = fastdl.FLOAT64
    cdef fastdl.spec spec = fastdl.anything()
    cdef fastdl.DLManagedTensorVersioned *kept
    cdef double sum = 0
    cdef int64_t i
    spec.dtypes, spec.dtype_count, spec.ndim = &wanted, 1, 1
    spec.layout, spec.rules = fastdl.C, fastdl.CONVERT
    kept = fastdl.own_as(argument, b"argument", &spec)
    try:
        for i in range(kept.dl_tensor.shape[0]):
            sum += (<double *>kept.dl_tensor.data)[i]
        return sum
    finally:
        fastdl.drop(kept)


def first_doubled(argument):
    """Changes the first element of a vector of any floating type."""
    cdef fastdl.view x
    cdef fastdl.spec spec = fastdl.anything()
    cdef uint32_t number
    spec.ndim, spec.rules = 1, fastdl.WRITABLE | fastdl.DETACHED
    fastdl.borrow_as(argument, b"argument", &spec, &x)
    try:
        number = fastdl.dtype(x.dl.dtype)
        fastdl.store(number, x.dl.data, 2 * fastdl.load(number, x.dl.data))
    finally:
        fastdl.release(&x)


def zeros(like):
    cdef fastdl.view x
    fastdl.borrow(like, &x)
    try:
        return fastdl.wrap(fastdl.zeros(&x.dl, type(like)), type(like))
    finally:
        fastdl.release(&x)


def meets(argument, int ndim=0, int layout=0, int rules=0, int device=0):
    """How many dimensions it has, and whether it was copied."""
    cdef fastdl.view x
    cdef fastdl.spec spec = fastdl.anything()
    spec.ndim, spec.layout, spec.rules, spec.device = ndim, layout, rules, device
    fastdl.borrow_as(argument, b"x", &spec, &x)
    try:
        return x.dl.ndim, bool(x.flags & fastdl.DLPACK_FLAG_BITMASK_IS_COPIED)
    finally:
        fastdl.release(&x)


SCALAR, C, F, INNER = fastdl.SCALAR, fastdl.C, fastdl.F, fastdl.INNER
WRITABLE, TRAILING, IN_PLACE = fastdl.WRITABLE, fastdl.TRAILING, fastdl.IN_PLACE
HOST, ANY_DEVICE, COPY = fastdl.HOST, fastdl.ANY_DEVICE, fastdl.COPY


def first(argument, fastdl.number nothing):
    """The first element, by a pointer of that type: first["int8_t"](argument, 0)."""
    cdef fastdl.view x
    cdef fastdl.number *data
    fastdl.borrow(argument, &x)
    try:
        fastdl.pointer(&x, b"x", &data)
        return data[0]
    finally:
        fastdl.release(&x)


cdef class Kept:
    """A tensor that is owned."""
    cdef fastdl.DLManagedTensorVersioned *managed

    def __init__(self, argument):
        self.managed = fastdl.own(argument)

    def __dealloc__(self):
        if self.managed is not NULL:
            fastdl.drop(self.managed)

    def numbers(self):
        cdef fastdl.DLTensor *x = &self.managed.dl_tensor
        cdef double *data = <double *>(<char *>x.data + x.byte_offset)
        return self.managed.version.major, [data[i * x.strides[0]] for i in range(x.shape[0])]

    def give(self, like):
        managed = self.managed
        self.managed = NULL
        return fastdl.wrap(managed, like)


def empty(prototype, like):
    cdef fastdl.view x
    fastdl.borrow(prototype, &x)
    try:
        return fastdl.wrap(fastdl.empty(&x.dl, like), like)
    finally:
        fastdl.release(&x)


def filled_on(prototype, like, size_t stream):
    """A result as on a stream of its own."""
    cdef fastdl.view x
    fastdl.borrow(prototype, &x)
    try:
        made = fastdl.empty_on(&x.dl, like, <void *>stream)
        return fastdl.wrap_on(made, like, <void *>stream)
    finally:
        fastdl.release(&x)


def wrap_on(argument, like):
    return fastdl.wrap_on(fastdl.own(argument), like, NULL)


def exchange_api(like):
    cdef const fastdl.DLPackExchangeAPI *api = fastdl.exchange_api(like)
    return <size_t>api, api.header.version.major, api.header.version.minor
