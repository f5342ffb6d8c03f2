/* SPDX-License-Identifier: Apache-2.0
 *
 * A hostile DLPack producer for the tests: managed tensors whose every field is given from
 * Python, however wrong, deleters that are counted, and exchange tables that break the rules.
 * It knows the ABI and nothing of fastdl.
 *
 *     m = hostile.Managed(data=address, shape=(2, 3))     a managed tensor, and its counters
 *     m.capsule()                                         a capsule that hands it over
 *     hostile.table_capsule(hostile.table(major=2))       an exchange table
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <fastdl/dlpack.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "module.h"

#define MAX_DIMS 64
#define POISON (-7777) /* what shape and strides hold once the tensor was deleted */

/* One managed tensor. Never freed: a second call of the deleter must be counted, not crash. */
typedef struct record {
    union {
        DLManagedTensor legacy;
        DLManagedTensorVersioned versioned;
    } managed;           /* first: a deleter finds its record at this address */
    struct record *next; /* keeps all records reachable for leak checkers */
    int is_versioned;
    int error_was_pending; /* when the deleter was called */
    atomic_int deleted, destroyed;
    atomic_int handed;   /* how often somebody was given it */
    PyObject *owner;     /* the reference that a real producer holds; given back on deletion */
    PyObject *on_delete; /* called by the deleter, which leaves its exception set */
    int64_t dims[2 * MAX_DIMS];
} record;

static _Atomic(record *) records;

static void delete_record(record *r)
{
    PyGILState_STATE gil;
    if (atomic_fetch_add(&r->deleted, 1) != 0)
        return;
    for (int i = 0; i < 2 * MAX_DIMS; i++)
        r->dims[i] = POISON; /* a real producer frees them: nobody may read them again */
    if (!Py_IsInitialized())
        return;
    gil = PyGILState_Ensure();
    r->error_was_pending = PyErr_Occurred() != NULL;
    if (r->on_delete != NULL && !r->error_was_pending) {
        PyObject *result = PyObject_CallObject(r->on_delete, NULL);
        Py_XDECREF(result);
    }
    Py_CLEAR(r->on_delete);
    Py_CLEAR(r->owner);
    PyGILState_Release(gil);
}

static void delete_legacy(DLManagedTensor *managed)
{
    delete_record((record *)managed);
}

static void delete_versioned(DLManagedTensorVersioned *managed)
{
    delete_record((record *)managed);
}

static DLTensor *tensor_of(record *r)
{
    return r->is_versioned ? &r->managed.versioned.dl_tensor : &r->managed.legacy.dl_tensor;
}

/* ---- Managed ---- */

typedef struct {
    PyObject_HEAD
    record *r;
} managed_object;

/* Copies a tuple of ints to `to`; its length, or -1 with an exception. */
static Py_ssize_t read_dims(PyObject *values, int64_t *to)
{
    Py_ssize_t n = PyTuple_Check(values) ? PyTuple_GET_SIZE(values) : -1;
    if (n < 0 || n > MAX_DIMS) {
        PyErr_SetString(PyExc_TypeError, "dimensions are a tuple of at most 64 ints");
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        to[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(values, i));
        if (to[i] == -1 && PyErr_Occurred())
            return -1;
    }
    return n;
}

/* shape and strides: None is NULL, an int is a pointer as it stands, a tuple is copied. */
static int set_dims(PyObject *given, int64_t *room, int64_t **field, Py_ssize_t *count)
{
    if (given == Py_None) {
        *field = NULL;
    } else if (PyLong_Check(given)) {
        *field = PyLong_AsVoidPtr(given);
        if (PyErr_Occurred())
            return -1;
    } else {
        *count = read_dims(given, room);
        if (*count < 0)
            return -1;
        *field = room;
    }
    return 0;
}

