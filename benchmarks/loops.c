/* SPDX-License-Identifier: Apache-2.0
 *
 * Loops for what takes less than 50 ns, where a loop in Python would be most of the time measured.
 *
 * Every function does one thing `n` times and drops what it gets. None of them reads a clock: the
 * caller does, around a call whose n makes it last a millisecond, so that the cost of the call
 * itself does not show. Compiled by native.py for the benchmarks only; no part of the wheel.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

#include <fastdl/dlpack.h>

#include "copy.h"

/* ---- calls ---- */

static PyObject *noop(PyObject *module, PyObject *argument)
{
    (void)module;
    (void)argument;
    Py_RETURN_NONE;
}

/* call(n, function, *arguments): function(*arguments) */
static PyObject *call(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    Py_ssize_t n = count < 2 ? -1 : PyLong_AsSsize_t(args[0]);
    (void)module;
    if (n < 0) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "expected n, a function and its arguments");
        return NULL;
    }
    while (n-- > 0) {
        PyObject *result = PyObject_Vectorcall(args[1], args + 2, (size_t)(count - 2), NULL);
        if (result == NULL)
            return NULL;
        Py_DECREF(result);
    }
    Py_RETURN_NONE;
}

/* Takes from a versioned capsule as a consumer does, and gives back at once. */
static int consume(PyObject *capsule)
{
    DLManagedTensorVersioned *managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    if (managed == NULL || PyCapsule_SetName(capsule, "used_dltensor_versioned") < 0)
        return -1;
    managed->deleter(managed);
    return 0;
}

/* export(n, object, names, max_version): object.__dlpack__(max_version=max_version), consumed and
 * dropped. `names` is ("max_version",). */
static PyObject *export(PyObject *module, PyObject *args)
{
    Py_ssize_t n;
    PyObject *object, *names, *max_version, *method, *arguments[3];
    (void)module;
    if (!PyArg_ParseTuple(args, "nOOO", &n, &object, &names, &max_version))
        return NULL;
    method = PyUnicode_InternFromString("__dlpack__");
    if (method == NULL)
        return NULL;
    arguments[0] = NULL; /* room for the callee, as PY_VECTORCALL_ARGUMENTS_OFFSET promises */
    arguments[1] = object;
    arguments[2] = max_version;
    while (n-- > 0) {
        PyObject *capsule = PyObject_VectorcallMethod(method, arguments + 1,
                                                      1 | PY_VECTORCALL_ARGUMENTS_OFFSET, names);
        int failed = capsule == NULL || consume(capsule) < 0;
        Py_XDECREF(capsule);
        if (failed) {
            Py_DECREF(method);
            return NULL;
        }
    }
    Py_DECREF(method);
    Py_RETURN_NONE;
}

static void ignore(PyObject *capsule)
{
    (void)capsule;
}

/* capsule(n): a capsule made and dropped, the floor of every __dlpack__ */
static PyObject *capsule(PyObject *module, PyObject *args)
{
    Py_ssize_t n;
    (void)module;
    if (!PyArg_ParseTuple(args, "n", &n))
        return NULL;
    while (n-- > 0) {
        PyObject *made = PyCapsule_New(&n, "dltensor_versioned", ignore);
        if (made == NULL)
            return NULL;
        Py_DECREF(made);
    }
    Py_RETURN_NONE;
}

/* ---- exchange tables ---- */

static const DLPackExchangeAPI *table_in(PyObject *candidate)
{
    return PyCapsule_GetPointer(candidate, "dlpack_exchange_api");
}

/* own(n, table, object): the owning entry of the table, and the deleter of what it gave */
static PyObject *own(PyObject *module, PyObject *args)
{
    Py_ssize_t n;
    PyObject *candidate, *object;
    const DLPackExchangeAPI *table;
    (void)module;
    if (!PyArg_ParseTuple(args, "nOO", &n, &candidate, &object))
        return NULL;
    table = table_in(candidate);
    if (table == NULL)
        return NULL;
    while (n-- > 0) {
        DLManagedTensorVersioned *managed;
        if (table->managed_tensor_from_py_object_no_sync(object, &managed) != 0)
            return NULL;
        managed->deleter(managed);
    }
    Py_RETURN_NONE;
}

/* pass_on(n, from, to, object): the owning entry of one table, and the entry of another that makes
 * an object of what it gave */
static PyObject *pass_on(PyObject *module, PyObject *args)
{
    Py_ssize_t n;
    PyObject *from, *to, *object;
    const DLPackExchangeAPI *source, *target;
    (void)module;
    if (!PyArg_ParseTuple(args, "nOOO", &n, &from, &to, &object))
        return NULL;
    source = table_in(from);
    target = source == NULL ? NULL : table_in(to);
    if (target == NULL)
        return NULL;
    while (n-- > 0) {
        DLManagedTensorVersioned *managed;
        void *made;
        if (source->managed_tensor_from_py_object_no_sync(object, &managed) != 0 ||
            target->managed_tensor_to_py_object_no_sync(managed, &made) != 0)
            return NULL;
        Py_DECREF((PyObject *)made);
    }
    Py_RETURN_NONE;
}

