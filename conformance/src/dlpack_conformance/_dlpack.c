/* SPDX-License-Identifier: Apache-2.0
 *
 * Both sides of DLPack, for tests: a producer whose every field is set from Python, even to invalid
 * values; exchange tables that follow or break every rule; and a consumer that holds what it takes
 * and reports how the release went. Every call of a deleter is counted.
 *
 *     m = Managed(True, owner, None, data=address, shape=(2, 3))   a managed tensor
 *     m.capsule(); m.deleted                                       its capsule; the counter
 *     t = take(capsule); t.address; t.release("thread")            the consumer
 *     table_capsule(table(major=2))                                an exchange table
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef _MSC_VER /* its C11 atomics are experimental */
#include <intrin.h>
typedef volatile long counter;
#define add_one(c) _InterlockedExchangeAdd((c), 1)
#else
#include <stdatomic.h>
typedef atomic_long counter;
#define add_one(c) atomic_fetch_add((c), 1)
#endif

/* ---- the ABI of DLPack 1.3, as far as it is used here ---- */

enum {
    ON_HOST = 1, /* kDLCPU */
    FLOAT = 2    /* kDLFloat */
};

typedef struct {
    void *data;
    int32_t device_type, device_id, ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} DLTensor;

typedef struct legacy {
    DLTensor tensor;
    void *manager_ctx;
    void (*deleter)(struct legacy *);
} DLManagedTensor;

typedef struct {
    uint32_t major, minor;
} DLPackVersion;

typedef struct versioned {
    DLPackVersion version;
    void *manager_ctx;
    void (*deleter)(struct versioned *);
    uint64_t flags;
    DLTensor tensor;
} DLManagedTensorVersioned;

typedef void (*error_setter)(void *error_ctx, const char *kind, const char *message);

typedef struct table {
    DLPackVersion version;
    struct table *prev_api; /* of any version, so that only these two may be read of it */
    int (*allocate)(DLTensor *prototype, DLManagedTensorVersioned **out, void *error_ctx,
                    error_setter set_error);
    int (*from_object)(void *object, DLManagedTensorVersioned **out);
    int (*to_object)(DLManagedTensorVersioned *tensor, void **out);
    int (*borrow)(void *object, DLTensor *out);
    int (*stream)(int32_t device_type, int32_t device_id, void **out);
} DLPackExchangeAPI;

static DLPackExchangeAPI *table_at(unsigned long long address)
{
    return (DLPackExchangeAPI *)(uintptr_t)address;
}

/* ---- exceptions ---- */

/* The pending exception, which the caller then owns; NULL if there is none. */
static PyObject *pending_error(void)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return value;
}

/* Sets an exception, which is returned; NULL if that fails. */
static PyObject *set_pending(void)
{
    PyObject *error = PyObject_CallFunction(PyExc_LookupError, "s", "pending at a release");
    if (error != NULL)
        PyErr_SetObject(PyExc_LookupError, error);
    return error;
}

/* Whether it is still the one that is pending; clears it, and gives back the caller's reference. */
static int still_pending(PyObject *expected)
{
    PyObject *error = pending_error();
    int kept = error == expected;
    Py_XDECREF(error);
    Py_DECREF(expected);
    return kept;
}

/* ---- the producer ---- */

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
    int deleter;           /* see managed_new */
    int error_was_pending; /* when the deleter was called */
    counter deleted, destroyed;
    counter detached;    /* calls of the deleter on a thread that held no GIL */
    counter handed;      /* how often it was handed out */
    PyObject *owner;     /* the reference that a real producer holds; given back on deletion */
    PyObject *on_delete; /* called by the deleter, which leaves its exception set */
    int64_t dims[2 * MAX_DIMS];
} record;

#ifdef _MSC_VER
static void *volatile records;

static void keep_reachable(record *r)
{
    do
        r->next = records;
    while (_InterlockedCompareExchangePointer(&records, r, r->next) != r->next);
}
#else
static _Atomic(record *) records;

