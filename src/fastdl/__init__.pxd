# SPDX-License-Identifier: Apache-2.0
"""The C interface, for Cython: tensors of any framework; a memoryview accepts only buffers.

    cimport fastdl

    def total(argument):
        cdef fastdl.view x
        cdef float *data
        cdef float sum = 0
        fastdl.borrow(argument, &x)
        try:
            fastdl.pointer(&x, b"argument", &data)  # float32, and on the host
            if x.dl.ndim != 1:
                raise ValueError("expected one dimension")
            for i in range(x.dl.shape[0]):
                sum += data[i * x.dl.strides[0]]
            return sum
        finally:
            fastdl.release(&x)

Compile with `fastdl.get_include()` among the include folders; fastdl.c is included. (If several
files of a module cimport this one, define FASTDL_LINKED, and add fastdl.c to its sources.)
The compiled module also works where fastdl is not installed: see import_fastdl.

Each name is that of <fastdl/fastdl.h> without its prefix, fastdl_ or FASTDL_ (but import_fastdl),
and the header is the manual: the comments here explain what differs in Cython. Failures raise;
most results that C stores through pointers are returned; a type is a `type` object, or
None where C accepts NULL; names of arguments are bytes. Names of DLPack itself (DLTensor, kDLCPU,
...) are unchanged.

`fastdl.empty` and the Python function of that name are two different things. A module that uses
both writes `cimport fastdl as cfastdl` as well as `import fastdl`.
"""
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_DECREF
from libc.stdint cimport (
    int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
)
from libc.string cimport memset


# ---- DLPack ---------------------------------------------------------------------------------

cdef extern from "<fastdl/dlpack.h>" nogil:
    ctypedef enum DLDeviceType:
        kDLCPU
        kDLCUDA
        kDLCUDAHost
        kDLOpenCL
        kDLVulkan
        kDLMetal
        kDLVPI
        kDLROCM
        kDLROCMHost
        kDLExtDev
        kDLCUDAManaged
        kDLOneAPI
        kDLWebGPU
        kDLHexagon
        kDLMAIA
        kDLTrn

    ctypedef struct DLDevice:
        DLDeviceType device_type
        int32_t device_id

    ctypedef enum DLDataTypeCode:
        kDLInt
        kDLUInt
        kDLFloat
        kDLOpaqueHandle
        kDLBfloat
        kDLComplex
        kDLBool
        kDLFloat8_e3m4
        kDLFloat8_e4m3
        kDLFloat8_e4m3b11fnuz
        kDLFloat8_e4m3fn
        kDLFloat8_e4m3fnuz
        kDLFloat8_e5m2
        kDLFloat8_e5m2fnuz
        kDLFloat8_e8m0fnu
        kDLFloat6_e2m3fn
        kDLFloat6_e3m2fn
        kDLFloat4_e2m1fn
        kDLBcomplex

    ctypedef struct DLDataType:
        uint8_t code
        uint8_t bits
        uint16_t lanes

    ctypedef struct DLTensor:
        void *data
        DLDevice device
        int32_t ndim
        DLDataType dtype
        int64_t *shape
        int64_t *strides
        uint64_t byte_offset

    ctypedef struct DLPackVersion:
        uint32_t major
        uint32_t minor

    ctypedef struct DLManagedTensorVersioned:
        DLPackVersion version
        void *manager_ctx
        void (*deleter)(DLManagedTensorVersioned *) noexcept nogil
        uint64_t flags
        DLTensor dl_tensor

    const uint64_t DLPACK_FLAG_BITMASK_READ_ONLY
    const uint64_t DLPACK_FLAG_BITMASK_IS_COPIED
    const uint64_t DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED

    # The functions of a table that take or make objects return -1 on failure, as in C, with a
    # Python exception or, in a careless library, without one. `borrow`, `own`, `empty` and `wrap`
    # always raise one.
    ctypedef struct DLPackExchangeAPIHeader:
        DLPackVersion version
        DLPackExchangeAPIHeader *prev_api

    ctypedef struct DLPackExchangeAPI:
        DLPackExchangeAPIHeader header
        int (*managed_tensor_allocator)(
            DLTensor *, DLManagedTensorVersioned **, void *,
            void (*)(void *, const char *, const char *) noexcept) noexcept
        int (*managed_tensor_from_py_object_no_sync)(
            void *, DLManagedTensorVersioned **) noexcept
        int (*managed_tensor_to_py_object_no_sync)(DLManagedTensorVersioned *, void **) noexcept
        int (*dltensor_from_py_object_no_sync)(void *, DLTensor *) noexcept
        int (*current_work_stream)(DLDeviceType, int32_t, void **) noexcept


