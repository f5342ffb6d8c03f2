/* SPDX-License-Identifier: Apache-2.0 */
#define FASTDL_SHARED_ /* not static */
#include "interface.h"

#include <fastdl/fastdl.c>

PyObject *fdl_special(PyObject *obj, PyObject *name)
{
    fastdl_method_ method;
    PyObject *bound;
    if (fastdl_find_method_(obj, name, &method) <= 0)
        return NULL;
    if (method.self == NULL)
        return method.callable;
    bound = fastdl_getter_(method.callable)(method.callable, obj, (PyObject *)Py_TYPE(obj));
    Py_DECREF(method.callable);
    return bound;
}

PyObject *fdl_ask_versioned(PyObject *obj)
{
    fastdl_names_ made;
    const fastdl_names_ *names = fastdl_get_names_(&made);
    PyObject *arguments[3], *capsule;
    if (names == NULL)
        return NULL;
    arguments[0] = NULL; /* room for the callee, as PY_VECTORCALL_ARGUMENTS_OFFSET promises */
    arguments[1] = obj;
    arguments[2] = names->version;
    capsule = PyObject_VectorcallMethod(names->dlpack, arguments + 1,
                                        1 | PY_VECTORCALL_ARGUMENTS_OFFSET, names->max_version);
    if (names == &made)
        fastdl_drop_names_(&made);
    return capsule;
}
