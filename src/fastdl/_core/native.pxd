# SPDX-License-Identifier: Apache-2.0
# The C of the host core: the parts of the DLPack ABI that fastdl/__init__.pxd omits, element types,
# layout, ownership, import, copies. Each declaration is documented in the header it comes from.
from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from fastdl cimport (
    DLDataType, DLDevice, DLDeviceType, DLManagedTensorVersioned, DLPACK_FLAG_BITMASK_IS_COPIED,
    DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED, DLPACK_FLAG_BITMASK_READ_ONLY, DLPackExchangeAPI,
    DLTensor, kDLBool, kDLComplex, kDLCPU, kDLFloat, kDLInt, kDLUInt,
    MAX_NDIM as FASTDL_MAX_NDIM, OK as FASTDL_OK, check as fastdl_check,
    compact_strides as fastdl_compact_strides, device_fact as fastdl_device_fact,
    fault as fastdl_fault, fault_text as fastdl_fault_text, find_device as fastdl_find_device,
    is_contiguous as fastdl_is_contiguous, is_packed as fastdl_is_packed,
    itemsize as fastdl_itemsize, layout as fastdl_layout,
)


cdef extern from "<fastdl/dlpack.h>":
    ctypedef struct DLManagedTensor:
        DLTensor dl_tensor
        void (*deleter)(DLManagedTensor *) noexcept

    const int FASTDL_DLPACK_MAJOR
    const int FASTDL_DLPACK_MINOR

    # The functions of a table return -1 on failure, with a Python exception or, in a careless
    # library, without one. So Cython must not check the result.
    ctypedef int (*DLPackManagedTensorFromPyObjectNoSync)(
        void *, DLManagedTensorVersioned **) noexcept
    ctypedef int (*DLPackManagedTensorToPyObjectNoSync)(
        DLManagedTensorVersioned *, void **) noexcept
    ctypedef int (*DLPackDLTensorFromPyObjectNoSync)(void *, DLTensor *) noexcept


cdef extern from "_memory/dtypes.h" nogil:
    ctypedef struct fdl_dtype_fact:
        uint8_t code
        uint8_t bits
        const char *name
        const char *format

    const fdl_dtype_fact *fdl_dtype_find(uint8_t code, uint8_t bits)


cdef extern from "<fastdl/fastdl.h>" nogil:
    const uint32_t FASTDL_ABI_MAJOR
    const uint32_t FASTDL_ABI_MINOR
    const int FASTDL_STREAM_CUDA
    const int FASTDL_STREAM_ROCM
    const int64_t FASTDL_LARGE_COPY_

    enum:
        FASTDL_SIZE_OVERFLOW
        FASTDL_OFFSET_OVERFLOW

    ctypedef struct fastdl_view:
        DLTensor dl
        uint64_t flags
        DLManagedTensorVersioned *own_
        int64_t *room_

    enum:
        FASTDL_TYPE_NATIVE
        FASTDL_TYPE_PROTOCOL
        FASTDL_TYPE_READ_ONLY
        FASTDL_TYPE_HAS_DLPACK
        FASTDL_TYPE_ASK_BITS
        FASTDL_TYPE_UNORDERED
        FASTDL_TYPE_CHECKED


cdef extern from "_core/interface.h" nogil:
    ctypedef struct fastdl_keyword_fact:
        uint32_t keyword
        const char *name

    const fastdl_keyword_fact *fastdl_keywords()
    uint32_t fastdl_refused_keyword(const char *message, int has_frames, uint32_t keywords)
    bint fastdl_is_as_announced_(const int32_t *announced, DLDevice delivered)


