/* SPDX-License-Identifier: Apache-2.0
 *
 * A plain C consumer for the tests, written from the specification alone: it takes managed
 * tensors out of capsules and gives them back in every way a consumer may, and calls the five
 * functions of any exchange table. It knows the ABI and nothing of fastdl.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <fastdl/dlpack.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "module.h"

/* ---- Held: a managed tensor that this consumer owns ---- */

typedef struct {
    PyObject_HEAD
    void *managed; /* NULL once it was given back or away */
    int versioned;
} held_object;

static PyTypeObject held_type;

static PyObject *hold_pointer(void *managed, int versioned)
{
    held_object *self = PyObject_New(held_object, &held_type);
    if (self != NULL) {
        self->managed = managed;
        self->versioned = versioned;
    }
    return (PyObject *)self;
}

/* Forgetting a Held leaks its tensor: a test says when a deleter runs. */
static void held_dealloc(PyObject *self)
{
    PyObject_Free(self);
}

static void run_deleter(void *managed, int versioned)
{
    if (versioned) {
        DLManagedTensorVersioned *m = managed;
        if (m->deleter != NULL)
            m->deleter(m);
    } else {
        DLManagedTensor *m = managed;
        if (m->deleter != NULL)
            m->deleter(m);
    }
}

/* The tensor of a Held, which gives it up; NULL with ValueError if it has none. */
static void *give_up(PyObject *held)
{
    void *managed;
    if (!PyObject_TypeCheck(held, &held_type)) {
        PyErr_SetString(PyExc_TypeError, "expected a Held");
        return NULL;
    }
    managed = ((held_object *)held)->managed;
    ((held_object *)held)->managed = NULL;
    if (managed == NULL)
        PyErr_SetString(PyExc_ValueError, "this Held holds nothing any more");
    return managed;
}

static PyObject *held_delete(PyObject *self, PyObject *unused)
{
    void *managed = give_up(self);
    (void)unused;
    if (managed == NULL)
        return NULL;
    run_deleter(managed, ((held_object *)self)->versioned);
    Py_RETURN_NONE;
}

/* Runs the deleter as a destructor does that is called during unwinding: with an exception
 * pending. Whether that very exception is still there afterwards. */
static PyObject *held_delete_while_raising(PyObject *self, PyObject *unused)
{
    void *managed = give_up(self);
    PyObject *exception, *type, *value, *traceback;
    int kept;
    (void)unused;
    if (managed == NULL)
        return NULL;
    exception = PyObject_CallFunction(PyExc_KeyError, "s", "pending");
    if (exception == NULL)
        return NULL;
    PyErr_SetObject(PyExc_KeyError, exception);
    run_deleter(managed, ((held_object *)self)->versioned);
    PyErr_Fetch(&type, &value, &traceback);
    kept = value == exception;
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    Py_DECREF(exception);
    return PyBool_FromLong(kept);
}

static PyObject *held_fields(PyObject *self, PyObject *unused)
{
    held_object *held = (held_object *)self;
    DLManagedTensorVersioned *m = held->managed;
    DLManagedTensor *legacy = held->managed;
    PyObject *context;
    (void)unused;
    if (m == NULL) {
        PyErr_SetString(PyExc_ValueError, "this Held holds nothing any more");
        return NULL;
    }
    context = PyBool_FromLong((held->versioned ? m->manager_ctx : legacy->manager_ctx) != NULL);
    if (!held->versioned)
        return tensor_fields(&legacy->dl_tensor, Py_BuildValue("{s:N}", "has_context", context));
    return tensor_fields(&m->dl_tensor,
                         Py_BuildValue("{s:(II),s:K,s:N}", "version", m->version.major,
                                       m->version.minor, "flags", (unsigned long long)m->flags,
                                       "has_context", context));
}

