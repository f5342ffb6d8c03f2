/* SPDX-License-Identifier: Apache-2.0
 *
 * What the type of Tensor needs and Cython has no words for.
 */
#ifndef FASTDL_CORE_SLOTS_H_
#define FASTDL_CORE_SLOTS_H_

#include <Python.h>

/* - The collector must see through the C block to the object behind it; Cython generates a
 *   tp_traverse for Python attributes only. (The cached shape, a tuple of ints, is part of no
 *   cycle, so `traverse` replaces what was generated.)
 * - The type cannot be instantiated from Python: an instance made by `Tensor.__new__` would have
 *   no description. Cython's own `Tensor.__new__(Tensor)` does not go through the slot.
 * - It is known as fastdl.Tensor.
 * To be called once, at module initialisation, before any instance exists. */
static inline int fdl_finish_tensor_type(PyTypeObject *type, traverseproc traverse)
{
    type->tp_name = "fastdl.Tensor";
    type->tp_traverse = traverse;
    type->tp_new = NULL;
    type->tp_vectorcall = NULL; /* of the type: Cython 3.3 makes calling it fast */
    type->tp_flags |= Py_TPFLAGS_DISALLOW_INSTANTIATION;
    if (PyDict_DelItemString(type->tp_dict, "__new__") < 0)
        return -1;
    PyType_Modified(type);
    return 0;
}

#endif