cdef extern from "_core/interface.h":
    ctypedef struct fastdl_cache:
        pass

    ctypedef int (*fastdl_borrower)(PyObject *, fastdl_view *) noexcept

    ctypedef struct fastdl_request_:
        int64_t max_version[2]
        int64_t stream
        DLDevice device
        bint has_stream
        int copy

    ctypedef struct fastdl_record:
        const DLPackExchangeAPI *api
        DLPackDLTensorFromPyObjectNoSync lend
        fastdl_borrower borrow
        uint32_t facts
        uint32_t refused

    enum:
        FDL_TYPE_TRUSTED
        FDL_TYPE_IMMUTABLE
        FDL_TYPE_BUFFER
        FDL_TYPE_EXPORT_DOES_NOT_SYNC
        FDL_TYPE_LEGACY
        FDL_TYPE_STREAM_NONE_SYNCS
        FDL_TYPE_REFUSES

    ctypedef struct fastdl_runtime:
        uint32_t major
        uint32_t minor
        uint64_t size
        fastdl_cache *types
        const DLPackExchangeAPI *tensor
        const DLPackExchangeAPI *protocol
        const fastdl_record *(*describe)(PyTypeObject *) except NULL
        uint64_t tag_offset
        int (*wrap)(DLManagedTensorVersioned *, PyTypeObject *, PyObject **) noexcept
        void (*copy)(const DLTensor *source, uint64_t flags, void *target) noexcept
        int (*order)(DLDevice device, void *source, void *stream) noexcept
        int (*empty)(const DLTensor *, PyTypeObject *, DLManagedTensorVersioned **) noexcept

    const char *FASTDL_RUNTIME

    void fastdl_open_capsule_(
        PyObject *capsule, bint host_only, DLManagedTensorVersioned **versioned,
        DLManagedTensor **legacy) noexcept
    void fastdl_discard_(
        DLManagedTensorVersioned *versioned, DLManagedTensor *legacy) noexcept
    bint fastdl_is_really_legacy(const DLManagedTensorVersioned *managed) noexcept
    bint fastdl_is_really_versioned(const DLManagedTensor *managed) noexcept
    bint fastdl_clear_if_(object kind) noexcept
    bint fastdl_has_succeeded_() noexcept
    bint fastdl_is_empty_(const DLTensor *tensor) noexcept
    void fastdl_raise_fault(fastdl_fault fault, const DLTensor *tensor) except *
    void fastdl_raise_no_tensor(object x) except *
    int fastdl_check_stream_(DLDevice device, int64_t stream) except -1
    const void *fastdl_atomic_load_(const void **place) noexcept
    void fastdl_atomic_store_(const void **place, const void *value) noexcept
    int fastdl_complete_view_(PyObject *obj, fastdl_view *view, uint32_t facts) noexcept
    int fastdl_check_values_(
        PyObject *object, const DLTensor *tensor, uint32_t facts) except -1
    object fastdl_keeper_(PyObject *obj, uint32_t facts)
    # fastdl_check_values_ for a caller that inspects the exception.
    int fdl_values_differ "fastdl_check_values_" (
        PyObject *object, const DLTensor *tensor, uint32_t facts) noexcept
    const DLPackExchangeAPI *fastdl_usable_table(const DLPackExchangeAPI *table) noexcept
    int fastdl_fill_record_(PyTypeObject *type, fastdl_record *record) except -1
    int fdl_make_home() except -1
    PyObject *fdl_special(PyObject *obj, object name) except? NULL
    int fastdl_check_exporter_(PyObject *obj, uint32_t facts) except -1
    int fastdl_request_capsule_(
        PyObject *obj, const fastdl_record *record, int host_only, int32_t *device,
        PyObject **capsule) except -1
    bint fastdl_is_tensor_type(const fastdl_record *record) noexcept
    bint fastdl_mul_(int64_t a, int64_t b, int64_t *result) noexcept
    const fastdl_record *fastdl_discover(
        fastdl_cache *cache, PyTypeObject *type,
        int (*describe)(PyTypeObject *, fastdl_record *) except -1) except NULL
    tuple fastdl_mro_(PyTypeObject *type)
    object fastdl_of_type_(PyTypeObject *type, const char *name)


cdef extern from "_core/interface.h" nogil:
    const uint64_t FDL_TAG_OFFSET
    fastdl_cache fdl_types
    const fastdl_record *fdl_type_find(const PyTypeObject *type)


cdef extern from "_memory/failure.h" nogil:
    ctypedef struct fdl_failure:
        int no_memory
        const char *text


cdef extern from "_memory/atomics.h" nogil:
    ctypedef struct fdl_count:
        pass

    ctypedef struct fdl_pointer:
        pass

    void *fdl_pointer_get(fdl_pointer *pointer)
    bint fdl_pointer_set(fdl_pointer *pointer, void *value)


cdef extern from "_memory/block.h" nogil:
    ctypedef struct fdl_work:
        pass

    ctypedef struct fdl_block:
        fdl_work *work
        bint immutable

    ctypedef struct fdl_description:
        DLManagedTensorVersioned managed
        fdl_block *block

    fdl_description *fdl_description_of(DLManagedTensorVersioned *managed)
    const uint64_t FDL_LASTING_FLAGS
    fdl_description *fdl_block_new(int32_t ndim)
    fdl_description *fdl_description_new(fdl_block *block, int32_t ndim)
    fdl_description *fdl_description_copy(const fdl_description *source, uint64_t more_flags)
    void fdl_description_release(fdl_description *description, int attached)
    void fdl_description_fill(fdl_description *description, const DLTensor *tensor, uint64_t flags)
    bint fdl_is_memory(const fdl_block *block)
    bint fdl_is_still_memory(const fdl_description *description) noexcept
    fdl_description *fdl_memory_new(const DLTensor *prototype, uint64_t flags, int64_t nbytes)


cdef extern from "_core/devices.h":
    enum:
        FDL_ORDER_NOW
    int fdl_imported_by_table(
        fdl_description *description, const DLPackExchangeAPI *table, int known,
        int order) except -1
    int fdl_ordered_by_caller(fdl_description *description) except -1
    int fdl_imported_from_c(fdl_description *description) except -1
    bint fdl_has_driver(int kind)
    int fdl_ready_for(object tensor, int64_t stream) except -1
    int fdl_order_for(object tensor, int64_t stream) except -1
    bint fdl_is_ordered(const fastdl_device_fact *fact) noexcept
    int64_t fdl_default_stream(int kind) noexcept
    int fdl_lend(const fdl_description *description) except -1
    int fdl_await_for_host(const fdl_description *description) except -1
    int fdl_allocate(
        DLTensor *prototype, DLManagedTensorVersioned **out, void *error_ctx,
        void (*SetError)(void *, const char *, const char *) noexcept) noexcept
    int fdl_current_work_stream(DLDeviceType type, int32_t id, void **out) noexcept
    int fdl_order(DLDevice device, void *source, void *stream) noexcept