static void keep_reachable(record *r)
{
    r->next = atomic_load(&records);
    while (!atomic_compare_exchange_weak(&records, &r->next, r))
        ;
}
#endif

static void delete_record(record *r)
{
    PyGILState_STATE gil;
    if (Py_IsInitialized() && !PyGILState_Check())
        add_one(&r->detached);
    if (add_one(&r->deleted) != 0)
        return;
    for (int i = 0; i < 2 * MAX_DIMS; i++)
        r->dims[i] = POISON; /* a real producer frees them: they must not be read again */
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

/* Deleters of mistaken producers: one that needs the GIL, one that loses exceptions, and one that
 * uses Python without asking for it. */
static void delete_attached(record *r)
{
    (void)PyThreadState_Get(); /* aborts on a thread that has none */
    delete_record(r);
}

static void delete_clearing(record *r)
{
    PyErr_Clear();
    delete_record(r);
}

/* Gives its reference back on whatever thread it is called. */
static void delete_unattached(record *r)
{
    Py_CLEAR(r->owner);
    delete_record(r);
}

/* No mistake: it frees the record, as a real producer does, where many are made. */
static void delete_and_free(record *r)
{
    delete_record(r);
    free(r);
}

typedef void (*deleter_of_record)(record *);
static const deleter_of_record deleters[] = {
    NULL, delete_record, delete_attached, delete_clearing, delete_unattached, delete_and_free};
enum {
    FREES = 5
};

static void delete_legacy(DLManagedTensor *managed)
{
    record *r = (record *)managed;
    deleters[r->deleter](r);
}

static void delete_versioned(DLManagedTensorVersioned *managed)
{
    record *r = (record *)managed;
    deleters[r->deleter](r);
}

static DLTensor *tensor_of(record *r)
{
    return r->is_versioned ? &r->managed.versioned.tensor : &r->managed.legacy.tensor;
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
    static char *names[] = {"data",  "device",  "ndim",  "shape",   "strides",     "byte_offset",
                            "dtype", "version", "flags", "deleter", "manager_ctx", NULL};
    unsigned long long data = 0, byte_offset = 0, flags = 0;
    int device_type = ON_HOST, device_id = 0, code = FLOAT, bits = 32, lanes = 1;
    unsigned major = 1, minor = 3;
    int deleter = 1, context = 1;
    PyObject *ndim = Py_None, *shape = Py_None, *strides = Py_None;
    Py_ssize_t count = 0, stride_count = 0;
    DLTensor *t = tensor_of(r);
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|$K(ii)OOOK(iii)(II)Kip", names, &data,
                                     &device_type, &device_id, &ndim, &shape, &strides,
                                     &byte_offset, &code, &bits, &lanes, &major, &minor, &flags,
                                     &deleter, &context))
        return -1;
    if (set_dims(shape, r->dims, &t->shape, &count) < 0 ||
        set_dims(strides, r->dims + MAX_DIMS, &t->strides, &stride_count) < 0)
        return -1;
    t->data = (void *)(uintptr_t)data;
    t->device_type = device_type;
    t->device_id = device_id;
    t->ndim = (int32_t)count;
    if (ndim != Py_None) {
        t->ndim = (int32_t)PyLong_AsLong(ndim);
        if (PyErr_Occurred())
            return -1;
    }
    t->code = (uint8_t)code;
    t->bits = (uint8_t)bits;
    t->lanes = (uint16_t)lanes;
    t->byte_offset = byte_offset;
    if (r->is_versioned) {
        r->managed.versioned.version.major = major;
        r->managed.versioned.version.minor = minor;
        r->managed.versioned.flags = flags;
        r->managed.versioned.manager_ctx = context ? r : NULL;
        r->managed.versioned.deleter = deleter == 0 ? NULL : delete_versioned;
    } else {
        r->managed.legacy.manager_ctx = context ? r : NULL;
        r->managed.legacy.deleter = deleter == 0 ? NULL : delete_legacy;
    }
    r->deleter = deleter;
    return 0;
}