static void no_memory(void *context, const char *kind, const char *message)
{
    (void)context;
    (void)kind;
    PyErr_SetString(PyExc_MemoryError, message);
}

/* result(n, table): the allocating entry of the table, and the one that makes an object of that */
static PyObject *result(PyObject *module, PyObject *args)
{
    int64_t shape[] = {4, 4};
    DLTensor prototype = {.device = {kDLCPU, 0}, .ndim = 2, .dtype = {kDLFloat, 32, 1}};
    Py_ssize_t n;
    PyObject *candidate;
    const DLPackExchangeAPI *table;
    (void)module;
    prototype.shape = shape;
    if (!PyArg_ParseTuple(args, "nO", &n, &candidate))
        return NULL;
    table = table_in(candidate);
    if (table == NULL)
        return NULL;
    while (n-- > 0) {
        DLManagedTensorVersioned *managed;
        void *made;
        if (table->managed_tensor_allocator(&prototype, &managed, NULL, no_memory) != 0 ||
            table->managed_tensor_to_py_object_no_sync(managed, &made) != 0)
            return NULL;
        Py_DECREF((PyObject *)made);
    }
    Py_RETURN_NONE;
}

/* borrow(n, table, object): the borrowing entry of the table */
static PyObject *borrow(PyObject *module, PyObject *args)
{
    Py_ssize_t n;
    PyObject *candidate, *object;
    const DLPackExchangeAPI *table;
    (void)module;
    if (!PyArg_ParseTuple(args, "nOO", &n, &candidate, &object))
        return NULL;
    table = table_in(candidate);
    if (table == NULL)
        return NULL;
    if (table->dltensor_from_py_object_no_sync == NULL) {
        PyErr_SetString(PyExc_TypeError, "this table does not borrow");
        return NULL;
    }
    while (n-- > 0) {
        DLTensor tensor;
        if (table->dltensor_from_py_object_no_sync(object, &tensor) != 0)
            return NULL;
    }
    Py_RETURN_NONE;
}

/* lock(n, object): its buffer, locked and unlocked */
static PyObject *lock(PyObject *module, PyObject *args)
{
    Py_ssize_t n;
    PyObject *object;
    (void)module;
    if (!PyArg_ParseTuple(args, "nO", &n, &object))
        return NULL;
    while (n-- > 0) {
        Py_buffer buffer;
        if (PyObject_GetBuffer(object, &buffer, PyBUF_RECORDS_RO) < 0)
            return NULL;
        PyBuffer_Release(&buffer);
    }
    Py_RETURN_NONE;
}

/* ---- copies ---- */

/* compact(n, table, tensor, target): fastdl's copy of a tensor of that table to a buffer */
static PyObject *compact(PyObject *module, PyObject *args)
{
    Py_ssize_t n;
    PyObject *candidate, *object;
    Py_buffer target;
    const DLPackExchangeAPI *table;
    DLTensor tensor;
    (void)module;
    if (!PyArg_ParseTuple(args, "nOOw*", &n, &candidate, &object, &target))
        return NULL;
    table = table_in(candidate);
    if (table == NULL || table->dltensor_from_py_object_no_sync(object, &tensor) != 0) {
        PyBuffer_Release(&target);
        return NULL;
    }
    while (n-- > 0)
        fdl_copy_compact(&tensor, 0, target.buf);
    PyBuffer_Release(&target);
    Py_RETURN_NONE;
}

/* move(n, source, target): memcpy of a whole buffer */
static PyObject *move(PyObject *module, PyObject *args)
{
    Py_ssize_t n;
    Py_buffer source, target;
    (void)module;
    if (!PyArg_ParseTuple(args, "ny*w*", &n, &source, &target))
        return NULL;
    while (n-- > 0)
        memcpy(target.buf, source.buf, (size_t)source.len);
    PyBuffer_Release(&source);
    PyBuffer_Release(&target);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"noop", noop, METH_O, NULL},
    {"call", (PyCFunction)(void (*)(void))call, METH_FASTCALL, NULL},
    {"export", export, METH_VARARGS, NULL},
    {"capsule", capsule, METH_VARARGS, NULL},
    {"own", own, METH_VARARGS, NULL},
    {"pass_on", pass_on, METH_VARARGS, NULL},
    {"result", result, METH_VARARGS, NULL},
    {"borrow", borrow, METH_VARARGS, NULL},
    {"lock", lock, METH_VARARGS, NULL},
    {"compact", compact, METH_VARARGS, NULL},
    {"move", move, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "loops", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_loops(void)
{
    return PyModule_Create(&definition);
}