cdef extern from "_core/lifetime.h":
    void fdl_unlock_buffer(Py_buffer *buffer) noexcept
    void fdl_own_object(fdl_block *block, PyObject *object) noexcept
    int fdl_keep_also(fdl_block *block, PyObject *object) except -1
    int fdl_keep_memory(fdl_block *block, PyObject *object, uint32_t facts) except -1
    int fdl_delete_with(fdl_block *block, PyObject *deleter) except -1
    void fdl_own_buffer(fdl_block *block, Py_buffer *buffer) noexcept


cdef extern from "_core/object.h":
    object fdl_tensor_wrap(fdl_description *description)
    object fdl_tensor_wrap_view(fdl_description *description, PyObject *tensor)
    int fdl_finish_tensor_type(PyTypeObject *type, object describe) except -1
    object fdl_operate(object left, object right, const char *sign)
    int fdl_raise(const fdl_failure *failure) except -1
    int fdl_raise_about(
        PyObject *tensor, const fdl_failure *failure, const char *what, int64_t stream) except -1


cdef extern from "_core/import.h":
    object fdl_take_buffer(Py_buffer *buffer, uint64_t flags)
    bint fdl_never_changes(PyObject *exporter) noexcept
    void fdl_note_immutable(object tensor, uint32_t facts) noexcept
    object fdl_take_versioned(DLManagedTensorVersioned *managed, PyObject *keep)
    object fdl_take_legacy(DLManagedTensor *managed, uint64_t flags, PyObject *keep)
    object fdl_tensor_new(fdl_description *description)
    object fdl_make_tensor(DLManagedTensorVersioned *managed)
    void fdl_unmake_tensor(PyObject *tensor, DLManagedTensorVersioned *managed) noexcept
    tuple fdl_int_tuple(const int64_t *values, Py_ssize_t n)
    object fdl_acquire(PyObject *object, const fastdl_record *record, int order)
    int fdl_announced_device(PyObject *obj, DLDevice *device) except -1
    int fdl_where(
        PyObject *object, const fastdl_record *record, DLDevice *device) except -1
    uint32_t fdl_refusal(PyObject *function) except? 0
    int fdl_refuse_object(PyObject *object, uint32_t facts) except -1
    PyObject *fdl_try_fast_path(PyObject *object, uint32_t facts) except? NULL
    object fdl_make_from_dlpack(bytes doc, object complete, object over_protocol)


cdef extern from "_core/export.h":
    object fdl_versioned_capsule(PyObject *tensor, uint64_t more_flags)
    object fdl_legacy_capsule(PyObject *tensor)
    int fdl_tensor_borrow(PyObject *tensor, fastdl_view *view) noexcept
    ctypedef object (*fdl_exporter)(
        object tensor, const fastdl_request_ *request, PyObject *draft)
    int fdl_define_dlpack(PyTypeObject *type, fdl_exporter exporter) except -1


cdef extern from "_core/facts.h":
    void fdl_set_dtype_and_device_factories(object dtype, object device) noexcept
    object fdl_dtype_object(DLDataType dtype)
    object fdl_device_object(DLDevice device)
    bint fdl_dtype_of(object named, DLDataType *dtype) noexcept
    bint fdl_means_host(object named) noexcept


cdef extern from "_core/values.h":
    bint fdl_has_numbers(DLDataType dtype) noexcept
    object fdl_list_of(const DLTensor *tensor, uint64_t flags)
    object fdl_first_of(const DLTensor *tensor, uint64_t flags)
    int fdl_any_equals(const DLTensor *tensor, uint64_t flags, object number) except -1


cdef extern from "_core/arrow.h":
    object fdl_arrow_export(PyObject *tensor)
    bint fdl_arrow_has(DLDataType dtype) noexcept
    object fdl_arrow_import(PyObject *schema, PyObject *array)
    object fdl_arrow_import_stream(PyObject *stream)
    object fdl_arrow_nulls(PyObject *schema, PyObject *array)
    object fdl_arrow_stream_nulls(PyObject *stream)


cdef extern from "_core/views.h":
    object fdl_index(PyObject *tensor, object key)
    object fdl_reshape(PyObject *tensor, tuple sizes)
    object fdl_permute(PyObject *tensor, tuple axes)
    object fdl_transpose(PyObject *tensor, bint stacked)
    object fdl_squeeze(PyObject *tensor, object axis)
    object fdl_unsqueeze(PyObject *tensor, object axis)
    object fdl_expand(PyObject *tensor, tuple sizes)
    object fdl_as_readonly(PyObject *tensor)
    object fdl_view_as(PyObject *tensor, DLDataType dtype)


cdef extern from "_memory/copy.h" nogil:
    void fdl_copy_compact(const DLTensor *source, uint64_t flags, void *target)