/* Managed(versioned, owner, on_delete, **fields). `deleter`: 0 for NULL, 1 for a correct one, 2 for
 * one that needs the GIL, 3 for one that clears a pending exception, 4 for one that gives `owner`
 * back without the GIL, 5 for a correct one that also frees the record, whose counters must not be
 * read from then on. */
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
    r->is_versioned = versioned;
    none = PyTuple_New(0);
    if (none == NULL || fill(r, none, fields) < 0) {
        Py_XDECREF(none);
        free(r);
        return NULL;
    }
    Py_DECREF(none);
    if (r->deleter != FREES)
        keep_reachable(r);
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

/* A correct destructor: a capsule that still has its first name was not taken. */
static void destroy_capsule(PyObject *capsule)
{
    record *r = PyCapsule_GetContext(capsule);
    const char *name = PyCapsule_GetName(capsule);
    if (name != NULL && strncmp(name, "used_", 5) == 0)
        return;
    add_one(&r->destroyed);
    if (r->deleter == FREES)
        delete_and_free(r);
    else
        delete_record(r);
}

/* Destructors of mistaken producers: one that does not look at the name, and one that loses
 * exceptions. */
static void destroy_always(PyObject *capsule)
{
    delete_record(PyCapsule_GetContext(capsule));
}

static void destroy_clearing(PyObject *capsule)
{
    destroy_capsule(capsule);
    PyErr_Clear();
}

/* capsule(name=..., destructor=1): 0 for none, 1 for a correct one, 2 for one that releases what
 * was taken too, 3 for one that clears a pending exception. */
static PyObject *managed_capsule(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"name", "destructor", NULL};
    record *r = ((managed_object *)self)->r;
    const char *usual = r->is_versioned ? "dltensor_versioned" : "dltensor", *name = usual;
    int which = 1;
    const PyCapsule_Destructor destructors[] = {NULL, destroy_capsule, destroy_always,
                                                destroy_clearing};
    PyObject *capsule;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|zi", names, &name, &which))
        return NULL;
    if (name != NULL && !(name == usual && r->deleter == FREES)) {
        /* Not a literal, like a careless producer's; never freed. */
        char *copy = PyMem_RawMalloc(strlen(name) + 1);
        if (copy == NULL)
            return PyErr_NoMemory();
        name = strcpy(copy, name);
    }
    capsule = PyCapsule_New(&r->managed, name, destructors[which & 3]);
    if (capsule != NULL && PyCapsule_SetContext(capsule, r) < 0)
        Py_CLEAR(capsule);
    if (capsule != NULL)
        add_one(&r->handed);
    return capsule;
}

static PyObject *managed_count(PyObject *self, void *offset)
{
    counter *count = (counter *)((char *)((managed_object *)self)->r + (uintptr_t)offset);
    return PyLong_FromLong((long)*count);
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
    {NULL, NULL, 0, NULL},
};

#define COUNTER(name) ((void *)offsetof(record, name))

static PyGetSetDef managed_getset[] = {
    {"deleted", managed_count, NULL, "how often the deleter ran", COUNTER(deleted)},
    {"destroyed", managed_count, NULL, "how often a capsule died untaken", COUNTER(destroyed)},
    {"detached", managed_count, NULL, "how often it ran without the GIL", COUNTER(detached)},
    {"handed", managed_count, NULL, "how often it was handed over", COUNTER(handed)},
    {"error_was_pending", managed_pending, NULL, "when the deleter ran", NULL},
    {"address", managed_address, NULL, "of the managed tensor", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyTypeObject managed_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "dlpack_conformance._dlpack.Managed",
    .tp_basicsize = sizeof(managed_object),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_new = managed_new,
    .tp_methods = managed_methods,
    .tp_getset = managed_getset,
};

/* ---- exchange tables ---- */

static counter table_calls;
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

/* An object of a table's type has `managed`, which may also be the address of a foreign one, and
 * `mode`: how this function behaves. */
static int table_from_object(void *object, DLManagedTensorVersioned **out)
{
    const char *mode;
    int result = -1;
    PyObject *managed = NULL, *text = PyObject_GetAttrString(object, "mode");
    add_one(&table_calls);
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
            add_one(&((managed_object *)managed)->r->handed);
        }
        result = 0;
    }
    if (strncmp(mode, "nothing", 7) == 0) {
        *out = NULL;
        result = 0;
    }
    if (strncmp(mode, "raise, give", 11) == 0) /* which means nothing beside an error */
        *out = &((managed_object *)managed)->r->managed.versioned;
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
        *out = managed->tensor;
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
                          error_setter set_error)
{
    (void)prototype;
    if (strcmp(maker_mode, "attached") == 0)
        (void)PyThreadState_Get(); /* aborts on a thread that has none */
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
    add_one(&maker_record->handed);
    *out = &maker_record->managed.versioned;
    raise_as(maker_mode);
    return 0;
}