static int fill(record *r, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"data",  "device",  "ndim",  "shape",   "strides", "byte_offset",
                            "dtype", "version", "flags", "deleter", NULL};
    unsigned long long data = 0, byte_offset = 0, flags = 0;
    int device_type = kDLCPU, device_id = 0, code = kDLFloat, bits = 32, lanes = 1;
    unsigned major = 1, minor = 3;
    int deleter = 1;
    PyObject *ndim = Py_None, *shape = Py_None, *strides = Py_None;
    Py_ssize_t count = 0, stride_count = 0;
    DLTensor *t = tensor_of(r);
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|$K(ii)OOOK(iii)(II)Kp", names, &data,
                                     &device_type, &device_id, &ndim, &shape, &strides,
                                     &byte_offset, &code, &bits, &lanes, &major, &minor, &flags,
                                     &deleter))
        return -1;
    if (set_dims(shape, r->dims, &t->shape, &count) < 0 ||
        set_dims(strides, r->dims + MAX_DIMS, &t->strides, &stride_count) < 0)
        return -1;
    t->data = (void *)(uintptr_t)data;
    t->device.device_type = (DLDeviceType)device_type;
    t->device.device_id = device_id;
    t->ndim = (int32_t)count;
    if (ndim != Py_None) {
        t->ndim = (int32_t)PyLong_AsLong(ndim);
        if (PyErr_Occurred())
            return -1;
    }
    t->dtype.code = (uint8_t)code;
    t->dtype.bits = (uint8_t)bits;
    t->dtype.lanes = (uint16_t)lanes;
    t->byte_offset = byte_offset;
    if (r->is_versioned) {
        r->managed.versioned.version.major = major;
        r->managed.versioned.version.minor = minor;
        r->managed.versioned.flags = flags;
        r->managed.versioned.manager_ctx = r;
        r->managed.versioned.deleter = deleter ? delete_versioned : NULL;
    } else {
        r->managed.legacy.manager_ctx = r;
        r->managed.legacy.deleter = deleter ? delete_legacy : NULL;
    }
    return 0;
}

/* Managed(versioned, owner, on_delete, **fields) */
static PyObject *managed_new(PyTypeObject *type, PyObject *arguments, PyObject *fields)
{
    int versioned;
    PyObject *owner, *on_delete, *none;
    managed_object *self;
    record *r;
    if (!PyArg_ParseTuple(arguments, "pOO:Managed", &versioned, &owner, &on_delete))
        return NULL;
    r = calloc(1, sizeof(record));
    if (r == NULL)
        return PyErr_NoMemory();
    r->next = atomic_load(&records);
    while (!atomic_compare_exchange_weak(&records, &r->next, r))
        ;
    r->is_versioned = versioned;
    none = PyTuple_New(0);
    if (none == NULL || fill(r, none, fields) < 0) {
        Py_XDECREF(none);
        return NULL;
    }
    Py_DECREF(none);
    self = (managed_object *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    Py_INCREF(owner);
    r->owner = owner;
    if (on_delete != Py_None) {
        Py_INCREF(on_delete);
        r->on_delete = on_delete;
    }
    self->r = r;
    return (PyObject *)self;
}

static void managed_dealloc(PyObject *self)
{
    Py_TYPE(self)->tp_free(self);
}

/* A correct destructor: a capsule that still has its first name was not taken. */
static void destroy_capsule(PyObject *capsule)
{
    record *r = PyCapsule_GetContext(capsule);
    const char *name = PyCapsule_GetName(capsule);
    if (name != NULL && strncmp(name, "used_", 5) == 0)
        return;
    atomic_fetch_add(&r->destroyed, 1);
    delete_record(r);
}

static PyObject *managed_capsule(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"name", "destructor", NULL};
    record *r = ((managed_object *)self)->r;
    const char *name = r->is_versioned ? "dltensor_versioned" : "dltensor";
    int destructor = 1;
    PyObject *capsule;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|zp", names, &name, &destructor))
        return NULL;
    if (name != NULL) {
        /* Not a literal, as a careless producer has it; lives as long as the process. */
        char *copy = PyMem_RawMalloc(strlen(name) + 1);
        if (copy == NULL)
            return PyErr_NoMemory();
        name = strcpy(copy, name);
    }
    capsule = PyCapsule_New(&r->managed, name, destructor ? destroy_capsule : NULL);
    if (capsule != NULL && PyCapsule_SetContext(capsule, r) < 0)
        Py_CLEAR(capsule);
    r->handed += capsule != NULL;
    return capsule;
}

