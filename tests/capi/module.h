/* SPDX-License-Identifier: Apache-2.0
 *
 * What the extension modules of the tests have in common: they leave the GIL of a free-threaded
 * CPython off.
 */
#ifndef FASTDL_TESTS_MODULE_H_
#define FASTDL_TESTS_MODULE_H_

#include <Python.h>

static inline PyObject *create_module(PyModuleDef *definition)
{
    PyObject *module = PyModule_Create(definition);
#ifdef Py_GIL_DISABLED
    if (module != NULL && PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED) < 0)
        Py_CLEAR(module);
#endif
    return module;
}

#endif