# ---- element types, and the geometry of a tensor --------------------------------------------

cdef extern from "<fastdl/fastdl.h>" nogil:
    """
    #ifndef FASTDL_LINKED
    #include <fastdl/fastdl.c>
    #endif
    """
    const int MAX_NDIM "FASTDL_MAX_NDIM"

    const uint32_t BOOL "FASTDL_BOOL"
    const uint32_t INT8 "FASTDL_INT8"
    const uint32_t INT16 "FASTDL_INT16"
    const uint32_t INT32 "FASTDL_INT32"
    const uint32_t INT64 "FASTDL_INT64"
    const uint32_t UINT8 "FASTDL_UINT8"
    const uint32_t UINT16 "FASTDL_UINT16"
    const uint32_t UINT32 "FASTDL_UINT32"
    const uint32_t UINT64 "FASTDL_UINT64"
    const uint32_t FLOAT16 "FASTDL_FLOAT16"
    const uint32_t BFLOAT16 "FASTDL_BFLOAT16"
    const uint32_t FLOAT32 "FASTDL_FLOAT32"
    const uint32_t FLOAT64 "FASTDL_FLOAT64"
    const uint32_t COMPLEX64 "FASTDL_COMPLEX64"
    const uint32_t COMPLEX128 "FASTDL_COMPLEX128"
    const uint32_t FLOAT8_E4M3FN "FASTDL_FLOAT8_E4M3FN"
    const uint32_t FLOAT8_E5M2 "FASTDL_FLOAT8_E5M2"

    uint32_t DTYPE "FASTDL_DTYPE"(unsigned int code, unsigned int bits, unsigned int lanes)
    uint32_t dtype "fastdl_dtype"(DLDataType dtype)
    DLDataType data_type "fastdl_data_type"(uint32_t dtype)
    int64_t itemsize "fastdl_itemsize"(DLDataType dtype)
    int64_t size "fastdl_size"(const DLTensor *tensor)
    double load "fastdl_load"(uint32_t dtype, const void *element)
    void store "fastdl_store"(uint32_t dtype, void *element, double value)
    bint is_packed "fastdl_is_packed"(DLDataType dtype, uint64_t flags)
    bint is_contiguous "fastdl_is_contiguous"(const DLTensor *tensor, char order)
    void compact_strides "fastdl_compact_strides"(
        int32_t ndim, const int64_t *shape, int64_t *strides)

    ctypedef enum fault "fastdl_fault":
        OK "FASTDL_OK"

    ctypedef struct layout "fastdl_layout":
        int64_t size
        int64_t nbytes
        int64_t low
        int64_t high

    fault check "fastdl_check"(const DLTensor *tensor, uint64_t flags, layout *out)
    const char *fault_text "fastdl_fault_text"(fault fault)

    ctypedef struct device_fact "fastdl_device_fact":
        int32_t type
        const char *name
        uint8_t host
        uint8_t addresses
        uint8_t stream

    const device_fact *find_device "fastdl_find_device"(int32_t type)


# ---- arguments ------------------------------------------------------------------------------