/* set_maker(mode, managed=None): how the allocator and to_object of all tables behave: "raise",
 * "fail" (without a message), "no words", "odd kind", "attached" (needs the GIL), "nothing"
 * (success without a result), "give" (the allocator `managed`, the other an Ellipsis), "give and
 * raise", "give, interrupt". */
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

static int table_stream(int32_t type, int32_t id, void **out)
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

/* The address of a new table of version 1.3 with these functions, which is never freed. */
static PyObject *new_table(DLPackExchangeAPI functions)
{
    DLPackExchangeAPI *table = malloc(sizeof(*table));
    if (table == NULL)
        return PyErr_NoMemory();
    *table = functions;
    table->version.major = 1;
    table->version.minor = 3;
    return PyLong_FromVoidPtr(table);
}

/* table(lends=False): the address of a new table; `lends` says whether it has a borrowing function.
 */
static PyObject *make_table(PyObject *self, PyObject *arguments)
{
    int lends = 0;
    DLPackExchangeAPI functions = {.allocate = table_allocate,
                                   .from_object = table_from_object,
                                   .to_object = table_to_object,
                                   .stream = table_stream};
    (void)self;
    if (!PyArg_ParseTuple(arguments, "|p", &lends))
        return NULL;
    functions.borrow = lends ? table_lend : NULL;
    return new_table(functions);
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

/* ---- the consumer ---- */

/* What was taken from a capsule or a table: owned here until it is released. */
typedef struct {
    PyObject_HEAD
    void *managed; /* NULL once it is given away */
    int versioned;
    int released;
} taken_object;

static PyTypeObject taken_type;

static PyObject *new_taken(void *managed, int versioned)
{
    taken_object *self = (taken_object *)taken_type.tp_alloc(&taken_type, 0);
    if (self != NULL) {
        self->managed = managed;
        self->versioned = versioned;
    }
    return (PyObject *)self;
}

/* take(capsule): consumes a capsule, as a correct consumer does: it renames it first. */
static PyObject *take(PyObject *self, PyObject *capsule)
{
    const int versioned = PyCapsule_IsValid(capsule, "dltensor_versioned");
    void *managed;
    PyObject *taken;
    (void)self;
    if (!versioned && !PyCapsule_IsValid(capsule, "dltensor"))
        return PyErr_Format(PyExc_ValueError,
                            "not a capsule of DLPack that is still to be taken: %R", capsule);
    managed = PyCapsule_GetPointer(capsule, versioned ? "dltensor_versioned" : "dltensor");
    taken = new_taken(NULL, versioned);
    if (taken == NULL ||
        PyCapsule_SetName(capsule, versioned ? "used_dltensor_versioned" : "used_dltensor")) {
        Py_XDECREF(taken);
        return NULL;
    }
    ((taken_object *)taken)->managed = managed;
    return taken;
}

static void call_deleter(taken_object *self)
{
    DLManagedTensorVersioned *versioned = self->versioned ? self->managed : NULL;
    DLManagedTensor *legacy = self->versioned ? NULL : self->managed;
    self->released = 1;
    self->managed = NULL;
    if (legacy != NULL && legacy->deleter != NULL)
        legacy->deleter(legacy);
    if (versioned != NULL && versioned->deleter != NULL)
        versioned->deleter(versioned);
}

#define MAX_THREADS 8

/* A native thread that has no state of Python's, and calls every `step`th deleter. */
typedef struct {
    counter *ready, *wanted; /* of all threads, which start together */
    taken_object **items;
    Py_ssize_t first, count, step;
    PyThread_type_lock done;
} release_job;

static void release_on_thread(void *given)
{
    release_job *job = given;
    add_one(job->ready);
    while (*job->ready < *job->wanted)
        ;
    for (Py_ssize_t i = job->first; i < job->count; i += job->step)
        if (!job->items[i]->released)
            call_deleter(job->items[i]);
    PyThread_release_lock(job->done);
}

static int start(release_job *job)
{
    job->done = PyThread_allocate_lock();
    if (job->done == NULL)
        return -1;
    PyThread_acquire_lock(job->done, WAIT_LOCK);
    if (PyThread_start_new_thread(release_on_thread, job) != PYTHREAD_INVALID_THREAD_ID)
        return 0;
    PyThread_free_lock(job->done);
    return -1;
}

/* Calls deleters on native threads, while this one waits without the GIL. */
static int release_on_threads(taken_object **items, Py_ssize_t count, int threads)
{
    release_job jobs[MAX_THREADS];
    counter ready = 0, wanted = threads;
    int started = 0;
    for (; started < threads; started++) {
        release_job job = {&ready, &wanted, items, started, count, threads, NULL};
        jobs[started] = job;
        if (start(&jobs[started]) < 0)
            break;
    }
    wanted = started;
    Py_BEGIN_ALLOW_THREADS
    for (int i = 0; i < started; i++)
        PyThread_acquire_lock(jobs[i].done, WAIT_LOCK);
    Py_END_ALLOW_THREADS
    for (int i = 0; i < started; i++) {
        PyThread_release_lock(jobs[i].done);
        PyThread_free_lock(jobs[i].done);
    }
    if (started == threads)
        return 0;
    PyErr_SetString(PyExc_RuntimeError, "a thread could not be started");
    return -1;
}

/* release_at_once(list, threads): releases each Taken of a list, which has none twice, on so many
 * threads. */
static PyObject *release_at_once(PyObject *self, PyObject *arguments)
{
    PyObject *list;
    int threads;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "O!i", &PyList_Type, &list, &threads))
        return NULL;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++)
        if (!Py_IS_TYPE(PyList_GET_ITEM(list, i), &taken_type))
            return PyErr_Format(PyExc_TypeError, "expected Taken, not %R",
                                PyList_GET_ITEM(list, i));
    if (threads < 1 || threads > MAX_THREADS)
        return PyErr_Format(PyExc_ValueError, "expected 1 to %d threads", MAX_THREADS);
    if (release_on_threads((taken_object **)PySequence_Fast_ITEMS(list), PyList_GET_SIZE(list),
                           threads) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* release(how="here"): calls the deleter, once: "here", also "without the GIL", on a "thread"
 * without Python, or while an exception is "pending". True if the state of exceptions is as
 * before. */
static PyObject *taken_release(PyObject *object, PyObject *arguments)
{
    taken_object *self = (taken_object *)object;
    const char *how = "here";
    int kept;
    PyObject *error;
    if (!PyArg_ParseTuple(arguments, "|s", &how))
        return NULL;
    if (self->released) {
        PyErr_SetString(PyExc_ValueError, "released or given away already");
        return NULL;
    }
    if (strcmp(how, "thread") == 0) {
        if (release_on_threads(&self, 1, 1) < 0)
            return NULL;
        Py_RETURN_TRUE;
    }
    if (strcmp(how, "pending") != 0) {
        PyThreadState *state = strcmp(how, "without the GIL") == 0 ? PyEval_SaveThread() : NULL;
        call_deleter(self);
        if (state != NULL)
            PyEval_RestoreThread(state);
        kept = !PyErr_Occurred();
        PyErr_Clear();
        return PyBool_FromLong(kept);
    }
    error = set_pending();
    if (error == NULL)
        return NULL;
    call_deleter(self);
    return PyBool_FromLong(still_pending(error));
}

/* forget(): no longer owned here, and not released: what a leaking consumer does. */
static PyObject *taken_forget(PyObject *self, PyObject *unused)
{
    (void)unused;
    ((taken_object *)self)->released = 1;
    Py_RETURN_NONE;
}

static void taken_dealloc(PyObject *self)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (!((taken_object *)self)->released)
        call_deleter((taken_object *)self);
    PyErr_Restore(type, value, trace);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *taken_address(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromVoidPtr(((taken_object *)self)->managed);
}

static PyObject *taken_versioned(PyObject *self, void *closure)
{
    (void)closure;
    return PyBool_FromLong(((taken_object *)self)->versioned);
}

static PyMethodDef taken_methods[] = {
    {"release", taken_release, METH_VARARGS, NULL},
    {"forget", taken_forget, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef taken_getset[] = {
    {"address", taken_address, NULL, "of the managed tensor; 0 once it is gone", NULL},
    {"versioned", taken_versioned, NULL, "whether it has a version and flags", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyTypeObject taken_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "dlpack_conformance._dlpack.Taken",
    .tp_basicsize = sizeof(taken_object),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_dealloc = taken_dealloc,
    .tp_methods = taken_methods,
    .tp_getset = taken_getset,
};

/* drop(list): empties a list while an exception is pending, as happens to a capsule whose consumer
 * raises. True if that exception is still the one. */
static PyObject *drop(PyObject *self, PyObject *list)
{
    PyObject *error, *item;
    (void)self;
    if (!PyList_Check(list) || PyList_GET_SIZE(list) != 1) {
        PyErr_SetString(PyExc_TypeError, "expected a list of one object");
        return NULL;
    }
    item = Py_NewRef(PyList_GET_ITEM(list, 0));
    error = PyList_SetSlice(list, 0, 1, NULL) < 0 ? NULL : set_pending();
    Py_DECREF(item);
    return error == NULL ? NULL : PyBool_FromLong(still_pending(error));
}

/* ---- calling the functions of somebody's table ---- */

/* (result, the returned object or None, the pending exception or None); steals `given`. */
static PyObject *outcome(int result, PyObject *given)
{
    PyObject *error = pending_error();
    return Py_BuildValue("(iNN)", result, given != NULL ? given : Py_NewRef(Py_None),
                         error != NULL ? error : Py_NewRef(Py_None));
}

/* call_from_object(table, object): (result, Taken or None, exception or None). */
static PyObject *call_from_object(PyObject *self, PyObject *arguments)
{
    unsigned long long table;
    PyObject *object;
    DLManagedTensorVersioned *out = NULL;
    int result;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "KO", &table, &object))
        return NULL;
    result = table_at(table)->from_object(object, &out);
    return outcome(result, result == 0 && out != NULL ? new_taken(out, 1) : NULL);
}

/* call_to_object(table, taken): (result, object or None, exception or None). On success `taken` is
 * given away. */
static PyObject *call_to_object(PyObject *self, PyObject *arguments)
{
    unsigned long long table;
    taken_object *taken;
    void *out = NULL;
    int result;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "KO!", &table, &taken_type, &taken))
        return NULL;
    if (!taken->versioned || taken->managed == NULL) {
        PyErr_SetString(PyExc_ValueError, "a table takes versioned managed tensors");
        return NULL;
    }
    result = table_at(table)->to_object(taken->managed, &out);
    if (result == 0) {
        taken->released = 1;
        taken->managed = NULL;
    }
    return outcome(result, result == 0 ? (PyObject *)out : NULL);
}

