/* SPDX-License-Identifier: Apache-2.0 */
#include "acquire.h"

#include "export.h"
#include "work.h"

fastdl_slot fdl_type_slots[FASTDL_SLOTS];

/* Notes that device memory has just come through `table`, on a block that fastdl knew already or
 * not, and makes it ready on the thread's work stream if `order` says so. */
static int came_through(fdl_description *description, const DLPackExchangeAPI *table, int known,
                        int order)
{
    DLDevice device = description->managed.dl_tensor.device;
    const fastdl_device_fact *fact = fastdl_find_device((int32_t)device.device_type);
    fdl_work *work;
    fdl_failure failure;
    if (fact->host || (fact->stream != FASTDL_STREAM_CUDA && fact->stream != FASTDL_STREAM_ROCM))
        return 0;
    work = fdl_work_of(&description->block->work, device);
    if (work == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    if (!known)
        fdl_work_from_table(work, table);
    if ((!known || fdl_work_came_back(work, table, &failure) == 0) &&
        (!order || fdl_work_ready_for(work, fdl_work_stream(device), &failure) == 0))
        return 0;
    return PyErr_Occurred() ? -1 : fdl_raise(&failure);
}

/* Another Tensor on the block of `tensor`, ready on the thread's work stream. Its table would do as
 * much, and take the caller for C code that launches there. */
static PyObject *share(PyObject *tensor)
{
    const fdl_description *description = fdl_description_in(tensor);
    fdl_work *work = description->block->work;
    fdl_description *copy;
    fdl_failure failure;
    if (work != NULL && fdl_work_order(work, fdl_work_stream(description->managed.dl_tensor.device),
                                       &failure) < 0) {
        if (!PyErr_Occurred())
            (void)fdl_raise(&failure);
        return NULL;
    }
    copy = fdl_description_copy(description, 0);
    return copy == NULL ? PyErr_NoMemory() : fdl_tensor_wrap(copy);
}

PyObject *fdl_acquire(PyObject *object, const fastdl_record *record, int order)
{
    DLManagedTensorVersioned *managed = NULL;
    fdl_description *description;
    PyObject *tensor;
    int ours, native, failed;
    if (record->borrow == fdl_tensor_borrow)
        return share(object);
    failed = record->api->managed_tensor_from_py_object_no_sync(object, &managed);
    if (failed || managed == NULL) {
        if (!failed)
            PyErr_Clear(); /* it claims to have succeeded */
        return fastdl_ask_on_(object, record->facts) ? Py_NewRef(Py_None) : NULL;
    }
    native = (record->facts & FASTDL_TYPE_NATIVE) != 0;
    if (native && PyErr_Occurred())
        PyErr_Clear(); /* likewise */
    ours = fdl_description_of(managed) != NULL;
    if (ours && !native)
        tensor = fdl_tensor_wrap((fdl_description *)managed); /* checked by its bridge just now */
    else
        tensor = fdl_take_versioned(managed, object);
    if (tensor == NULL)
        return NULL;
    description = fdl_description_in(tensor);
    /* A bridge orders what it makes a Tensor of by itself. */
    if (((native || !ours) && description->managed.dl_tensor.device.device_type != kDLCPU &&
         came_through(description, record->api, ours, order) < 0) ||
        (record->facts & FASTDL_TYPE_ASK_BITS &&
         fastdl_check_bits(object, &description->managed.dl_tensor) < 0))
        Py_CLEAR(tensor);
    return tensor;
}

/* ---- the entry ---- */

static PyObject *complete_call, *request_call;

static PyObject *from_dlpack(PyObject *module, PyObject *const *arguments, Py_ssize_t count,
                             PyObject *names)
{
    (void)module;
    if (count == 1 && names == NULL) {
        const fastdl_record *record = fdl_type_find(Py_TYPE(arguments[0]));
        if (record != NULL && !(record->facts & FASTDL_TYPE_PROTOCOL)) {
            PyObject *tensor = fdl_acquire(arguments[0], record, 1);
            if (tensor != Py_None)
                return tensor;
            Py_DECREF(tensor);
            return PyObject_Vectorcall(request_call, arguments, 1, NULL);
        }
    }
    return PyObject_Vectorcall(complete_call, arguments, (size_t)count, names);
}

PyObject *fdl_make_from_dlpack(PyObject *doc, PyObject *complete, PyObject *request)
{
    static PyMethodDef definition = {"from_dlpack", (PyCFunction)(void (*)(void))from_dlpack,
                                     METH_FASTCALL | METH_KEYWORDS, NULL};
    PyObject *function, *module = PyUnicode_FromString("fastdl");
    Py_INCREF(doc);
    Py_INCREF(complete);
    Py_INCREF(request);
    definition.ml_doc = PyBytes_AS_STRING(doc);
    complete_call = complete;
    request_call = request;
    if (module == NULL)
        return NULL;
    function = PyCFunction_NewEx(&definition, NULL, module);
    Py_DECREF(module);
    return function;
}