cdef extern from "<fastdl/fastdl.h>":
    # Call it once, at the top of the module. NumPy's arrays are then borrowed as fast as torch's
    # tensors, and results can be NumPy arrays:
    #
    #     try:
    #         fastdl.import_fastdl()
    #     except ImportError:
    #         pass  # not installed: __dlpack__ is used
    int import_fastdl "fastdl_import"() except -1

    # A struct for the stack: `cdef fastdl.view x`. Do not copy or assign it.
    ctypedef struct view "fastdl_view":
        DLTensor dl
        uint64_t flags

    # Call `release` afterwards, in a `finally`. It may also be called after a failure, so that two
    # arguments need one `try`:
    #
    #     fastdl.borrow(first, &x)
    #     try:
    #         fastdl.borrow(second, &y)
    #         ...
    #     finally:
    #         fastdl.release(&y)
    #         fastdl.release(&x)
    #
    # Do not pass `release` a view that was passed to neither `borrow` nor `init`: with a third
    # argument, call `init` on each first.
    int borrow "fastdl_borrow"(object argument, view *out) except -1
    void init "fastdl_init"(view *out) noexcept
    void release "fastdl_release"(view *borrowed) noexcept

    # Stores sizes in the dimensions of expected.shape; needs the GIL only to raise. For an output,
    # use `borrow_as`: `expect` does not check gradients.
    int expect "fastdl_expect"(
        const view *borrowed, const char *name, const spec *expected) except -1

    ctypedef struct dim "fastdl_dim":  # made by DIM and SIZE, below
        const char *name
        int64_t size

    ctypedef struct argument "fastdl_argument":  # fastdl.argument(&x, b"x")
        const view *view
        const char *name

    # Start with `anything()`: a local struct is uninitialised, and so are the other members if only
    # some are given. An array for `shape` is written like this:
    #
    #     cdef fastdl.dim n = fastdl.DIM(b"n"), three = fastdl.SIZE(3)
    #     cdef (fastdl.dim *)[2] shape = [&n, &three]
    ctypedef struct spec "fastdl_spec":
        const uint32_t *dtypes
        size_t dtype_count
        int32_t ndim
        dim **shape
        int32_t layout
        int32_t rules
        int32_t device
        int32_t alignment
        const argument *like
        const argument *no_alias
        size_t no_alias_count
        int32_t max_ndim

    # `borrow` and `expect` in one: a failure names the argument. Call `release` afterwards.
    int borrow_as "fastdl_borrow_as"(
        object argument, const char *name, const spec *expected, view *out) except -1

    ctypedef struct parameter "fastdl_parameter":  # fastdl.parameter(b"x", &of_x)
        const char *name
        const spec *spec

    # `borrow_as` for several arguments; one call releases them all, in a `finally`:
    #
    #     cdef (PyObject *)[2] objects = [<PyObject *>first, <PyObject *>second]
    #     cdef fastdl.parameter[2] parameters
    #     cdef fastdl.view[2] views
    #     parameters[0] = fastdl.parameter(b"x", &of_x)
    #     parameters[1] = fastdl.parameter(b"y", &of_y)
    #     fastdl.borrow_all(objects, parameters, 2, views)
    int borrow_all "fastdl_borrow_all"(
        PyObject **objects, const parameter *parameters, size_t count, view *views) except -1
    void release_all "fastdl_release_all"(view *views, size_t count) noexcept

    enum:
        SCALAR "FASTDL_SCALAR"  # spec.ndim

        C "FASTDL_C"  # spec.layout
        F "FASTDL_F"
        INNER "FASTDL_INNER"

        WRITABLE "FASTDL_WRITABLE"  # spec.rules
        TRAILING "FASTDL_TRAILING"
        IN_PLACE "FASTDL_IN_PLACE"
        DETACHED "FASTDL_DETACHED"
        COPY "FASTDL_COPY"
        CONVERT "FASTDL_CONVERT"
        ASARRAY "FASTDL_ASARRAY"

        HOST "FASTDL_HOST"  # spec.device, in addition to kDLCUDA and the like
        ANY_DEVICE "FASTDL_ANY_DEVICE"


cdef inline spec anything() noexcept nogil:
    """A spec that requires only aligned elements in host memory, to be filled in."""
    cdef spec result
    memset(&result, 0, sizeof(result))
    return result


cdef inline dim DIM(const char *name) noexcept nogil:
    """A dimension with the size of the first argument that it is compared with."""
    cdef dim result
    memset(&result, 0, sizeof(result))
    result.name = name
    result.size = -1
    return result


cdef inline dim SIZE(int64_t size) noexcept nogil:
    """A dimension of exactly that size."""
    cdef dim result
    memset(&result, 0, sizeof(result))
    result.size = size
    return result


ctypedef fused number:
    int8_t
    int16_t
    int32_t
    int64_t
    uint8_t
    uint16_t
    uint32_t
    uint64_t
    float
    double


cdef inline int pointer(const view *borrowed, const char *name, number **out) except -1:
    """Sets *out to the first element, if elements are of the type that `out` points to.

    Requires host memory too, since the pointer will be dereferenced; a spec that is also passed to
    `expect` needs no types. Step by borrowed.dl.strides. Whether elements may be written is checked
    by `borrow_as` (WRITABLE).
    """
    cdef uint32_t wanted
    cdef spec expected = anything()
    if number is float or number is double:
        wanted = DTYPE(kDLFloat, 8 * sizeof(number), 1)
    elif <number>-1 < 0:
        wanted = DTYPE(kDLInt, 8 * sizeof(number), 1)
    else:
        wanted = DTYPE(kDLUInt, 8 * sizeof(number), 1)
    expected.dtypes = &wanted
    expected.dtype_count = 1
    expect(borrowed, name, &expected)
    out[0] = <number *>borrowed.dl.data
    return 0


# ---- owning, results, streams ---------------------------------------------------------------

