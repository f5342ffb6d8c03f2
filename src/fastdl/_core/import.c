/* SPDX-License-Identifier: Apache-2.0 */
#include "import.h"

#include "buffer.h"
#include "devices.h"
#include "export.h"
#include "facts.h"

PyObject *fdl_int_tuple(const int64_t *values, Py_ssize_t n)
{
    PyObject *tuple = PyTuple_New(n);
    for (Py_ssize_t i = 0; tuple != NULL && i < n; i++) {
        PyObject *value = PyLong_FromLongLong(values[i]);
        if (value == NULL)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, i, value);
    }
    return tuple;
}

/* A checked description for both forms: of `block` or, if that is NULL, of a new block without an
 * owner. */
static fdl_description *build(fdl_block *block, const DLTensor *tensor, uint64_t flags)
{
    fastdl_layout layout;
    fdl_description *description;
    fastdl_fault fault = fastdl_check(tensor, flags, &layout);
    if (fault != FASTDL_OK) {
        fastdl_raise_fault(fault, tensor);
        return NULL;
    }
    description =
        block == NULL ? fdl_block_new(tensor->ndim) : fdl_description_new(block, tensor->ndim);
    if (description == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    fdl_description_fill(description, tensor, flags);
    return description;
}

static void keep_alive(fdl_block *block, PyObject *keep)
{
    if (keep != NULL) {
        Py_INCREF(keep);
        fdl_own_object(block, keep);
    }
}

/* The description owns `managed` on success; on failure `managed` is still the caller's. */
static fdl_description *import_versioned(DLManagedTensorVersioned *managed, PyObject *keep)
{
    fdl_description *description = fdl_description_of(managed);
    if (description != NULL) {
        /* A re-import: the consumer may have changed it. */
        DLTensor *own = &managed->dl_tensor;
        fastdl_layout layout;
        fastdl_fault fault = fastdl_check(own, managed->flags, &layout);
        if (fault != FASTDL_OK) {
            fastdl_raise_fault(fault, own);
            return NULL;
        }
        fdl_description_fill(description, own, managed->flags);
        return description;
    }
    if (fastdl_check_version(managed) < 0)
        return NULL;
    description = build(NULL, &managed->dl_tensor, managed->flags);
    if (description == NULL)
        return NULL;
    if (managed->deleter != NULL)
        fdl_own_versioned(description->block, managed);
    else
        keep_alive(description->block, keep);
    return description;
}

void fdl_note_immutable(PyObject *tensor, uint32_t facts)
{
    const fdl_description *description = fdl_description_in(tensor);
    if (facts & FDL_TYPE_IMMUTABLE && description->managed.flags & DLPACK_FLAG_BITMASK_READ_ONLY &&
        fdl_count_get(&description->block->refs) == 1)
        description->block->immutable = 1;
}

PyObject *fdl_take_versioned(DLManagedTensorVersioned *managed, PyObject *keep)
{
    fdl_description *description = fastdl_has_succeeded_() ? import_versioned(managed, keep) : NULL;
    if (description == NULL) {
        if (!fastdl_is_really_legacy(managed))
            fastdl_discard_(managed, NULL);
        return NULL;
    }
    return fdl_tensor_wrap(description);
}

PyObject *fdl_take_legacy(DLManagedTensor *managed, uint64_t flags, PyObject *keep)
{
    fdl_block *block = fdl_block_of_legacy(managed);
    fdl_description *description = build(block, &managed->dl_tensor, flags);
    if (description == NULL) {
        if (!fastdl_is_really_versioned(managed))
            fastdl_discard_(NULL, managed);
        return NULL;
    }
    if (block != NULL)
        managed->deleter(managed); /* a re-import: the description replaces it */
    else if (managed->deleter != NULL)
        fdl_own_legacy(description->block, managed);
    else
        keep_alive(description->block, keep);
    return fdl_tensor_wrap(description);
}

/* Gives `managed` back to the caller of fdl_make_tensor. */
static void return_to_caller(fdl_description *description, DLManagedTensorVersioned *managed)
{
    if (&description->managed == managed)
        return; /* it was only unwrapped, so there is nothing to undo */
    fdl_disown(description->block);
    fdl_description_release(description, 1);
}

PyObject *fdl_make_tensor(DLManagedTensorVersioned *managed)
{
    PyObject *tensor;
    fdl_description *description = import_versioned(managed, NULL);
    if (description == NULL)
        return NULL;
    tensor = fdl_tensor_new(description);
    if (tensor == NULL)
        return_to_caller(description, managed);
    return tensor;
}

void fdl_unmake_tensor(PyObject *tensor, DLManagedTensorVersioned *managed)
{
    fdl_description *description = fdl_description_in(tensor);
    /* Frames of the traceback may hold the Tensor: it must remain safe to use. */
    ((fdl_tensor *)tensor)->description = fdl_description_of_nothing();
    return_to_caller(description, managed);
}

/* ---- the buffer protocol ---- */

int fdl_never_changes(PyObject *exporter)
{
    while (exporter != NULL && PyMemoryView_Check(exporter))
        exporter = PyMemoryView_GET_BUFFER(exporter)->obj;
    if (exporter == NULL)
        return 0;
    return PyBytes_CheckExact(exporter) ||
           (fdl_is_tensor(exporter) && fdl_description_in(exporter)->block->immutable);
}

PyObject *fdl_take_buffer(Py_buffer *buffer, uint64_t flags)
{
    int64_t dims[2 * FASTDL_MAX_NDIM];
    fdl_description *description = NULL;
    DLTensor tensor;
    if (fdl_read_buffer(buffer, &tensor, dims) == 0) {
        description = fdl_block_new(tensor.ndim);
        if (description == NULL)
            PyErr_NoMemory();
    }
    if (description == NULL) {
        fdl_unlock_buffer(buffer);
        return NULL;
    }
    if (buffer->readonly)
        flags |= DLPACK_FLAG_BITMASK_READ_ONLY;
    fdl_description_fill(description, &tensor, flags);
    description->block->immutable = buffer->readonly && fdl_never_changes(buffer->obj);
    fdl_own_buffer(description->block, buffer);
    return fdl_tensor_wrap(description);
}

/* A Tensor on the buffer of an object whose `__dlpack__` is slower. NULL without an exception if
 * there is no buffer, or DLPack cannot describe it: then use `__dlpack__`. NULL with
 * MemoryError. */
static PyObject *try_buffer(PyObject *object, uint64_t flags)
{
    PyObject *tensor = NULL;
    Py_buffer *buffer = PyMem_RawMalloc(sizeof(Py_buffer));
    if (buffer == NULL)
        return PyErr_NoMemory();
    if (PyObject_GetBuffer(object, buffer, PyBUF_RECORDS_RO) == 0)
        tensor = fdl_take_buffer(buffer, flags);
    else
        PyMem_RawFree(buffer);
    if (tensor == NULL && !PyErr_ExceptionMatches(PyExc_MemoryError))
        (void)fastdl_clear_if_(PyExc_Exception);
    return tensor;
}

/* ---- exchange tables ---- */

fastdl_cache fdl_types;

/* Another Tensor on the block of `tensor`, ready on the thread's work stream. The table of
 * fastdl.Tensor would treat the caller as C code that launches there. */
static PyObject *share(PyObject *tensor)
{
    const fdl_description *description = fdl_description_in(tensor);
    fdl_description *copy;
    if (fdl_order_for_work(tensor) < 0)
        return NULL;
    copy = fdl_description_copy(description, 0);
    return copy == NULL ? PyErr_NoMemory() : fdl_tensor_wrap(copy);
}

/* fastdl_check_values_ for tensors that are known to have memory or no elements; for most without a
 * call. */
static inline int check_values(PyObject *object, const DLTensor *tensor, uint32_t facts)
{
    if (!(facts & FASTDL_TYPE_ASK_BITS))
        return 0;
    return tensor->dtype.bits == 8 ? fastdl_check_values_(object, tensor, facts)
                                   : fastdl_check_bits(object, tensor);
}

/* A Tensor on host memory borrowed from a torch tensor, kept alive by a reference to its storage:
 * the owning slot would take longer than everything else. NULL without an exception if the memory
 * is elsewhere or may be missing, or if the borrowing slot refuses: then use the owning slot. */
static PyObject *import_borrowed(PyObject *object, const fastdl_record *record)
{
    fastdl_view view;
    fdl_description *description;
    PyObject *keeper;
    view.flags = 0;
    view.dl.ndim = -1;
    if (record->lend(object, &view.dl) != 0) {
        (void)fastdl_clear_if_(PyExc_Exception);
        return NULL;
    }
    /* No calls yet: Python code could change the shape and strides, which belong to torch's
     * object. */
    if (view.dl.device.device_type != kDLCPU ||
        (fastdl_may_lack_memory_(&view.dl) && !fastdl_is_empty_(&view.dl)) ||
        fastdl_complete_view_(object, &view, record->facts & ~(uint32_t)FASTDL_TYPE_ASK_BITS) < 0)
        return NULL;
    description = fdl_block_new(view.dl.ndim);
    if (description == NULL)
        return PyErr_NoMemory();
    fdl_description_fill(description, &view.dl, 0);
    keeper = fastdl_keeper_(object, record->facts);
    if (keeper != NULL)
        fdl_own_exporter(description->block, keeper);
    if (keeper == NULL ||
        check_values(object, &description->managed.dl_tensor, record->facts) < 0) {
        fdl_description_release(description, 1);
        return NULL;
    }
    return fdl_tensor_wrap(description);
}

int fdl_keep_memory(fdl_block *block, PyObject *object, uint32_t facts)
{
    PyObject *keeper;
    int result;
    if (!(facts & FASTDL_TYPE_KEEP))
        return 0;
    keeper = fastdl_keeper_(object, facts);
    result = keeper == NULL ? -1 : fdl_keep_also(block, keeper);
    Py_XDECREF(keeper);
    return result;
}

/* Py_None if `__dlpack__` is to be tried after a native table has failed. */
static PyObject *after_failure(PyObject *object, uint32_t facts)
{
    return fastdl_should_try_protocol_(object, facts) ? Py_NewRef(Py_None) : NULL;
}

PyObject *fdl_acquire(PyObject *object, const fastdl_record *record, int order)
{
    DLManagedTensorVersioned *managed = NULL;
    fdl_description *description;
    PyObject *tensor;
    int ours, may_lack_memory;
    if (record->borrow == fdl_tensor_borrow)
        return share(object);
    if (record->facts & FDL_TYPE_TRUSTED && record->lend != NULL) {
        tensor = import_borrowed(object, record);
        if (tensor != NULL || PyErr_Occurred())
            return tensor;
    }
    if (record->api->managed_tensor_from_py_object_no_sync(object, &managed) || managed == NULL)
        return after_failure(object, record->facts);
    if (!(record->facts & FASTDL_TYPE_NATIVE)) /* a bridge has checked and ordered it */
        return fdl_tensor_wrap((fdl_description *)managed);
    ours = fdl_description_of(managed) != NULL;
    may_lack_memory =
        record->facts & FASTDL_TYPE_ASK_BITS && fastdl_may_lack_memory_(&managed->dl_tensor);
    tensor = fdl_take_versioned(managed, object);
    if (tensor == NULL)
        return may_lack_memory ? after_failure(object, record->facts) : NULL;
    fdl_note_immutable(tensor, record->facts);
    description = fdl_description_in(tensor);
    if (record->facts & FASTDL_TYPE_NO_STREAM && order != FDL_CALLER_ORDERS &&
        fdl_is_ordered(
            fastdl_find_device((int32_t)description->managed.dl_tensor.device.device_type))) {
        Py_DECREF(tensor);
        return Py_NewRef(Py_None); /* the caller raises, with advice */
    }
    if ((description->managed.dl_tensor.device.device_type != kDLCPU &&
         fdl_imported_by_table(description,
                               record->facts & FASTDL_TYPE_NO_STREAM ? NULL : record->api, ours,
                               order) < 0) ||
        fdl_keep_memory(description->block, object, record->facts) < 0 ||
        fastdl_check_values_(object, &description->managed.dl_tensor, record->facts) < 0) {
        Py_DECREF(tensor);
        return may_lack_memory ? after_failure(object, record->facts) : NULL;
    }
    return tensor;
}

/* ---- types that have only `__dlpack__` ---- */

/* The read-only flag, if legacy capsules of the library count as read-only. */
static uint64_t flags_of(uint32_t facts)
{
    return facts & FASTDL_TYPE_READ_ONLY ? DLPACK_FLAG_BITMASK_READ_ONLY : 0;
}

/* A Tensor on the host memory in a capsule. NULL without an exception if the memory is elsewhere:
 * then the right stream must be passed. */
static PyObject *take_on_host(PyObject *capsule, PyObject *object, uint32_t facts)
{
    DLManagedTensorVersioned *versioned;
    DLManagedTensor *legacy;
    fastdl_open_capsule_(capsule, 1, &versioned, &legacy);
    if (versioned != NULL)
        return fdl_take_versioned(versioned, object);
    return legacy == NULL ? NULL : fdl_take_legacy(legacy, flags_of(facts), object);
}

/* Calls `__dlpack__` without `__dlpack_device__`. */
static PyObject *try_without_device(PyObject *object, uint32_t facts)
{
    PyObject *capsule = fdl_request(object, (facts & FDL_TYPE_LEGACY) != 0), *tensor;
    if (capsule == NULL) {
        /* Perhaps about the keyword: the negotiation decides. */
        (void)fastdl_clear_if_(PyExc_TypeError);
        return NULL;
    }
    tensor = take_on_host(capsule, object, facts);
    fastdl_release_object_(capsule); /* its destructor may clear the exception */
    return tensor;
}

static int is_of_integers(PyObject *tensor)
{
    uint8_t code = fdl_description_in(tensor)->managed.dl_tensor.dtype.code;
    return code == kDLInt || code == kDLUInt;
}

/* The functions of the files on libraries that refuse objects, from 1 on. */
static fdl_pointer refusals[1 << (32 - FDL_REFUSAL_SHIFT)];

uint32_t fdl_refusal(PyObject *function)
{
    for (uint32_t i = 1; i < sizeof(refusals) / sizeof(*refusals); i++) {
        if (fdl_pointer_get(&refusals[i]) == NULL && fdl_pointer_set(&refusals[i], function))
            Py_INCREF(function);
        if (fdl_pointer_get(&refusals[i]) == function)
            return i << FDL_REFUSAL_SHIFT;
    }
    PyErr_SetString(PyExc_RuntimeError,
                    "expected at most 15 files on libraries that refuse objects");
    return 0;
}

int fdl_refuse_object(PyObject *object, uint32_t facts)
{
    const uint32_t number = facts >> FDL_REFUSAL_SHIFT;
    PyObject *result = number == 0
                           ? Py_NewRef(Py_None)
                           : PyObject_CallOneArg(fdl_pointer_get(&refusals[number]), object);
    Py_XDECREF(result);
    return result == NULL ? -1 : 0;
}

PyObject *fdl_try_fast_path(PyObject *object, uint32_t facts)
{
    PyObject *tensor = NULL;
    if (facts & FDL_TYPE_BUFFER) {
        tensor = try_buffer(object, flags_of(facts));
        /* Integers may stand for something else. */
        if (tensor != NULL && is_of_integers(tensor) && fdl_refuse_object(object, facts) < 0)
            Py_CLEAR(tensor);
    } else if (facts & FDL_TYPE_EXPORT_DOES_NOT_SYNC && fdl_refuse_object(object, facts) == 0 &&
               fastdl_check_exporter_(object, facts) == 0) {
        tensor = try_without_device(object, facts);
    }
    if (tensor != NULL)
        fdl_note_immutable(tensor, facts);
    return tensor;
}

/* ---- the entry ---- */

static PyObject *complete_call, *protocol_call;
static PyObject *stream_name, *device_name;

int fdl_where(PyObject *object, const fastdl_record *record, DLDevice *device)
{
    DLTensor lent;
    device->device_type = kDLCPU; /* that of bridges */
    device->device_id = 0;
    if (record->borrow == fdl_tensor_borrow) {
        *device = fdl_description_in(object)->managed.dl_tensor.device;
    } else if (record->facts & FASTDL_TYPE_NATIVE) {
        lent.ndim = -1; /* still, if nothing is lent */
        if (record->lend != NULL && record->lend(object, &lent) != 0) {
            if (!fastdl_clear_if_(PyExc_Exception))
                return -1;
            lent.ndim = -1;
        } else if (!fastdl_has_succeeded_()) {
            return -1;
        }
        if (lent.ndim != -1)
            *device = lent.device;
        else if (fdl_announced_device(object, device) < 0)
            return fastdl_clear_if_(PyExc_Exception) ? 0 : -1;
    }
    return 1;
}

/* Whether fastdl can make the streams of a device wait. */
static int has_order(DLDevice device)
{
    const fastdl_device_fact *fact = fastdl_find_device((int32_t)device.device_type);
    return fdl_is_ordered(fact) && fdl_has_driver(fact->stream);
}

/* from_dlpack(object, stream=passed) for a library in C. NULL without an exception for other
 * streams, and if the table refused. */
static PyObject *acquire_on(PyObject *object, const fastdl_record *record, PyObject *passed)
{
    PyObject *tensor;
    DLDevice device;
    int overflow = 0;
    int64_t stream =
        PyLong_CheckExact(passed) ? PyLong_AsLongLongAndOverflow(passed, &overflow) : 0;
    if (overflow || (stream != -1 && (stream <= 2 || fdl_where(object, record, &device) != 1 ||
                                      !has_order(device))))
        return NULL;
    tensor = fdl_acquire(object, record, stream == -1 ? FDL_CALLER_ORDERS : FDL_ORDER_LATER);
    /* Without work it is not on the device that the table reported, and is planned anew. */
    if (tensor == Py_None ||
        (tensor != NULL && stream != -1 &&
         (fdl_description_in(tensor)->block->work == NULL || fdl_ready_for(tensor, stream) < 0)))
        Py_CLEAR(tensor);
    return tensor;
}

/* from_dlpack(object, device="cpu"). NULL without an exception if the data is elsewhere, or if the
 * table refused. */
static PyObject *acquire_on_host(PyObject *object, const fastdl_record *record)
{
    PyObject *tensor;
    DLDevice device;
    if (record->facts & FDL_TYPE_TRUSTED && record->lend != NULL)
        return import_borrowed(object, record); /* which checks the device itself */
    if (fdl_where(object, record, &device) != 1 || device.device_type != kDLCPU)
        return NULL;
    tensor = fdl_acquire(object, record, FDL_ORDER_NOW);
    if (tensor == Py_None)
        Py_CLEAR(tensor);
    return tensor;
}

static int is_name(PyObject *name, PyObject *interned, const char *text)
{
    return name == interned || PyUnicode_CompareWithASCIIString(name, text) == 0;
}

/* from_dlpack(object, **keywords). NULL without an exception for other keywords than a stream alone
 * or the host as device alone, which this file does not handle. */
static PyObject *acquire_with(PyObject *object, const fastdl_record *record, PyObject *names,
                              PyObject *const *values)
{
    PyObject *name, *value;
    if (PyTuple_GET_SIZE(names) != 1)
        return NULL;
    name = PyTuple_GET_ITEM(names, 0);
    value = values[0];
    if (is_name(name, stream_name, "stream")) {
        if (value == Py_None)
            return fdl_acquire(object, record, FDL_ORDER_NOW);
        return record->borrow == fdl_tensor_borrow ? NULL : acquire_on(object, record, value);
    }
    if (is_name(name, device_name, "device") && fdl_means_host(value))
        return acquire_on_host(object, record);
    return NULL;
}

static PyObject *from_dlpack(PyObject *module, PyObject *const *arguments, Py_ssize_t count,
                             PyObject *names)
{
    (void)module;
    if (count == 1) {
        const fastdl_record *record = fdl_type_find(Py_TYPE(arguments[0]));
        if (record != NULL && !(record->facts & FASTDL_TYPE_PROTOCOL)) {
            PyObject *tensor = names == NULL
                                   ? fdl_acquire(arguments[0], record, FDL_ORDER_NOW)
                                   : acquire_with(arguments[0], record, names, arguments + 1);
            if (tensor == Py_None) {
                Py_DECREF(tensor);
                return PyObject_Vectorcall(protocol_call, arguments, 1, NULL);
            }
            if (tensor != NULL || PyErr_Occurred())
                return tensor;
        } else if (record != NULL && names == NULL) {
            PyObject *tensor = fdl_try_fast_path(arguments[0], record->facts);
            if (tensor == NULL && !PyErr_Occurred())
                tensor = PyObject_Vectorcall(protocol_call, arguments, 1, NULL);
            return tensor;
        }
    }
    return PyObject_Vectorcall(complete_call, arguments, (size_t)count, names);
}

PyObject *fdl_make_from_dlpack(PyObject *doc, PyObject *complete, PyObject *over_protocol)
{
    static PyMethodDef definition = {"from_dlpack", (PyCFunction)(void (*)(void))from_dlpack,
                                     METH_FASTCALL | METH_KEYWORDS, NULL};
    PyObject *function, *module = PyUnicode_FromString("fastdl");
    Py_INCREF(doc);
    Py_INCREF(complete);
    Py_INCREF(over_protocol);
    definition.ml_doc = PyBytes_AS_STRING(doc);
    complete_call = complete;
    protocol_call = over_protocol;
    stream_name = PyUnicode_InternFromString("stream");
    device_name = PyUnicode_InternFromString("device");
    if (module == NULL || stream_name == NULL || device_name == NULL)
        return NULL;
    function = PyCFunction_NewEx(&definition, NULL, module);
    Py_DECREF(module);
    return function;
}