static PyMethodDef held_methods[] = {
    {"delete", held_delete, METH_NOARGS, NULL},
    {"delete_while_raising", held_delete_while_raising, METH_NOARGS, NULL},
    {"fields", held_fields, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyTypeObject held_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "consumer.Held",
    .tp_basicsize = sizeof(held_object),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_dealloc = held_dealloc,
    .tp_methods = held_methods,
};

/* take(capsule) -> Held: what every consumer of a capsule does. */
static PyObject *take(PyObject *self, PyObject *capsule)
{
    void *managed;
    int versioned = PyCapsule_IsValid(capsule, "dltensor_versioned");
    (void)self;
    if (!versioned && !PyCapsule_IsValid(capsule, "dltensor")) {
        PyErr_SetString(PyExc_ValueError, "not a capsule to take from");
        return NULL;
    }
    managed = PyCapsule_GetPointer(capsule, versioned ? "dltensor_versioned" : "dltensor");
    if (PyCapsule_SetName(capsule, versioned ? "used_dltensor_versioned" : "used_dltensor") < 0)
        return NULL;
    return hold_pointer(managed, versioned);
}

/* hold(address, versioned) -> Held */
static PyObject *hold(PyObject *self, PyObject *arguments)
{
    unsigned long long address;
    int versioned;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "Kp", &address, &versioned))
        return NULL;
    return hold_pointer((void *)(uintptr_t)address, versioned);
}

/* ---- native threads ---- */

typedef struct {
    void **managed;
    int *versioned;
    Py_ssize_t count;
    PyThread_type_lock done;
} batch;

/* What the Helds of a list hold, which they give up. */
static int gather(PyObject *list, batch *out)
{
    out->count = PyList_GET_SIZE(list);
    out->managed = calloc((size_t)out->count + 1, sizeof(*out->managed));
    out->versioned = calloc((size_t)out->count + 1, sizeof(*out->versioned));
    if (out->managed == NULL || out->versioned == NULL) {
        PyErr_NoMemory(); /* the process is done for anyway */
        return -1;
    }
    for (Py_ssize_t i = 0; i < out->count; i++) {
        PyObject *held = PyList_GET_ITEM(list, i);
        out->managed[i] = give_up(held);
        if (out->managed[i] == NULL)
            return -1;
        out->versioned[i] = ((held_object *)held)->versioned;
    }
    return 0;
}

static void delete_all(const batch *b)
{
    for (Py_ssize_t i = 0; i < b->count; i++)
        run_deleter(b->managed[i], b->versioned[i]);
}

static void delete_batch(void *argument)
{
    batch *b = argument;
    delete_all(b);
    PyThread_release_lock(b->done);
}

/* delete_on_threads(list of Held, threads, keep_gil=False): deleters run on native threads that
 * Python has never seen, all at once; returns when all have ended. With keep_gil this thread waits
 * with the GIL: a deleter that needs it waits for ever. */
static PyObject *delete_on_threads(PyObject *self, PyObject *arguments)
{
    PyObject *list;
    int threads, keep_gil = 0;
    PyThreadState *state = NULL;
    batch all, *batches;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "O!i|p", &PyList_Type, &list, &threads, &keep_gil))
        return NULL;
    batches = calloc((size_t)threads, sizeof(*batches));
    if (batches == NULL)
        return PyErr_NoMemory();
    if (gather(list, &all) < 0)
        return NULL;
    for (int t = 0; t < threads; t++) {
        Py_ssize_t first = all.count * t / threads, last = all.count * (t + 1) / threads;
        batches[t] = (batch){all.managed + first, all.versioned + first, last - first,
                             PyThread_allocate_lock()};
        PyThread_acquire_lock(batches[t].done, WAIT_LOCK);
        if (PyThread_start_new_thread(delete_batch, &batches[t]) == (unsigned long)-1) {
            PyErr_SetString(PyExc_RuntimeError, "cannot start a thread");
            return NULL;
        }
    }
    if (!keep_gil)
        state = PyEval_SaveThread();
    for (int t = 0; t < threads; t++)
        PyThread_acquire_lock(batches[t].done, WAIT_LOCK);
    if (state != NULL)
        PyEval_RestoreThread(state);
    for (int t = 0; t < threads; t++) {
        PyThread_release_lock(batches[t].done);
        PyThread_free_lock(batches[t].done);
    }
    free(all.managed);
    free(all.versioned);
    free(batches);
    Py_RETURN_NONE;
}

