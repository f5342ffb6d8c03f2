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

DEFINE_MODULE(racing, functions)
