/* SPDX-License-Identifier: Apache-2.0
 *
 * The public header, function by function, for the tests. Compiled as C and as C++, against the
 * full and the limited API, as modules of several names.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define FASTDL_IMPLEMENTATION
#include <fastdl/fastdl.h>

#include "module.h"

/* What is in a tensor, as a dict. */
static PyObject *fields(const DLTensor *dl, uint64_t flags)
{
    return tensor_fields(dl, Py_BuildValue("{sK}", "flags", (unsigned long long)flags));
}

/* counted(obj): how many elements it has, and its element type there and back. */
static PyObject *counted(PyObject *self, PyObject *obj)
{
    fastdl_view view;
    DLDataType dtype;
    int64_t size;
    if (fastdl_borrow(obj, &view) < 0)
        return NULL;
    size = fastdl_size(&view.dl);
    dtype = fastdl_data_type(fastdl_dtype(view.dl.dtype));
    fastdl_release(&view);
    return Py_BuildValue("L(iii)", (long long)size, dtype.code, dtype.bits, dtype.lanes);
}

/* release_in_error(obj): borrows and releases with an exception pending, which comes out. */
static PyObject *release_in_error(PyObject *self, PyObject *obj)
{
    fastdl_view views[2];
    if (fastdl_borrow(obj, &views[0]) < 0)
        return NULL;
    PyErr_SetString(PyExc_ArithmeticError, "pending");
    fastdl_init(&views[1]);
    fastdl_release(&views[1]);
    fastdl_release_all(views, 2);
    return NULL;
}

/* under_error(function, obj, other): calls a function of the header while an exception is pending,
 * which is not as it should be: whether it succeeded; if it did not there is an exception. With
 * `obj`, or where it takes a view, with that of `other`. */
static PyObject *under_error(PyObject *self, PyObject *arguments)
{
    const char *function;
    PyObject *obj, *other, *made = NULL;
    PyTypeObject *type;
    fastdl_view view;
    fastdl_spec spec;
    fastdl_parameter parameter;
    DLManagedTensorVersioned *managed = NULL;
    void *stream;
    int result = -2;
    if (!PyArg_ParseTuple(arguments, "sOO", &function, &obj, &other) ||
        fastdl_borrow(other, &view) < 0)
        return NULL;
    type = Py_TYPE(other);
    memset(&spec, 0, sizeof(spec));
    parameter.name = "x";
    parameter.spec = &spec;
    PyErr_SetString(PyExc_ArithmeticError, "pending");
    if (strcmp(function, "borrow") == 0 || strcmp(function, "borrow_as") == 0 ||
        strcmp(function, "borrow_all") == 0) {
        fastdl_view again;
        result = function[6] == '\0'  ? fastdl_borrow(obj, &again)
                 : function[8] == 's' ? fastdl_borrow_as(obj, "x", &spec, &again)
                                      : fastdl_borrow_all(&obj, &parameter, 1, &again);
        fastdl_release(&again);
    } else if (strcmp(function, "expect") == 0) {
        result = fastdl_expect(&view, "x", &spec);
    } else if (strcmp(function, "own") == 0) {
        result = fastdl_own(obj, &managed);
    } else if (strcmp(function, "empty") == 0) {
        result = fastdl_empty(&view.dl, type, &managed);
    } else if (strcmp(function, "work_stream") == 0) {
        result = fastdl_work_stream(&view, &stream);
    } else if (strcmp(function, "exchange_api") == 0) {
        result = fastdl_exchange_api(Py_TYPE(obj)) == NULL ? -1 : 0;
    } else if (strcmp(function, "import") == 0) {
        result = fastdl_import();
    } else if (strcmp(function, "wrap") == 0) {
        PyErr_Clear();
        if (fastdl_own(obj, &managed) == 0) {
            PyErr_SetString(PyExc_ArithmeticError, "pending");
            result = fastdl_wrap(managed, type, &made);
            managed = NULL;
        }
    }
    if (result != 0 && !(result == -1 && PyErr_Occurred())) {
        PyErr_Format(PyExc_AssertionError, "%s returned %d without an exception", function, result);
        return NULL;
    }
    PyErr_Clear();
    Py_XDECREF(made);
    if (managed != NULL && managed->deleter != NULL)
        managed->deleter(managed);
    fastdl_release(&view);
    return PyBool_FromLong(result == 0);
}