/* A thread that starts after the interpreter has begun to finalise: see delete_during_exit. */
static void delete_batch_late(void *argument)
{
    batch *b = argument;
    while (Py_IsInitialized() && PyThread_acquire_lock_timed(b->done, 1000, 0) != PY_LOCK_ACQUIRED)
        ;
    delete_all(b);
}

static batch late; /* outlives the interpreter */

static void delete_late(void)
{
    delete_all(&late);
    printf("deleted %d, interpreter alive: %d\n", (int)late.count, Py_IsInitialized());
    fflush(stdout);
}

/* delete_at_exit(list of Held): their deleters run when the interpreter is gone. */
static PyObject *delete_at_exit(PyObject *self, PyObject *list)
{
    (void)self;
    if (gather(list, &late) < 0)
        return NULL;
    if (atexit(delete_late) != 0) {
        PyErr_SetString(PyExc_RuntimeError, "atexit is full");
        return NULL;
    }
    Py_RETURN_NONE;
}

/* delete_during_exit(list of Held): a native thread runs their deleters as soon as the
 * interpreter says that it is not initialised any more, while finalisation goes on. */
static PyObject *delete_during_exit(PyObject *self, PyObject *list)
{
    (void)self;
    if (gather(list, &late) < 0)
        return NULL;
    late.done = PyThread_allocate_lock();
    PyThread_acquire_lock(late.done, WAIT_LOCK);
    if (PyThread_start_new_thread(delete_batch_late, &late) == (unsigned long)-1) {
        PyErr_SetString(PyExc_RuntimeError, "cannot start a thread");
        return NULL;
    }
    Py_RETURN_NONE;
}

/* ---- exchange tables ---- */

static const DLPackExchangeAPI *table_in(PyObject *capsule)
{
    return PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
}

/* Holds a table function to its word: 0 and no exception, or -1 and an exception. 0, or -1 with
 * an exception: SystemError where the word was broken. */
static int judge(int result)
{
    if ((result == 0) == (PyErr_Occurred() == NULL) && (result == 0 || result == -1))
        return result;
    PyErr_Format(PyExc_SystemError, "a table function returned %d %s an exception", result,
                 PyErr_Occurred() ? "with" : "without");
    return -1;
}

typedef struct {
    int calls;
    char kind[64], message[256];
} reported;

static void note_error(void *context, const char *kind, const char *message)
{
    reported *to = context;
    to->calls++;
    snprintf(to->kind, sizeof(to->kind), "%s", kind);
    snprintf(to->message, sizeof(to->message), "%s", message);
}

/* allocate(capsule, ndim, shape or None, dtype, device, report=True) ->
 * (Held or None, calls of SetError, kind, message). The GIL is not held during the call, and the
 * fields of the prototype that do not count hold rubbish. */
static PyObject *api_allocate(PyObject *self, PyObject *arguments)
{
    const DLPackExchangeAPI *table;
    DLManagedTensorVersioned *untouched = (DLManagedTensorVersioned *)(uintptr_t)16;
    DLManagedTensorVersioned *out = untouched;
    reported report = {0, "", ""};
    DLTensor prototype;
    PyObject *capsule, *shape, *held;
    int64_t dims[64];
    int ndim, code, bits, lanes, device_type, device_id, with_report = 1, result;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "OiO(iii)(ii)|p", &capsule, &ndim, &shape, &code, &bits,
                          &lanes, &device_type, &device_id, &with_report))
        return NULL;
    table = table_in(capsule);
    if (table == NULL)
        return NULL;
    memset(&prototype, 0x5a, sizeof(prototype));
    prototype.ndim = ndim;
    prototype.shape = shape == Py_None ? NULL : dims;
    prototype.dtype = (DLDataType){(uint8_t)code, (uint8_t)bits, (uint16_t)lanes};
    prototype.device = (DLDevice){(DLDeviceType)device_type, device_id};
    for (Py_ssize_t i = 0; shape != Py_None && i < PyTuple_Size(shape) && i < 64; i++)
        dims[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, i));
    if (PyErr_Occurred())
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    result =
        table->managed_tensor_allocator(&prototype, &out, &report, with_report ? note_error : NULL);
    Py_END_ALLOW_THREADS
    if (result == 0) {
        held = hold_pointer(out, 1);
    } else if (result == -1 && out == untouched) {
        held = Py_None;
        Py_INCREF(held);
    } else {
        PyErr_Format(PyExc_SystemError, "the allocator returned %d and changed *out", result);
        return NULL;
    }
    return Py_BuildValue("Niss", held, report.calls, report.kind, report.message);
}