/* mutate(shape, strides): what some producers do under a live capsule. */
static PyObject *managed_mutate(PyObject *self, PyObject *arguments)
{
    record *r = ((managed_object *)self)->r;
    PyObject *shape, *strides;
    if (!PyArg_ParseTuple(arguments, "OO", &shape, &strides) || read_dims(shape, r->dims) < 0 ||
        read_dims(strides, r->dims + MAX_DIMS) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *managed_deleted(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromLong(atomic_load(&((managed_object *)self)->r->deleted));
}

static PyObject *managed_destroyed(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromLong(atomic_load(&((managed_object *)self)->r->destroyed));
}

static PyObject *managed_handed(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromLong(((managed_object *)self)->r->handed);
}

static PyObject *managed_pending(PyObject *self, void *closure)
{
    (void)closure;
    return PyBool_FromLong(((managed_object *)self)->r->error_was_pending);
}

static PyObject *managed_address(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromVoidPtr(&((managed_object *)self)->r->managed);
}

static PyMethodDef managed_methods[] = {
    {"capsule", (PyCFunction)(void (*)(void))managed_capsule, METH_VARARGS | METH_KEYWORDS, NULL},
    {"mutate", managed_mutate, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef managed_getset[] = {
    {"deleted", managed_deleted, NULL, "how often the deleter ran", NULL},
    {"destroyed", managed_destroyed, NULL, "how often a capsule died untaken", NULL},
    {"handed", managed_handed, NULL, "how often it was handed over", NULL},
    {"error_was_pending", managed_pending, NULL, "when the deleter ran", NULL},
    {"address", managed_address, NULL, "of the managed tensor", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyTypeObject managed_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "hostile.Managed",
    .tp_basicsize = sizeof(managed_object),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = managed_new,
    .tp_dealloc = managed_dealloc,
    .tp_methods = managed_methods,
    .tp_getset = managed_getset,
};

/* ---- exchange tables ---- */

static atomic_long table_calls;
static int stream_result; /* what current_work_stream returns */
static int stream_raises;
static void *stream_value;

static void raise_as(const char *mode)
{
    if (strstr(mode, "interrupt") != NULL)
        PyErr_SetNone(PyExc_KeyboardInterrupt);
    if (strstr(mode, "raise") != NULL)
        PyErr_SetString(PyExc_LookupError, "from the hostile table");
}

/* An object of a table's type has `managed`, which may also be the address of somebody else's, and
 * `mode`: how this function behaves. */
static int table_from_object(void *object, DLManagedTensorVersioned **out)
{
    const char *mode;
    int result = -1;
    PyObject *managed = NULL, *text = PyObject_GetAttrString(object, "mode");
    table_calls++;
    if (text == NULL)
        return -1;
    mode = PyUnicode_AsUTF8(text);
    managed = PyObject_GetAttrString(object, "managed");
    if (mode == NULL || managed == NULL)
        goto done;
    if (strncmp(mode, "give", 4) == 0) {
        if (PyLong_Check(managed)) {
            *out = PyLong_AsVoidPtr(managed);
        } else {
            *out = &((managed_object *)managed)->r->managed.versioned;
            ((managed_object *)managed)->r->handed++;
        }
        result = 0;
    }
    if (strncmp(mode, "nothing", 7) == 0) {
        *out = NULL;
        result = 0;
    }
    raise_as(mode);
done:
    Py_XDECREF(managed);
    Py_DECREF(text);
    return result;
}

/* The borrowing slot, with the same modes. */
static int table_lend(void *object, DLTensor *out)
{
    DLManagedTensorVersioned *managed = NULL;
    int result = table_from_object(object, &managed);
    if (managed != NULL)
        *out = managed->dl_tensor;
    return result;
}

/* How the functions that make things behave: see set_maker. */
static char maker_mode[16] = "raise";
static record *maker_record;

static int table_to_object(DLManagedTensorVersioned *tensor, void **out)
{
    (void)tensor;
    if (strcmp(maker_mode, "nothing") == 0)
        return 0;
    if (strstr(maker_mode, "give") != NULL) {
        Py_INCREF(Py_Ellipsis);
        *out = Py_Ellipsis;
    }
    raise_as(maker_mode);
    return strstr(maker_mode, "give") != NULL ? 0 : -1;
}

static int table_allocate(DLTensor *prototype, DLManagedTensorVersioned **out, void *error_ctx,
                          void (*set_error)(void *, const char *, const char *))
{
    (void)prototype;
    if (strcmp(maker_mode, "nothing") == 0)
        return 0;
    if (strcmp(maker_mode, "no words") == 0)
        set_error(error_ctx, NULL, NULL);
    if (strcmp(maker_mode, "odd kind") == 0)
        set_error(error_ctx, "print", "no exception");
    if (strcmp(maker_mode, "raise") == 0)
        set_error(error_ctx, "NotImplementedError", "the hostile table allocates nothing");
    if (strstr(maker_mode, "give") == NULL)
        return -1;
    maker_record->handed++;
    *out = &maker_record->managed.versioned;
    raise_as(maker_mode);
    return 0;
}

/* set_maker(mode, managed=None): how the allocator and to_object of all tables behave: "raise",
 * "fail" (without a word), "no words", "odd kind", "nothing" (success without a result), "give"
 * (the allocator `managed`, the other an Ellipsis), "give and raise", "give, interrupt". */
static PyObject *set_maker(PyObject *self, PyObject *arguments)
{
    const char *mode;
    PyObject *managed = Py_None;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "s|O", &mode, &managed))
        return NULL;
    snprintf(maker_mode, sizeof(maker_mode), "%s", mode);
    maker_record = managed == Py_None ? NULL : ((managed_object *)managed)->r;
    Py_RETURN_NONE;
}

static int table_stream(DLDeviceType type, int32_t id, void **out)
{
    (void)type;
    (void)id;
    *out = stream_value;
    if (stream_raises == 1)
        PyErr_SetString(PyExc_LookupError, "no stream from the hostile table");
    if (stream_raises == 2)
        PyErr_SetNone(PyExc_KeyboardInterrupt);
    return stream_result;
}

/* table(major=1, prev=0, without="", lends=False): the address of a new table, which is never
 * freed. `without` names the function that is NULL, `lends` says whether there is a borrowing one.
 */
static PyObject *make_table(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"major", "prev", "without", "lends", NULL};
    unsigned major = 1;
    int lends = 0;
    unsigned long long prev = 0;
    const char *without = "";
    DLPackExchangeAPI *table;
    (void)self;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|$IKsp", names, &major, &prev, &without,
                                     &lends))
        return NULL;
    table = calloc(1, sizeof(*table));
    if (table == NULL)
        return PyErr_NoMemory();
    table->header.version.major = major;
    table->header.version.minor = 3;
    table->header.prev_api = (DLPackExchangeAPIHeader *)(uintptr_t)prev;
    if (strcmp(without, "allocator") != 0)
        table->managed_tensor_allocator = table_allocate;
    if (strcmp(without, "from_object") != 0)
        table->managed_tensor_from_py_object_no_sync = table_from_object;
    if (strcmp(without, "to_object") != 0)
        table->managed_tensor_to_py_object_no_sync = table_to_object;
    if (strcmp(without, "stream") != 0)
        table->current_work_stream = table_stream;
    if (lends)
        table->dltensor_from_py_object_no_sync = table_lend;
    return PyLong_FromVoidPtr(table);
}