/* call_borrow(table, object, room): (result, None, exception or None). `room` is the address of a
 * DLTensor to fill. */
static PyObject *call_borrow(PyObject *self, PyObject *arguments)
{
    unsigned long long table, room;
    PyObject *object;
    (void)self;
    if (!PyArg_ParseTuple(arguments, "KOK", &table, &object, &room))
        return NULL;
    return outcome(table_at(table)->borrow(object, (DLTensor *)(uintptr_t)room), NULL);
}

typedef struct {
    int calls;
    char kind[64], message[200];
} told;

static void note_error(void *context, const char *kind, const char *message)
{
    told *noted = context;
    noted->calls++;
    snprintf(noted->kind, sizeof(noted->kind), "%s", kind == NULL ? "" : kind);
    snprintf(noted->message, sizeof(noted->message), "%s", message == NULL ? "" : message);
}

/* The recorded text may end in the middle of a character. */
static PyObject *text_of(const char *noted)
{
    return PyUnicode_DecodeUTF8(noted, (Py_ssize_t)strlen(noted), "replace");
}

/* call_allocate(table, prototype, attached): ((result, Taken or None, None), calls of SetError,
 * kind, message). `prototype` is the address of a DLTensor; not `attached`: without the GIL. */
static PyObject *call_allocate(PyObject *self, PyObject *arguments)
{
    unsigned long long table, prototype;
    int attached = 1, result;
    DLManagedTensorVersioned *out = NULL;
    DLTensor *like;
    told noted = {0, "", ""};
    (void)self;
    if (!PyArg_ParseTuple(arguments, "KK|p", &table, &prototype, &attached))
        return NULL;
    like = (DLTensor *)(uintptr_t)prototype;
    if (attached) {
        result = table_at(table)->allocate(like, &out, &noted, note_error);
    } else {
        Py_BEGIN_ALLOW_THREADS
        result = table_at(table)->allocate(like, &out, &noted, note_error);
        Py_END_ALLOW_THREADS
    }
    return Py_BuildValue("(NiNN)",
                         outcome(result, result == 0 && out != NULL ? new_taken(out, 1) : NULL),
                         noted.calls, text_of(noted.kind), text_of(noted.message));
}