cdef extern from "<fastdl/fastdl.h>":
    int fastdl_own(object argument, DLManagedTensorVersioned **out) except -1
    int fastdl_own_as(
        object argument, const char *name, const spec *expected,
        DLManagedTensorVersioned **out) except -1
    void fastdl_drop(DLManagedTensorVersioned *managed) noexcept nogil
    int fastdl_zeros(
        const DLTensor *prototype, PyTypeObject *like, DLManagedTensorVersioned **out) except -1
    int fastdl_empty(
        const DLTensor *prototype, PyTypeObject *like, DLManagedTensorVersioned **out) except -1
    int fastdl_wrap(
        DLManagedTensorVersioned *managed, PyTypeObject *like, PyObject **out) except -1
    int fastdl_work_stream(const view *borrowed, void **stream) except -1
    int order "fastdl_order"(const view *borrowed, void *stream) except -1
    int order_back "fastdl_order_back"(const view *borrowed, void *stream) except -1
    int fastdl_empty_on(
        const DLTensor *prototype, PyTypeObject *like, void *stream,
        DLManagedTensorVersioned **out) except -1
    int fastdl_wrap_on(
        DLManagedTensorVersioned *managed, PyTypeObject *like, void *stream,
        PyObject **out) except -1
    const DLPackExchangeAPI *fastdl_exchange_api(PyTypeObject *type) except NULL


cdef inline DLManagedTensorVersioned *own(object argument) except NULL:
    """Exports the tensor of `argument` for use beyond the call. You own it: end with `drop`."""
    cdef DLManagedTensorVersioned *result
    fastdl_own(argument, &result)
    return result


cdef inline DLManagedTensorVersioned *own_as(
        object argument, const char *name, const spec *expected) except NULL:
    """`own` with a name and a specification, as in `borrow_as`. With COPY or CONVERT the result may
    be a copy."""
    cdef DLManagedTensorVersioned *result
    fastdl_own_as(argument, name, expected, &result)
    return result


cdef inline void drop(DLManagedTensorVersioned *managed) noexcept nogil:
    """Releases a result of `own`, `own_as`, `empty` or `zeros`, unless `wrap` has consumed it.
    Callable on any thread; NULL is allowed."""
    fastdl_drop(managed)


# Not `type like`: Cython would accept only direct instances of type, and torch.Tensor has a
# metaclass.
cdef inline PyTypeObject *_type_of_result(object like) except? NULL:
    if like is None:
        return NULL
    if not isinstance(like, type):
        raise TypeError(
            f"expected a type or None, got an object of type {type(like).__qualname__!r}")
    return <PyTypeObject *>like


cdef inline DLManagedTensorVersioned *empty(const DLTensor *prototype, object like) except NULL:
    """A new tensor with the element type, shape and device of `prototype`, allocated by the library
    of `like`: type(x), or None for fastdl's memory. You own it, until `wrap` consumes it."""
    cdef DLManagedTensorVersioned *result
    fastdl_empty(prototype, _type_of_result(like), &result)
    return result


cdef inline DLManagedTensorVersioned *zeros(const DLTensor *prototype, object like) except NULL:
    """`empty` with all bytes 0, in host memory."""
    cdef DLManagedTensorVersioned *result
    fastdl_zeros(prototype, _type_of_result(like), &result)
    return result


cdef inline PyTypeObject *_type_of_taken(
        object like, DLManagedTensorVersioned *managed) except? NULL:
    try:
        return _type_of_result(like)
    except TypeError:
        drop(managed)
        raise


cdef inline object wrap(DLManagedTensorVersioned *managed, object like):
    """An object of type `like` (None: fastdl.Tensor) on `managed`, which is always consumed."""
    cdef PyObject *made
    cdef PyTypeObject *kind = _type_of_taken(like, managed)
    fastdl_wrap(managed, kind, &made)
    result = <object>made
    Py_DECREF(result)  # `made` was a new reference
    return result


cdef inline DLManagedTensorVersioned *empty_on(
        const DLTensor *prototype, object like, void *stream) except NULL:
    """`empty` for a result that you fill on your own stream, which waits for the memory."""
    cdef DLManagedTensorVersioned *result
    fastdl_empty_on(prototype, _type_of_result(like), stream, &result)
    return result


cdef inline object wrap_on(DLManagedTensorVersioned *managed, object like, void *stream):
    """`wrap` for a result of `empty_on`: the work stream of `like` waits for yours. After a
    TypeError device memory is leaked, since your kernel may still use it."""
    cdef PyObject *made
    cdef PyTypeObject *kind = _type_of_taken(
        like, managed if find_device(managed.dl_tensor.device.device_type).host else NULL)
    fastdl_wrap_on(managed, kind, stream, &made)
    result = <object>made
    Py_DECREF(result)
    return result


