/* SPDX-License-Identifier: Apache-2.0 */

/* Methods in C for classes of tests: no signature says what they take, and no Python frame lies
 * between their caller and what they raise. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "module.h"

/* Native(function): a method in C for a class. Called with (obj, **keywords), it appends a copy of
 * the keywords to obj.calls and refuses those that are not in obj.takes, with a TypeError whose
 * message is obj.wording, where {} is the keyword; then it calls function(obj, **keywords). */
typedef struct {
    PyObject_HEAD
    PyObject *function;
} native_object;

static int refuse(PyObject *obj, PyObject *keywords)
{
    PyObject *key, *value, *wording, *text, *takes = PyObject_GetAttrString(obj, "takes");
    Py_ssize_t position = 0;
    int known = takes == NULL ? -1 : 1;
    while (known == 1 && PyDict_Next(keywords, &position, &key, &value)) {
        known = PySequence_Contains(takes, key);
        if (known != 0)
            continue;
        wording = PyObject_GetAttrString(obj, "wording");
        text = wording == NULL ? NULL : PyObject_CallMethod(wording, "format", "O", key);
        if (text != NULL)
            PyErr_SetObject(PyExc_TypeError, text);
        Py_XDECREF(text);
        Py_XDECREF(wording);
    }
    Py_XDECREF(takes);
    return known == 1 ? 0 : -1;
}

static PyObject *native_call(PyObject *self, PyObject *arguments, PyObject *passed)
{
    PyObject *obj, *calls, *noted, *result = NULL, *keywords;
    if (!PyArg_ParseTuple(arguments, "O", &obj))
        return NULL;
    keywords = passed == NULL ? PyDict_New() : PyDict_Copy(passed);
    calls = PyObject_GetAttrString(obj, "calls");
    noted = keywords == NULL ? NULL : PyDict_Copy(keywords);
    if (calls != NULL && noted != NULL && PyList_Append(calls, noted) == 0 &&
        refuse(obj, keywords) == 0)
        result = PyObject_Call(((native_object *)self)->function, arguments, keywords);
    Py_XDECREF(noted);
    Py_XDECREF(calls);
    Py_XDECREF(keywords);
    return result;
}

static PyObject *native_bind(PyObject *self, PyObject *obj, PyObject *type)
{
    if (obj == NULL)
        return Py_NewRef(self);
    return PyMethod_New(self, obj);
}

static int native_init(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    PyObject *function;
    if (!PyArg_ParseTuple(arguments, "O", &function))
        return -1;
    Py_XSETREF(((native_object *)self)->function, Py_NewRef(function));
    return 0;
}

static void native_dealloc(PyObject *self)
{
    Py_XDECREF(((native_object *)self)->function);
    Py_TYPE(self)->tp_free(self);
}

static PyTypeObject native_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "dlpack_conformance._dlpack.Native",
    .tp_basicsize = sizeof(native_object),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = PyType_GenericNew,
    .tp_init = native_init,
    .tp_dealloc = native_dealloc,
    .tp_call = native_call,
    .tp_descr_get = native_bind,
};

/* forward(obj, **keywords): obj.inner.__dlpack__(**keywords), without a Python frame. */
static PyObject *forward(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    PyObject *obj, *inner, *method, *none, *result = NULL;
    if (!PyArg_ParseTuple(arguments, "O", &obj))
        return NULL;
    inner = PyObject_GetAttrString(obj, "inner");
    method = inner == NULL ? NULL : PyObject_GetAttrString(inner, "__dlpack__");
    none = PyTuple_New(0);
    if (method != NULL && none != NULL)
        result = PyObject_Call(method, none, keywords);
    Py_XDECREF(none);
    Py_XDECREF(method);
    Py_XDECREF(inner);
    return result;
}

static PyMethodDef functions[] = {
    {"forward", (PyCFunction)(void (*)(void))forward, METH_VARARGS | METH_KEYWORDS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "native", .m_size = -1,
                             .m_methods = functions};

PyMODINIT_FUNC PyInit_native(void)
{
    PyObject *made = create_module(&module);
    if (made != NULL && PyModule_AddType(made, &native_type) < 0)
        Py_CLEAR(made);
    return made;
}