/* call_stream(table, device type, device id): (result, stream or None, exception or None). */
static PyObject *call_stream(PyObject *self, PyObject *arguments)
{
    unsigned long long table;
    int type, id, result;
    void *stream = (void *)&table_calls; /* detects a function that sets nothing */
    (void)self;
    if (!PyArg_ParseTuple(arguments, "Kii", &table, &type, &id))
        return NULL;
    result = table_at(table)->stream(type, id, &stream);
    if (result == 0 && stream == (void *)&table_calls)
        return outcome(result, NULL);
    return outcome(result, result == 0 ? PyLong_FromVoidPtr(stream) : NULL);
}

/* ---- a table whose functions are in Python ---- */

static PyObject *handler; /* has the functions: see handled_table */

static int handled_from_object(void *object, DLManagedTensorVersioned **out)
{
    PyObject *managed = PyObject_CallMethod(handler, "from_object", "O", (PyObject *)object);
    if (managed == NULL)
        return -1;
    if (PyObject_TypeCheck(managed, &managed_type)) {
        record *r = ((managed_object *)managed)->r;
        add_one(&r->handed);
        *out = &r->managed.versioned;
    }
    Py_DECREF(managed);
    return 0;
}

static int handled_to_object(DLManagedTensorVersioned *tensor, void **out)
{
    PyObject *made, *taken = new_taken(tensor, 1);
    if (taken == NULL)
        return -1;
    made = PyObject_CallMethod(handler, "to_object", "O", taken);
    if (made == NULL)
        ((taken_object *)taken)->released = 1; /* the caller keeps it */
    Py_DECREF(taken);
    if (made == NULL)
        return -1;
    *out = made;
    return 0;
}