/* set_previous(table, previous): closes a chain to a cycle. */
static PyObject *set_previous(PyObject *self, PyObject *arguments)
{
    unsigned long long table, previous;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "KK", &table, &previous))
        return NULL;
    ((DLPackExchangeAPIHeader *)(uintptr_t)table)->prev_api =
        (DLPackExchangeAPIHeader *)(uintptr_t)previous;
    Py_RETURN_NONE;
}

static PyObject *table_capsule(PyObject *self, PyObject *arguments)
{
    unsigned long long table;
    int right_name = 1;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "K|p", &table, &right_name))
        return NULL;
    return PyCapsule_New((void *)(uintptr_t)table,
                         right_name ? "dlpack_exchange_api" : "another_api", NULL);
}

/* set_stream(result, stream, raises): how current_work_stream of all tables behaves; `raises` is 1
 * for LookupError, 2 for KeyboardInterrupt. */
static PyObject *set_stream(PyObject *self, PyObject *arguments)
{
    unsigned long long value;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "iKi", &stream_result, &value, &stream_raises))
        return NULL;
    stream_value = (void *)(uintptr_t)value;
    Py_RETURN_NONE;
}

/* ---- a buffer of pointers, from an exporter that does not ask whether its consumer can use one */

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
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "hostile.Pointers",
    .tp_basicsize = sizeof(PyObject),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = PyType_GenericNew,
    .tp_as_buffer = &pointers_procs,
};

