# SPDX-License-Identifier: Apache-2.0
# cython: language_level=3, boundscheck=False, wraparound=False
"""y += a * x for vectors of any framework:

    >>> y = torch.ones(3)
    >>> axpy(2.0, jax.numpy.arange(3.0), y)
    >>> scaled(10.0, y)
    tensor([10., 30., 50.])
"""
# [axpy]
cimport fastdl
from libc.stdint cimport int64_t, uint32_t

try:
    fastdl.import_fastdl()  # reads NumPy's arrays directly
except ImportError:
    pass                    # without the package: by __dlpack__

ctypedef fused real:
    float
    double

cdef uint32_t[2] REAL = [fastdl.FLOAT32, fastdl.FLOAT64]


cdef void add(real a, const fastdl.DLTensor *x, const fastdl.DLTensor *y) noexcept nogil:
    cdef const real *source = <const real *>x.data
    cdef real *target = <real *>y.data
    cdef int64_t i
    for i in range(x.shape[0]):
        target[i * y.strides[0]] += a * source[i * x.strides[0]]


cdef void add_any(double a, const fastdl.DLTensor *x, const fastdl.DLTensor *y) noexcept nogil:
    if fastdl.dtype(x.dtype) == fastdl.FLOAT32:
        add[float](<float>a, x, y)
    else:
        add[double](a, x, y)


def axpy(double a, x, y):
    """Adds a * x to y, in place: float32 or float64 vectors of one length, on the host."""
    cdef fastdl.view vx, vy
    cdef fastdl.dim n = fastdl.DIM(b"n")  # the size that both must have
    cdef fastdl.dim *shape = &n
    cdef fastdl.argument source = fastdl.argument(&vx, b"x")
    cdef fastdl.spec input = fastdl.anything(), output
    input.dtypes, input.dtype_count = REAL, 2
    input.ndim, input.shape = 1, &shape
    output = input
    output.rules = fastdl.WRITABLE | fastdl.IN_PLACE  # y may be x itself, not a part of it
    output.like = output.no_alias = &source
    output.no_alias_count = 1

    fastdl.borrow_as(x, b"x", &input, &vx)
    try:
        fastdl.borrow_as(y, b"y", &output, &vy)
        add_any(a, &vx.dl, &vy.dl)
    finally:
        fastdl.release(&vy)
        fastdl.release(&vx)


# [/axpy]


cdef class WeightedSum:
    """WeightedSum(weights).of([x, y, ...]): the sum of vectors, times `weights` if given."""
    cdef fastdl.spec vector
    cdef fastdl.DLManagedTensorVersioned *weights  # owned; NULL for None

    def __cinit__(self, weights=None):
        self.vector = fastdl.anything()
        self.vector.dtypes, self.vector.dtype_count, self.vector.ndim = &REAL[1], 1, 1
        # Contiguous float64 is used in place; other layouts are copied, other types converted.
        self.vector.layout, self.vector.rules = fastdl.C, fastdl.CONVERT
        if weights is not None:
            self.weights = fastdl.own_as(weights, b"weights", &self.vector)

    def __dealloc__(self):
        fastdl.drop(self.weights)  # NULL is allowed

    def of(self, list vectors):
        cdef fastdl.view x
        cdef fastdl.dim n = fastdl.DIM(b"n")  # the size of all vectors
        cdef fastdl.dim *shape = &n
        cdef fastdl.spec vector = self.vector
        cdef fastdl.DLManagedTensorVersioned *result = NULL
        cdef const double *w = NULL
        cdef double *total
        cdef int64_t i
        vector.shape = &shape
        if self.weights is not NULL:
            n.size = self.weights.dl_tensor.shape[0]
            w = <const double *>(  # an owned tensor may have a byte_offset
                <const char *>self.weights.dl_tensor.data + self.weights.dl_tensor.byte_offset)
        try:
            for number, item in enumerate(vectors):
                fastdl.borrow_as(item, b"vectors[%d]" % number, &vector, &x)
                try:
                    if result is NULL:
                        like = type(item)
                        result = fastdl.zeros(&x.dl, like)
                    total = <double *>result.dl_tensor.data
                    for i in range(n.size):
                        total[i] += (<const double *>x.dl.data)[i] * (1.0 if w is NULL else w[i])
                finally:
                    fastdl.release(&x)
            if result is NULL:
                raise ValueError("vectors: expected at least one")
        except:
            fastdl.drop(result)
            raise
        return fastdl.wrap(result, like)


def scaled(double a, x):
    """a * x, as a tensor of the framework of x."""
    cdef fastdl.view vx
    cdef fastdl.DLManagedTensorVersioned *result
    cdef fastdl.spec input = fastdl.anything()
    input.dtypes, input.dtype_count, input.ndim = REAL, 2, 1

    fastdl.borrow_as(x, b"x", &input, &vx)
    try:
        result = fastdl.zeros(&vx.dl, type(x))
        add_any(a, &vx.dl, &result.dl_tensor)
    finally:
        fastdl.release(&vx)
    return fastdl.wrap(result, type(x))  # takes `result`