/* borrow_on(n, obj): borrows and releases n times, as threads do. */
static PyObject *borrow_on(PyObject *self, PyObject *arguments)
{
    Py_ssize_t n;
    PyObject *obj;
    if (!PyArg_ParseTuple(arguments, "nO", &n, &obj))
        return NULL;
    while (n-- > 0) {
        fastdl_view view;
        if (fastdl_borrow(obj, &view) < 0)
            return NULL;
        fastdl_release(&view);
    }
    Py_RETURN_NONE;
}

static void destroy(PyObject *capsule)
{
    DLManagedTensorVersioned *managed;
    if (!PyCapsule_IsValid(capsule, "dltensor_versioned"))
        return;
    managed = (DLManagedTensorVersioned *)PyCapsule_GetPointer(capsule, "dltensor_versioned");
    if (managed->deleter != NULL)
        managed->deleter(managed);
}

/* own(obj): a capsule of the owned tensor. */
static PyObject *own(PyObject *self, PyObject *obj)
{
    DLManagedTensorVersioned *managed = (DLManagedTensorVersioned *)&managed;
    PyObject *capsule;
    if (fastdl_own(obj, &managed) < 0) {
        if (managed != NULL)
            PyErr_SetString(PyExc_AssertionError, "fastdl_own failed and left something");
        return NULL;
    }
    capsule = PyCapsule_New(managed, "dltensor_versioned", destroy);
    if (capsule == NULL && managed->deleter != NULL)
        managed->deleter(managed);
    return capsule;
}

static DLManagedTensorVersioned *take(PyObject *capsule)
{
    DLManagedTensorVersioned *managed =
        (DLManagedTensorVersioned *)PyCapsule_GetPointer(capsule, "dltensor_versioned");
    if (managed != NULL)
        PyCapsule_SetName(capsule, "used_dltensor_versioned");
    return managed;
}

/* held(capsule): the fields of what own() gave. */
static PyObject *held(PyObject *self, PyObject *capsule)
{
    DLManagedTensorVersioned *managed =
        (DLManagedTensorVersioned *)PyCapsule_GetPointer(capsule, "dltensor_versioned");
    return managed == NULL ? NULL : fields(&managed->dl_tensor, managed->flags);
}

/* leave(capsule): the address of its managed tensor, which one of the next two deletes */
static PyObject *leave(PyObject *self, PyObject *capsule)
{
    DLManagedTensorVersioned *managed = take(capsule);
    return managed == NULL ? NULL : PyLong_FromVoidPtr(managed);
}

/* delete_at(address) */
static PyObject *delete_at(PyObject *self, PyObject *address)
{
    fastdl_drop((DLManagedTensorVersioned *)PyLong_AsVoidPtr(address));
    Py_RETURN_NONE;
}

