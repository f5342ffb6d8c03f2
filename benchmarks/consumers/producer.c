/* SPDX-License-Identifier: Apache-2.0
 *
 * A type of another module that is a producer by FASTDL_PRODUCER: sixteen numbers in an object.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define FASTDL_IMPLEMENTATION
#include <fastdl/fastdl.h>

#define SIZE 16

typedef struct {
    PyObject head; /* of any build of CPython */
    int64_t shape[1];
    float numbers[SIZE];
} Numbers;

static int describe(PyObject *self, fastdl_description *out)
{
    Numbers *numbers = (Numbers *)self;
    out->dl.data = numbers->numbers;
    out->dl.ndim = 1;
    out->dl.shape = numbers->shape;
    out->dl.dtype = fastdl_data_type(FASTDL_FLOAT32);
    return 0;
}

FASTDL_PRODUCER(producer, describe, fastdl_default_stream, FASTDL_LENDS);

static PyObject *create(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    Numbers *numbers = (Numbers *)PyType_GenericNew(type, args, keywords);
    if (numbers != NULL)
        numbers->shape[0] = SIZE;
    return (PyObject *)numbers;
}

static PyType_Slot slots[] = {{Py_tp_new, create}, {0, NULL}};

static PyType_Spec spec = {"producer.Numbers", sizeof(Numbers), 0, Py_TPFLAGS_DEFAULT, slots};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "producer", NULL, -1, NULL, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_producer(void)
{
    PyObject *module = PyModule_Create(&definition), *type = PyType_FromSpec(&spec);
    if (module == NULL || type == NULL || fastdl_import() < 0 ||
        fastdl_publish((PyTypeObject *)type, &producer) < 0 ||
        PyModule_AddObject(module, "Numbers", type) < 0) {
        Py_XDECREF(type);
        Py_CLEAR(module);
    }
    return module;
}
