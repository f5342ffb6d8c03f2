/* SPDX-License-Identifier: Apache-2.0
 *
 * A buffer of pointers, from an exporter that does not ask whether its consumer can use one.
 */
#include <Python.h>

#include <string.h>

#include "module.h"

static Py_ssize_t pointers_shape[2] = {2, 3}, pointers_strides[2] = {sizeof(void *), 1},
                  pointers_suboffsets[2] = {0, -1};
static char pointers_rows[2][3], *pointers_data[2] = {pointers_rows[0], pointers_rows[1]};

static int pointers_get(PyObject *self, Py_buffer *view, int flags)
{
    (void)flags;
    memset(view, 0, sizeof(*view));
    view->obj = Py_NewRef(self);
    view->buf = pointers_data;
    view->len = 6;
    view->itemsize = 1;
    view->format = "B";
    view->ndim = 2;
    view->shape = pointers_shape;
    view->strides = pointers_strides;
    view->suboffsets = pointers_suboffsets;
    return 0;
}

static PyBufferProcs pointers_procs = {.bf_getbuffer = pointers_get};

static PyTypeObject pointers_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "pointers.Pointers",
    .tp_basicsize = sizeof(PyObject),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = PyType_GenericNew,
    .tp_as_buffer = &pointers_procs,
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "pointers", .m_size = -1};

PyMODINIT_FUNC PyInit_pointers(void)
{
    PyObject *m;
    if (PyType_Ready(&pointers_type) < 0)
        return NULL;
    m = create_module(&module);
    if (m != NULL && PyModule_AddObject(m, "Pointers", Py_NewRef((PyObject *)&pointers_type)) < 0)
        Py_CLEAR(m);
    return m;
}