static int handled_borrow(void *object, DLTensor *out)
{
    PyObject *managed = PyObject_CallMethod(handler, "borrow", "O", (PyObject *)object);
    if (managed == NULL)
        return -1;
    if (PyObject_TypeCheck(managed, &managed_type)) {
        record *r = ((managed_object *)managed)->r;
        *out = r->managed.versioned.tensor;
        if (r->deleter == FREES) /* others stay: shape and strides may be in them */
            delete_and_free(r);
    }
    Py_DECREF(managed);
    return 0;
}

static int handled_allocate(DLTensor *prototype, DLManagedTensorVersioned **out, void *error_ctx,
                            error_setter set_error)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    int result = -1;
    PyObject *managed =
        PyObject_CallMethod(handler, "allocate", "K", (unsigned long long)(uintptr_t)prototype);
    if (managed == NULL) {
        PyObject *error = pending_error(), *text = PyObject_Str(error);
        if (text == NULL || PyUnicode_GetLength(text) > 0)
            set_error(error_ctx, Py_TYPE(error)->tp_name,
                      text == NULL ? "" : PyUnicode_AsUTF8(text));
        Py_XDECREF(text);
        Py_XDECREF(error);
    } else {
        result = 0;
        if (PyObject_TypeCheck(managed, &managed_type))
            *out = &((managed_object *)managed)->r->managed.versioned;
        Py_DECREF(managed);
    }
    PyGILState_Release(gil);
    return result;
}

