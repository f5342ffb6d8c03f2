/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests/support/consumer.py cannot do in Python: deleters on threads that Python has never
 * seen, or at its end, and a call without the GIL of a function that may raise. It knows the ABI
 * and nothing of fastdl.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <fastdl/dlpack.h>
#include <stdio.h>
#include <stdlib.h>

#include "module.h"

typedef struct {
    void *managed;
    int versioned;
} held;

static void run_deleter(held given)
{
    DLManagedTensorVersioned *versioned = given.versioned ? given.managed : NULL;
    DLManagedTensor *legacy = given.versioned ? NULL : given.managed;
    if (versioned != NULL && versioned->deleter != NULL)
        versioned->deleter(versioned);
    if (legacy != NULL && legacy->deleter != NULL)
        legacy->deleter(legacy);
}

typedef struct {
    held *all;
    Py_ssize_t count;
    PyThread_type_lock done;
} batch;

/* A list of (address, versioned). */
static int gather(PyObject *list, batch *out)
{
    out->count = PyList_GET_SIZE(list);
    out->all = calloc((size_t)out->count + 1, sizeof(*out->all));
    if (out->all == NULL) {
        PyErr_NoMemory(); /* the process is done for anyway */
        return -1;
    }
    for (Py_ssize_t i = 0; i < out->count; i++) {
        unsigned long long address;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "Kp", &address, &out->all[i].versioned))
            return -1;
        out->all[i].managed = (void *)(uintptr_t)address;
    }
    return 0;
}

static void delete_all(const batch *b)
{
    for (Py_ssize_t i = 0; i < b->count; i++)
        run_deleter(b->all[i]);
}

static void delete_batch(void *argument)
{
    batch *b = argument;
    delete_all(b);
    PyThread_release_lock(b->done);
}

/* Starts a native thread; `done` is held by it. */
static int start(void (*function)(void *), batch *b)
{
    b->done = PyThread_allocate_lock();
    PyThread_acquire_lock(b->done, WAIT_LOCK);
    if (PyThread_start_new_thread(function, b) != (unsigned long)-1)
        return 0;
    PyErr_SetString(PyExc_RuntimeError, "cannot start a thread");
    return -1;
}

/* delete_on_threads(list of (address, versioned), threads, keep_gil): deleters run on native
 * threads that Python has never seen, all at once; returns when all have ended. With keep_gil this
 * thread waits with the GIL: a deleter that needs it waits for ever. */
static PyObject *delete_on_threads(PyObject *self, PyObject *arguments)
{
    PyObject *list;
    int threads, keep_gil;
    PyThreadState *state = NULL;
    batch all, *batches;
    if (!PyArg_ParseTuple(arguments, "O!ip", &PyList_Type, &list, &threads, &keep_gil))
        return NULL;
    batches = calloc((size_t)threads, sizeof(*batches));
    if (batches == NULL)
        return PyErr_NoMemory();
    if (gather(list, &all) < 0)
        return NULL;
    for (int t = 0; t < threads; t++) {
        Py_ssize_t first = all.count * t / threads, last = all.count * (t + 1) / threads;
        batches[t] = (batch){all.all + first, last - first, NULL};
        if (start(delete_batch, &batches[t]) < 0)
            return NULL;
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
    free(all.all);
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

/* delete_at_exit(list of (address, versioned)): their deleters run when the interpreter is gone. */
static PyObject *delete_at_exit(PyObject *self, PyObject *list)
{
    if (gather(list, &late) < 0)
        return NULL;
    if (atexit(delete_late) != 0)
        return PyErr_Format(PyExc_RuntimeError, "atexit is full");
    Py_RETURN_NONE;
}

/* delete_during_exit(list of (address, versioned)): a native thread runs their deleters as soon as
 * the interpreter says that it is not initialised any more, while finalisation goes on. */
static PyObject *delete_during_exit(PyObject *self, PyObject *list)
{
    if (gather(list, &late) < 0 || start(delete_batch_late, &late) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* work_stream(capsule, type, id) -> a handle, 0 for NULL; SystemError unless the function returns 0
 * and no exception, or -1 and an exception. */
static PyObject *work_stream(PyObject *self, PyObject *arguments)
{
    PyObject *capsule;
    int type, id, result;
    const DLPackExchangeAPI *table;
    void *out = (void *)(uintptr_t)16;
    if (!PyArg_ParseTuple(arguments, "Oii", &capsule, &type, &id) ||
        (table = PyCapsule_GetPointer(capsule, "dlpack_exchange_api")) == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    result = table->current_work_stream((DLDeviceType)type, id, &out);
    Py_END_ALLOW_THREADS
    if (result != (PyErr_Occurred() == NULL ? 0 : -1))
        return PyErr_Format(PyExc_SystemError, "the function returned %d %s an exception", result,
                            PyErr_Occurred() ? "with" : "without");
    return result < 0 ? NULL : PyLong_FromVoidPtr(out);
}

static PyMethodDef functions[] = {
    {"delete_on_threads", delete_on_threads, METH_VARARGS, NULL},
    {"delete_at_exit", delete_at_exit, METH_O, NULL},
    {"delete_during_exit", delete_during_exit, METH_O, NULL},
    {"work_stream", work_stream, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

DEFINE_MODULE(consumer, functions)
