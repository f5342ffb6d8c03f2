/* SPDX-License-Identifier: Apache-2.0 */
#include "acquire.h"

#include "work.h"

fastdl_slot fdl_type_slots[FASTDL_SLOTS];

/* Orders device memory that has just come through `table`: it is ready on the stream on which its
 * library works now, and is made ready on `stream`. */
static int order(fdl_description *description, const DLPackExchangeAPI *table, int64_t stream)
{
    DLDevice device = description->managed.dl_tensor.device;
    const fastdl_device_fact *fact = fastdl_find_device((int32_t)device.device_type);
    fdl_work *work;
    void *source = NULL;
    fdl_failure failure;
    if (fact->stream != FASTDL_STREAM_CUDA && fact->stream != FASTDL_STREAM_ROCM)
        return 0;
    work = description->block->work = fdl_work_new(device);
    if (work == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    if (fact->host)
        return 0; /* pinned: the host may touch it as it is */
    fdl_work_from_table(work, table);
    if (table->current_work_stream(device.device_type, device.device_id, &source) != 0) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_BufferError,
                         "the exchange table of the producer cannot tell its current stream on "
                         "device (%d, %d)",
                         (int)device.device_type, (int)device.device_id);
        return -1;
    }
    if (fdl_work_ready_on(
            work, source == NULL ? fdl_default_stream(fact->stream) : (int64_t)(uintptr_t)source,
            stream, &failure) == 0)
        return 0;
    return PyErr_Occurred() ? -1 : fdl_raise(&failure);
}

PyObject *fdl_acquire(PyObject *object, const fastdl_record *record)
{
    DLManagedTensorVersioned *managed = NULL;
    fdl_description *description;
    PyObject *tensor;
    int ours, failed = record->api->managed_tensor_from_py_object_no_sync(object, &managed);
    if (failed || managed == NULL) {
        if (!failed)
            PyErr_Clear(); /* it claims to have succeeded */
        return fastdl_ask_on_(object, record->facts) ? Py_NewRef(Py_None) : NULL;
    }
    if (record->facts & FASTDL_TYPE_NATIVE && PyErr_Occurred())
        PyErr_Clear();                          /* likewise */
    ours = fdl_description_of(managed) != NULL; /* on a block that knows its order already */
    if (ours && !(record->facts & FASTDL_TYPE_NATIVE))
        tensor = fdl_tensor_wrap((fdl_description *)managed); /* checked by its bridge just now */
    else
        tensor = fdl_take_versioned(managed, object);
    if (tensor == NULL)
        return NULL;
    description = fdl_description_in(tensor);
    if ((!ours && description->managed.dl_tensor.device.device_type != kDLCPU &&
         order(description, record->api, fdl_work_stream(description->managed.dl_tensor.device)) <
             0) ||
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
            PyObject *tensor = fdl_acquire(arguments[0], record);
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