static PyObject *api_from(PyObject *self, PyObject *arguments)
{
    PyObject *capsule, *object;
    const DLPackExchangeAPI *table;
    DLManagedTensorVersioned *out = NULL;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "OO", &capsule, &object) ||
        (table = table_in(capsule)) == NULL ||
        judge(table->managed_tensor_from_py_object_no_sync(object, &out)) < 0)
        return NULL;
    return hold_pointer(out, 1);
}

/* to_object(capsule, Held) -> object. The tensor stays with its Held on failure. */
static PyObject *api_to(PyObject *self, PyObject *arguments)
{
    PyObject *capsule, *held;
    const DLPackExchangeAPI *table;
    void *out = NULL, *managed;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "OO!", &capsule, &held_type, &held) ||
        (table = table_in(capsule)) == NULL || (managed = give_up(held)) == NULL)
        return NULL;
    if (judge(table->managed_tensor_to_py_object_no_sync(managed, &out)) < 0) {
        ((held_object *)held)->managed = managed;
        return NULL;
    }
    return out;
}

/* borrow(capsule, object) -> dict, or None where the table has no such function. */
static PyObject *api_borrow(PyObject *self, PyObject *arguments)
{
    PyObject *capsule, *object;
    const DLPackExchangeAPI *table;
    DLTensor out;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "OO", &capsule, &object) ||
        (table = table_in(capsule)) == NULL)
        return NULL;
    if (table->dltensor_from_py_object_no_sync == NULL)
        Py_RETURN_NONE;
    if (judge(table->dltensor_from_py_object_no_sync(object, &out)) < 0)
        return NULL;
    return tensor_fields(&out, PyDict_New());
}

/* work_stream(capsule, type, id) -> a handle, 0 for NULL. The GIL is not held during the call. */
static PyObject *api_stream(PyObject *self, PyObject *arguments)
{
    PyObject *capsule;
    int type, id, result;
    const DLPackExchangeAPI *table;
    void *out = (void *)(uintptr_t)16;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "Oii", &capsule, &type, &id) ||
        (table = table_in(capsule)) == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    result = table->current_work_stream((DLDeviceType)type, id, &out);
    Py_END_ALLOW_THREADS
    return judge(result) < 0 ? NULL : PyLong_FromVoidPtr(out);
}

/* header(capsule) -> (major, minor, address of the table before it) */
static PyObject *api_header(PyObject *self, PyObject *capsule)
{
    const DLPackExchangeAPI *table = table_in(capsule);
    (void)self;
    if (table == NULL)
        return NULL;
    return Py_BuildValue("IIK", table->header.version.major, table->header.version.minor,
                         (unsigned long long)(uintptr_t)table->header.prev_api);
}

static PyMethodDef functions[] = {
    {"take", take, METH_O, NULL},
    {"hold", hold, METH_VARARGS, NULL},
    {"delete_on_threads", delete_on_threads, METH_VARARGS, NULL},
    {"delete_at_exit", delete_at_exit, METH_O, NULL},
    {"delete_during_exit", delete_during_exit, METH_O, NULL},
    {"allocate", api_allocate, METH_VARARGS, NULL},
    {"from_object", api_from, METH_VARARGS, NULL},
    {"to_object", api_to, METH_VARARGS, NULL},
    {"borrow", api_borrow, METH_VARARGS, NULL},
    {"work_stream", api_stream, METH_VARARGS, NULL},
    {"header", api_header, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "consumer", .m_size = -1,
                                    .m_methods = functions};

PyMODINIT_FUNC PyInit_consumer(void)
{
    if (PyType_Ready(&held_type) < 0)
        return NULL;
    return create_module(&module);
}
