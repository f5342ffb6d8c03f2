# cython: language_level=3, boundscheck=False, wraparound=False
"""y += a * x, for vectors of any framework, and a result in the caller's framework.

A typed memoryview (`float[:] x`) takes what has the buffer protocol: NumPy's arrays, but not
torch's tensors. A borrowed view takes both, and those of JAX, CuPy, ..., without a copy:

    >>> y = torch.ones(3)
    >>> axpy(2.0, jax.numpy.arange(3.0), y)
    >>> scaled(10.0, y)
    tensor([10., 30., 50.])
"""
cimport fastdl
from libc.stdint cimport int64_t, uint32_t

try:
    fastdl.import_fastdl()  # NumPy's arrays at the speed of torch's tensors
except ImportError:
    pass                    # fastdl is not installed: NumPy is served by __dlpack__

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


cdef void multiply(real a, const fastdl.DLTensor *x, const fastdl.DLTensor *y) noexcept nogil:
    cdef const real *source = <const real *>x.data
    cdef real *target = <real *>y.data
    cdef int64_t i
    for i in range(x.shape[0]):
        target[i] = a * source[i * x.strides[0]]


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

    fastdl.borrow(x, &vx)
    try:
        fastdl.borrow(y, &vy)
        fastdl.expect(&vx, b"x", &input)
        fastdl.expect(&vy, b"y", &output)
        if fastdl.dtype(vx.dl.dtype) == fastdl.FLOAT32:
            add[float](<float>a, &vx.dl, &vy.dl)
        else:
            add[double](a, &vx.dl, &vy.dl)
    finally:
        fastdl.release(&vy)
        fastdl.release(&vx)


def scaled(double a, x):
    """a * x, as a tensor of the framework that x is of."""
    cdef fastdl.view vx
    cdef fastdl.DLManagedTensorVersioned *result
    cdef fastdl.spec input = fastdl.anything()
    input.dtypes, input.dtype_count, input.ndim = REAL, 2, 1

    fastdl.borrow(x, &vx)
    try:
        fastdl.expect(&vx, b"x", &input)
        result = fastdl.empty(&vx.dl, type(x))
        if fastdl.dtype(vx.dl.dtype) == fastdl.FLOAT32:
            multiply[float](<float>a, &vx.dl, &result.dl_tensor)
        else:
            multiply[double](a, &vx.dl, &result.dl_tensor)
    finally:
        fastdl.release(&vx)
    return fastdl.wrap(result, type(x))