/* delete_unattached(address): the same while the thread has detached its state */
static PyObject *delete_unattached(PyObject *self, PyObject *address)
{
    DLManagedTensorVersioned *managed = (DLManagedTensorVersioned *)PyLong_AsVoidPtr(address);
    Py_BEGIN_ALLOW_THREADS;
    fastdl_drop(managed);
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

/* A type, or NULL for None. */
static PyTypeObject *type_or_null(PyObject *like)
{
    return like == Py_None ? NULL : (PyTypeObject *)like;
}

/* wrap(capsule, type or None, stream=...): the object that fastdl_wrap makes of it, or
 * fastdl_wrap_on with a stream. */
static PyObject *wrap(PyObject *self, PyObject *arguments)
{
    PyObject *capsule, *like, *address = NULL, *result = self;
    DLManagedTensorVersioned *managed;
    void *stream;
    int status;
    if (!PyArg_ParseTuple(arguments, "OO|O", &capsule, &like, &address))
        return NULL;
    stream = address == NULL ? NULL : PyLong_AsVoidPtr(address);
    managed = PyErr_Occurred() ? NULL : take(capsule);
    if (managed == NULL)
        return NULL;
    status = address == NULL ? fastdl_wrap(managed, type_or_null(like), &result)
                             : fastdl_wrap_on(managed, type_or_null(like), stream, &result);
    if (status < 0 && result != NULL)
        PyErr_SetString(PyExc_AssertionError, "fastdl_wrap failed and left something");
    return result;
}

/* A capsule of what fastdl_zeros makes like obj or, unless they must be zeros, fastdl_empty or,
 * with a stream, fastdl_empty_on, for arguments (obj, type or None, stream=...). */
static PyObject *allocated(PyObject *arguments, int zeros)
{
    PyObject *obj, *like, *address = NULL;
    PyTypeObject *type;
    fastdl_view view;
    DLManagedTensorVersioned *managed;
    void *stream;
    int result;
    if (!PyArg_ParseTuple(arguments, "OO|O", &obj, &like, &address))
        return NULL;
    stream = address == NULL ? NULL : PyLong_AsVoidPtr(address);
    if (PyErr_Occurred() || fastdl_borrow(obj, &view) < 0)
        return NULL;
    type = type_or_null(like);
    result = zeros             ? fastdl_zeros(&view.dl, type, &managed)
             : address == NULL ? fastdl_empty(&view.dl, type, &managed)
                               : fastdl_empty_on(&view.dl, type, stream, &managed);
    fastdl_release(&view);
    if (result < 0 && managed != NULL)
        PyErr_SetString(PyExc_AssertionError, "an allocation failed and left something");
    return result < 0 ? NULL : PyCapsule_New(managed, "dltensor_versioned", destroy);
}

/* empty(obj, type or None, stream=...) */
static PyObject *empty(PyObject *self, PyObject *arguments)
{
    return allocated(arguments, 0);
}

/* zeros(obj, type or None) */
static PyObject *zeros(PyObject *self, PyObject *arguments)
{
    return allocated(arguments, 1);
}

/* drop(capsule or None) */
static PyObject *drop(PyObject *self, PyObject *capsule)
{
    DLManagedTensorVersioned *managed = capsule == Py_None ? NULL : take(capsule);
    if (managed == NULL && PyErr_Occurred())
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    fastdl_drop(managed);
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

/* Borrows an argument with these rules, wherever it is. */
static int borrow_anywhere(PyObject *obj, int rules, fastdl_view *view)
{
    fastdl_spec spec;
    if (rules == 0)
        return fastdl_borrow(obj, view);
    memset(&spec, 0, sizeof(spec));
    spec.device = FASTDL_ANY_DEVICE;
    spec.rules = rules;
    return fastdl_borrow_as(obj, "x", &spec, view);
}

/* work_stream(obj, rules=0) */
static PyObject *work_stream(PyObject *self, PyObject *arguments)
{
    PyObject *obj;
    fastdl_view view;
    void *stream = &view;
    int result, rules = 0;
    if (!PyArg_ParseTuple(arguments, "O|i", &obj, &rules) || borrow_anywhere(obj, rules, &view) < 0)
        return NULL;
    result = fastdl_work_stream(&view, &stream);
    fastdl_release(&view);
    return result < 0 ? NULL : PyLong_FromVoidPtr(stream);
}

/* order(obj, stream, work, before=True, after=True, rules=0): calls `work` where it would launch.
 */
static PyObject *order(PyObject *self, PyObject *args)
{
    PyObject *obj, *address, *work, *result = NULL;
    int before = 1, after = 1, rules = 0;
    fastdl_view view;
    void *stream;
    if (!PyArg_ParseTuple(args, "OOO|ppi", &obj, &address, &work, &before, &after, &rules))
        return NULL;
    stream = PyLong_AsVoidPtr(address);
    if (PyErr_Occurred() || borrow_anywhere(obj, rules, &view) < 0)
        return NULL;
    if (!before || fastdl_order(&view, stream) == 0)
        result = PyObject_CallObject(work, NULL);
    if (result != NULL && after && fastdl_order_back(&view, stream) < 0)
        Py_CLEAR(result);
    fastdl_release(&view);
    return result;
}

/* exchange_api(type): the address of its table. */
static PyObject *exchange_api(PyObject *self, PyObject *type)
{
    const DLPackExchangeAPI *api = fastdl_exchange_api((PyTypeObject *)type);
    return api == NULL ? NULL : PyLong_FromVoidPtr((void *)(uintptr_t)api);
}

/* The cache of types that this module uses. */
static fastdl_cache *types(void)
{
    const fastdl_runtime *package = fastdl_package_();
    return package == NULL ? &fastdl_own_types_ : package->types;
}

/* make_home_again(): what a thread does that saw no home before another thread made one. */
static PyObject *make_home_again(PyObject *self, PyObject *unused)
{
    const void *home = fastdl_atomic_load_(&fastdl_state_.home);
    if (fastdl_make_home_() < 0)
        return NULL;
    return PyBool_FromLong(fastdl_atomic_load_(&fastdl_state_.home) == home);
}

/* record(type): (facts, refused) of what is remembered of a type, or None. */
static PyObject *record(PyObject *self, PyObject *type)
{
    const fastdl_record *known =
        fastdl_find_record(types(), (PyTypeObject *)type, fastdl_tag_((PyTypeObject *)type));
    if (known == NULL)
        Py_RETURN_NONE;
    return Py_BuildValue("(II)", known->facts, known->refused);
}

/* record_count(): how many records there are. */
static PyObject *record_count(PyObject *self, PyObject *unused)
{
    const void *next = types()->records;
    long count = 0;
    for (; next != NULL; next = ((const fastdl_record *)next)->next)
        count++;
    return PyLong_FromLong(count);
}

/* dtype_exists(code, bits) */
static PyObject *dtype_exists(PyObject *self, PyObject *arguments)
{
    unsigned char code, bits;
    if (!PyArg_ParseTuple(arguments, "bb", &code, &bits))
        return NULL;
    return PyBool_FromLong(fastdl_dtype_exists(code, bits));
}

/* ---- expecting ---- */

#define MAX_ARGUMENTS 4
#define MAX_DIMS 8

typedef struct {
    fastdl_dim dims[MAX_DIMS]; /* shared by name */
    int count;
} scope;

/* The entry of a shape: an int, a name, or None. */
static fastdl_dim *dim_of(scope *s, PyObject *entry)
{
    fastdl_dim *dim = &s->dims[s->count];
    const char *name = NULL;
    Py_ssize_t length;
    if (entry == Py_None)
        return NULL;
    if (PyUnicode_Check(entry)) {
        name = PyUnicode_AsUTF8AndSize(entry, &length);
        for (int i = 0; i < s->count; i++)
            if (s->dims[i].name != NULL && strcmp(s->dims[i].name, name) == 0)
                return &s->dims[i];
    }
    dim->name = name;
    dim->size = name != NULL ? -1 : (int64_t)PyLong_AsLongLong(entry);
    dim->from[0] = '\0';
    s->count++;
    return dim;
}

static long number(PyObject *spec, const char *name)
{
    PyObject *value = PyMapping_GetItemString(spec, name);
    long result;
    if (value == NULL) {
        PyErr_Clear();
        return 0;
    }
    result = PyLong_AsLong(value);
    Py_DECREF(value);
    return result;
}

/* What a specification points to, for the duration of a call. */
typedef struct {
    scope names;
    fastdl_view views[MAX_ARGUMENTS];
    fastdl_argument known[MAX_ARGUMENTS], no_alias[MAX_ARGUMENTS][MAX_ARGUMENTS];
    fastdl_dim *shapes[MAX_ARGUMENTS][MAX_DIMS];
    uint32_t dtypes[MAX_ARGUMENTS][MAX_DIMS];
    PyObject *objects[MAX_ARGUMENTS];
    fastdl_spec specs[MAX_ARGUMENTS];
    fastdl_parameter parameters[MAX_ARGUMENTS];
    size_t count;
} call;

/* Reads argument `i`, (obj, name, spec). A spec is a dict of the members, with `shape` a list of
 * ints, names and None, `like` the number of an argument and `no_alias` a list of them. */
static int read_argument(call *c, size_t i, PyObject *argument)
{
    PyObject *spec, *entries;
    const char *name;
    fastdl_spec *wanted = &c->specs[i];
    memset(wanted, 0, sizeof(*wanted));
    if (!PyArg_ParseTuple(argument, "OsO", &c->objects[i], &name, &spec))
        return -1;
    c->known[i].name = name;
    c->parameters[i].name = name;
    c->parameters[i].spec = wanted;
    wanted->ndim = (int32_t)number(spec, "ndim");
    wanted->max_ndim = (int32_t)number(spec, "max_ndim");
    wanted->layout = (int32_t)number(spec, "layout");
    wanted->rules = (int32_t)number(spec, "rules");
    wanted->device = (int32_t)number(spec, "device");
    wanted->alignment = (int32_t)number(spec, "alignment");
    entries = PyMapping_GetItemString(spec, "dtypes");
    for (Py_ssize_t k = 0; entries != NULL && k < PyList_Size(entries); k++)
        c->dtypes[i][wanted->dtype_count++] =
            (uint32_t)PyLong_AsUnsignedLong(PyList_GetItem(entries, k));
    wanted->dtypes = c->dtypes[i];
    Py_XDECREF(entries);
    entries = PyMapping_GetItemString(spec, "shape");
    for (Py_ssize_t k = 0; entries != NULL && k < PyList_Size(entries); k++)
        c->shapes[i][k] = dim_of(&c->names, PyList_GetItem(entries, k));
    if (entries != NULL)
        wanted->shape = c->shapes[i];
    Py_XDECREF(entries);
    entries = PyMapping_GetItemString(spec, "like");
    if (entries != NULL)
        wanted->like = &c->known[PyLong_AsLong(entries)];
    Py_XDECREF(entries);
    entries = PyMapping_GetItemString(spec, "no_alias");
    for (Py_ssize_t k = 0; entries != NULL && k < PyList_Size(entries); k++)
        c->no_alias[i][wanted->no_alias_count++] =
            c->known[PyLong_AsLong(PyList_GetItem(entries, k))];
    wanted->no_alias = c->no_alias[i];
    Py_XDECREF(entries);
    PyErr_Clear();
    return 0;
}

static int read_call(call *c, PyObject *list)
{
    c->names.count = 0;
    c->count = (size_t)PyList_Size(list);
    for (size_t i = 0; i < c->count; i++) {
        c->known[i].view = &c->views[i];
        c->known[i].name = "a later argument";
    }
    for (size_t i = 0; i < c->count; i++)
        if (read_argument(c, i, PyList_GetItem(list, (Py_ssize_t)i)) < 0)
            return -1;
    return 0;
}

/* fastdl_expect with a name that is gone afterwards. */
static int expect_by_passing_name(const fastdl_view *view, const char *name,
                                  const fastdl_spec *spec)
{
    size_t size = strlen(name) + 1;
    char *passing = (char *)memcpy(malloc(size), name, size);
    int result = fastdl_expect(view, passing, spec);
    memset(passing, '?', size - 1);
    free(passing);
    return result;
}

/* expect([(obj, name, spec)]): borrows and compares up to four arguments, in order. */
static PyObject *expect(PyObject *self, PyObject *list)
{
    call c;
    int failed = 0;
    if (read_call(&c, list) < 0)
        return NULL;
    for (size_t i = 0; i < c.count; i++)
        fastdl_init(&c.views[i]);
    for (size_t i = 0; i < c.count && !failed; i++)
        failed = fastdl_borrow(c.objects[i], &c.views[i]) < 0 ||
                 expect_by_passing_name(&c.views[i], c.known[i].name, &c.specs[i]) < 0;
    for (size_t i = 0; i < c.count; i++)
        fastdl_release(&c.views[i]);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

/* ---- a producer in C, for interpreters in which there is no other ---- */

static void free_six(DLManagedTensorVersioned *managed)
{
    free(managed);
}

/* Six floats in a matrix of two rows. */
static DLManagedTensorVersioned *make_six(void)
{
    static float data[6];
    static int64_t shape[] = {2, 3}, strides[] = {3, 1};
    DLManagedTensorVersioned *managed = (DLManagedTensorVersioned *)calloc(1, sizeof(*managed));
    if (managed == NULL)
        return NULL;
    managed->version.major = FASTDL_DLPACK_MAJOR;
    managed->deleter = free_six;
    managed->dl_tensor.data = data;
    managed->dl_tensor.device.device_type = kDLCPU;
    managed->dl_tensor.ndim = 2;
    managed->dl_tensor.dtype.code = kDLFloat;
    managed->dl_tensor.dtype.bits = 32;
    managed->dl_tensor.dtype.lanes = 1;
    managed->dl_tensor.shape = shape;
    managed->dl_tensor.strides = strides;
    return managed;
}

/* capsule() */
static PyObject *make_capsule(PyObject *self, PyObject *unused)
{
    DLManagedTensorVersioned *managed = make_six();
    return managed == NULL ? PyErr_NoMemory()
                           : PyCapsule_New(managed, "dltensor_versioned", destroy);
}

static int six_allocate(DLTensor *prototype, DLManagedTensorVersioned **out, void *context,
                        void (*SetError)(void *, const char *, const char *))
{
    SetError(context, "BufferError", "this table does not allocate");
    return -1;
}

static int six_from_object(void *object, DLManagedTensorVersioned **out)
{
    *out = make_six();
    return *out == NULL ? -1 : 0;
}

static int six_to_object(DLManagedTensorVersioned *managed, void **out)
{
    PyErr_SetString(PyExc_BufferError, "this table makes no objects");
    return -1;
}

static int six_stream(DLDeviceType type, int32_t id, void **out)
{
    *out = NULL;
    return 0;
}

/* table_capsule(): the exchange table of types that lead to such tensors. */
static PyObject *table_capsule(PyObject *self, PyObject *unused)
{
    static DLPackExchangeAPI table = {
        {{FASTDL_DLPACK_MAJOR, FASTDL_DLPACK_MINOR}, NULL},
        six_allocate,
        six_from_object,
        six_to_object,
        NULL,
        six_stream,
    };
    return PyCapsule_New(&table, "dlpack_exchange_api", NULL);
}

/* borrow_as(obj, name, spec): the fields of the view. On failure it must hold nothing. */
static PyObject *borrow_as(PyObject *self, PyObject *argument)
{
    call c;
    PyObject *result;
    c.names.count = 0;
    if (read_argument(&c, 0, argument) < 0)
        return NULL;
    if (fastdl_borrow_as(c.objects[0], c.known[0].name, &c.specs[0], &c.views[0]) < 0) {
        if (c.views[0].own_ != NULL)
            PyErr_SetString(PyExc_AssertionError, "fastdl_borrow_as failed and left something");
        fastdl_release(&c.views[0]);
        return NULL;
    }
    result = seen(&c.views[0]);
    fastdl_release(&c.views[0]);
    return result;
}

/* own_as(obj, name, spec): a capsule of the owned tensor. */
static PyObject *own_as(PyObject *self, PyObject *argument)
{
    call c;
    DLManagedTensorVersioned *managed = (DLManagedTensorVersioned *)&managed;
    c.names.count = 0;
    if (read_argument(&c, 0, argument) < 0)
        return NULL;
    if (fastdl_own_as(c.objects[0], c.known[0].name, &c.specs[0], &managed) < 0) {
        if (managed != NULL)
            PyErr_SetString(PyExc_AssertionError, "fastdl_own_as failed and left something");
        return NULL;
    }
    return PyCapsule_New(managed, "dltensor_versioned", destroy);
}

/* borrow_all([(obj, name, spec)]): a list of the fields of each view. */
static PyObject *borrow_all(PyObject *self, PyObject *list)
{
    call c;
    PyObject *result;
    if (read_call(&c, list) < 0)
        return NULL;
    if (fastdl_borrow_all(c.objects, c.parameters, c.count, c.views) < 0) {
        for (size_t i = 0; i < c.count; i++)
            if (c.views[i].own_ != NULL)
                PyErr_SetString(PyExc_AssertionError,
                                "fastdl_borrow_all failed and left something");
        fastdl_release_all(c.views, c.count);
        return NULL;
    }
    result = PyList_New(0);
    for (size_t i = 0; result != NULL && i < c.count; i++) {
        PyObject *view = seen(&c.views[i]);
        PyList_Append(result, view);
        Py_XDECREF(view);
    }
    fastdl_release_all(c.views, c.count);
    fastdl_release_all(c.views, c.count); /* idempotent */
    return result;
}

static PyMethodDef functions[] = {
    {"import_runtime", import_runtime, METH_NOARGS, NULL},
    {"borrow", borrow, METH_O, NULL},
    {"counted", counted, METH_O, NULL},
    {"release_in_error", release_in_error, METH_O, NULL},
    {"under_error", under_error, METH_VARARGS, NULL},
    {"borrow_on", borrow_on, METH_VARARGS, NULL},
    {"own", own, METH_O, NULL},
    {"held", held, METH_O, NULL},
    {"leave", leave, METH_O, NULL},
    {"delete_at", delete_at, METH_O, NULL},
    {"delete_unattached", delete_unattached, METH_O, NULL},
    {"wrap", wrap, METH_VARARGS, NULL},
    {"empty", empty, METH_VARARGS, NULL},
    {"work_stream", work_stream, METH_VARARGS, NULL},
    {"order", order, METH_VARARGS, NULL},
    {"exchange_api", exchange_api, METH_O, NULL},
    {"make_home_again", make_home_again, METH_NOARGS, NULL},
    {"record", record, METH_O, NULL},
    {"record_count", record_count, METH_NOARGS, NULL},
    {"capsule", make_capsule, METH_NOARGS, NULL},
    {"table_capsule", table_capsule, METH_NOARGS, NULL},
    {"dtype_exists", dtype_exists, METH_VARARGS, NULL},
    {"expect", expect, METH_O, NULL},
    {"borrow_as", borrow_as, METH_VARARGS, NULL},
    {"borrow_all", borrow_all, METH_O, NULL},
    {"own_as", own_as, METH_VARARGS, NULL},
    {"zeros", zeros, METH_VARARGS, NULL},
    {"drop", drop, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

/* For every interpreter, with the GIL of all, one of its own, or none. */
static PyModuleDef_Slot slots[] = {
#if PY_VERSION_HEX >= 0x030C0000
    {3 /* Py_mod_multiple_interpreters, also where the limited API has no name for it */,
     (void *)2 /* Py_MOD_PER_INTERPRETER_GIL_SUPPORTED */},
#endif
#ifdef Py_GIL_DISABLED
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "header", NULL, 0, functions, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_header(void)
{
    return PyModuleDef_Init(&module);
}