cdef inline void *work_stream(const view *borrowed) except? NULL:
    """The stream to launch on, a cudaStream_t or hipStream_t; NULL is the default one, or none."""
    cdef void *result
    fastdl_work_stream(borrowed, &result)
    return result


cdef inline const DLPackExchangeAPI *exchange_api(object like) except NULL:
    """The exchange table of a type, valid until the process ends."""
    if like is None:
        raise TypeError("expected a type, got None")
    return fastdl_exchange_api(_type_of_result(like))


# ---- producers ------------------------------------------------------------------------------

cdef extern from *:
    # FASTDL_PRODUCER defines C functions for one type; here are a few instances for `publish`.
    """
    #define FASTDL_WAITING_(n)                                                                  \
        static fastdl_describer fastdl_describer_##n;                                           \
        static DLPackCurrentWorkStream fastdl_stream_##n;                                       \
        static int fastdl_describe_##n(PyObject *self, fastdl_description *out)                 \
        {                                                                                       \
            return fastdl_describer_##n(self, out);                                             \
        }                                                                                       \
        static int fastdl_get_stream_##n(DLDeviceType type, int32_t id, void **out)             \
        {                                                                                       \
            return fastdl_stream_##n(type, id, out);                                            \
        }                                                                                       \
        FASTDL_PRODUCER(fastdl_waiting_##n, fastdl_describe_##n, fastdl_get_stream_##n,         \
                        FASTDL_LENDS)
    FASTDL_WAITING_(0);
    FASTDL_WAITING_(1);
    FASTDL_WAITING_(2);
    FASTDL_WAITING_(3);
    FASTDL_WAITING_(4);
    FASTDL_WAITING_(5);
    FASTDL_WAITING_(6);
    FASTDL_WAITING_(7);
    #define FASTDL_WAITING_ROW_(n) {&fastdl_waiting_##n, &fastdl_describer_##n, &fastdl_stream_##n}

    static inline int fastdl_publish_next_(PyTypeObject *type, fastdl_describer describe,
                                           DLPackCurrentWorkStream stream, int rules)
    {
        static const struct {
            fastdl_producer *producer;
            fastdl_describer *describe;
            DLPackCurrentWorkStream *stream;
        } rows[] = {FASTDL_WAITING_ROW_(0), FASTDL_WAITING_ROW_(1), FASTDL_WAITING_ROW_(2),
                    FASTDL_WAITING_ROW_(3), FASTDL_WAITING_ROW_(4), FASTDL_WAITING_ROW_(5),
                    FASTDL_WAITING_ROW_(6), FASTDL_WAITING_ROW_(7)};
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
            DLPackDLTensorFromPyObjectNoSync *lend =
                &rows[i].producer->api.dltensor_from_py_object_no_sync;
            if (*rows[i].describe == NULL) {
                *rows[i].describe = describe;
                *rows[i].stream = stream;
                if (!(rules & FASTDL_LENDS))
                    *lend = NULL;
            }
            if (*rows[i].describe == describe && *rows[i].stream == stream &&
                (*lend != NULL) == ((rules & FASTDL_LENDS) != 0))
                return fastdl_publish(type, rows[i].producer);
        }
        PyErr_SetString(PyExc_RuntimeError, "expected at most 8 producers in a module, each a "
                                            "combination of function, rules and stream: put "
                                            "further types into another module");
        return -1;
    }
    """
    ctypedef struct description "fastdl_description":
        DLTensor dl
        uint64_t flags
        PyObject *owner  # borrowed: out.owner = <PyObject *>self.memory
        int64_t[2 * 64] room

    ctypedef int (*describer "fastdl_describer")(object, description *) except -1
    ctypedef int (*stream_function "DLPackCurrentWorkStream")(
        DLDeviceType, int32_t, void **) except -1
    enum:
        LENDS "FASTDL_LENDS"
    int default_stream "fastdl_default_stream"(
        DLDeviceType device_type, int32_t device_id, void **out) except -1
    int fastdl_publish_next_(
        PyTypeObject *type, describer describe, stream_function stream, int rules) except -1


# Each combination of function, rules and stream gets its own fastdl_producer in C; a module may
# have 8. Call `publish` where the module is initialised. The function is a cdef function of the
# module, and its first argument is an instance of `cls`:
#
#     cdef int describe(object self, fastdl.description *out) except -1:
#         cdef Image image = <Image>self
#         ...
#
#     fastdl.publish(Image, describe)
cdef inline int publish(
        type cls, describer describe, int rules=0, stream_function stream=default_stream) except -1:
    """Makes a cdef class a producer: fastdl_publish."""
    return fastdl_publish_next_(<PyTypeObject *>cls, describe, stream, rules)