static int handled_stream(int32_t type, int32_t id, void **out)
{
    PyObject *stream = PyObject_CallMethod(handler, "stream", "ii", (int)type, (int)id);
    if (stream == NULL)
        return -1;
    if (stream != Py_None)
        *out = PyLong_AsVoidPtr(stream);
    Py_DECREF(stream);
    return PyErr_Occurred() ? -1 : 0;
}

/* handled_table(handler): the address of a table whose functions call the methods from_object,
 * to_object, borrow, allocate and stream of `handler`: one at a time in a process. What they raise
 * is the failure; a Managed is handed over. An exception without a message is a failure without an
 * exception. */
static PyObject *handled_table(PyObject *self, PyObject *given)
{
    const DLPackExchangeAPI functions = {.allocate = handled_allocate,
                                         .from_object = handled_from_object,
                                         .to_object = handled_to_object,
                                         .borrow = handled_borrow,
                                         .stream = handled_stream};
    (void)self;
    Py_XSETREF(handler, Py_NewRef(given));
    return new_table(functions);
}

/* address(buffer): the address of its bytes; the caller keeps the object alive. */
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

static PyMethodDef functions[] = {
    {"table", make_table, METH_VARARGS, NULL},
    {"table_capsule", table_capsule, METH_VARARGS, NULL},
    {"set_stream", set_stream, METH_VARARGS, NULL},
    {"set_maker", set_maker, METH_VARARGS, NULL},
    {"address", address, METH_O, NULL},
    {"table_calls", calls, METH_NOARGS, NULL},
    {"take", take, METH_O, NULL},
    {"release_at_once", release_at_once, METH_VARARGS, NULL},
    {"drop", drop, METH_O, NULL},
    {"call_from_object", call_from_object, METH_VARARGS, NULL},
    {"call_to_object", call_to_object, METH_VARARGS, NULL},
    {"call_borrow", call_borrow, METH_VARARGS, NULL},
    {"call_allocate", call_allocate, METH_VARARGS, NULL},
    {"call_stream", call_stream, METH_VARARGS, NULL},
    {"handled_table", handled_table, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "_dlpack", .m_size = -1,
                                    .m_methods = functions};

PyMODINIT_FUNC PyInit__dlpack(void)
{
    PyTypeObject *types[] = {&managed_type, &taken_type};
    PyObject *m = PyModule_Create(&module);
    if (m != NULL && PyModule_AddIntConstant(m, "POISON", POISON) < 0)
        Py_CLEAR(m);
    for (size_t i = 0; m != NULL && i < sizeof(types) / sizeof(types[0]); i++)
        if (PyModule_AddType(m, types[i]) < 0)
            Py_CLEAR(m);
#ifdef Py_GIL_DISABLED
    if (m != NULL && PyUnstable_Module_SetGIL(m, Py_MOD_GIL_NOT_USED) < 0)
        Py_CLEAR(m);
#endif
    return m;
}
