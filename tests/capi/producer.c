/* SPDX-License-Identifier: Apache-2.0
 *
 * Types that fastdl_publish makes producers, for the tests: they describe whatever Python says.
 * Compiled as C and as C++, against the full and the limited API, with the package and without it.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#define FASTDL_IMPLEMENTATION
#include <fastdl/fastdl.h>

#include "module.h"

/* What the author of a type would store in it. */
typedef struct {
    PyObject_HEAD
    PyObject *owner;  /* keeps the memory; NULL: nothing */
    PyObject *before; /* called when the object is described; or NULL; ...: borrow the owner */
    PyObject *weakrefs;
    DLTensor dl;
    uint64_t flags;
    int owned_by_self, silent, has_strides;
    int64_t shape[FASTDL_MAX_NDIM + 1], strides[FASTDL_MAX_NDIM + 1];
} Given;

static int describe(PyObject *self, fastdl_description *out)
{
    Given *given = (Given *)self;
    if (given->before == Py_Ellipsis) {
        fastdl_view view;
        if (fastdl_borrow(given->owner, &view) < 0)
            return -1;
        fastdl_release(&view);
    } else if (given->before != NULL) {
        PyObject *result = PyObject_CallFunctionObjArgs(given->before, self, NULL);
        if (result == NULL)
            return given->silent ? 0 : -1; /* 0: which is wrong */
        Py_DECREF(result);
        if (given->silent)
            return -1; /* without an exception, which is wrong */
    }
    out->dl = given->dl;
    out->dl.shape = given->dl.shape == NULL ? NULL : given->shape;
    out->dl.strides = given->has_strides ? given->strides : NULL;
    out->flags = given->flags;
    if (!given->owned_by_self)
        out->owner = given->owner;
    return 0;
}

/* The same for a type that stores no shape. */
static int describe_in_room(PyObject *self, fastdl_description *out)
{
    if (describe(self, out) < 0)
        return -1;
    for (int32_t i = 0; i < out->dl.ndim && i < FASTDL_MAX_NDIM && out->dl.shape != NULL; i++)
        out->room[i] = out->dl.shape[i];
    if (out->dl.shape != NULL)
        out->dl.shape = out->room;
    return 0;
}

static void *own_stream;

static int give_stream(DLDeviceType type, int32_t id, void **out)
{
    *out = own_stream;
    return 0;
}

static int refuse_stream(DLDeviceType type, int32_t id, void **out)
{
    return -1;
}

FASTDL_PRODUCER(lending, describe, fastdl_default_stream, FASTDL_LENDS);
FASTDL_PRODUCER(exporting, describe, give_stream, 0);
FASTDL_PRODUCER(roomy, describe_in_room, refuse_stream, FASTDL_LENDS);
FASTDL_PRODUCER(spare, describe, fastdl_default_stream, 0);

static int given_init(PyObject *self, PyObject *args, PyObject *keywords)
{
    static const char *const names[] = {"owner",  "data",          "shape", "strides", "dtype",
                                        "device", "offset",        "flags", "before",  "ndim",
                                        "silent", "owned_by_self", NULL};
    Given *given = (Given *)self;
    PyObject *owner = NULL, *before = NULL, *shape = NULL, *strides = Py_None;
    unsigned long long data = 0, offset = 0, flags = 0;
    int code = 2, bits = 32, lanes = 1, type = 1, id = 0, ndim = -1, silent = 0, by_self = 0;
    Py_ssize_t count;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OKO|O(iii)(ii)KKOipp", (char **)names, &owner,
                                     &data, &shape, &strides, &code, &bits, &lanes, &type, &id,
                                     &offset, &flags, &before, &ndim, &silent, &by_self))
        return -1;
    count = shape == Py_None ? 0 : PySequence_Size(shape);
    for (Py_ssize_t i = 0; i < count && i <= FASTDL_MAX_NDIM; i++) {
        PyObject *size = PySequence_GetItem(shape, i);
        PyObject *step = strides == Py_None ? NULL : PySequence_GetItem(strides, i);
        given->shape[i] = size == NULL ? -1 : PyLong_AsLongLong(size);
        given->strides[i] = step == NULL ? 0 : PyLong_AsLongLong(step);
        Py_XDECREF(size);
        Py_XDECREF(step);
    }
    if (PyErr_Occurred())
        return -1;
    given->has_strides = strides != Py_None;
    given->dl.data = (void *)(uintptr_t)data;
    given->dl.shape = shape == Py_None ? NULL : given->shape;
    given->dl.ndim = ndim >= 0 ? ndim : (int32_t)count;
    given->dl.dtype.code = (uint8_t)code;
    given->dl.dtype.bits = (uint8_t)bits;
    given->dl.dtype.lanes = (uint16_t)lanes;
    given->dl.device.device_type = (DLDeviceType)type;
    given->dl.device.device_id = id;
    given->dl.byte_offset = offset;
    given->flags = flags;
    given->silent = silent;
    given->owned_by_self = by_self;
    Py_XINCREF(before == Py_None ? NULL : before);
    Py_XDECREF(given->before);
    given->before = before == Py_None ? NULL : before;
    Py_XINCREF(owner == Py_None ? NULL : owner);
    Py_XDECREF(given->owner);
    given->owner = owner == Py_None ? NULL : owner;
    return 0;
}

