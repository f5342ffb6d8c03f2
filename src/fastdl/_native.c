/* SPDX-License-Identifier: Apache-2.0
 *
 * The shared library of fastdl. It holds several modules, so that each C function exists once and
 * modules call each other's C directly; _library.py loads them. This module is loaded first: Python
 * finds the file by its name, and the module refuses interpreters in which the others cannot work.
 * It also exposes the C tables from which the others generate names.
 */
#include <Python.h>

#include "_core/facts.h"

/* The other modules, and the exchange tables that they make, work in only one interpreter per
 * process: their static memory refers to its objects. */
static enum {
    NEW,
    LOADED,
    OVER
} state;

static void end(PyObject *capsule)
{
    (void)capsule;
    state = OVER;
}

/* Makes the running interpreter call `end` when it ends. */
static int register_end_callback(void)
{
    PyObject *kept = PyInterpreterState_GetDict(PyInterpreterState_Get());
    PyObject *capsule = PyCapsule_New(&state, NULL, end);
    int result = kept == NULL || capsule == NULL
                     ? -1
                     : PyDict_SetItemString(kept, "fastdl._native", capsule);
    if (result < 0 && capsule != NULL)
        PyCapsule_SetDestructor(capsule, NULL);
    Py_XDECREF(capsule);
    if (result < 0 && !PyErr_Occurred())
        PyErr_NoMemory();
    return result;
}

static int check_interpreter(PyObject *module)
{
    (void)module;
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_ImportError,
                        "fastdl works in the main interpreter only, and this is a subinterpreter: "
                        "import fastdl, and exchange tensors, in the main one");
        return -1;
    }
    if (state == OVER) {
        PyErr_SetString(PyExc_ImportError,
                        "fastdl cannot be imported again after Py_Finalize in the same process: "
                        "start another process");
        return -1;
    }
    if (state == NEW && register_end_callback() < 0)
        return -1;
    state = LOADED;
    return 0;
}

PyMODINIT_FUNC PyInit__native(void)
{
    static struct PyModuleDef_Slot slots[] = {
        {Py_mod_exec, (void *)check_interpreter},
#ifdef Py_mod_multiple_interpreters /* so that check_interpreter runs in subinterpreters */
        {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#ifdef Py_mod_gil
        {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
        {0, NULL},
    };
    static PyMethodDef methods[] = {
        {"device_facts", fdl_device_facts, METH_NOARGS, NULL},
        {"dtype_facts", fdl_dtype_facts, METH_NOARGS, NULL},
        {NULL, NULL, 0, NULL},
    };
    static struct PyModuleDef definition = {
        .m_base = PyModuleDef_HEAD_INIT,
        .m_name = "fastdl._native",
        .m_methods = methods,
        .m_slots = slots,
    };
    return PyModuleDef_Init(&definition);
}
