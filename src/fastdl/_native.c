/* SPDX-License-Identifier: Apache-2.0
 *
 * The shared library of fastdl. It holds several modules, so that each C function exists once and
 * modules call each other's C directly; _library.py loads them. This one is empty: it is how Python
 * finds the file.
 */
#include <Python.h>

PyMODINIT_FUNC PyInit__native(void)
{
    static struct PyModuleDef_Slot slots[] = {
#ifdef Py_mod_gil
        {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
        {0, NULL},
    };
    static struct PyModuleDef definition = {
        .m_base = PyModuleDef_HEAD_INIT,
        .m_name = "fastdl._native",
        .m_slots = slots,
    };
    return PyModuleDef_Init(&definition);
}