static void given_dealloc(PyObject *self)
{
    Given *given = (Given *)self;
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    if (given->weakrefs != NULL)
        PyObject_ClearWeakRefs(self);
    Py_XDECREF(given->owner);
    Py_XDECREF(given->before);
    release(self);
    if (PyType_GetFlags(type) & Py_TPFLAGS_HEAPTYPE)
        Py_DECREF(type);
}

static PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Given, weakrefs), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot given_slots[] = {
    {Py_tp_init, (void *)given_init},
    {Py_tp_dealloc, (void *)given_dealloc},
    {Py_tp_members, members},
    {0, NULL},
};

static PyType_Spec given_spec = {
    "producer.Given", (int)sizeof(Given), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, given_slots,
};

/* A new type: immutable if asked, published by the producer of that name, if any. */
static int publish_as(PyObject *type, const char *name)
{
    static fastdl_producer *const producers[] = {&lending, &exporting, &roomy, &spare};
    static const char *const names[] = {"lending", "exporting", "roomy", "spare"};
    for (int i = 0; i < 4; i++)
        if (strcmp(names[i], name) == 0)
            return fastdl_publish((PyTypeObject *)type, producers[i]);
    PyErr_Format(PyExc_LookupError, "no producer %s", name);
    return -1;
}

/* new_type(immutable=False): a type that is not published yet. */
static PyObject *new_type(PyObject *self, PyObject *immutable)
{
    PyType_Spec spec = given_spec;
    if (PyObject_IsTrue(immutable))
        spec.flags |= 1u << 8; /* Py_TPFLAGS_IMMUTABLETYPE, which the limited API has no name for */
    return PyType_FromSpec(&spec);
}

/* publish(type, name) */
static PyObject *publish(PyObject *self, PyObject *args)
{
    PyObject *type;
    const char *name;
    if (!PyArg_ParseTuple(args, "O!s", &PyType_Type, &type, &name) || publish_as(type, name) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *set_stream(PyObject *self, PyObject *stream)
{
    own_stream = PyLong_AsVoidPtr(stream);
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

/* lend(obj): what the borrowing slot of the type's own table does; None if it has none. */
static PyObject *lend(PyObject *self, PyObject *obj)
{
    const DLPackExchangeAPI *api = fastdl_exchange_api(Py_TYPE(obj));
    DLTensor dl;
    if (api == NULL)
        return NULL;
    if (api->dltensor_from_py_object_no_sync == NULL)
        Py_RETURN_NONE;
    if (api->dltensor_from_py_object_no_sync(obj, &dl) != 0)
        return NULL;
    return Py_BuildValue("iKK", (int)dl.ndim, (unsigned long long)(uintptr_t)dl.data,
                         (unsigned long long)dl.byte_offset);
}

/* make(type): an object by the table of a type, from an empty one that it allocates. */
static PyObject *make(PyObject *self, PyObject *type)
{
    DLManagedTensorVersioned *managed;
    DLTensor prototype;
    PyObject *out;
    memset(&prototype, 0, sizeof(prototype));
    prototype.device.device_type = kDLCPU;
    prototype.dtype = fastdl_data_type(FASTDL_FLOAT32);
    if (fastdl_empty(&prototype, (PyTypeObject *)type, &managed) < 0 ||
        fastdl_wrap(managed, (PyTypeObject *)type, &out) < 0)
        return NULL;
    return out;
}

#ifndef Py_LIMITED_API
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
static PyTypeObject static_type = {PyVarObject_HEAD_INIT(NULL, 0) "producer.Static"};
static PyTypeObject other_static_type = {PyVarObject_HEAD_INIT(NULL, 0) "producer.OtherStatic"};
#pragma GCC diagnostic pop

static int add_static(PyObject *module, PyTypeObject *type, const char *name)
{
    type->tp_basicsize = sizeof(Given);
    type->tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
    type->tp_init = given_init;
    type->tp_dealloc = given_dealloc;
    type->tp_new = PyType_GenericNew;
    type->tp_weaklistoffset = offsetof(Given, weakrefs);
    if (fastdl_publish(type, &lending) < 0)
        return -1;
    Py_INCREF(type);
    return PyModule_AddObject(module, name, (PyObject *)type);
}
#endif

static int add_type(PyObject *module, const char *name, const char *producer)
{
    PyObject *type = PyType_FromSpec(&given_spec);
    if (type == NULL || publish_as(type, producer) < 0) {
        Py_XDECREF(type);
        return -1;
    }
    return PyModule_AddObject(module, name, type);
}

static PyMethodDef functions[] = {
    {"import_runtime", import_runtime, METH_NOARGS, NULL},
    {"new_type", new_type, METH_O, NULL},
    {"publish", publish, METH_VARARGS, NULL},
    {"set_stream", set_stream, METH_O, NULL},
    {"borrow", borrow, METH_O, NULL},
    {"lend", lend, METH_O, NULL},
    {"make", make, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static int fill_module(PyObject *module)
{
    if (add_type(module, "Lending", "lending") < 0 ||
        add_type(module, "Exporting", "exporting") < 0 || add_type(module, "Roomy", "roomy") < 0)
        return -1;
#ifndef Py_LIMITED_API
    if (add_static(module, &static_type, "Static") < 0 ||
        add_static(module, &other_static_type, "OtherStatic") < 0)
        return -1;
#endif
    return 0;
}

/* For every interpreter, unless it has a GIL of its own: there are static types. */
static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)fill_module},
#ifdef Py_GIL_DISABLED
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT, "producer", NULL, 0, functions, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_producer(void)
{
    return PyModuleDef_Init(&module_definition);
}
