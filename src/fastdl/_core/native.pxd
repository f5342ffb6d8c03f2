# The floors below Cython: facts, layout, ownership, import, copies. Each declaration is
# documented in the header it comes from.
from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from fastdl._core.dlpack cimport (
    DLDataType, DLDeviceType, DLManagedTensor, DLManagedTensorVersioned, DLPackExchangeAPI,
    DLTensor,
)


cdef extern from "facts.h" nogil:
    ctypedef struct fdl_dtype_fact:
        uint8_t code
        uint8_t bits
        const char *name
        const char *format

    ctypedef struct fdl_device_fact:
        int32_t type
        const char *name
        uint8_t host
        uint8_t addresses
        uint8_t stream

    const fdl_dtype_fact fdl_dtypes[]
    const fdl_device_fact fdl_devices[]
    const fdl_dtype_fact *fdl_dtype_find(uint8_t code, uint8_t bits)
    const fdl_device_fact *fdl_device_find(int32_t type)


cdef extern from "layout.h" nogil:
    const int FDL_MAX_NDIM

    ctypedef enum fdl_fault:
        FDL_OK
        FDL_SIZE_OVERFLOW

    const char *fdl_fault_text(fdl_fault fault)

    ctypedef struct fdl_layout:
        int64_t size
        int64_t nbytes
        int64_t low
        int64_t high

    fdl_fault fdl_layout_check(const DLTensor *tensor, uint64_t flags, fdl_layout *layout)
    int64_t fdl_itemsize(DLDataType dtype)
    bint fdl_is_packed(DLDataType dtype, uint64_t flags)
    bint fdl_is_contiguous(const DLTensor *tensor, char order)


cdef extern from "block.h" nogil:
    ctypedef enum fdl_order:
        FDL_ORDER_IDLE
        FDL_ORDER_DEFAULT
        FDL_ORDER_CALLER
        FDL_ORDER_UNNAMED

    ctypedef struct fdl_device_state:
        const DLPackExchangeAPI *producer
        fdl_order order

    ctypedef struct fdl_block:
        fdl_device_state device

    ctypedef struct fdl_description:
        DLManagedTensorVersioned managed
        fdl_block *block

    const uint64_t FDL_LASTING_FLAGS
    fdl_description *fdl_block_new(int32_t ndim)
    fdl_description *fdl_description_copy(const fdl_description *source, uint64_t more_flags)
    void fdl_description_release(fdl_description *description, int attached)
    void fdl_description_fill(fdl_description *description, const DLTensor *tensor, uint64_t flags)
    fdl_description *fdl_memory_new(const DLTensor *prototype, uint64_t flags, int64_t nbytes)


cdef extern from "block.h":  # entries of a table
    int fdl_allocate(
        DLTensor *prototype, DLManagedTensorVersioned **out, void *error_ctx,
        void (*SetError)(void *, const char *, const char *) noexcept) noexcept
    int fdl_current_work_stream(DLDeviceType type, int32_t id, void **out) noexcept


cdef extern from "lifetime.h":
    void fdl_own_object(fdl_block *block, PyObject *object) noexcept
    int fdl_keep_also(fdl_block *block, PyObject *object) except -1
    void fdl_own_buffer(fdl_block *block, Py_buffer *buffer) noexcept


cdef extern from "object.h":
    object fdl_tensor_wrap(fdl_description *description)
    int fdl_finish_tensor_type(PyTypeObject *type) except -1


cdef extern from "import.h":
    object fdl_take_versioned(DLManagedTensorVersioned *managed, PyObject *keep)
    object fdl_take_legacy(DLManagedTensor *managed, uint64_t flags, PyObject *keep)
    object fdl_make_tensor(DLManagedTensorVersioned *managed)
    void fdl_unmake_tensor(PyObject *tensor, DLManagedTensorVersioned *managed) noexcept
    void fdl_raise_fault(fdl_fault fault, const DLTensor *tensor) noexcept
    tuple fdl_int_tuple(const int64_t *values, Py_ssize_t n)


cdef extern from "types.h" nogil:
    enum:
        FDL_TYPE_NATIVE
        FDL_TYPE_PROTOCOL
        FDL_TYPE_LEARNED
        FDL_TYPE_IMMUTABLE
        FDL_TYPE_HAS_DLPACK
        FDL_TYPE_ASK_BITS
        FDL_TYPE_KEEP

    enum:
        FDL_KEYWORD_STREAM
        FDL_KEYWORD_MAX_VERSION
        FDL_KEYWORD_DL_DEVICE
        FDL_KEYWORD_COPY

    ctypedef struct fdl_type_record:
        PyTypeObject *type
        const DLPackExchangeAPI *api
        uint32_t facts
        uint32_t refused
        int32_t version

    const fdl_type_record *fdl_type_find(const PyTypeObject *type)
    void fdl_type_publish(const fdl_type_record *record)


cdef extern from "acquire.h":
    object fdl_acquire(PyObject *object, const fdl_type_record *record)
    int fdl_check_lazy_bits(PyObject *object, const DLTensor *tensor) except -1
    object fdl_make_from_dlpack(bytes doc, object complete, object request)


cdef extern from "export.h":
    object fdl_versioned_capsule(PyObject *tensor, uint64_t more_flags)
    object fdl_legacy_capsule(PyObject *tensor)
    int fdl_speed_up_dlpack(PyTypeObject *type) except -1


cdef extern from "index.h":
    object fdl_index(PyObject *tensor, object key)


cdef extern from "copy.h" nogil:
    void fdl_copy_compact(const DLTensor *source, uint64_t flags, void *target)