/* address(buffer): where its bytes are; the caller keeps the object. */
static PyObject *address(PyObject *self, PyObject *object)
{
    Py_buffer view;
    void *data;
    (void)self;
    if (PyObject_GetBuffer(object, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    data = view.buf;
    PyBuffer_Release(&view);
    return PyLong_FromVoidPtr(data);
}

static PyObject *calls(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return PyLong_FromLong(table_calls);
}

/* ---- an export in C, as frames of Python never show ---- */

/* Native(function): a method in C for a class. Called with (obj, **keywords), it appends a copy of
 * the keywords to obj.calls and refuses those that are not in obj.takes, with a TypeError in the
 * words of obj.wording, where {} is the keyword; then it calls function(obj, **keywords). */
typedef struct {
    PyObject_HEAD
    PyObject *function;
} native_object;

static int refuse(PyObject *obj, PyObject *keywords)
{
    PyObject *key, *value, *wording, *text, *takes = PyObject_GetAttrString(obj, "takes");
    Py_ssize_t position = 0;
    int known = takes == NULL ? -1 : 1;
    while (known == 1 && PyDict_Next(keywords, &position, &key, &value)) {
        known = PySequence_Contains(takes, key);
        if (known != 0)
            continue;
        wording = PyObject_GetAttrString(obj, "wording");
        text = wording == NULL ? NULL : PyObject_CallMethod(wording, "format", "O", key);
        if (text != NULL)
            PyErr_SetObject(PyExc_TypeError, text);
        Py_XDECREF(text);
        Py_XDECREF(wording);
    }
    Py_XDECREF(takes);
    return known == 1 ? 0 : -1;
}

static PyObject *native_call(PyObject *self, PyObject *arguments, PyObject *passed)
{
    PyObject *obj, *calls, *noted, *result = NULL, *keywords;
    if (!PyArg_ParseTuple(arguments, "O", &obj))
        return NULL;
    keywords = passed == NULL ? PyDict_New() : PyDict_Copy(passed);
    calls = PyObject_GetAttrString(obj, "calls");
    noted = keywords == NULL ? NULL : PyDict_Copy(keywords);
    if (calls != NULL && noted != NULL && PyList_Append(calls, noted) == 0 &&
        refuse(obj, keywords) == 0)
        result = PyObject_Call(((native_object *)self)->function, arguments, keywords);
    Py_XDECREF(noted);
    Py_XDECREF(calls);
    Py_XDECREF(keywords);
    return result;
}

static PyObject *native_bind(PyObject *self, PyObject *obj, PyObject *type)
{
    (void)type;
    if (obj == NULL)
        return Py_NewRef(self);
    return PyMethod_New(self, obj);
}

static int native_init(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    PyObject *function;
    (void)keywords;
    if (!PyArg_ParseTuple(arguments, "O", &function))
        return -1;
    Py_XSETREF(((native_object *)self)->function, Py_NewRef(function));
    return 0;
}

static void native_dealloc(PyObject *self)
{
    Py_XDECREF(((native_object *)self)->function);
    Py_TYPE(self)->tp_free(self);
}

static PyTypeObject native_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "hostile.Native",
    .tp_basicsize = sizeof(native_object),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = PyType_GenericNew,
    .tp_init = native_init,
    .tp_dealloc = native_dealloc,
    .tp_call = native_call,
    .tp_descr_get = native_bind,
};

/* forward(obj, **keywords): obj.inner.__dlpack__(**keywords), with no frame of Python. */
static PyObject *forward(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    PyObject *obj, *inner, *method, *none, *result = NULL;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "O", &obj))
        return NULL;
    inner = PyObject_GetAttrString(obj, "inner");
    method = inner == NULL ? NULL : PyObject_GetAttrString(inner, "__dlpack__");
    none = PyTuple_New(0);
    if (method != NULL && none != NULL)
        result = PyObject_Call(method, none, keywords);
    Py_XDECREF(none);
    Py_XDECREF(method);
    Py_XDECREF(inner);
    return result;
}

static PyMethodDef functions[] = {
    {"forward", (PyCFunction)(void (*)(void))forward, METH_VARARGS | METH_KEYWORDS, NULL},
    {"table", (PyCFunction)(void (*)(void))make_table, METH_VARARGS | METH_KEYWORDS, NULL},
    {"set_previous", set_previous, METH_VARARGS, NULL},
    {"table_capsule", table_capsule, METH_VARARGS, NULL},
    {"set_stream", set_stream, METH_VARARGS, NULL},
    {"set_maker", set_maker, METH_VARARGS, NULL},
    {"address", address, METH_O, NULL},
    {"table_calls", calls, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "hostile", .m_size = -1,
                                    .m_methods = functions};

PyMODINIT_FUNC PyInit_hostile(void)
{
    PyObject *m;
    if (PyType_Ready(&managed_type) < 0 || PyType_Ready(&native_type) < 0 ||
        PyType_Ready(&pointers_type) < 0)
        return NULL;
    m = create_module(&module);
    if (m != NULL && PyModule_AddObject(m, "POISON", PyLong_FromLong(POISON)) < 0)
        Py_CLEAR(m);
    if (m != NULL && PyModule_AddObject(m, "Pointers", Py_NewRef((PyObject *)&pointers_type)) < 0)
        Py_CLEAR(m);
    Py_INCREF(&managed_type);
    if (m != NULL && PyModule_AddObject(m, "Managed", (PyObject *)&managed_type) < 0)
        Py_CLEAR(m);
    if (m != NULL && PyModule_AddObject(m, "Native", Py_NewRef((PyObject *)&native_type)) < 0)
        Py_CLEAR(m);
    return m;
}
