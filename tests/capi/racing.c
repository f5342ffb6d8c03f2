/* SPDX-License-Identifier: Apache-2.0
 *
 * A data race made on purpose: threads count in one variable without an order. tests/races/check.py
 * sees with it that ThreadSanitizer looks at what is compiled here.
 */
#include <Python.h>

#include "module.h"

static volatile long counter;

/* count(n) */
static PyObject *count(PyObject *self, PyObject *n)
{
    long times = PyLong_AsLong(n);
    if (times == -1 && PyErr_Occurred())
        return NULL;
    for (long i = 0; i < times; i++)
        counter++;
    return PyLong_FromLong(counter);
}

static PyMethodDef functions[] = {
    {"count", count, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "racing", .m_size = -1,
                                    .m_methods = functions};

PyMODINIT_FUNC PyInit_racing(void)
{
    return create_module(&module);
}
