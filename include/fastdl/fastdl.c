/* SPDX-License-Identifier: Apache-2.0
 *
 * fastdl/fastdl.c: the code of fastdl.h off the common path. It is compiled once in an extension
 * module, as C or C++, in one of two ways:
 *
 *   - as one more source of the module;
 *   - by `#define FASTDL_IMPLEMENTATION` before `#include <fastdl/fastdl.h>` in one of its files.
 *
 * All functions are static (but for FASTDL_SHARED_, in the package); fastdl.h reaches them through
 * one variable, which is weak: libraries of one release that are linked into one module share it.
 */
#ifndef FASTDL_C_
#define FASTDL_C_

#include "fastdl.h"

#include <stdarg.h>
#include <stdlib.h>

/* The linkage of functions that the package's own files also call. */
#ifndef FASTDL_SHARED_
#define FASTDL_SHARED_ static
#endif

#if defined(__cplusplus) && defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wold-style-cast"
#elif defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#pragma GCC diagnostic ignored "-Wuseless-cast"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The offset of the tag in a type before fastdl_import(). */
#ifdef Py_LIMITED_API
#define FASTDL_TAG_OFFSET_ 0
#else
#define FASTDL_TAG_OFFSET_ offsetof(PyTypeObject, tp_version_tag)
#endif

/* The module's own cache of types, for use without the package, and slots that are always empty. */
static fastdl_cache fastdl_own_types_;
static fastdl_slot fastdl_no_types_[FASTDL_SETS];

static const void *fastdl_kept_names_; /* a fastdl_names_ */

/* ---- the cache of types ---- */

static void fastdl_fill_(fastdl_slot *slot, const void *type, uint32_t tag, const void *record,
                         PyObject *watch)
{
    fastdl_atomic_store_tag_(&slot->tag, 0);
    fastdl_atomic_store_(&slot->type, type);
    fastdl_atomic_store_(&slot->record, record);
    slot->watch = watch;
    fastdl_atomic_store_tag_(&slot->tag, tag);
}

/* Puts a type into way 0 of its set, replacing the one in `way`, and returns the watch of that. */
static PyObject *fastdl_put_in_front_(fastdl_slot (*places)[FASTDL_SETS], uint32_t way,
                                      const void *type, uint32_t tag, const void *record,
                                      PyObject *watch)
{
    uint32_t set = tag & (FASTDL_SETS - 1);
    PyObject *out = places[way][set].watch;
    for (; way > 0; way--) {
        const fastdl_slot *before = &places[way - 1][set];
        fastdl_fill_(&places[way][set], before->type, before->tag, before->record, before->watch);
    }
    fastdl_fill_(&places[0][set], type, tag, record, watch);
    return out;
}

/* The record of the type with that tag in these slots, or NULL; moves it to way 0. */
static const fastdl_record *fastdl_find_in_(fastdl_cache *cache, fastdl_slot (*places)[FASTDL_SETS],
                                            const PyTypeObject *type, uint32_t tag)
{
    const fastdl_record *record;
    for (uint32_t way = 0; way < FASTDL_WAYS; way++) {
        const fastdl_slot *slot = &places[way][tag & (FASTDL_SETS - 1)];
        if (!fastdl_match_(slot, type, tag, &record))
            continue;
        if (way > 0 && fastdl_atomic_compare_exchange_(&cache->writer, NULL, cache)) {
            if (fastdl_match_(slot, type, tag, &record))
                (void)fastdl_put_in_front_(places, way, type, tag, record, slot->watch);
            fastdl_atomic_store_(&cache->writer, NULL);
        }
        return record;
    }
    return NULL;
}

/* The record of the type with that tag in a cache, or NULL. */
FASTDL_SHARED_ const fastdl_record *fastdl_find_record(fastdl_cache *cache,
                                                       const PyTypeObject *type, uint32_t tag)
{
    const fastdl_record *record;
    if (tag == 0)
        return NULL;
    record = fastdl_find_in_(cache, cache->tables, type, tag);
    return record != NULL ? record : fastdl_find_in_(cache, cache->others, type, tag);
}

/* Adds a type to a cache, or replaces its entry; steals `watch`. Does nothing if another thread is
 * writing: the cache is not needed for correctness. */
static void fastdl_add_type_(fastdl_cache *cache, const PyTypeObject *type, uint32_t tag,
                             const fastdl_record *record, PyObject *watch)
{
    fastdl_slot(*places)[FASTDL_SETS] =
        record->facts & FASTDL_TYPE_PROTOCOL ? cache->others : cache->tables;
    uint32_t way = 0;
    if (fastdl_atomic_compare_exchange_(&cache->writer, NULL, cache)) {
        while (way < FASTDL_WAYS - 1 &&
               places[way][tag & (FASTDL_SETS - 1)].type != (const void *)type)
            way++;
        watch = fastdl_put_in_front_(places, way, type, tag, record, watch);
        fastdl_atomic_store_(&cache->writer, NULL);
    }
    Py_XDECREF(watch);
}

/* Empties the slots of a type; for NULL, all slots. */
static void fastdl_forget_(fastdl_cache *cache, const void *type)
{
    for (uint32_t i = 0; i < 2 * FASTDL_WAYS * FASTDL_SETS; i++) {
        uint32_t way = i / FASTDL_SETS % FASTDL_WAYS, set = i % FASTDL_SETS;
        fastdl_slot *slot =
            i < FASTDL_WAYS * FASTDL_SETS ? &cache->tables[way][set] : &cache->others[way][set];
        if (type == NULL || slot->type == type) {
            PyObject *watch = slot->watch;
            fastdl_fill_(slot, NULL, 0, NULL, NULL);
            Py_XDECREF(watch);
        }
    }
}

/* A permanent copy of a record. NULL with MemoryError. */
static const fastdl_record *fastdl_keep_record_(fastdl_cache *cache, const fastdl_record *record)
{
    const void *latest = fastdl_atomic_load_(&cache->records);
    fastdl_record *copy;
    for (const void *next = latest; next != NULL;) {
        const fastdl_record *kept = (const fastdl_record *)next;
        if (kept->api == record->api && kept->lend == record->lend &&
            kept->borrow == record->borrow && kept->facts == record->facts &&
            kept->refused == record->refused)
            return kept;
        next = kept->next;
    }
    copy = (fastdl_record *)malloc(sizeof(fastdl_record));
    if (copy == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    *copy = *record;
    do {
        copy->next = fastdl_atomic_load_(&cache->records);
    } while (!fastdl_atomic_compare_exchange_(&cache->records, copy->next, copy));
    return copy;
}

static const fastdl_keyword_fact fastdl_keyword_facts_[] = {
    {FASTDL_KEYWORD_COPY, "copy"},
    {FASTDL_KEYWORD_DL_DEVICE, "dl_device"},
    {FASTDL_KEYWORD_MAX_VERSION, "max_version"},
    {FASTDL_KEYWORD_VERSION, "version"},
    {FASTDL_KEYWORD_STREAM, "stream"},
    {0, NULL},
};

/* All keywords, in the order in which they are dropped if a producer does not name the one it
 * rejects; then a row with a NULL name. Needs no thread state. */
FASTDL_SHARED_ const fastdl_keyword_fact *fastdl_keywords(void)
{
    return fastdl_keyword_facts_;
}

/* ---- errors ---- */

/* A message built from parts, in memory of fixed size. */
typedef struct {
    size_t length;
    char text[1024];
} fastdl_text_;

static void fastdl_put_(fastdl_text_ *text, const char *part)
{
    size_t room = sizeof(text->text) - 1 - text->length, length = strlen(part);
    if (length > room)
        length = room;
    memcpy(text->text + text->length, part, length);
    text->length += length;
    text->text[text->length] = '\0';
}

static void fastdl_put_int_(fastdl_text_ *text, int64_t value)
{
    char digits[24], *at = digits + sizeof(digits) - 1;
    uint64_t rest = value < 0 ? (uint64_t)0 - (uint64_t)value : (uint64_t)value;
    *at = '\0';
    do {
        *--at = (char)('0' + (int)(rest % 10));
        rest /= 10;
    } while (rest != 0);
    if (value < 0)
        *--at = '-';
    fastdl_put_(text, at);
}

static void fastdl_put_tuple_(fastdl_text_ *text, const int64_t *values, int32_t n)
{
    fastdl_put_(text, "(");
    for (int32_t i = 0; i < n; i++) {
        fastdl_put_int_(text, values[i]);
        fastdl_put_(text, i + 1 < n ? ", " : n == 1 ? "," : "");
    }
    fastdl_put_(text, ")");
}

static void fastdl_put_dtype_(fastdl_text_ *text, uint32_t dtype)
{
    uint8_t code = (uint8_t)dtype, bits = (uint8_t)(dtype >> 8);
    const fastdl_dtype_family *family = fastdl_find_dtype(code);
    if (family != NULL) {
        fastdl_put_(text, family->name);
        if (family->min_bits != family->max_bits)
            fastdl_put_int_(text, bits);
    } else {
        fastdl_put_(text, "type ");
        fastdl_put_int_(text, code);
        fastdl_put_(text, " of ");
        fastdl_put_int_(text, bits);
        fastdl_put_(text, " bits");
    }
    if (dtype >> 16 != 1) {
        fastdl_put_(text, "x");
        fastdl_put_int_(text, dtype >> 16);
    }
}

static void fastdl_put_device_type_(fastdl_text_ *text, int32_t type)
{
    const char *name = fastdl_find_device(type)->name;
    if (name != NULL) {
        fastdl_put_(text, name);
    } else {
        fastdl_put_(text, "device ");
        fastdl_put_int_(text, type);
    }
}

static void fastdl_put_device_(fastdl_text_ *text, DLDevice device)
{
    fastdl_put_device_type_(text, (int32_t)device.device_type);
    fastdl_put_(text, ":");
    fastdl_put_int_(text, device.device_id);
}

/* Appends "a float32 tensor of shape (2, 3) and strides (3, 1) on cpu:0, read-only". */
static void fastdl_put_tensor_(fastdl_text_ *text, const DLTensor *tensor, uint64_t flags)
{
    fastdl_put_(text, tensor->dtype.code == kDLInt ? "an " : "a ");
    fastdl_put_dtype_(text, fastdl_dtype(tensor->dtype));
    fastdl_put_(text, " tensor of shape ");
    fastdl_put_tuple_(text, tensor->shape, tensor->ndim);
    fastdl_put_(text, " and strides ");
    fastdl_put_tuple_(text, tensor->strides, tensor->ndim);
    fastdl_put_(text, " on ");
    fastdl_put_device_(text, tensor->device);
    if (flags & DLPACK_FLAG_BITMASK_READ_ONLY)
        fastdl_put_(text, ", read-only");
}

/* Restores what PyErr_Fetch has set aside, unless something other than an Exception was raised
 * meanwhile: that stays. */
static void fastdl_restore_(PyObject *type, PyObject *value, PyObject *traceback)
{
    if (fastdl_clear_if_(PyExc_Exception)) {
        PyErr_Restore(type, value, traceback);
        return;
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
}

/* Sets an exception with fastdl's own message, and marks it as such: fastdl_borrow_as puts the name
 * of the argument before such a message, never before a producer's. If the message cannot be made,
 * the exception raised by that remains: PyErr_Format of CPython before 3.12 would replace it. */
static void fastdl_raise_(PyObject *exception, const char *format, ...)
{
    PyObject *type, *value, *traceback, *text;
    va_list values;
    va_start(values, format);
    text = PyUnicode_FromFormatV(format, values);
    va_end(values);
    if (text == NULL)
        return;
    PyErr_SetObject(exception, text);
    Py_DECREF(text);
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (value != NULL) /* without the mark the message is left as it is */
        (void)PyObject_SetAttrString(value, "_fastdl", Py_True);
    fastdl_restore_(type, value, traceback);
}

/* Sets BufferError for a fault that fastdl_check found in `tensor`. Reads only what the fault
 * allows: `shape` only if ndim is plausible. */
FASTDL_SHARED_ void fastdl_raise_fault(fastdl_fault fault, const DLTensor *tensor)
{
    fastdl_text_ shape, strides;
    int readable = tensor->ndim >= 0 && tensor->ndim <= FASTDL_MAX_NDIM &&
                   (tensor->ndim == 0 || tensor->shape != NULL);
    shape.length = strides.length = 0;
    if (readable) {
        fastdl_put_tuple_(&shape, tensor->shape, tensor->ndim);
    } else {
        fastdl_put_(&shape, "of ");
        fastdl_put_int_(&shape, tensor->ndim);
        fastdl_put_(&shape, " dimensions");
    }
    if (readable && tensor->strides != NULL)
        fastdl_put_tuple_(&strides, tensor->strides, tensor->ndim);
    else
        fastdl_put_(&strides, "NULL");
    fastdl_raise_(
        PyExc_BufferError,
        "the tensor has %s: got shape %s, strides %s, byte_offset %llu, dtype (code %d, "
        "bits %d, lanes %d), device (%d, %d). Its producer is at fault; a copy made there "
        "may help",
        fastdl_fault_text(fault), shape.text, strides.text, (unsigned long long)tensor->byte_offset,
        (int)tensor->dtype.code, (int)tensor->dtype.bits, (int)tensor->dtype.lanes,
        (int)tensor->device.device_type, (int)tensor->device.device_id);
}

/* An attribute, a new reference; NULL with an exception. The name is interned because CPython's
 * attribute cache keeps a reference to each name looked up. */
static PyObject *fastdl_attribute_(PyObject *obj, const char *name)
{
    PyObject *interned = PyUnicode_InternFromString(name);
    PyObject *value = interned == NULL ? NULL : PyObject_GetAttr(obj, interned);
    Py_XDECREF(interned);
    return value;
}

/* The same; NULL without an exception if there is no such attribute. */
static PyObject *fastdl_optional_attribute_(PyObject *obj, const char *name)
{
    PyObject *value = fastdl_attribute_(obj, name);
    if (value == NULL)
        (void)fastdl_clear_if_(PyExc_AttributeError);
    return value;
}

/* The name of a type with its module, as Python shows it in a traceback ("torch.Tensor", "int"): a
 * new reference, or NULL with an exception. */
static PyObject *fastdl_type_name_(PyTypeObject *type)
{
    PyObject *full, *module, *name = fastdl_attribute_((PyObject *)type, "__qualname__");
    if (name == NULL)
        return NULL;
    if (!PyUnicode_Check(name)) {
        Py_DECREF(name);
        PyErr_SetString(PyExc_TypeError, "expected a type whose __qualname__ is a str");
        return NULL;
    }
    module = fastdl_attribute_((PyObject *)type, "__module__");
    if (!fastdl_clear_if_(PyExc_Exception)) { /* else only the name */
        Py_DECREF(name);
        return NULL;
    }
    if (module == NULL || !PyUnicode_Check(module) ||
        PyUnicode_CompareWithASCIIString(module, "builtins") == 0) {
        Py_XDECREF(module);
        return name;
    }
    full = PyUnicode_FromFormat("%U.%U", module, name);
    Py_DECREF(module);
    Py_DECREF(name);
    return full;
}

/* Sets an exception whose format has a %U, for the name of a type, and then a %R, for what an
 * object of that type returned. */
static void fastdl_raise_answer_(PyObject *exception, const char *format, PyTypeObject *type,
                                 PyObject *answer)
{
    PyObject *name = fastdl_type_name_(type);
    if (name != NULL)
        fastdl_raise_(exception, format, name, answer);
    Py_XDECREF(name);
}

/* The same for a format with only the %U. */
static void fastdl_raise_about_(PyObject *exception, const char *format, PyTypeObject *type)
{
    fastdl_raise_answer_(exception, format, type, NULL);
}

/* Whether an object is one of Python's own numbers, or may consist of them. */
static int fastdl_is_of_numbers_(PyObject *obj)
{
    return PyList_Check(obj) || PyTuple_Check(obj) || PyObject_TypeCheck(obj, &PyRange_Type) ||
           PyLong_Check(obj) || PyFloat_Check(obj) || PyComplex_Check(obj);
}

/* Sets the TypeError for an object that is not a tensor. Only the rule FASTDL_ASARRAY accepts an
 * object with a buffer. */
FASTDL_SHARED_ void fastdl_raise_no_tensor(PyObject *obj)
{
    PyObject *buffer = PyMemoryView_FromObject(obj);
    if (!fastdl_clear_if_(PyExc_Exception))
        return;
    fastdl_raise_about_(
        PyExc_TypeError,
        buffer != NULL ? "expected a tensor, got '%U', which has a buffer but neither a DLPack "
                         "exchange table nor __dlpack__: pass fastdl.asarray(...) of it, which "
                         "shares its memory"
        : fastdl_is_of_numbers_(obj)
            ? "expected a tensor, got '%U', which has neither a DLPack exchange table nor "
              "__dlpack__: pass an array, such as numpy.asarray(x)"
            : "expected a tensor, got '%U', which has neither a DLPack exchange table nor "
              "__dlpack__",
        Py_TYPE(obj));
    Py_XDECREF(buffer);
}

/* Puts the name of an argument into the pending exception: before the message if it is fastdl's
 * own, otherwise as a note, from Python 3.11 on. An interrupt is left alone. */
static void fastdl_name_argument_(const char *name)
{
    PyObject *type, *value, *traceback, *mark, *text = NULL, *result = NULL;
    if (!PyErr_ExceptionMatches(PyExc_Exception))
        return;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    mark = PyObject_GetAttrString(value, "_fastdl");
    if (!fastdl_clear_if_(PyExc_Exception)) {
        /* interrupted */
    } else if (mark != NULL) {
        PyObject *message = PyObject_Str(value);
        text = message == NULL ? NULL : PyUnicode_FromFormat("%s: %U", name, message);
        result = text == NULL ? NULL : Py_BuildValue("(O)", text);
        if (result != NULL && PyObject_SetAttrString(value, "args", result) == 0)
            PyObject_SetAttrString(value, "_fastdl", NULL); /* so that it is named only once */
        Py_XDECREF(message);
    } else {
        PyObject *add = PyObject_GetAttrString(value, "add_note");
        text = add == NULL ? NULL : PyUnicode_FromFormat("raised by argument %s", name);
        result = text == NULL ? NULL : PyObject_CallFunctionObjArgs(add, text, NULL);
        Py_XDECREF(add);
    }
    Py_XDECREF(mark);
    Py_XDECREF(text);
    Py_XDECREF(result);
    fastdl_restore_(type, value, traceback);
}

/* ---- special attributes, found as Python finds them: on the type ---- */

/* What makes `attribute` a descriptor, or NULL. */
static descrgetfunc fastdl_getter_(PyObject *attribute)
{
    union {
        void *slot;
        descrgetfunc get;
    } found; /* ISO C has no conversion between the two */
    found.slot = PyType_GetSlot(Py_TYPE(attribute), Py_tp_descr_get);
    return found.get;
}

/* The attribute `name` ("__mro__", "__dict__", "__module__" or "__qualname__") of a class as `type`
 * itself defines it, a new reference; NULL with an exception. An override in the metaclass is
 * ignored, so it cannot run code that frees what was found. */
FASTDL_SHARED_ PyObject *fastdl_of_type_(PyTypeObject *type, const char *name)
{
    PyObject *attributes = fastdl_attribute_((PyObject *)&PyType_Type, "__dict__");
    PyObject *own = attributes == NULL ? NULL : PyMapping_GetItemString(attributes, name);
    descrgetfunc get = own == NULL ? NULL : fastdl_getter_(own);
    PyObject *value =
        get == NULL ? NULL : get(own, (PyObject *)type, (PyObject *)Py_TYPE((PyObject *)type));
    Py_XDECREF(own);
    Py_XDECREF(attributes);
    return value;
}

/* The MRO of a type, a new reference to a tuple of types; NULL with an exception. */
FASTDL_SHARED_ PyObject *fastdl_mro_(PyTypeObject *type)
{
    PyObject *mro = fastdl_of_type_(type, "__mro__");
    if (mro != NULL && !PyTuple_Check(mro)) { /* a class under construction */
        PyErr_SetString(PyExc_TypeError, "expected a type that has an MRO");
        Py_CLEAR(mro);
    }
    return mro;
}

/* An item of the dictionary of a class, a new reference; NULL without an exception if absent. */
FASTDL_SHARED_ PyObject *fastdl_class_item_(PyObject *attributes, const char *name)
{
    PyObject *value = PyMapping_GetItemString(attributes, name);
    if (value == NULL)
        (void)fastdl_clear_if_(PyExc_KeyError);
    return value;
}

#if defined(Py_LIMITED_API)

/* The item `name` of the first class in the MRO of `type` that has it (the provider), a new
 * reference; NULL without an exception if none does. */
static PyObject *fastdl_type_lookup_(PyTypeObject *type, const char *name)
{
    PyObject *found = NULL, *mro = fastdl_mro_(type);
    Py_ssize_t count = mro == NULL ? 0 : PyTuple_Size(mro);
    for (Py_ssize_t i = 0; i < count && found == NULL && !PyErr_Occurred(); i++) {
        PyObject *attributes = fastdl_of_type_((PyTypeObject *)PyTuple_GetItem(mro, i), "__dict__");
        if (attributes == NULL)
            break;
        found = fastdl_class_item_(attributes, name);
        Py_DECREF(attributes);
    }
    Py_XDECREF(mro);
    return found;
}

/* The same for an interned name. */
static PyObject *fastdl_find_special_(PyTypeObject *type, PyObject *name)
{
    Py_ssize_t length;
    const char *text = PyUnicode_AsUTF8AndSize(name, &length);
    return text == NULL ? NULL : fastdl_type_lookup_(type, text);
}

#else

static PyObject *fastdl_find_special_(PyTypeObject *type, PyObject *name)
{
#if PY_VERSION_HEX >= 0x030D0000
    return _PyType_LookupRef(type, name);
#else
    PyObject *found = _PyType_Lookup(type, name);
    Py_XINCREF(found);
    return found;
#endif
}

static PyObject *fastdl_type_lookup_(PyTypeObject *type, const char *name)
{
    PyObject *interned = PyUnicode_InternFromString(name);
    PyObject *found = interned == NULL ? NULL : fastdl_find_special_(type, interned);
    Py_XDECREF(interned);
    return found;
}

#endif

/* A special method of an object. */
typedef struct {
    PyObject *callable; /* a new reference, or NULL */
    PyObject *self;     /* its first argument, borrowed; NULL if it is bound */
} fastdl_method_;

/* Slow path of fastdl_find_method_: `callable` is NULL, None, or any descriptor. */
static int fastdl_bind_method_(PyObject *obj, PyObject *name, fastdl_method_ *method)
{
    if (method->callable != NULL && method->callable != Py_None) {
        descrgetfunc get = fastdl_getter_(method->callable);
        if (get != NULL) {
            PyObject *bound = get(method->callable, obj, (PyObject *)Py_TYPE(obj));
            Py_DECREF(method->callable);
            method->callable = bound;
        }
    } else if (method->callable == NULL && !PyErr_Occurred() && !PyType_Check(obj)) {
        method->callable = PyObject_GetAttr(obj, name);
        if (method->callable == NULL)
            (void)fastdl_clear_if_(PyExc_AttributeError);
    }
    if (method->callable == Py_None)
        Py_CLEAR(method->callable);
    return method->callable != NULL ? 1 : PyErr_Occurred() ? -1 : 0;
}

/* Finds the special method with an interned name as Python does, on the type; then on the instance,
 * so that proxies work. 1; 0 if there is none, or it is None (opted out); -1 with an exception.
 * The result stays callable even if the type changes. */
static int fastdl_find_method_(PyObject *obj, PyObject *name, fastdl_method_ *method)
{
    method->self = NULL;
    method->callable = fastdl_find_special_(Py_TYPE(obj), name);
    if (FASTDL_UNLIKELY_(
            method->callable == NULL ||
            !PyType_HasFeature(Py_TYPE(method->callable), Py_TPFLAGS_METHOD_DESCRIPTOR)))
        return fastdl_bind_method_(obj, name, method);
    method->self = obj;
    return 1;
}

#define FASTDL_MOST_KEYWORDS_ 3

/* Calls a special method with `count` keyword arguments, named by the tuple `names`. */
static PyObject *fastdl_call_(const fastdl_method_ *method, PyObject *names,
                              PyObject *const *values, Py_ssize_t count)
{
#if !defined(Py_LIMITED_API) || Py_LIMITED_API + 0 >= 0x030C0000
    PyObject *arguments[2 + FASTDL_MOST_KEYWORDS_]; /* the first is for the callee to write to */
    size_t positional = 0;
    if (method->self != NULL)
        arguments[1 + positional++] = method->self;
    for (Py_ssize_t i = 0; i < count; i++)
        arguments[1 + positional + (size_t)i] = values[i];
    return PyObject_Vectorcall(method->callable, arguments + 1,
                               positional | PY_VECTORCALL_ARGUMENTS_OFFSET,
                               count == 0 ? NULL : names);
#else
    PyObject *result = NULL, *keywords = PyDict_New();
    PyObject *positional = method->self == NULL ? PyTuple_New(0) : PyTuple_Pack(1, method->self);
    int failed = keywords == NULL || positional == NULL;
    for (Py_ssize_t i = 0; i < count && !failed; i++)
        failed = PyDict_SetItem(keywords, PyTuple_GetItem(names, i), values[i]) < 0;
    if (!failed)
        result = PyObject_Call(method->callable, positional, keywords);
    Py_XDECREF(keywords);
    Py_XDECREF(positional);
    return result;
#endif
}

/* ---- exchange tables that types publish ---- */

/* The first table of the chain that begins with `table` which this interface understands and which
 * is complete, or NULL. */
FASTDL_SHARED_ const DLPackExchangeAPI *fastdl_usable_table(const DLPackExchangeAPI *table)
{
    const DLPackExchangeAPIHeader *header = (const DLPackExchangeAPIHeader *)table;
    for (int links = 0; links < 16; links++) { /* a chain may be circular */
        if (header == NULL || (uintptr_t)header % sizeof(void *) != 0)
            return NULL;
        if (header->version.major == FASTDL_DLPACK_MAJOR) {
            table = (const DLPackExchangeAPI *)header;
            if (table->managed_tensor_allocator == NULL ||
                table->managed_tensor_from_py_object_no_sync == NULL ||
                table->managed_tensor_to_py_object_no_sync == NULL ||
                table->current_work_stream == NULL)
                return NULL;
            return table;
        }
        header = header->prev_api;
    }
    return NULL;
}

/* The class attribute for `value`, found in a dictionary in the MRO of `type`, a new reference: the
 * value itself, or what it returns as a descriptor. NULL without an exception on AttributeError. */
static PyObject *fastdl_class_attribute_(PyObject *value, PyTypeObject *type)
{
    descrgetfunc get = fastdl_getter_(value);
    PyObject *result;
    if (get == NULL) {
        Py_INCREF(value);
        return value;
    }
    result = get(value, NULL, (PyObject *)type);
    if (result == NULL)
        (void)fastdl_clear_if_(PyExc_AttributeError);
    return result;
}

/* FASTDL_PRODUCER's tables check what they lend, so consumers need not. Their capsules are marked
 * by a context that no other code has a reason to set: the address right after the table. It is
 * compared, never dereferenced. */
static int fastdl_mark_as_producer_(PyObject *capsule, const DLPackExchangeAPI *table)
{
    return PyCapsule_SetContext(capsule, (void *)(uintptr_t)(table + 1));
}

static int fastdl_is_of_producer_(PyObject *capsule, const DLPackExchangeAPI *table)
{
    return PyCapsule_GetContext(capsule) == (const void *)(table + 1);
}

/* Looks in one class of `type`. 1: the search is over, *table is the result. 0: continue. -1: an
 * exception. */
static int fastdl_published_here_(PyTypeObject *type, PyObject *attributes,
                                  const DLPackExchangeAPI **table, int *is_checked)
{
    static const char *const names[] = {"__dlpack_c_exchange_api__", "__c_dlpack_exchange_api__"};
    PyObject *exporter;
    for (int i = 0; i < 2; i++) {
        PyObject *capsule, *value = fastdl_class_item_(attributes, names[i]);
        if (value == NULL) {
            if (PyErr_Occurred())
                return -1;
            continue;
        }
        if (value == Py_None) {
            Py_DECREF(value);
            return 1;
        }
        capsule = fastdl_class_attribute_(value, type);
        Py_DECREF(value);
        if (capsule == NULL && PyErr_Occurred())
            return -1;
        if (capsule != NULL && PyCapsule_IsValid(capsule, "dlpack_exchange_api")) {
            *table = fastdl_usable_table(
                (const DLPackExchangeAPI *)PyCapsule_GetPointer(capsule, "dlpack_exchange_api"));
            *is_checked = *table != NULL && fastdl_is_of_producer_(capsule, *table);
        }
        Py_XDECREF(capsule);
        if (*table != NULL)
            return 1;
    }
    exporter = fastdl_class_item_(attributes, "__dlpack__");
    Py_XDECREF(exporter);
    return PyErr_Occurred() ? -1 : exporter != NULL;
}

/* Finds the table that `type` publishes: *table, and *provider, the class of its MRO that has it, a
 * new reference; NULL there if none. It counts only if no class before its provider in the MRO
 * defines `__dlpack__`, since a subclass may override the export. Only capsules count; the integer
 * of older libraries cannot be checked before it is dereferenced. *is_checked: whether its
 * borrowing slot checks what it lends. */
static int fastdl_published_table_(PyTypeObject *type, const DLPackExchangeAPI **table,
                                   PyObject **provider, int *is_checked)
{
    PyObject *mro = fastdl_mro_(type);
    Py_ssize_t count = mro == NULL ? 0 : PyTuple_Size(mro);
    int found = 0;
    *table = NULL;
    *provider = NULL;
    *is_checked = 0;
    for (Py_ssize_t i = 0; i < count && found == 0; i++) {
        PyObject *base = PyTuple_GetItem(mro, i);
        PyObject *attributes = fastdl_of_type_((PyTypeObject *)base, "__dict__");
        found =
            attributes == NULL ? -1 : fastdl_published_here_(type, attributes, table, is_checked);
        Py_XDECREF(attributes);
        if (*table != NULL) {
            Py_INCREF(base);
            *provider = base;
        }
    }
    Py_XDECREF(mro);
    return found < 0 || mro == NULL ? -1 : 0;
}

#define FASTDL_IMMUTABLE_ (FASTDL_TYPE_READ_ONLY | FASTDL_TYPE_IMMUTABLE)

/* All rows, then one with a NULL name. */
static const fastdl_peer_fact fastdl_peers[] = {
    {"numpy", "ndarray", 0}, /* the installed package has a table for it */
    {"torch", "FakeTensor", FASTDL_TYPE_TRACED},
    {"jax", "Tracer", FASTDL_TYPE_TRACED},
    {"torch", "Tensor", FASTDL_TYPE_ASK_BITS | FASTDL_TYPE_TRUSTED},
    {"jaxlib", "ArrayImpl",
     FASTDL_IMMUTABLE_ | FASTDL_TYPE_STREAM_NONE_SYNCS | FASTDL_TYPE_BUFFER |
         FASTDL_TYPE_ASK_DELETED},
    {"jax", "Array", FASTDL_IMMUTABLE_ | FASTDL_TYPE_STREAM_NONE_SYNCS},
    {"tensorflow", "EagerTensor", FASTDL_IMMUTABLE_ | FASTDL_TYPE_BUFFER | FASTDL_TYPE_ASK_DTYPE},
    {"mlx", "array", FASTDL_IMMUTABLE_ | FASTDL_TYPE_EXPORT_DOES_NOT_SYNC},
    /* Not IMMUTABLE: their memory may be that of a NumPy array, which others may write to. */
    {"pyarrow", "FixedShapeTensorArray", FASTDL_TYPE_READ_ONLY | FASTDL_TYPE_ASK_NULLS},
    {"pyarrow", "Array", FASTDL_TYPE_READ_ONLY | FASTDL_TYPE_EXPORT_DOES_NOT_SYNC},
    {"pyarrow", "Tensor", FASTDL_TYPE_READ_ONLY | FASTDL_TYPE_EXPORT_DOES_NOT_SYNC},
    {"onnxruntime", "OrtValue", FASTDL_TYPE_KEEP},
    {"cuda.core", "Buffer", FASTDL_TYPE_UNORDERED},
    {"cuda.core", "StridedMemoryView", FASTDL_TYPE_UNORDERED | FASTDL_TYPE_NO_STREAM},
    {"nanobind", "nb_ndarray", FASTDL_TYPE_UNORDERED},
    {"tvm_ffi", "Tensor", FASTDL_TYPE_EXPORT_DOES_NOT_SYNC | FASTDL_TYPE_UNORDERED},
    {NULL, NULL, 0},
};

/* The row for types without a row of their own. */
static const fastdl_peer_fact *fastdl_no_peer_(void)
{
    const fastdl_peer_fact *row = fastdl_peers;
    while (row->name != NULL)
        row++;
    return row;
}

/* Whether the module of a class, which need not be a string, is `package` or in it. */
static int fastdl_is_in_package_(PyObject *module, const char *package)
{
    Py_ssize_t length;
    const char *text = PyUnicode_Check(module) ? PyUnicode_AsUTF8AndSize(module, &length) : NULL;
    size_t prefix = strlen(package);
    (void)fastdl_clear_if_(PyExc_Exception); /* a name with lone surrogates */
    return text != NULL && strncmp(text, package, prefix) == 0 &&
           (text[prefix] == '.' || text[prefix] == '\0');
}

/* The row of one class, bases aside; the last row if it has none. NULL with an exception. */
FASTDL_SHARED_ const fastdl_peer_fact *fastdl_peer_of_(PyTypeObject *type)
{
    const fastdl_peer_fact *row = fastdl_peers;
    PyObject *module, *name = fastdl_of_type_(type, "__qualname__");
    if (name == NULL)
        return NULL;
    module = fastdl_of_type_(type, "__module__");
    if (module == NULL)
        (void)fastdl_clear_if_(PyExc_Exception); /* a class may be without one */
    while (row->name != NULL &&
           !(module != NULL && PyUnicode_CompareWithASCIIString(name, row->name) == 0 &&
             fastdl_is_in_package_(module, row->package)))
        row++;
    Py_XDECREF(module);
    Py_DECREF(name);
    return row;
}

/* The row of `type` or of its nearest base that has one; the last row if none has. NULL with an
 * exception. */
static const fastdl_peer_fact *fastdl_find_peer_(PyTypeObject *type)
{
    const fastdl_peer_fact *row = NULL;
    PyObject *mro = fastdl_mro_(type);
    Py_ssize_t count = mro == NULL ? 0 : PyTuple_Size(mro);
    for (Py_ssize_t i = 0; i < count; i++) {
        row = fastdl_peer_of_((PyTypeObject *)PyTuple_GetItem(mro, i));
        if (row == NULL || row->name != NULL)
            break;
    }
    Py_XDECREF(mro);
    return row;
}

/* ---- lazy views: conjugate and negative bits ---- */

/* Calls a method that answers yes or no: 1, 0, or -1 with an exception. */
static int fastdl_call_predicate_(PyObject *obj, const char *method)
{
    int answer;
    PyObject *bound = fastdl_attribute_(obj, method);
    PyObject *result = bound == NULL ? NULL : PyObject_CallObject(bound, NULL);
    Py_XDECREF(bound);
    if (result == NULL)
        return -1;
    answer = PyObject_IsTrue(result);
    Py_DECREF(result);
    return answer;
}

/* Slow path of fastdl_check_bits, for tensors that the quick check cannot clear. */
static int fastdl_lazy_bits_(PyObject *obj, const DLTensor *tensor)
{
    const char *bit = "conj";
    int answer = 0;
    if (tensor->dtype.code == kDLComplex) {
        answer = fastdl_call_predicate_(obj, "is_conj");
    } else {
        for (int32_t i = tensor->ndim; i-- > 0;)
            if (tensor->shape[i] > 1 && tensor->strides[i] & 1)
                return 0;
    }
    if (answer == 0) {
        bit = "neg";
        answer = fastdl_call_predicate_(obj, "is_neg");
    }
    if (answer > 0) {
        fastdl_text_ text;
        text.length = 0;
        fastdl_put_(&text, "expected a tensor whose memory holds its values, got a lazy view of "
                           "type '%U' with its ");
        fastdl_put_(&text, bit);
        fastdl_put_(&text, " bit set: call resolve_");
        fastdl_put_(&text, bit);
        fastdl_put_(&text, "() first");
        fastdl_raise_about_(PyExc_BufferError, text.text, Py_TYPE(obj));
    }
    return answer == 0 ? 0 : -1;
}

/* Refuses an array of PyArrow's tensors with nulls in them: 0, or -1 with BufferError or what the
 * object raised. */
static int fastdl_check_nulls_(PyObject *obj)
{
    PyObject *storage = fastdl_attribute_(obj, "storage");
    PyObject *values = storage == NULL ? NULL : PyObject_CallMethod(storage, "flatten", NULL);
    PyObject *count = values == NULL ? NULL : fastdl_attribute_(values, "null_count");
    int64_t nulls = count == NULL ? -1 : PyLong_AsLongLong(count);
    Py_XDECREF(storage);
    Py_XDECREF(values);
    Py_XDECREF(count);
    if (nulls > 0) {
        fastdl_text_ text;
        text.length = 0;
        fastdl_put_(&text, "'%U' has missing values (");
        fastdl_put_int_(&text, nulls);
        fastdl_put_(&text, " in all), which a tensor cannot express: fill or drop them first");
        fastdl_raise_about_(PyExc_BufferError, text.text, Py_TYPE(obj));
    }
    return nulls == 0 ? 0 : -1;
}

/* Constants of each exchange: interned names, the tuple of the one name `max_version`, and its
 * value. */
typedef struct {
    PyObject *dlpack, *dlpack_device, *dlpack_info, *dtype, *max_version, *version;
    const void *interpreter; /* to which they belong: a PyInterpreterState */
} fastdl_names_;

/* Those cached for the home interpreter; in another interpreter new ones in *made, to be released
 * after the exchange. NULL with an exception. */
static const fastdl_names_ *fastdl_get_names_(fastdl_names_ *made);

static void fastdl_drop_names_(fastdl_names_ *names)
{
    Py_XDECREF(names->dlpack);
    Py_XDECREF(names->dlpack_device);
    Py_XDECREF(names->dlpack_info);
    Py_XDECREF(names->dtype);
    Py_XDECREF(names->max_version);
    Py_XDECREF(names->version);
}

static int fastdl_make_names_(fastdl_names_ *names)
{
    PyObject *max_version = PyUnicode_InternFromString("max_version");
    names->interpreter = PyInterpreterState_Get();
    names->dlpack = PyUnicode_InternFromString("__dlpack__");
    names->dlpack_device = PyUnicode_InternFromString("__dlpack_device__");
    names->dlpack_info = PyUnicode_InternFromString("__dlpack_info__");
    names->dtype = PyUnicode_InternFromString("dtype");
    names->max_version = max_version == NULL ? NULL : PyTuple_Pack(1, max_version);
    names->version = Py_BuildValue("(ii)", FASTDL_DLPACK_MAJOR, FASTDL_DLPACK_MINOR);
    Py_XDECREF(max_version);
    if (names->dlpack != NULL && names->dlpack_device != NULL && names->dlpack_info != NULL &&
        names->dtype != NULL && names->max_version != NULL && names->version != NULL)
        return 0;
    fastdl_drop_names_(names);
    return -1;
}

/* Raises BufferError for an element type whose memory format DLPack cannot express. */
static void fastdl_raise_dtype_(PyObject *dtype)
{
    fastdl_raise_(PyExc_BufferError,
                  "expected numbers, got a tensor of dtype %S, which DLPack cannot describe: "
                  "pass numbers that stand for its values",
                  dtype);
}

/* torch.int8 and torch.uint8 (one object each), once they were seen. */
static const void *fastdl_byte_dtypes_[2];

/* Refuses a torch tensor of integers of fewer bits (int4), which torch exports as int8 or uint8: 0,
 * or -1 with BufferError or what the object raised. */
static int fastdl_check_width_(PyObject *obj, const DLTensor *tensor)
{
    int is_unsigned = tensor->dtype.code == kDLUInt;
    const void **known = &fastdl_byte_dtypes_[is_unsigned];
    const fastdl_names_ *names;
    fastdl_names_ made;
    PyObject *dtype, *name = NULL;
    int found = 0;
    if ((!is_unsigned && tensor->dtype.code != kDLInt) || tensor->dtype.bits != 8)
        return 0;
    names = fastdl_get_names_(&made);
    dtype = names == NULL ? NULL : PyObject_GetAttr(obj, names->dtype);
    if (FASTDL_UNLIKELY_(names == &made))
        fastdl_drop_names_(&made);
    if (dtype != NULL && fastdl_atomic_load_(known) == (const void *)dtype)
        found = 1;
    else
        name = dtype == NULL ? NULL : PyObject_Repr(dtype);
    if (name != NULL) {
        found =
            PyUnicode_CompareWithASCIIString(name, is_unsigned ? "torch.uint8" : "torch.int8") == 0;
        if (!found) {
            fastdl_raise_dtype_(name);
        } else if (fastdl_atomic_load_(known) == NULL) {
            Py_INCREF(dtype); /* so that its address is never reused */
            fastdl_atomic_store_(known, dtype);
        }
    }
    Py_XDECREF(name);
    Py_XDECREF(dtype);
    return found ? 0 : -1;
}

/* Refuses tensors whose memory does not hold the values of `obj`: 0, or -1 with an exception. */
FASTDL_SHARED_ int fastdl_check_values_(PyObject *obj, const DLTensor *tensor, uint32_t facts)
{
    if (facts & FASTDL_TYPE_ASK_NULLS)
        return fastdl_check_nulls_(obj);
    if (!(facts & FASTDL_TYPE_ASK_BITS))
        return 0;
    return fastdl_check_bits(obj, tensor) < 0 ? -1 : fastdl_check_width_(obj, tensor);
}

/* ---- owning a tensor by `__dlpack__` ---- */

/* A managed tensor around one that has no deleter, the older form, or NULL strides. */
typedef struct {
    DLManagedTensorVersioned managed;
    DLManagedTensorVersioned *versioned; /* one of these two, or neither */
    DLManagedTensor *legacy;
    PyObject *keep;      /* the producer, where there is no deleter; or NULL */
    int64_t interpreter; /* the id of the interpreter that `keep` belongs to */
    int64_t dims[1];     /* room for the strides, and for a shape of its own */
} fastdl_wrapper_;

/* If finalisation starts right after this check, the thread can be stopped inside
 * PyGILState_Ensure, a race that Python closes in 3.15. The limited API before 3.13 can only check
 * whether finalisation is over. */
static int fastdl_interpreter_is_gone_(void)
{
#if PY_VERSION_HEX >= 0x030D0000 && (!defined(Py_LIMITED_API) || Py_LIMITED_API + 0 >= 0x030D0000)
    if (Py_IsFinalizing())
        return 1;
#elif !defined(Py_LIMITED_API)
    if (_Py_IsFinalizing())
        return 1;
#endif
    return !Py_IsInitialized();
}

/* Whether the calling thread is attached to the interpreter with that number. */
static int fastdl_is_attached_to_(int64_t interpreter)
{
#ifndef Py_LIMITED_API
#if PY_VERSION_HEX >= 0x030D0000
    PyThreadState *state = PyThreadState_GetUnchecked();
#else
    PyThreadState *state = _PyThreadState_UncheckedGet();
#endif
#if PY_VERSION_HEX < 0x030C0000
    /* Before 3.12 that is the state of whichever thread runs. In a subinterpreter the comparison
     * fails, too: objects kept there leak, which is better than a release without the GIL. */
    if (state != PyGILState_GetThisThreadState())
        return 0;
#endif
    return state != NULL &&
           PyInterpreterState_GetID(PyThreadState_GetInterpreter(state)) == interpreter;
#else
    (void)interpreter;
    return 0;
#endif
}

/* Releases an object of an interpreter, with the pending exception set aside. */
FASTDL_SHARED_ void fastdl_release_object_(PyObject *object)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    Py_DECREF(object);
    PyErr_Restore(type, value, traceback);
}

/* A deleter, so it is called on any thread, with or without a thread state. PyGILState_Ensure
 * attaches a thread only to the main interpreter, and before 3.12 deadlocks if another one is
 * attached. So an object of another interpreter is released only on its own threads, and otherwise
 * leaked, which is better than a deadlock. */
static void fastdl_delete_wrapper_(DLManagedTensorVersioned *self)
{
    fastdl_wrapper_ *wrapper = (fastdl_wrapper_ *)self;
    if (wrapper->versioned != NULL && wrapper->versioned->deleter != NULL)
        wrapper->versioned->deleter(wrapper->versioned);
    if (wrapper->legacy != NULL && wrapper->legacy->deleter != NULL)
        wrapper->legacy->deleter(wrapper->legacy);
    if (wrapper->keep != NULL && !fastdl_interpreter_is_gone_()) {
        if (fastdl_is_attached_to_(wrapper->interpreter)) {
            fastdl_release_object_(wrapper->keep);
        } else if (wrapper->interpreter == 0) {
            PyGILState_STATE state = PyGILState_Ensure();
            fastdl_release_object_(wrapper->keep);
            PyGILState_Release(state);
        }
    }
    free(wrapper);
}

/* A new wrapper, which does not own anything yet: see fastdl_adopt_. NULL with MemoryError. */
static fastdl_wrapper_ *fastdl_new_wrapper_(const DLTensor *tensor, uint64_t flags)
{
    size_t dims = (size_t)tensor->ndim; /* 0 to 64: checked */
    fastdl_wrapper_ *wrapper =
        (fastdl_wrapper_ *)malloc(sizeof(fastdl_wrapper_) + 2 * dims * sizeof(int64_t));
    if (wrapper == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    memset(wrapper, 0, sizeof(fastdl_wrapper_));
    wrapper->managed.version.major = FASTDL_DLPACK_MAJOR;
    wrapper->managed.version.minor = FASTDL_DLPACK_MINOR;
    wrapper->managed.manager_ctx = wrapper;
    wrapper->managed.deleter = fastdl_delete_wrapper_;
    wrapper->managed.flags = flags;
    wrapper->managed.dl_tensor = *tensor;
    if (tensor->strides == NULL) {
        fastdl_compact_strides(tensor->ndim, tensor->shape, wrapper->dims);
        wrapper->managed.dl_tensor.strides = wrapper->dims;
    }
    return wrapper;
}

/* Makes a wrapper keep an object alive. */
static void fastdl_keep_(fastdl_wrapper_ *wrapper, PyObject *object)
{
    Py_XINCREF(object);
    wrapper->keep = object;
    wrapper->interpreter = PyInterpreterState_GetID(PyInterpreterState_Get());
}

/* Runs a deleter, if there is one, with the pending exception set aside. Needs a thread state, so
 * it releases the object that a wrapper keeps alive itself. */
FASTDL_SHARED_ void fastdl_discard_(DLManagedTensorVersioned *versioned, DLManagedTensor *legacy)
{
    PyObject *type, *value, *traceback, *keep = NULL;
    PyErr_Fetch(&type, &value, &traceback);
    if (versioned != NULL && versioned->deleter == fastdl_delete_wrapper_) {
        keep = ((fastdl_wrapper_ *)versioned)->keep;
        ((fastdl_wrapper_ *)versioned)->keep = NULL;
    }
    if (versioned != NULL && versioned->deleter != NULL)
        versioned->deleter(versioned);
    if (legacy != NULL && legacy->deleter != NULL)
        legacy->deleter(legacy);
    Py_XDECREF(keep);
    if (PyErr_Occurred())
        PyErr_WriteUnraisable(NULL); /* nothing can catch it */
    PyErr_Restore(type, value, traceback);
}

/* Whether a refused tensor is the legacy struct in a capsule with the versioned name, so that its
 * `deleter` field is not a function: a DLManagedTensor has ndim and dtype there, and the low half
 * of a function address is never a number up to 64. */
FASTDL_SHARED_ int fastdl_is_really_legacy(const DLManagedTensorVersioned *managed)
{
    return (uint32_t)(uintptr_t)managed->deleter <= FASTDL_MAX_NDIM && managed->deleter != NULL;
}

/* The reverse. The version field overlaps `data` of a DLManagedTensor (and, on 32 bits, the device
 * type). `data` by itself does not decide: without elements it may be any number, such as the
 * alignment in an empty Rust vector. But the flags field then overlaps the address of `shape`, or
 * on 32 bits a dtype; and without dimensions, when `shape` is NULL, the deleter field is a dtype
 * above 32 zero bits. */
FASTDL_SHARED_ int fastdl_is_really_versioned(const DLManagedTensor *managed)
{
    DLManagedTensorVersioned other;
    memcpy(&other, managed, offsetof(DLManagedTensorVersioned, dl_tensor));
    if (other.version.major < 1 || other.version.major > 9 || other.version.minor > 255 ||
        other.flags >= 4096)
        return 0;
    return other.deleter == NULL || (uint32_t)(uintptr_t)other.deleter != 0;
}

/* Refuses a tensor of another major version, where only the deleter may be used: 0, or -1 with
 * BufferError. */
FASTDL_SHARED_ int fastdl_check_version(const DLManagedTensorVersioned *managed)
{
    if (managed->version.major == FASTDL_DLPACK_MAJOR)
        return 0;
    fastdl_raise_(PyExc_BufferError,
                  "expected DLPack %d.x, got a tensor of version %u.%u: ask its producer for "
                  "max_version=(%d, %d)",
                  FASTDL_DLPACK_MAJOR, (unsigned)managed->version.major,
                  (unsigned)managed->version.minor, FASTDL_DLPACK_MAJOR, FASTDL_DLPACK_MINOR);
    return -1;
}

static int fastdl_is_ordered_(int32_t device_type);

/* Refuses data on a device with streams if the library of `obj` does not order its work. */
static int fastdl_refuse_unordered_(PyObject *obj, int32_t device_type)
{
    if (!fastdl_is_ordered_(device_type))
        return 0;
    fastdl_raise_about_(PyExc_BufferError,
                        "'%U' ignores `stream`, so its pending work is not ordered: synchronize "
                        "first, then pass fastdl.from_dlpack(x, stream=-1)",
                        Py_TYPE(obj));
    return -1;
}

/* Turns a managed tensor that was just received into one with the guarantees of fastdl_own. Steals
 * `versioned` or `legacy` (the other is NULL), also on failure. `facts` are those of the type of
 * `obj`, which may be NULL for a tensor that was allocated. */
static int fastdl_adopt_(PyObject *obj, DLManagedTensorVersioned *versioned,
                         DLManagedTensor *legacy, uint32_t facts, DLManagedTensorVersioned **out)
{
    const DLTensor *tensor = versioned != NULL ? &versioned->dl_tensor : &legacy->dl_tensor;
    int endless = versioned != NULL ? versioned->deleter == NULL : legacy->deleter == NULL;
    uint64_t flags;
    fastdl_wrapper_ *wrapper = NULL;
    fastdl_layout layout;
    fastdl_fault fault;
    if (!fastdl_has_succeeded_() || (versioned != NULL && fastdl_check_version(versioned) < 0))
        goto failed;
    flags = versioned != NULL                 ? versioned->flags
            : (facts & FASTDL_TYPE_READ_ONLY) ? DLPACK_FLAG_BITMASK_READ_ONLY
                                              : 0;
    fault = fastdl_check(tensor, flags, &layout);
    if (fault != FASTDL_OK) {
        fastdl_raise_fault(fault, tensor);
        goto failed;
    }
    if (facts & FASTDL_TYPE_NO_STREAM &&
        fastdl_refuse_unordered_(obj, (int32_t)tensor->device.device_type) < 0)
        goto failed;
    if (versioned == NULL || endless || facts & FASTDL_TYPE_KEEP ||
        (tensor->strides == NULL && tensor->ndim > 0)) {
        wrapper = fastdl_new_wrapper_(tensor, flags);
        if (wrapper == NULL)
            goto failed;
        tensor = &wrapper->managed.dl_tensor; /* which has strides */
    }
    if (facts & FASTDL_TYPE_ASK_VALUES && fastdl_check_values_(obj, tensor, facts) < 0)
        goto failed;
    if (wrapper == NULL) {
        *out = versioned;
        return 0;
    }
    wrapper->versioned = versioned;
    wrapper->legacy = legacy;
    if (endless || facts & FASTDL_TYPE_KEEP)
        fastdl_keep_(wrapper, obj);
    *out = &wrapper->managed;
    return 0;

failed:
    free(wrapper);
    if (versioned != NULL ? !fastdl_is_really_legacy(versioned)
                          : !fastdl_is_really_versioned(legacy))
        fastdl_discard_(versioned, legacy);
    return -1;
}

/* How work on memory of a device is ordered: a fastdl_stream_kind. Pinned memory is host memory,
 * which a consumer need not order. */
static int fastdl_ordering_(int32_t device_type)
{
    const fastdl_device_fact *fact = fastdl_find_device(device_type);
    return fact->host ? (int)FASTDL_STREAM_NONE : (int)fact->stream;
}

/* Whether a consumer of memory of that device passes a stream. */
static int fastdl_is_ordered_(int32_t device_type)
{
    int ordering = fastdl_ordering_(device_type);
    return ordering == FASTDL_STREAM_CUDA || ordering == FASTDL_STREAM_ROCM;
}

/* Whether data delivered on a device is ordered as was negotiated for `announced`. The device in
 * the capsule is authoritative: torch announces pinned memory as such and delivers it as plain host
 * memory; and a CPU can read managed memory, so its producer need not copy it. */
FASTDL_SHARED_ int fastdl_is_as_announced_(const int32_t *announced, DLDevice delivered)
{
    int ordering = fastdl_ordering_(announced[0]);
    if (announced[0] == kDLCPU && delivered.device_type == kDLCUDAManaged)
        return 1;
    if (fastdl_ordering_((int32_t)delivered.device_type) != ordering)
        return 0;
    return (ordering != FASTDL_STREAM_CUDA && ordering != FASTDL_STREAM_ROCM) ||
           delivered.device_id == announced[1] || announced[0] == kDLCUDAManaged;
}

/* Slow path of fastdl_read_device_: the type may be a member of an enum, the id None. */
static int fastdl_read_any_device_(PyObject *answer, int32_t *device)
{
    if (PySequence_Size(answer) != 2)
        return -1;
    for (int i = 0; i < 2; i++) {
        PyObject *number, *item = PySequence_GetItem(answer, i);
        long value = -1;
        if (item != NULL && i == 0 && !PyIndex_Check(item)) {
            PyObject *member = fastdl_attribute_(item, "value");
            Py_DECREF(item);
            item = member;
        }
        if (item == Py_None && i == 1) { /* some return it if there is only one device */
            Py_DECREF(item);
            item = PyLong_FromLong(0);
        }
        number = item == NULL || PyBool_Check(item) ? NULL : PyNumber_Index(item);
        Py_XDECREF(item);
        if (number != NULL)
            value = PyLong_AsLong(number);
        Py_XDECREF(number);
        if (number == NULL || PyErr_Occurred() || value < INT32_MIN || value > INT32_MAX)
            return -1;
        device[i] = (int32_t)value;
    }
    return 0;
}

/* Reads (device type, device id). -1, with or without an exception, if it is anything else. */
static int fastdl_read_device_(PyObject *answer, int32_t *device)
{
#ifndef Py_LIMITED_API
    if (FASTDL_LIKELY_(PyTuple_CheckExact(answer) && PyTuple_GET_SIZE(answer) == 2 &&
                       PyLong_CheckExact(PyTuple_GET_ITEM(answer, 0)) &&
                       PyLong_CheckExact(PyTuple_GET_ITEM(answer, 1)))) {
        int overflow[2];
        long type = PyLong_AsLongAndOverflow(PyTuple_GET_ITEM(answer, 0), &overflow[0]);
        long id = PyLong_AsLongAndOverflow(PyTuple_GET_ITEM(answer, 1), &overflow[1]);
        if (overflow[0] || overflow[1] || type < INT32_MIN || type > INT32_MAX || id < INT32_MIN ||
            id > INT32_MAX)
            return -1;
        device[0] = (int32_t)type;
        device[1] = (int32_t)id;
        return 0;
    }
#endif
    return fastdl_read_any_device_(answer, device);
}

/* The result of an object's `__dlpack_device__`. */
static int fastdl_request_device_(PyObject *obj, const fastdl_names_ *names, int32_t *device)
{
    fastdl_method_ method;
    PyObject *answer;
    int result = fastdl_find_method_(obj, names->dlpack_device, &method);
    if (FASTDL_UNLIKELY_(result <= 0)) {
        if (result == 0)
            fastdl_raise_about_(PyExc_TypeError,
                                "expected a DLPack producer, got '%U', which has __dlpack__ but "
                                "not __dlpack_device__",
                                Py_TYPE(obj));
        return -1;
    }
    answer = fastdl_call_(&method, NULL, NULL, 0);
    Py_DECREF(method.callable);
    if (answer == NULL)
        return -1;
    result = fastdl_read_device_(answer, device);
    if (FASTDL_UNLIKELY_(result < 0) && fastdl_clear_if_(PyExc_Exception))
        fastdl_raise_answer_(PyExc_TypeError,
                             "expected (device type, device id) from __dlpack_device__ of '%U', "
                             "got %R",
                             Py_TYPE(obj), answer);
    Py_DECREF(answer);
    return result;
}

/* The `version` argument in the draft of 2022, which numbers 1.3 as 130: the newest that both know,
 * 60 for the layout of "dltensor"; 0 if `obj` does not follow the draft. -1 with an exception. */
static int32_t fastdl_request_draft_(PyObject *obj, const fastdl_names_ *names)
{
    static const long newest = FASTDL_DLPACK_MAJOR * 100 + FASTDL_DLPACK_MINOR * 10;
    fastdl_method_ method;
    PyObject *answer;
    long theirs = -1;
    int overflow, found = fastdl_find_method_(obj, names->dlpack_info, &method);
    if (found <= 0)
        return found;
    answer = fastdl_call_(&method, NULL, NULL, 0);
    Py_DECREF(method.callable);
    if (answer == NULL)
        return -1;
    if (!PyLong_Check(answer) || PyBool_Check(answer)) {
        fastdl_raise_answer_(PyExc_TypeError,
                             "expected an int from __dlpack_info__ of '%U', got %R", Py_TYPE(obj),
                             answer);
    } else {
        theirs = PyLong_AsLongAndOverflow(answer, &overflow);
        theirs = overflow > 0 || theirs > newest ? newest : overflow < 0 ? -1 : theirs;
        if (theirs < 60) {
            fastdl_raise_answer_(PyExc_BufferError,
                                 "expected 60 or more from __dlpack_info__ of '%U', got %R: no "
                                 "version in common",
                                 Py_TYPE(obj), answer);
            theirs = -1;
        } else if (theirs < 100) {
            theirs = 60;
        }
    }
    Py_DECREF(answer);
    return (int32_t)theirs;
}

#ifdef Py_LIMITED_API

/* Signatures cannot be read, and the attributes found on a type may have changed since. */
static int fastdl_read_signature_(PyObject *function, uint32_t *refused)
{
    (void)function;
    (void)refused;
    return 0;
}

#else

/* Removes the keywords that a code object has from *refused. */
static int fastdl_read_code_(PyObject *object, uint32_t *refused)
{
    const PyCodeObject *code = (const PyCodeObject *)object;
    PyObject *names = fastdl_attribute_(object, "co_varnames");
    Py_ssize_t first = code->co_posonlyargcount > 0 ? code->co_posonlyargcount : 1; /* `self` */
    Py_ssize_t end = code->co_argcount + code->co_kwonlyargcount;
    if (names == NULL || !PyTuple_Check(names)) {
        Py_XDECREF(names);
        return -1;
    }
    if (code->co_flags & CO_VARKEYWORDS || end > PyTuple_GET_SIZE(names))
        *refused = 0;
    for (Py_ssize_t i = first; i < end && *refused != 0; i++)
        for (const fastdl_keyword_fact *row = fastdl_keywords(); row->name != NULL; row++)
            if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i), row->name) == 0)
                *refused &= ~row->keyword;
    Py_DECREF(names);
    return 0;
}

/* Finds the keywords that a function of a type does not take, from its signature: functions of
 * Python and Cython have one, and the flags of a C function tell whether it takes any. For other
 * functions nothing is found, and each call has to try. An exception of a call is never recorded
 * for the type: it may come from another function, to which the keywords were forwarded for this
 * one object. */
static int fastdl_read_signature_(PyObject *function, uint32_t *refused)
{
    static const char cython[] = "cython_function_or_method";
    const char *kind = Py_TYPE(function)->tp_name, *point = strrchr(kind, '.');
    *refused = FASTDL_KEYWORD_STREAM | FASTDL_KEYWORD_MAX_VERSION | FASTDL_KEYWORD_DL_DEVICE |
               FASTDL_KEYWORD_COPY | FASTDL_KEYWORD_VERSION;
    if (PyFunction_Check(function) || strcmp(point == NULL ? kind : point + 1, cython) == 0) {
        PyObject *code = fastdl_attribute_(function, "__code__");
        int result = code == NULL ? -1 : 0;
        if (result == 0 && PyCode_Check(code))
            result = fastdl_read_code_(code, refused);
        else
            *refused = 0;
        Py_XDECREF(code);
        return result;
    }
    if (Py_TYPE(function) != &PyMethodDescr_Type ||
        ((PyMethodDescrObject *)function)->d_method->ml_flags & METH_KEYWORDS)
        *refused = 0;
    return 0;
}

#endif

/* The start of the quoted keyword in the message of a TypeError; NULL if it names none. */
static const char *fastdl_named_keyword_(const char *message)
{
    static const char unexpected[] = "unexpected keyword argument '";
    const char *keyword = strstr(message, unexpected);
    if (keyword != NULL)
        return keyword + sizeof(unexpected) - 1;
    return message[0] == '\'' && strstr(message, "' is an invalid keyword argument") != NULL
               ? message + 1
               : NULL;
}

/* Texts in messages of TypeErrors about the keywords of a call. */
static const char *const fastdl_refusals_[] = {
    "unexpected keyword argument",
    "invalid keyword argument",
    "no keyword arguments",
    "keyword argument (", /* "takes at most 1 keyword argument (2 given)" */
    "keyword arguments (",
    "passed as keyword arguments", /* "got some positional-only arguments passed as ..." */
    "incompatible function arguments",
};

/* Which of `keywords` to drop after `__dlpack__` has raised a TypeError with this message; 0 if the
 * error is not about keywords. It is if the message has the form used by CPython, Cython, pybind11
 * or nanobind; any keyword that it names was passed; and it was raised before any frame of the
 * producer ran, or names `__dlpack__`, to which the producer has forwarded the keywords. */
FASTDL_SHARED_ uint32_t fastdl_refused_keyword(const char *message, int has_frames,
                                               uint32_t keywords)
{
    const fastdl_keyword_fact *row = fastdl_keywords();
    const char *named = fastdl_named_keyword_(message);
    size_t i = 0, count = sizeof(fastdl_refusals_) / sizeof(fastdl_refusals_[0]);
    while (i < count && strstr(message, fastdl_refusals_[i]) == NULL)
        i++;
    if (i == count || (has_frames && strstr(message, "__dlpack__(") == NULL))
        return 0;
    for (; row->name != NULL; row++) {
        size_t length = strlen(row->name);
        if (keywords & row->keyword &&
            (named == NULL || (strncmp(named, row->name, length) == 0 && named[length] == '\'')))
            return row->keyword;
    }
    return 0;
}

/* The same for the pending exception, which is cleared if it is about a keyword. */
static uint32_t fastdl_take_refusal_(uint32_t keywords)
{
    PyObject *type, *value, *traceback, *text;
    const char *message;
    Py_ssize_t length;
    uint32_t refused = 0;
    if (keywords == 0 || !PyErr_ExceptionMatches(PyExc_TypeError))
        return 0;
    PyErr_Fetch(&type, &value, &traceback);
    text = value == NULL ? NULL : PyObject_Str(value);
    message = text == NULL ? NULL : PyUnicode_AsUTF8AndSize(text, &length);
    if (message != NULL)
        refused = fastdl_refused_keyword(message, traceback != NULL, keywords);
    Py_XDECREF(text);
    if (refused == 0) {
        fastdl_restore_(type, value, traceback);
        return 0;
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return refused;
}

/* Calls `__dlpack__` with these keywords. The stream is the number of the device's default
 * stream. */
static PyObject *fastdl_call_with_(const fastdl_method_ *method, const fastdl_names_ *names,
                                   uint32_t keywords, int32_t device_type, int32_t version)
{
    PyObject *passed, *capsule = NULL, *values[FASTDL_MOST_KEYWORDS_];
    Py_ssize_t count = 0, at = 0;
    int failed = 0;
    for (uint32_t rest = keywords; rest != 0; rest &= rest - 1)
        count++;
    passed = PyTuple_New(count);
    if (passed == NULL)
        return NULL;
    for (const fastdl_keyword_fact *row = fastdl_keywords(); row->name != NULL; row++) {
        PyObject *name;
        if (!(keywords & row->keyword))
            continue;
        name = PyUnicode_InternFromString(row->name);
        if (row->keyword == FASTDL_KEYWORD_MAX_VERSION) {
            values[at] = names->version;
            Py_INCREF(names->version);
        } else if (row->keyword == FASTDL_KEYWORD_VERSION) {
            values[at] = PyLong_FromLong(version);
        } else {
            values[at] = PyLong_FromLong(fastdl_ordering_(device_type) == FASTDL_STREAM_CUDA);
        }
        failed |= name == NULL || PyTuple_SetItem(passed, at, name) < 0 || values[at] == NULL;
        at++;
    }
    if (!failed)
        capsule = fastdl_call_(method, passed, values, count);
    while (at-- > 0)
        Py_XDECREF(values[at]);
    Py_DECREF(passed);
    return capsule;
}

/* Calls `__dlpack__` of an object whose data is on that device with as many keywords as it takes. A
 * new capsule, or NULL with an exception. The newest generation of the protocol is tried first:
 * `max_version`; then `version`, with `__dlpack_info__`; then only `stream`. */
static PyObject *fastdl_negotiate_(PyObject *obj, const fastdl_method_ *method,
                                   const fastdl_names_ *names, uint32_t refused,
                                   int32_t device_type)
{
    int32_t version = 0;
    uint32_t keywords = FASTDL_KEYWORD_MAX_VERSION;
    if (FASTDL_UNLIKELY_(fastdl_is_ordered_(device_type)))
        keywords |= FASTDL_KEYWORD_STREAM; /* dropping it is safe: the default stream is implied */
    for (;;) {
        PyObject *capsule;
        uint32_t dropped = keywords & refused;
        if (FASTDL_UNLIKELY_(dropped != 0)) {
            keywords &= ~dropped;
            if (dropped & FASTDL_KEYWORD_MAX_VERSION && !(refused & FASTDL_KEYWORD_VERSION)) {
                version = fastdl_request_draft_(obj, names);
                if (version < 0)
                    return NULL;
                keywords |= version > 0 ? (uint32_t)FASTDL_KEYWORD_VERSION : 0;
            }
        }
        capsule = keywords == 0 ? fastdl_call_(method, NULL, NULL, 0)
                  : FASTDL_LIKELY_(keywords == FASTDL_KEYWORD_MAX_VERSION)
                      ? fastdl_call_(method, names->max_version, &names->version, 1)
                      : fastdl_call_with_(method, names, keywords, device_type, version);
        if (FASTDL_UNLIKELY_(capsule == NULL)) {
            dropped = fastdl_take_refusal_(keywords);
            if (dropped == 0)
                return NULL;
            refused |= dropped;
        } else if (FASTDL_UNLIKELY_(keywords & FASTDL_KEYWORD_VERSION) && version >= 100 &&
                   PyCapsule_IsValid(capsule, "dltensor")) {
            /* The draft used the old name for a new layout, so the layout of this one is unknown.
             * The capsule is dropped unconsumed; 60 is certainly the old layout. */
            Py_DECREF(capsule);
            version = 60;
        } else {
            return capsule;
        }
    }
}

/* Refuses a tensor of TensorFlow whose elements are not numbers, or are quantised integers.
 */
static int fastdl_check_dtype_(PyObject *obj)
{
    static const char *const others[] = {"string", "resource", "variant", "qint8",
                                         "quint8", "qint16",   "quint16", "qint32"};
    PyObject *dtype = PyObject_GetAttrString(obj, "dtype");
    PyObject *name = dtype == NULL ? NULL : PyObject_GetAttrString(dtype, "name");
    int found = 0;
    Py_XDECREF(dtype);
    if (name == NULL)
        return fastdl_clear_if_(PyExc_Exception) ? 0 : -1;
    for (size_t i = 0; i < sizeof(others) / sizeof(*others) && PyUnicode_Check(name); i++)
        found |= PyUnicode_CompareWithASCIIString(name, others[i]) == 0;
    if (found)
        fastdl_raise_dtype_(name);
    Py_DECREF(name);
    return found ? -1 : 0;
}

/* Refuses an array whose memory was released. */
static int fastdl_check_deleted_(PyObject *obj)
{
    PyObject *deleted = PyObject_CallMethod(obj, "is_deleted", NULL);
    int found = deleted == Py_True;
    if (deleted == NULL)
        return fastdl_clear_if_(PyExc_Exception) ? 0 : -1;
    Py_DECREF(deleted);
    if (found)
        fastdl_raise_(PyExc_BufferError,
                      "expected an array with memory, got one that was deleted, perhaps donated to "
                      "a function: use what that function returned");
    return found ? -1 : 0;
}

/* Whether `__dlpack_device__` and `__dlpack__` of an object may be called; -1 with an exception, if
 * its library would abort the process or return wrong data. Precedes each such call. */
FASTDL_SHARED_ int fastdl_check_memory_(PyObject *obj, uint32_t facts)
{
    return facts & FASTDL_TYPE_ASK_DTYPE     ? fastdl_check_dtype_(obj)
           : facts & FASTDL_TYPE_ASK_DELETED ? fastdl_check_deleted_(obj)
                                             : 0;
}

/* Requests a capsule from `__dlpack__`: 1, with a new capsule in *capsule; or -1 with an exception.
 * *device is the result of `__dlpack_device__`. `record` is that of the type. 0 if there is no
 * `__dlpack__` (device[0] is 0 then), or if only data in host memory is wanted (`host_only`) and it
 * is elsewhere. */
FASTDL_SHARED_ int fastdl_request_capsule_(PyObject *obj, const fastdl_record *record,
                                           int host_only, int32_t *device, PyObject **capsule)
{
    fastdl_names_ made;
    const fastdl_names_ *names = fastdl_get_names_(&made);
    fastdl_method_ method;
    int result = names == NULL ? -1 : fastdl_find_method_(obj, names->dlpack, &method);
    *capsule = NULL;
    device[0] = device[1] = 0;
    if (FASTDL_LIKELY_(result > 0)) {
        if (FASTDL_UNLIKELY_(fastdl_check_memory_(obj, record->facts) < 0 ||
                             fastdl_request_device_(obj, names, device) < 0)) {
            result = -1;
        } else if (host_only && !fastdl_find_device(device[0])->host) {
            result = 0;
        } else {
            *capsule = fastdl_negotiate_(obj, &method, names, record->refused, device[0]);
            result = *capsule == NULL ? -1 : 1;
        }
        Py_DECREF(method.callable);
    }
    if (FASTDL_UNLIKELY_(names == &made))
        fastdl_drop_names_(&made);
    return result;
}

/* Consumes a capsule: *versioned or *legacy is the managed tensor that it held, both NULL if it is
 * none with a tensor, or if only one in ordinary host memory is wanted (`host_only`) and it is
 * elsewhere: it is untouched then. */
FASTDL_SHARED_ void fastdl_open_capsule_(PyObject *capsule, int host_only,
                                         DLManagedTensorVersioned **versioned,
                                         DLManagedTensor **legacy)
{
    const char *name;
    *versioned = NULL;
    *legacy = NULL;
    if (!PyCapsule_CheckExact(capsule))
        return;
#ifdef Py_GIL_DISABLED
    Py_BEGIN_CRITICAL_SECTION(capsule); /* else two threads could both consume it */
#endif
    name = PyCapsule_GetName(capsule);
    if (name != NULL && strcmp(name, "dltensor_versioned") == 0) {
        DLManagedTensorVersioned *found =
            (DLManagedTensorVersioned *)PyCapsule_GetPointer(capsule, name);
        /* With another major version only the offset of the deleter is known. */
        if (!host_only || found->version.major != FASTDL_DLPACK_MAJOR ||
            found->dl_tensor.device.device_type == kDLCPU) {
            *versioned = found;
            PyCapsule_SetName(capsule, "used_dltensor_versioned");
        }
    } else if (name != NULL && strcmp(name, "dltensor") == 0) {
        DLManagedTensor *found = (DLManagedTensor *)PyCapsule_GetPointer(capsule, name);
        if (!host_only || found->dl_tensor.device.device_type == kDLCPU) {
            *legacy = found;
            PyCapsule_SetName(capsule, "used_dltensor");
        }
    }
#ifdef Py_GIL_DISABLED
    Py_END_CRITICAL_SECTION();
#endif
}

/* Takes the managed tensor out of a capsule, which is consumed. */
static int fastdl_take_(PyObject *obj, PyObject *capsule, uint32_t facts,
                        DLManagedTensorVersioned **out)
{
    DLManagedTensorVersioned *versioned;
    DLManagedTensor *legacy;
    fastdl_open_capsule_(capsule, 0, &versioned, &legacy);
    if (versioned != NULL || legacy != NULL)
        return fastdl_adopt_(obj, versioned, legacy, facts, out);
    fastdl_raise_answer_(PyExc_TypeError,
                         "expected a new DLPack capsule from __dlpack__ of '%U', got %R",
                         Py_TYPE(obj), capsule);
    return -1;
}

/* ---- the header's own tables, for use without the package ---- */

static int fastdl_protocol_own_(void *obj, DLManagedTensorVersioned **out)
{
    PyTypeObject *type = Py_TYPE((PyObject *)obj);
    const fastdl_record *record = fastdl_known_(type);
    DLManagedTensorVersioned *managed = NULL;
    PyObject *capsule;
    int32_t announced[2];
    int result;
    if (record == NULL)
        return -1;
    result = fastdl_request_capsule_((PyObject *)obj, record, 0, announced, &capsule);
    if (result == 0)
        fastdl_raise_no_tensor((PyObject *)obj);
    if (result <= 0)
        return -1;
    if (record->facts & FASTDL_TYPE_UNORDERED &&
        fastdl_refuse_unordered_((PyObject *)obj, announced[0]) < 0) {
        fastdl_release_object_(capsule);
        return -1;
    }
    result = fastdl_take_((PyObject *)obj, capsule, record->facts, &managed);
    if (result < 0) {
        fastdl_release_object_(capsule); /* its destructor may clear the exception */
        return -1;
    }
    Py_DECREF(capsule);
    if (!fastdl_is_as_announced_(announced, managed->dl_tensor.device)) {
        fastdl_raise_(PyExc_BufferError,
                      "a tensor was announced on device (%d, %d) and delivered on (%d, %d), where "
                      "work is ordered in another way. Its producer is at fault",
                      announced[0], announced[1], (int)managed->dl_tensor.device.device_type,
                      managed->dl_tensor.device.device_id);
        fastdl_discard_(managed, NULL);
        return -1;
    }
    *out = managed;
    return 0;
}

static int fastdl_protocol_allocate_(DLTensor *prototype, DLManagedTensorVersioned **out,
                                     void *context,
                                     void (*SetError)(void *, const char *, const char *))
{
    (void)prototype;
    (void)out;
    SetError(context, "TypeError",
             "this type has no exchange table that could allocate: install or upgrade fastdlpack, "
             "and call fastdl_import() to allocate for it");
    return -1;
}

static int fastdl_protocol_wrap_(DLManagedTensorVersioned *managed, void **out)
{
    (void)managed;
    (void)out;
    PyErr_SetString(PyExc_TypeError,
                    "this type has no exchange table that could make objects: install or "
                    "upgrade fastdlpack, and call fastdl_import() to get a fastdl.Tensor");
    return -1;
}

static const DLPackExchangeAPI fastdl_protocol_table_ = {
    {{FASTDL_DLPACK_MAJOR, FASTDL_DLPACK_MINOR}, NULL},
    fastdl_protocol_allocate_,
    fastdl_protocol_own_,
    fastdl_protocol_wrap_,
    NULL,
    fastdl_default_stream, /* with which `__dlpack__` is called */
};

/* ---- the table for tracers: every entry raises ---- */

static const char *const fastdl_traced_words_ =
    "expected a tensor with memory, got a tracer (torch FakeTensor, JAX Tracer): call this outside "
    "of torch.compile, jax.jit and their like, or make it a custom operator there "
    "(torch.library.custom_op, jax.pure_callback)";

static int fastdl_traced_allocate_(DLTensor *prototype, DLManagedTensorVersioned **out,
                                   void *context,
                                   void (*SetError)(void *, const char *, const char *))
{
    (void)prototype;
    (void)out;
    SetError(context, "BufferError", fastdl_traced_words_);
    return -1;
}

static int fastdl_traced_own_(void *obj, DLManagedTensorVersioned **out)
{
    (void)obj;
    (void)out;
    fastdl_raise_(PyExc_BufferError, fastdl_traced_words_);
    return -1;
}

static int fastdl_traced_wrap_(DLManagedTensorVersioned *managed, void **out)
{
    (void)managed;
    (void)out;
    fastdl_raise_(PyExc_BufferError, fastdl_traced_words_);
    return -1;
}

static int fastdl_traced_stream_(DLDeviceType type, int32_t id, void **out)
{
    (void)type;
    (void)id;
    (void)out;
    fastdl_raise_(PyExc_BufferError, fastdl_traced_words_);
    return -1;
}

static const DLPackExchangeAPI fastdl_traced_table_ = {
    {{FASTDL_DLPACK_MAJOR, FASTDL_DLPACK_MINOR}, NULL},
    fastdl_traced_allocate_,
    fastdl_traced_own_,
    fastdl_traced_wrap_,
    NULL,
    fastdl_traced_stream_,
};

/* Whether a type has any attribute of a tensor. Other types are rejected quickly, and take no slot
 * in the cache. -1 with an exception. */
static int fastdl_has_names_(PyTypeObject *type)
{
    static const char *const names[] = {"__dlpack__", "__dlpack_c_exchange_api__",
                                        "__c_dlpack_exchange_api__"};
    PyObject *found = NULL;
    for (int i = 0; i < 3 && found == NULL && !PyErr_Occurred(); i++)
        found = fastdl_type_lookup_(type, names[i]);
    Py_XDECREF(found);
    return found != NULL ? 1 : PyErr_Occurred() ? -1 : 0;
}

/* Determines the facts about a type from its name, `__dlpack__`, and the table that it publishes
 * (NULL if none). */
FASTDL_SHARED_ int fastdl_fill_record_(PyTypeObject *type, fastdl_record *record,
                                       const fastdl_peer_fact **peer)
{
    PyObject *method, *provider;
    int named = fastdl_has_names_(type), is_checked;
    memset(record, 0, sizeof(*record));
    *peer = named > 0 ? fastdl_find_peer_(type) : fastdl_no_peer_();
    if (named <= 0 || *peer == NULL)
        return named == 0 ? 0 : -1;
    record->facts = (*peer)->facts;
    if (record->facts & FASTDL_TYPE_TRACED) {
        record->api = &fastdl_traced_table_;
        return 0;
    }
    if (fastdl_published_table_(type, &record->api, &provider, &is_checked) < 0)
        return -1;
    if (provider != NULL) {
        record->facts |= FASTDL_TYPE_NATIVE;
        record->lend = record->api->dltensor_from_py_object_no_sync;
        if (is_checked)
            record->facts |= FASTDL_TYPE_CHECKED;
        if (record->facts & FASTDL_TYPE_TRUSTED) {
            /* The library's own class is trusted, but not a foreign class derived from it. */
            const fastdl_peer_fact *own = fastdl_peer_of_((PyTypeObject *)provider);
            if (own == NULL || !(own->facts & FASTDL_TYPE_TRUSTED))
                record->facts &= ~(uint32_t)FASTDL_TYPE_TRUSTED;
        }
        Py_DECREF(provider);
    }
    method = fastdl_type_lookup_(type, "__dlpack__");
    if (method != NULL && method != Py_None) { /* None: opted out */
        record->facts |= FASTDL_TYPE_HAS_DLPACK;
        if (fastdl_read_signature_(method, &record->refused) < 0) {
            Py_DECREF(method);
            return -1;
        }
    }
    Py_XDECREF(method);
    return PyErr_Occurred() ? -1 : 0;
}

/* The same, with the header's own table for types without one. */
static int fastdl_fill_record_alone_(PyTypeObject *type, fastdl_record *record)
{
    const fastdl_peer_fact *peer;
    if (fastdl_fill_record_(type, record, &peer) < 0)
        return -1;
    if (record->api == NULL) {
        record->facts |= FASTDL_TYPE_PROTOCOL;
        record->api = &fastdl_protocol_table_;
    }
    return 0;
}

/* Makes CPython assign the type a version tag, if it has none. */
static uint32_t fastdl_make_tag_(PyTypeObject *type)
{
#if !defined(Py_LIMITED_API) && PY_VERSION_HEX >= 0x030C0000
    (void)PyUnstable_Type_AssignVersionTag(type);
#elif !defined(Py_LIMITED_API)
    Py_XDECREF(fastdl_type_lookup_(type, "__dlpack__"));
#endif
    return fastdl_tag_(type);
}

static int fastdl_watch_(PyTypeObject *type, PyObject **watch);

/* Gets the facts of a type from `describe`, and caches them in `cache` if `remember` is set.
 * Describing runs code of the type's descriptors, so the tag is compared afterwards. NULL with an
 * exception. */
FASTDL_SHARED_ const fastdl_record *
fastdl_discover(fastdl_cache *cache, PyTypeObject *type,
                int (*describe)(PyTypeObject *, fastdl_record *), int remember)
{
    const fastdl_record *kept;
    fastdl_record found;
    uint32_t tag;
    int tries = 0;
    do {
        tag = fastdl_make_tag_(type);
        if (describe(type, &found) < 0)
            return NULL;
    } while (tag != fastdl_tag_(type) && ++tries < 4);
    kept = fastdl_keep_record_(cache, &found);
    if (kept != NULL && remember && tries < 4 && tag != 0 && fastdl_is_tensor_type(kept)) {
        PyObject *watch = NULL;
        if (fastdl_watch_(type, &watch) == 0)
            fastdl_add_type_(cache, type, tag, kept, watch);
    }
    return kept;
}

#ifdef Py_LIMITED_API

/* The callback of a weak reference to a type; `self` is its address. */
static PyObject *fastdl_has_died_(PyObject *self, PyObject *unused)
{
    const void *type = PyLong_AsVoidPtr(self);
    (void)unused;
    if (type != NULL)
        fastdl_forget_(&fastdl_own_types_, type);
    Py_INCREF(Py_None);
    return Py_None;
}

static int fastdl_watch_(PyTypeObject *type, PyObject **watch)
{
    static PyMethodDef definition = {"has_died", fastdl_has_died_, METH_O, NULL};
    PyObject *address, *callback;
    if (fastdl_state_.tag_offset != 0)
        return 0;
    address = PyLong_FromVoidPtr(type);
    callback = address == NULL ? NULL : PyCFunction_NewEx(&definition, address, NULL);
    *watch = callback == NULL ? NULL : PyWeakref_NewRef((PyObject *)type, callback);
    Py_XDECREF(callback);
    Py_XDECREF(address);
    (void)fastdl_clear_if_(PyExc_Exception);
    return *watch == NULL ? -1 : 0;
}

#else

static int fastdl_watch_(PyTypeObject *type, PyObject **watch)
{
    (void)type;
    (void)watch;
    return 0;
}

#endif

/* The destructor of the capsule that an interpreter keeps for this module: the interpreter ends. */
static void fastdl_leave_home_(PyObject *capsule)
{
    fastdl_names_ *names = (fastdl_names_ *)fastdl_atomic_load_(&fastdl_kept_names_);
    const void *here = PyCapsule_GetContext(capsule);
    if (here == NULL)
        return; /* it was not kept */
    if (names != NULL && names->interpreter == here) {
        fastdl_atomic_store_(&fastdl_kept_names_, NULL);
        fastdl_drop_names_(names);
        free(names);
    }
    if (fastdl_atomic_load_(&fastdl_state_.home) != here)
        return; /* another interpreter has become the home since */
    fastdl_atomic_store_(&fastdl_state_.hits, fastdl_no_types_);
    fastdl_atomic_store_(&fastdl_state_.runtime, NULL);
    fastdl_forget_(&fastdl_own_types_, NULL);
#ifdef Py_LIMITED_API
    fastdl_state_.tag_offset = FASTDL_TAG_OFFSET_;
#endif
    fastdl_atomic_store_(&fastdl_state_.home, NULL);
}

/* Has the calling interpreter keep such a capsule: 0, or -1 with an exception. */
static int fastdl_await_end_(PyInterpreterState *here)
{
    PyObject *kept = PyInterpreterState_GetDict(here);
    PyObject *key = PyUnicode_FromFormat("fastdl.h %p", (void *)&fastdl_state_);
    PyObject *capsule = PyCapsule_New(&fastdl_state_, "fastdl.h", fastdl_leave_home_);
    int result = -1;
    if (kept != NULL && key != NULL && capsule != NULL) {
        /* An existing capsule stays: its destruction would be mistaken for the end of the
         * interpreter. */
#ifdef Py_GIL_DISABLED
        /* In one step, or a thread could replace that of another: CPython 3.13 suspends a critical
         * section in each operation on the same dictionary. */
        PyObject *found = NULL;
        result = PyDict_SetDefaultRef(kept, key, capsule, &found);
        Py_XDECREF(found);
#else
        result = PyDict_Contains(kept, key);
        if (result == 0)
            result = PyDict_SetItem(kept, key, capsule);
#endif
        if (result == 0)
            PyCapsule_SetContext(capsule, here);
    }
    Py_XDECREF(capsule);
    Py_XDECREF(key);
    return result < 0 ? -1 : 0;
}

/* Makes the calling interpreter the home instead of `former`, unless another thread has done so
 * meanwhile: 0, or -1 with an exception. */
static int fastdl_bind_to_interpreter_(const void *former)
{
    PyInterpreterState *here = PyInterpreterState_Get();
    if (!fastdl_interpreter_is_gone_()) {
        if (fastdl_await_end_(here) < 0)
            return -1;
        /* The slots of the package stay, if another thread has put them there. */
        if (fastdl_atomic_compare_exchange_(&fastdl_state_.home, former, here))
            (void)fastdl_atomic_compare_exchange_(&fastdl_state_.hits, fastdl_no_types_,
                                                  fastdl_own_types_.tables[0]);
        if (fastdl_atomic_load_(&fastdl_state_.home) == (const void *)here)
            return 0;
    }
    PyErr_SetString(PyExc_ImportError, "expected an interpreter that is not about to end");
    return -1;
}

/* Whether the state belongs to the calling interpreter. */
static int fastdl_is_bound_here_(void)
{
    const void *home = fastdl_atomic_load_(&fastdl_state_.home);
    if (home == (const void *)PyInterpreterState_Get())
        return 1;
    if (home != NULL)
        fastdl_atomic_store_(&fastdl_state_.hits, fastdl_no_types_);
    return 0;
}

/* What the package offers the calling interpreter; NULL before fastdl_import(), and if it is not
 * the home. */
static const fastdl_runtime *fastdl_package_(void)
{
    return fastdl_is_bound_here_()
               ? (const fastdl_runtime *)fastdl_atomic_load_(&fastdl_state_.runtime)
               : NULL;
}

/* Whether the package has a member of fastdl_runtime that its first release did not have: the
 * struct of an older one ends before it, and may have padding there. */
#define FASTDL_OFFERS_(package, member)                                                            \
    ((package) != NULL &&                                                                          \
     (package)->size >= offsetof(fastdl_runtime, member) + sizeof((package)->member))

static const DLPackExchangeAPI *fastdl_protocol_(void)
{
    const fastdl_runtime *package = fastdl_package_();
    return package != NULL ? package->protocol : &fastdl_protocol_table_;
}

/* Slow path of fastdl_known_, for types that are not in way 0 of the cache. */
static const fastdl_record *fastdl_look_up_(PyTypeObject *type)
{
    const fastdl_record *record = NULL;
    const fastdl_runtime *package = NULL;
    int is_home = fastdl_is_bound_here_();
    if (!is_home && fastdl_atomic_load_(&fastdl_state_.home) == NULL) {
        is_home = fastdl_bind_to_interpreter_(NULL) == 0;
        if (!fastdl_clear_if_(PyExc_Exception))
            return NULL;
    }
    if (is_home) {
        package = (const fastdl_runtime *)fastdl_atomic_load_(&fastdl_state_.runtime);
        record = fastdl_find_record(package != NULL ? package->types : &fastdl_own_types_, type,
                                    fastdl_tag_(type));
    }
    if (record != NULL)
        return record;
    return package != NULL
               ? package->describe(type)
               : fastdl_discover(&fastdl_own_types_, type, fastdl_fill_record_alone_, is_home);
}

/* The cached names are freed with the home, by its capsule. */
static const fastdl_names_ *fastdl_keep_names_(fastdl_names_ *made)
{
    fastdl_names_ *kept;
    if (fastdl_make_names_(made) < 0)
        return NULL;
    if (fastdl_atomic_load_(&fastdl_state_.home) == NULL && fastdl_bind_to_interpreter_(NULL) < 0 &&
        !fastdl_clear_if_(PyExc_Exception)) {
        fastdl_drop_names_(made);
        return NULL;
    }
    kept = fastdl_is_bound_here_() ? (fastdl_names_ *)malloc(sizeof(fastdl_names_)) : NULL;
    if (kept == NULL)
        return made;
    *kept = *made;
    if (fastdl_atomic_compare_exchange_(&fastdl_kept_names_, NULL, kept))
        return kept;
    free(kept);
    return made;
}

static const fastdl_names_ *fastdl_get_names_(fastdl_names_ *made)
{
    const fastdl_names_ *kept = (const fastdl_names_ *)fastdl_atomic_load_(&fastdl_kept_names_);
    /* Only the home reads the cached names: its end could free them while another interpreter
     * reads. */
    if (FASTDL_LIKELY_(kept != NULL && fastdl_is_bound_here_() &&
                       kept->interpreter == (void *)PyInterpreterState_Get()))
        return kept;
    return fastdl_keep_names_(made);
}

static int fastdl_import_(const fastdl_runtime *runtime)
{
    const uint32_t major = FASTDL_ABI_MAJOR, minor = FASTDL_ABI_MINOR;
    if (runtime == NULL) {
        /* What PyCapsule_Import raises differs from release to release. */
        if (fastdl_clear_if_(PyExc_Exception))
            PyErr_SetString(PyExc_ImportError,
                            "the installed fastdl offers no interface for C: upgrade fastdlpack");
        return -1;
    }
    if (runtime->major != major || runtime->minor < minor) {
        int is_newer = runtime->major > major;
        PyErr_Format(PyExc_ImportError,
                     "this module was compiled with fastdl.h of interface %u.%u, and the installed "
                     "fastdl has interface %u.%u, which is %s: %s",
                     (unsigned)major, (unsigned)minor, (unsigned)runtime->major,
                     (unsigned)runtime->minor, is_newer ? "newer" : "older",
                     is_newer ? "upgrade the module, or compile it with the header of the "
                                "installed fastdl"
                              : "upgrade fastdlpack");
        return -1;
    }
    if (!fastdl_is_bound_here_() &&
        fastdl_bind_to_interpreter_(fastdl_atomic_load_(&fastdl_state_.home)) < 0)
        return -1;
#ifdef Py_LIMITED_API
    fastdl_state_.tag_offset = (size_t)runtime->tag_offset;
#endif
    fastdl_atomic_store_(&fastdl_state_.runtime, runtime);
    fastdl_atomic_store_(&fastdl_state_.hits, runtime->types->tables[0]);
    return 0;
}

static int fastdl_import_package_(void)
{
    PyObject *package = PyImport_ImportModule("fastdl"); /* its own error is more specific */
    Py_XDECREF(package);
    return package == NULL
               ? -1
               : fastdl_import_((const fastdl_runtime *)PyCapsule_Import(FASTDL_RUNTIME, 0));
}

static const DLPackExchangeAPI *fastdl_exchange_api_(PyTypeObject *type)
{
    const fastdl_record *record = fastdl_known_(type);
    if (record == NULL)
        return NULL;
    if (!fastdl_is_tensor_type(record)) {
        fastdl_raise_about_(PyExc_TypeError,
                            "expected the type of a tensor, got '%U', which has neither a DLPack "
                            "exchange table nor __dlpack__",
                            type);
        return NULL;
    }
    return record->api;
}

/* ---- owning ---- */

/* Whether to try `__dlpack__` of an object that its native table refused. If so the exception is
 * cleared, otherwise one is set. */
FASTDL_SHARED_ int fastdl_should_try_protocol_(PyObject *obj, uint32_t facts)
{
    if (facts & FASTDL_TYPE_NATIVE && facts & FASTDL_TYPE_HAS_DLPACK &&
        fastdl_clear_if_(PyExc_Exception))
        return 1;
    if (!PyErr_Occurred())
        fastdl_raise_about_(PyExc_BufferError,
                            "the exchange table of '%U' failed without giving a reason",
                            Py_TYPE(obj));
    return 0;
}

/* As fastdl_own; `record` is of the type of `obj`. *api is the table that made the tensor, and
 * names the stream on which it is ready. */
static int fastdl_own_(PyObject *obj, const fastdl_record *record, DLManagedTensorVersioned **out,
                       const DLPackExchangeAPI **api)
{
    DLManagedTensorVersioned *managed = NULL;
    int failed = record->api->managed_tensor_from_py_object_no_sync(obj, &managed);
    *api = record->api;
    if (FASTDL_UNLIKELY_(failed || managed == NULL)) {
        if (!fastdl_should_try_protocol_(obj, record->facts))
            return -1;
        *api = fastdl_protocol_();
        return (*api)->managed_tensor_from_py_object_no_sync(obj, out);
    }
    if (record->facts & FASTDL_TYPE_NATIVE)
        return fastdl_adopt_(obj, managed, NULL, record->facts, out);
    *out = managed; /* from a table of fastdl's, which has checked it */
    return 0;
}

static int fastdl_own_any_(PyObject *obj, DLManagedTensorVersioned **out)
{
    const fastdl_record *record = fastdl_known_(Py_TYPE(obj));
    const DLPackExchangeAPI *unused;
    *out = NULL;
    if (record == NULL)
        return -1;
    return fastdl_own_(obj, record, out, &unused);
}

/* ---- borrowing ---- */

/* Checks a view that a table filled in, and brings it into the form that fastdl_borrow promises. */
static int fastdl_check_view_(fastdl_view *view)
{
    fastdl_layout layout;
    fastdl_fault fault;
    DLTensor *dl = &view->dl;
    if (!fastdl_has_succeeded_())
        return -1;
    if (dl->strides == NULL && (uint32_t)dl->ndim <= FASTDL_MAX_NDIM && dl->shape != NULL) {
        fastdl_compact_strides(dl->ndim, dl->shape, view->room_);
        dl->strides = view->room_;
    }
    fault = fastdl_check(dl, view->flags, &layout);
    if (fault != FASTDL_OK) {
        fastdl_raise_fault(fault, dl);
        return -1;
    }
    fastdl_normalise_(dl);
    return 0;
}

/* Slow path of fastdl_complete_view_. */
static int fastdl_complete_slow_path_(PyObject *obj, fastdl_view *view, uint32_t facts)
{
    const DLTensor *dl = &view->dl;
    if ((!(facts & FASTDL_TYPE_SOUND) || (uint32_t)dl->ndim > FASTDL_MAX_NDIM ||
         dl->strides == NULL || dl->data == NULL || dl->byte_offset != 0) &&
        fastdl_check_view_(view) < 0)
        return -1;
    if (facts & FASTDL_TYPE_NO_STREAM &&
        fastdl_refuse_unordered_(obj, (int32_t)dl->device.device_type) < 0)
        return -1;
    return facts & FASTDL_TYPE_ASK_BITS ? fastdl_check_bits(obj, dl) : 0;
}

/* Fills a view with an owned tensor from a table that cannot lend. */
static int fastdl_borrow_owned_(PyObject *obj, fastdl_view *view, const fastdl_record *record)
{
    DLManagedTensorVersioned *managed = NULL;
    if (fastdl_own_(obj, record, &managed, &view->api_) < 0)
        return -1;
    view->own_ = managed;
    view->flags = managed->flags;
    view->dl = managed->dl_tensor;
    if (fastdl_check_view_(view) == 0)
        return 0;
    fastdl_release(view);
    return -1;
}

/* The same after a borrowing slot has refused. */
static int fastdl_borrow_refused_(PyObject *obj, fastdl_view *view, uint32_t facts)
{
    fastdl_record protocol;
    if (!fastdl_should_try_protocol_(obj, facts))
        return -1;
    memset(&protocol, 0, sizeof(protocol));
    protocol.api = fastdl_protocol_();
    return fastdl_borrow_owned_(obj, view, &protocol);
}

/* ---- results ---- */

/* An allocator's error report, as a Python exception. */
static void fastdl_set_error_(void *context, const char *kind, const char *message)
{
    PyObject *builtins, *exception;
    (void)context;
    if (!fastdl_clear_if_(PyExc_Exception))
        return;
    builtins = PyImport_ImportModule("builtins");
    exception = builtins == NULL || kind == NULL ? NULL : fastdl_attribute_(builtins, kind);
    if (fastdl_clear_if_(PyExc_Exception))
        PyErr_SetString(exception != NULL && PyExceptionClass_Check(exception) ? exception
                                                                               : PyExc_RuntimeError,
                        message != NULL ? message : "the allocator gave no reason");
    Py_XDECREF(exception);
    Py_XDECREF(builtins);
}

/* The table that makes results of the type `like`, and whether it is a library's own; NULL with an
 * exception. A type that is no tensor's is as good as one with only `__dlpack__`: FASTDL_ASARRAY
 * accepts its objects, and so does fastdl_borrow if they themselves have the method. */
static const DLPackExchangeAPI *fastdl_target_(PyTypeObject *like, int *native)
{
    const fastdl_runtime *package = fastdl_package_();
    const fastdl_record *record;
    *native = 0;
    if (like == NULL) {
        if (package == NULL)
            PyErr_SetString(PyExc_TypeError, "expected a type for the result: a fastdl.Tensor can "
                                             "be made only after fastdl_import()");
        return package == NULL ? NULL : package->tensor;
    }
    record = fastdl_known_(like);
    if (record == NULL)
        return NULL;
    *native = (record->facts & FASTDL_TYPE_NATIVE) != 0 &&
              !(package != NULL && record->api == package->tensor);
    return record->api;
}

static int fastdl_empty_(const DLTensor *prototype, PyTypeObject *like,
                         DLManagedTensorVersioned **out)
{
    DLTensor copy = *prototype;
    DLManagedTensorVersioned *managed = NULL;
    int failed, native;
    const fastdl_runtime *package = fastdl_package_();
    const DLPackExchangeAPI *api = fastdl_target_(like, &native);
    *out = NULL;
    if (api == NULL)
        return -1;
    if (FASTDL_OFFERS_(package, empty) && api == package->protocol &&
        !fastdl_find_device((int32_t)prototype->device.device_type)->host)
        return package->empty(prototype, like, out);
    failed = api->managed_tensor_allocator(&copy, &managed, NULL, fastdl_set_error_);
    if (FASTDL_UNLIKELY_(failed || managed == NULL)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_BufferError, "the allocator of the exchange table failed without "
                                               "giving a reason");
        return -1;
    }
    if (native && fastdl_adopt_(NULL, managed, NULL, 0, &managed) < 0)
        return -1;
    fastdl_fold_offset_(&managed->dl_tensor);
    *out = managed;
    return 0;
}

static int fastdl_zeros_(const DLTensor *prototype, PyTypeObject *like,
                         DLManagedTensorVersioned **out)
{
    fastdl_layout layout;
    const DLTensor *dl;
    *out = NULL;
    if (!fastdl_find_device((int32_t)prototype->device.device_type)->host) {
        PyErr_Format(PyExc_BufferError,
                     "expected host memory to fill with zeros, got device (%d, %d): call "
                     "fastdl_empty, and clear the memory on the stream on which it will be used",
                     (int)prototype->device.device_type, (int)prototype->device.device_id);
        return -1;
    }
    if (fastdl_empty(prototype, like, out) < 0)
        return -1;
    dl = &(*out)->dl_tensor;
    fastdl_check(dl, (*out)->flags, &layout);
    if (layout.size > 0)
        memset((char *)dl->data + dl->byte_offset + layout.low, 0,
               (size_t)(layout.high - layout.low));
    return 0;
}

/* Whether a tensor has a negative stride, even in a dimension of size 1. */
static int fastdl_steps_back_(const DLTensor *dl)
{
    for (int32_t i = 0; dl->strides != NULL && i < dl->ndim; i++)
        if (dl->strides[i] < 0)
            return 1;
    return 0;
}

static int fastdl_wrap_(DLManagedTensorVersioned *managed, PyTypeObject *like, PyObject **out)
{
    void *object = NULL;
    int failed, native;
    const fastdl_runtime *package = fastdl_package_();
    const DLPackExchangeAPI *api = fastdl_target_(like, &native);
    *out = NULL;
    if (api == NULL) {
        fastdl_discard_(managed, NULL);
        return -1;
    }
    if (FASTDL_OFFERS_(package, wrap) && (native || api == package->protocol))
        return package->wrap(managed, like, out); /* it knows what the library accepts */
    if (native && fastdl_steps_back_(&managed->dl_tensor)) {
        fastdl_raise_about_(PyExc_BufferError,
                            "expected no negative strides for a result of type '%U', whose library "
                            "may end the process: copy the data, or call fastdl_import(), and it "
                            "is copied",
                            like);
        fastdl_discard_(managed, NULL);
        return -1;
    }
    failed = api->managed_tensor_to_py_object_no_sync(managed, &object);
    if (FASTDL_UNLIKELY_(failed || object == NULL)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_BufferError, "the exchange table of the result's type failed "
                                               "without giving a reason");
        if (!native) /* fastdl's own tables have not consumed it */
            fastdl_discard_(managed, NULL);
        return -1;
    }
    if (!fastdl_has_succeeded_()) {
        Py_DECREF((PyObject *)object);
        return -1;
    }
    *out = (PyObject *)object;
    return 0;
}

static int fastdl_work_stream_(const fastdl_view *view, void **stream)
{
    DLDevice device = view->dl.device;
    *stream = NULL;
    if (fastdl_ordering_((int32_t)device.device_type) == FASTDL_STREAM_NONE)
        return 0;
    if (view->api_->current_work_stream(device.device_type, device.device_id, stream) == 0)
        return fastdl_has_succeeded_() ? 0 : -1;
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_BufferError,
                     "the exchange table of the tensor cannot tell its current stream on device "
                     "(%d, %d)",
                     (int)device.device_type, device.device_id);
    return -1;
}

/* Orders the caller's stream after that of the view or, if `back`, before it. */
static int fastdl_order_(const fastdl_view *view, void *stream, int back)
{
    const fastdl_runtime *package = fastdl_package_();
    void *own;
    if (fastdl_work_stream_(view, &own) < 0)
        return -1;
    if (own == stream ||
        fastdl_ordering_((int32_t)view->dl.device.device_type) == FASTDL_STREAM_NONE)
        return 0;
    if (!FASTDL_OFFERS_(package, order)) {
        PyErr_SetString(PyExc_BufferError,
                        "expected the stream that fastdl_work_stream gives, got another one, which "
                        "only the package can order: call fastdl_import() first (in the main "
                        "interpreter)");
        return -1;
    }
    return package->order(view->dl.device, back ? stream : own, back ? own : stream);
}

/* The same for the memory of a result for the type `like`. */
static int fastdl_order_result_(const DLManagedTensorVersioned *managed, PyTypeObject *like,
                                void *stream, int back)
{
    int native;
    fastdl_view view;
    if (fastdl_ordering_((int32_t)managed->dl_tensor.device.device_type) == FASTDL_STREAM_NONE)
        return 0; /* whatever `like` is: fastdl_wrap_ releases what it cannot wrap */
    view.api_ = fastdl_target_(like, &native);
    if (view.api_ == NULL)
        return -1;
    view.dl = managed->dl_tensor;
    return fastdl_order_(&view, stream, back);
}

static int fastdl_empty_on_(const DLTensor *prototype, PyTypeObject *like, void *stream,
                            DLManagedTensorVersioned **out)
{
    if (fastdl_empty_(prototype, like, out) < 0)
        return -1;
    if (fastdl_order_result_(*out, like, stream, 0) == 0)
        return 0;
    fastdl_discard_(*out, NULL);
    *out = NULL;
    return -1;
}

static int fastdl_wrap_on_(DLManagedTensorVersioned *managed, PyTypeObject *like, void *stream,
                           PyObject **out)
{
    *out = NULL;
    if (fastdl_order_result_(managed, like, stream, 1) < 0)
        return -1;
    return fastdl_wrap_(managed, like, out);
}

/* ---- expecting ---- */

/* The range that a tensor reaches within one period of its long strides, in bytes. */
typedef struct {
    uint64_t start, length;
} fastdl_round_;

/* Adds the strides of `threshold` bytes or more to the common divisor *step, and gives the range
 * that the shorter ones reach. */
static fastdl_round_ fastdl_round_of_(const DLTensor *dl, uint64_t threshold, uint64_t *step)
{
    uint64_t itemsize = (uint64_t)fastdl_itemsize(dl->dtype);
    fastdl_round_ round;
    round.start = fastdl_address_(dl) + dl->byte_offset;
    round.length = itemsize;
    for (int32_t i = 0; i < dl->ndim; i++) {
        uint64_t distance, rest, reach;
        if (dl->shape[i] == 1)
            continue; /* its stride may be anything */
        distance = fastdl_distance_(dl->strides[i]) * itemsize;
        reach = (uint64_t)(dl->shape[i] - 1) * distance;
        if (distance < threshold) {
            round.length += reach;
            round.start -= dl->strides[i] < 0 ? reach : 0;
            continue;
        }
        for (; distance != 0; distance = rest) { /* Euclid's algorithm */
            rest = *step % distance;
            *step = distance;
        }
    }
    return round;
}

/* Whether two tensors are disjoint modulo the period of their strides of `threshold` bytes or more.
 * Two columns of a matrix are: modulo the length of a row, they are disjoint ranges. */
static int fastdl_rounds_disjoint_(const DLTensor *a, const DLTensor *b, uint64_t threshold)
{
    uint64_t step = 0, later;
    fastdl_round_ of_a = fastdl_round_of_(a, threshold, &step);
    fastdl_round_ of_b = fastdl_round_of_(b, threshold, &step);
    if (step == 0)
        return 0;
    later = of_b.start >= of_a.start ? (of_b.start - of_a.start) % step
                                     : (step - (of_a.start - of_b.start) % step) % step;
    return later >= of_a.length && of_b.length <= step && later <= step - of_b.length;
}

/* Whether two tensors may have an element in common: see fastdl_expect. */
static int fastdl_overlap_(const fastdl_view *a, const fastdl_view *b)
{
    const DLTensor *tensors[2];
    fastdl_layout of_a, of_b;
    uint64_t at_a = fastdl_address_(&a->dl) + a->dl.byte_offset;
    uint64_t at_b = fastdl_address_(&b->dl) + b->dl.byte_offset;
    fastdl_check(&a->dl, a->flags, &of_a);
    fastdl_check(&b->dl, b->flags, &of_b);
    if (of_a.size == 0 || of_b.size == 0)
        return 0;
    /* Where data is a handle, different handles are different memory. */
    if (a->dl.data != b->dl.data &&
        !(fastdl_find_device((int32_t)a->dl.device.device_type)->addresses &&
          fastdl_find_device((int32_t)b->dl.device.device_type)->addresses))
        return 0;
    if (at_a + (uint64_t)of_a.high <= at_b + (uint64_t)of_b.low ||
        at_b + (uint64_t)of_b.high <= at_a + (uint64_t)of_a.low)
        return 0;
    if (fastdl_is_packed(a->dl.dtype, a->flags) || fastdl_is_packed(b->dl.dtype, b->flags))
        return 1;
    tensors[0] = &a->dl;
    tensors[1] = &b->dl;
    for (int k = 0; k < 2; k++)
        for (int32_t i = 0; i < tensors[k]->ndim; i++) {
            uint64_t distance = fastdl_distance_(tensors[k]->strides[i]) *
                                (uint64_t)fastdl_itemsize(tensors[k]->dtype);
            if (tensors[k]->shape[i] > 1 && fastdl_rounds_disjoint_(&a->dl, &b->dl, distance))
                return 0;
        }
    return 1;
}

static int fastdl_is_same_(const DLTensor *a, const DLTensor *b)
{
    if (a->data != b->data || a->byte_offset != b->byte_offset || a->ndim != b->ndim ||
        fastdl_dtype(a->dtype) != fastdl_dtype(b->dtype))
        return 0;
    for (int32_t i = 0; i < a->ndim; i++)
        if (a->shape[i] != b->shape[i] || (a->shape[i] > 1 && a->strides[i] != b->strides[i]))
            return 0;
    return 1;
}

/* The number of the entry of `no_alias` that a tensor overlaps, or its length. */
static size_t fastdl_aliased_(const fastdl_view *view, const fastdl_argument *no_alias,
                              size_t count, int32_t rules)
{
    size_t i;
    for (i = 0; i < count; i++) {
        const fastdl_view *other = no_alias[i].view;
        if (fastdl_overlap_(view, other) &&
            !(rules & FASTDL_IN_PLACE && fastdl_is_same_(&view->dl, &other->dl)))
            break;
    }
    return i;
}

/* Appends the shape that a spec asks for: "(n=5, 3, any)", with "..., " for leading dimensions. */
static void fastdl_put_shape_(fastdl_text_ *text, const fastdl_spec *spec)
{
    int32_t wanted = fastdl_wanted_ndim_(spec);
    fastdl_put_(text, spec->rules & FASTDL_TRAILING ? "(..., " : "(");
    for (int32_t i = 0; i < wanted; i++) {
        const fastdl_dim *dim = spec->shape[i];
        if (dim != NULL && dim->name != NULL) {
            fastdl_put_(text, dim->name);
            fastdl_put_(text, dim->size >= 0 ? "=" : "");
        }
        if (dim != NULL && dim->size >= 0)
            fastdl_put_int_(text, dim->size);
        else if (dim == NULL)
            fastdl_put_(text, "any");
        fastdl_put_(text, i + 1 < wanted ? ", " : wanted == 1 ? "," : "");
    }
    fastdl_put_(text, ")");
}

static void fastdl_put_expected_dtypes_(fastdl_text_ *text, const fastdl_spec *spec)
{
    for (size_t i = 0; i < spec->dtype_count; i++) {
        fastdl_put_(text, i == 0 ? "" : i + 1 < spec->dtype_count ? ", " : " or ");
        fastdl_put_dtype_(text, spec->dtypes[i]);
    }
}

/* Appends "(n=5, 3,), got (4, 3): n is 5 in x". */
static void fastdl_put_wrong_size_(fastdl_text_ *text, const DLTensor *dl, const char *name,
                                   const fastdl_spec *spec)
{
    int32_t i = fastdl_wrong_size_(dl, name, spec);
    const fastdl_dim *dim = i < 0 ? NULL : spec->shape[i];
    fastdl_put_shape_(text, spec);
    fastdl_put_(text, ", got ");
    fastdl_put_tuple_(text, dl->shape, dl->ndim);
    if (dim != NULL && dim->name != NULL && dim->from != NULL) {
        fastdl_put_(text, ": ");
        fastdl_put_(text, dim->name);
        fastdl_put_(text, " is ");
        fastdl_put_int_(text, dim->size);
        fastdl_put_(text, " in ");
        fastdl_put_(text, dim->from);
    }
}

static void fastdl_put_expected_ndim_(fastdl_text_ *text, const fastdl_spec *spec)
{
    fastdl_put_int_(text, fastdl_wanted_ndim_(spec));
    if (!(spec->rules & FASTDL_TRAILING)) {
        fastdl_put_(text, spec->ndim == 1 ? " dimension" : " dimensions");
    } else if (spec->max_ndim == 0) {
        fastdl_put_(text, " or more dimensions");
    } else {
        fastdl_put_(text, " to ");
        fastdl_put_int_(text, spec->max_ndim);
        fastdl_put_(text, " dimensions");
    }
}

/* The advice for a wrong element type: with FASTDL_CONVERT, why it was not converted. */
static const char *fastdl_dtype_advice_(const DLTensor *dl, const fastdl_spec *spec)
{
    if (!(spec->rules & FASTDL_CONVERT))
        return spec->like == NULL ? "convert it first" : "convert one of them first";
    if (spec->rules & FASTDL_WRITABLE)
        return "an output is not converted, so pass one of that type";
    if (!fastdl_find_device((int32_t)dl->device.device_type)->host)
        return "only host memory is converted, so convert it in its own library";
    return "this conversion is not made on demand, so make it in its own library";
}

/* Appends what is wrong with the tensor itself, as in "float32 or float64, got int32: convert it
 * first". Returns the exception; NULL for any other mismatch. */
static PyObject *fastdl_put_own_mismatch_(fastdl_text_ *text, const DLTensor *dl, const char *name,
                                          const fastdl_spec *spec, fastdl_mismatch_ mismatch)
{
    switch (mismatch) {
    case FASTDL_WRONG_DTYPE_:
        fastdl_put_expected_dtypes_(text, spec);
        fastdl_put_(text, ", got ");
        fastdl_put_dtype_(text, fastdl_dtype(dl->dtype));
        fastdl_put_(text, ": ");
        fastdl_put_(text, fastdl_dtype_advice_(dl, spec));
        return PyExc_TypeError;
    case FASTDL_WRONG_NDIM_:
        fastdl_put_expected_ndim_(text, spec);
        fastdl_put_(text, ", got ");
        fastdl_put_int_(text, dl->ndim);
        fastdl_put_(text, ": reshape it");
        return PyExc_ValueError;
    case FASTDL_WRONG_SIZE_:
        fastdl_put_(text, "shape ");
        fastdl_put_wrong_size_(text, dl, name, spec);
        return PyExc_ValueError;
    case FASTDL_WRONG_LAYOUT_:
        fastdl_put_(text, (spec->layout & FASTDL_C && spec->layout & FASTDL_F)
                              ? "a contiguous layout, in either order"
                          : spec->layout & FASTDL_C ? "a row-major contiguous layout"
                          : spec->layout & FASTDL_F ? "a column-major contiguous layout"
                                                    : "a last dimension of stride 1");
        fastdl_put_(text, ", got strides ");
        fastdl_put_tuple_(text, dl->strides, dl->ndim);
        fastdl_put_(text, ": copy it first");
        return PyExc_BufferError;
    case FASTDL_SHARES_ITSELF_:
        fastdl_put_(text, "an output whose elements do not overlap, got strides ");
        fastdl_put_tuple_(text, dl->strides, dl->ndim);
        fastdl_put_(text, ": pass a copy");
        return PyExc_BufferError;
    case FASTDL_WRONG_DEVICE_:
        if (spec->device == FASTDL_HOST)
            fastdl_put_(text, "host memory");
        else
            fastdl_put_device_type_(text, spec->device);
        fastdl_put_(text, ", got ");
        fastdl_put_device_(text, dl->device);
        fastdl_put_(text, ": move it first");
        return PyExc_BufferError;
    case FASTDL_UNALIGNED_:
        fastdl_put_(text, "data aligned to ");
        fastdl_put_int_(text, spec->alignment);
        fastdl_put_(text, " bytes, got an address ");
        fastdl_put_int_(
            text, (int64_t)((fastdl_address_(dl) + dl->byte_offset) % (uint64_t)spec->alignment));
        fastdl_put_(text, " bytes past a multiple: copy it first");
        return PyExc_BufferError;
    default:
        return NULL;
    }
}

/* The same for everything else: flags, and relations to other arguments. */
static PyObject *fastdl_put_mismatch_(fastdl_text_ *text, const fastdl_view *view,
                                      const fastdl_spec *spec, fastdl_mismatch_ mismatch)
{
    size_t i;
    switch (mismatch) {
    case FASTDL_NO_NDIM_:
        fastdl_put_(text, "a specification with ndim as well as shape, got ndim 0: the function "
                          "itself is at fault");
        return PyExc_ValueError;
    case FASTDL_READ_ONLY_:
        fastdl_put_(text, "a writable tensor, got a read-only one: pass a copy");
        return PyExc_BufferError;
    case FASTDL_OTHER_DTYPE_:
        fastdl_put_dtype_(text, fastdl_dtype(spec->like->view->dl.dtype));
        fastdl_put_(text, ", as ");
        fastdl_put_(text, spec->like->name);
        fastdl_put_(text, " has, got ");
        fastdl_put_dtype_(text, fastdl_dtype(view->dl.dtype));
        fastdl_put_(text, ": ");
        fastdl_put_(text, fastdl_dtype_advice_(&view->dl, spec));
        return PyExc_TypeError;
    case FASTDL_OTHER_DEVICE_:
        fastdl_put_device_(text, spec->like->view->dl.device);
        fastdl_put_(text, ", where ");
        fastdl_put_(text, spec->like->name);
        fastdl_put_(text, " is, got ");
        fastdl_put_device_(text, view->dl.device);
        fastdl_put_(text, ": move one of them first");
        return PyExc_BufferError;
    case FASTDL_ALIASED_:
        i = fastdl_aliased_(view, spec->no_alias, spec->no_alias_count, spec->rules);
        fastdl_put_(text, "no memory shared with ");
        fastdl_put_(text, i < spec->no_alias_count ? spec->no_alias[i].name : "another argument");
        fastdl_put_(text, ", got an overlap: pass a copy of one");
        return PyExc_ValueError;
    default: /* the tensor has changed since it was compared */
        fastdl_put_(text, "something else");
        return PyExc_ValueError;
    }
}

static int fastdl_raise_mismatch_(const fastdl_view *view, const char *name,
                                  const fastdl_spec *spec, fastdl_mismatch_ mismatch)
{
    fastdl_text_ text, tensor;
    PyObject *exception;
    text.length = tensor.length = 0;
    fastdl_put_(&text, name);
    fastdl_put_(&text, ": expected ");
    exception = fastdl_put_own_mismatch_(&text, &view->dl, name, spec, mismatch);
    if (exception == NULL)
        exception = fastdl_put_mismatch_(&text, view, spec, mismatch);
    fastdl_put_tensor_(&tensor, &view->dl, view->flags);
    PyErr_Format(exception, "%s (%s is %s)", text.text, name, tensor.text);
    return -1;
}

/* ---- arguments ---- */

/* Whether torch records gradients in this thread; 1 if that cannot be determined. -1 with an
 * exception. */
static int fastdl_grad_is_enabled_(void)
{
    int answer = -1;
    PyObject *name = PyUnicode_InternFromString("torch");
    PyObject *torch = name == NULL ? NULL : PyImport_GetModule(name);
    if (torch != NULL)
        answer = fastdl_call_predicate_(torch, "is_grad_enabled");
    Py_XDECREF(torch);
    Py_XDECREF(name);
    return answer >= 0 ? answer : fastdl_clear_if_(PyExc_Exception) ? 1 : -1;
}

/* Refuses a torch tensor whose gradient would be wrong after a write: 0, or -1 with BufferError. */
static int fastdl_requires_grad_(PyObject *obj, const char *name)
{
    PyObject *requires_grad = fastdl_optional_attribute_(obj, "requires_grad");
    int answer =
        requires_grad == NULL ? (PyErr_Occurred() ? -1 : 0) : PyObject_IsTrue(requires_grad);
    Py_XDECREF(requires_grad);
    if (answer > 0)
        answer = fastdl_grad_is_enabled_();
    if (answer <= 0)
        return answer;
    PyErr_Format(PyExc_BufferError,
                 "%s: expected a tensor that may be written, got one that requires grad while "
                 "gradients are recorded, which would miss it: call within torch.no_grad(), or "
                 "pass a detached tensor",
                 name);
    return -1;
}

/* ---- copies of host tensors ---- */

/* A copy and its memory, in one allocation. */
typedef struct {
    DLManagedTensorVersioned managed;
    int64_t dims[2]; /* shape, then strides: 2 * ndim of them; then, aligned, the elements */
} fastdl_copy_;

/* A deleter, so it is called on any thread, with or without a thread state. */
static void fastdl_delete_copy_(DLManagedTensorVersioned *self)
{
    free(self);
}

/* Describes a contiguous copy of a host tensor, in another element type and in `order`: all but its
 * address. The shape is that of `from`, whose sizes need not have been checked. */
static void fastdl_plan_copy_(const DLTensor *from, uint64_t flags, DLDataType dtype, char order,
                              fastdl_view *plan)
{
    int64_t step = 1;
    plan->flags =
        DLPACK_FLAG_BITMASK_IS_COPIED | (flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED);
    plan->dl = *from;
    plan->dl.data = NULL;
    plan->dl.device.device_type = kDLCPU; /* the copy of pinned memory is not pinned */
    plan->dl.device.device_id = 0;
    plan->dl.dtype = dtype;
    plan->dl.strides = plan->room_;
    plan->dl.byte_offset = 0;
    for (int32_t i = 0; i < from->ndim; i++) {
        int32_t k = order == 'F' ? i : from->ndim - 1 - i;
        plan->room_[k] = step;
        if (fastdl_mul_(step, from->shape[k] > 0 ? from->shape[k] : 1, &step))
            step = 1; /* no elements */
    }
}

/* The bytes of the elements of a plan: 0, or -1 if no memory can have as many. */
static int fastdl_count_bytes_(const fastdl_view *plan, int64_t *bytes)
{
    DLTensor compact = plan->dl;
    DLDataType dtype = compact.dtype;
    int64_t size, low, high, bits = 8 * fastdl_itemsize(dtype);
    if (fastdl_is_packed(dtype, plan->flags))
        bits = (int64_t)dtype.bits * dtype.lanes;
    compact.strides = NULL;
    if (fastdl_measure_(&compact, &size, &low, &high) != FASTDL_OK ||
        fastdl_mul_(size, bits, &bits) || fastdl_add_(bits, 7, &bits))
        return -1;
    *bytes = bits / 8;
    return 0;
}

/* Allocates what was planned, at a multiple of `alignment` bytes and of a cache line. The elements
 * are not filled in. NULL with MemoryError. */
static DLManagedTensorVersioned *fastdl_new_copy_(const fastdl_view *plan, int32_t alignment)
{
    size_t dims = (size_t)plan->dl.ndim, start = sizeof(fastdl_copy_) + dims * 2 * sizeof(int64_t);
    uint64_t unit = alignment > 1 ? (uint64_t)alignment : 1;
    fastdl_copy_ *copy = NULL;
    DLTensor *to;
    int64_t bytes;
    while (unit % 64 != 0)
        unit *= 2;
    if (fastdl_count_bytes_(plan, &bytes) < 0) {
        fastdl_raise_(PyExc_MemoryError, "cannot allocate more bytes than there are addresses");
        return NULL;
    }
    if (start + unit + (uint64_t)bytes <= (uint64_t)PTRDIFF_MAX)
        copy = (fastdl_copy_ *)malloc((size_t)(start + unit + (uint64_t)bytes));
    if (copy == NULL) {
        fastdl_raise_(PyExc_MemoryError, "cannot allocate %lld bytes for a copy", (long long)bytes);
        return NULL;
    }
    memset(&copy->managed, 0, sizeof(copy->managed));
    copy->managed.version.major = FASTDL_DLPACK_MAJOR;
    copy->managed.version.minor = FASTDL_DLPACK_MINOR;
    copy->managed.manager_ctx = copy;
    copy->managed.deleter = fastdl_delete_copy_;
    copy->managed.flags = plan->flags;
    to = &copy->managed.dl_tensor;
    *to = plan->dl;
    to->shape = copy->dims;
    to->strides = copy->dims + dims;
    for (size_t i = 0; i < dims; i++) {
        to->shape[i] = plan->dl.shape[i];
        to->strides[i] = plan->dl.strides[i];
    }
    to->data = (char *)copy + start;
    to->data = (char *)to->data + (size_t)((unit - (uintptr_t)to->data % unit) % unit);
    return &copy->managed;
}

#define FASTDL_KIND_CASE_(number, type, kind)                                                      \
    case number:                                                                                   \
        return kind;

/* The kind of an element type: not convertible, bool, integer, floating. Each converts to its own
 * kind and to higher ones. */
static int fastdl_kind_(uint32_t dtype)
{
    switch (dtype) {
    case FASTDL_BOOL:
        return 1;
        FASTDL_EACH_INTEGER(FASTDL_KIND_CASE_, 2)
        FASTDL_EACH_FLOATING(FASTDL_KIND_CASE_, 3)
    default:
        return 0;
    }
}

/* Elements on their way from one type to another, a cache line or more at a time. */
#define FASTDL_RUN_ 1024

typedef union {
    int64_t whole[FASTDL_RUN_]; /* of bool and integers; uint64 as its bits */
    double real[FASTDL_RUN_];
    char bytes[FASTDL_RUN_ * 8];
} fastdl_run_;

#define FASTDL_READ_CASE_(number, type, run)                                                       \
    case number:                                                                                   \
        for (int i = 0; i < n; i++) {                                                              \
            type value;                                                                            \
            memcpy(&value, from + (size_t)i * sizeof(value), sizeof(value));                       \
            (run)->whole[i] = number == FASTDL_BOOL ? value != 0 : (int64_t)value;                 \
        }                                                                                          \
        break;

/* Bools or integers as integers of 64 bits. */
static void fastdl_read_whole_(uint32_t dtype, const char *from, int n, fastdl_run_ *run)
{
    switch (dtype) {
        FASTDL_EACH_INTEGER(FASTDL_READ_CASE_, run)
        FASTDL_READ_CASE_(FASTDL_BOOL, uint8_t, run)
    default:
        break;
    }
}

#define FASTDL_WRITE_CASE_(number, type, run)                                                      \
    case number:                                                                                   \
        for (int i = 0; i < n; i++) {                                                              \
            type value = (type)(run)->whole[i];                                                    \
            misfits |= (int64_t)value != (run)->whole[i];                                          \
            misfits |= (run)->whole[i] < 0 && (is_unsigned || number == FASTDL_UINT64);            \
            memcpy(to + (size_t)i * sizeof(value), &value, sizeof(value));                         \
        }                                                                                          \
        break;

/* Writes integers; returns whether some are out of range for the type. */
static int fastdl_write_whole_(uint32_t dtype, int is_unsigned, int n, const fastdl_run_ *run,
                               char *to)
{
    int misfits = 0; /* collected: a loop that may exit early is not vectorised */
    switch (dtype) {
        FASTDL_EACH_INTEGER(FASTDL_WRITE_CASE_, run)
    default:
        break;
    }
    return misfits;
}

/* Turns integers into doubles, which round to odd if they are inexact: narrower types then round as
 * if from the integer itself. */
static void fastdl_float_run_(int is_unsigned, int n, fastdl_run_ *run)
{
    for (int i = 0; i < n; i++) {
        int64_t value = run->whole[i];
        int negative = !is_unsigned && value < 0;
        uint64_t size = negative ? (uint64_t)0 - (uint64_t)value : (uint64_t)value;
        if (size >> 53 != 0)
            size = (size >> 11 | ((size & 0x7ff) != 0)) << 11;
        run->real[i] = negative ? -(double)size : (double)size;
    }
}

/* GCC vectorises a loop of unknown length only at -O3; other compilers do at -O2. */
#if defined(__GNUC__) && !defined(__clang__)
#define FASTDL_VECTORISED_ __attribute__((optimize("O3")))
#else
#define FASTDL_VECTORISED_
#endif

/* Numbers to float32 or float64, for which the compiler has instructions. */
FASTDL_VECTORISED_ static void fastdl_cast_run_(uint32_t source, const char *from, int n,
                                                uint32_t target, char *to)
{
    FASTDL_DISPATCH_REAL(target, T, {
        FASTDL_DISPATCH_NUMBER(source, S, {
            for (int i = 0; i < n; i++) {
                S value;
                T result;
                memcpy(&value, from + (size_t)i * sizeof(value), sizeof(value));
                result = (T)value;
                memcpy(to + (size_t)i * sizeof(result), &result, sizeof(result));
            }
        });
    });
}

#define FASTDL_LOAD_CASE_(number, run)                                                             \
    case number:                                                                                   \
        for (int i = 0; i < n; i++)                                                                \
            (run)->real[i] = fastdl_load(number, from + (size_t)i * 2);                            \
        return;
#define FASTDL_STORE_CASE_(number, run)                                                            \
    case number:                                                                                   \
        for (int i = 0; i < n; i++)                                                                \
            fastdl_store(number, to + (size_t)i * 2, (run)->real[i]);                              \
        return;

/* Numbers of any type as float64. */
static void fastdl_read_real_(uint32_t dtype, const char *from, int n, fastdl_run_ *run)
{
    switch (dtype) {
        FASTDL_LOAD_CASE_(FASTDL_FLOAT16, run)
        FASTDL_LOAD_CASE_(FASTDL_BFLOAT16, run)
    case FASTDL_INT64:
    case FASTDL_UINT64:
        fastdl_read_whole_(dtype, from, n, run);
        fastdl_float_run_(dtype == FASTDL_UINT64, n, run);
        return;
    default:
        fastdl_cast_run_(dtype, from, n, FASTDL_FLOAT64, run->bytes);
    }
}

/* The reverse, to floating types. */
static void fastdl_write_real_(uint32_t dtype, int n, const fastdl_run_ *run, char *to)
{
    switch (dtype) {
        FASTDL_STORE_CASE_(FASTDL_FLOAT16, run)
        FASTDL_STORE_CASE_(FASTDL_BFLOAT16, run)
    default:
        fastdl_cast_run_(FASTDL_FLOAT64, run->bytes, n, dtype, to);
    }
}

/* Whether C has a type for the elements. */
static int fastdl_is_number_(uint32_t dtype)
{
    return dtype != FASTDL_FLOAT16 && dtype != FASTDL_BFLOAT16;
}

/* Converts up to FASTDL_RUN_ consecutive elements. Returns whether integers did not fit; those are
 * in *run then. */
static int fastdl_convert_run_(uint32_t source, const char *from, int n, uint32_t target, char *to,
                               fastdl_run_ *run)
{
    if (source == FASTDL_BOOL || fastdl_kind_(target) == 2) {
        fastdl_read_whole_(source, from, n, run);
        if (fastdl_kind_(target) == 2)
            return fastdl_write_whole_(target, source == FASTDL_UINT64, n, run, to);
        fastdl_cast_run_(FASTDL_INT64, run->bytes, n, FASTDL_FLOAT64, run->bytes);
        fastdl_write_real_(target, n, run, to);
    } else if (fastdl_is_number_(source) && fastdl_is_number_(target)) {
        fastdl_cast_run_(source, from, n, target, to);
    } else {
        fastdl_read_real_(source, from, n, run);
        fastdl_write_real_(target, n, run, to);
    }
    return 0;
}

#define FASTDL_GATHER_CASE_(bytes)                                                                 \
    case bytes:                                                                                    \
        for (int64_t i = 0; i < n; i++)                                                            \
            memcpy(to + i * bytes, from + i * step, bytes);                                        \
        break;

/* Copies n elements that lie `step` bytes apart to consecutive ones. For a size that the compiler
 * knows, a copy is a load and a store. */
static void fastdl_gather_(const char *from, int64_t step, int64_t size, int64_t n, char *to)
{
    if (step == size) {
        memcpy(to, from, (size_t)(n * size));
        return;
    }
    switch (size) {
        FASTDL_GATHER_CASE_(1)
        FASTDL_GATHER_CASE_(2)
        FASTDL_GATHER_CASE_(4)
        FASTDL_GATHER_CASE_(8)
        FASTDL_GATHER_CASE_(16)
    default:
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * size, from + i * step, (size_t)size);
    }
}

/* The elements of a host tensor in one order, row by row. The first dimension is the fastest; those
 * of size 1 are left out, and those that one stride describes are merged. */
typedef struct {
    const char *at; /* the first element of the row */
    int64_t size;   /* of an element, in bytes */
    int32_t ndim;   /* at least 1 */
    int64_t shape[FASTDL_MAX_NDIM + 1];
    int64_t steps[FASTDL_MAX_NDIM + 1]; /* in bytes */
    int64_t index[FASTDL_MAX_NDIM + 1];
} fastdl_walk_;

static void fastdl_start_walk_(const DLTensor *from, char order, fastdl_walk_ *walk)
{
    int32_t last = 0;
    walk->at = (const char *)from->data + from->byte_offset;
    walk->size = walk->steps[0] = fastdl_itemsize(from->dtype);
    walk->shape[0] = 1;
    for (int32_t i = 0; i < from->ndim; i++) {
        int32_t k = order == 'F' ? i : from->ndim - 1 - i;
        int64_t size = from->shape[k], step;
        if (size == 1) /* its stride may be anything */
            continue;
        step = from->strides[k] * walk->size;
        if (walk->shape[last] == 1) {
            walk->steps[last] = step;
        } else if ((uint64_t)step != (uint64_t)walk->shape[last] * (uint64_t)walk->steps[last]) {
            walk->shape[++last] = 1;
            walk->steps[last] = step;
        }
        walk->shape[last] *= size;
    }
    walk->ndim = last + 1;
    memset(walk->index, 0, (size_t)walk->ndim * sizeof(walk->index[0]));
}

/* Advances to the next row, like an odometer: 0 after the last. */
static int fastdl_next_row_(fastdl_walk_ *walk)
{
    for (int32_t i = 1; i < walk->ndim; i++) {
        walk->at += walk->steps[i];
        if (++walk->index[i] < walk->shape[i])
            return 1;
        walk->at -= walk->shape[i] * walk->steps[i];
        walk->index[i] = 0;
    }
    return 0;
}

/* A copy without a conversion. The package has loops for it that are blocked for the cache. */
static void fastdl_copy_rows_(const DLTensor *from, uint64_t flags, char *to, char order)
{
    fastdl_walk_ walk;
    const fastdl_runtime *package = fastdl_package_();
    if (FASTDL_OFFERS_(package, copy)) {
        int64_t shape[FASTDL_MAX_NDIM], strides[FASTDL_MAX_NDIM];
        DLTensor turned = *from;
        for (int32_t i = 0; i < from->ndim && order == 'F'; i++) {
            shape[i] = from->shape[from->ndim - 1 - i];
            strides[i] = from->strides[from->ndim - 1 - i];
            turned.shape = shape;
            turned.strides = strides;
        }
        package->copy(&turned, flags, to);
        return;
    }
    fastdl_start_walk_(from, order, &walk);
    do {
        fastdl_gather_(walk.at, walk.steps[0], walk.size, walk.shape[0], to);
        to += walk.shape[0] * walk.size;
    } while (fastdl_next_row_(&walk));
}

/* An integer that is out of range for its new type. */
typedef struct {
    int64_t value;
    int64_t place; /* how many elements were copied before it */
} fastdl_misfit_;

/* Sets *misfit to the first of n integers that is out of range for a type. */
static void fastdl_find_misfit_(uint32_t dtype, int is_unsigned, const fastdl_run_ *run,
                                fastdl_misfit_ *misfit)
{
    fastdl_run_ one;
    int i = 0;
    for (;; i++) {
        int64_t unused;
        one.whole[0] = run->whole[i];
        if (fastdl_write_whole_(dtype, is_unsigned, 1, &one, (char *)&unused))
            break;
    }
    misfit->value = run->whole[i];
    misfit->place += i;
}

/* A copy with a conversion: 0, or -1 for an integer that does not fit. */
static int fastdl_convert_rows_(const DLTensor *from, const DLTensor *target, char order,
                                fastdl_misfit_ *misfit)
{
    uint32_t source = fastdl_dtype(from->dtype), dtype = fastdl_dtype(target->dtype);
    int64_t bytes = fastdl_itemsize(target->dtype);
    char *to = (char *)target->data;
    fastdl_run_ gathered, run;
    fastdl_walk_ walk;
    int n = 0, more = 1; /* elements gathered; rows to come */
    int64_t done = 0;    /* elements of this row */
    misfit->place = 0;
    fastdl_start_walk_(from, order, &walk);
    while (more) {
        const char *elements = gathered.bytes, *at = walk.at + done * walk.steps[0];
        int64_t rest = walk.shape[0] - done;
        int count = rest < FASTDL_RUN_ - n ? (int)rest : FASTDL_RUN_ - n;
        if (count == FASTDL_RUN_ && walk.steps[0] == walk.size)
            elements = at; /* contiguous already */
        else
            fastdl_gather_(at, walk.steps[0], walk.size, count, gathered.bytes + n * walk.size);
        n += count;
        done += count;
        if (done == walk.shape[0]) {
            more = fastdl_next_row_(&walk);
            done = 0;
        }
        if (n < FASTDL_RUN_ && more)
            continue;
        if (fastdl_convert_run_(source, elements, n, dtype, to, &run)) {
            fastdl_find_misfit_(dtype, source == FASTDL_UINT64, &run, misfit);
            return -1;
        }
        misfit->place += n;
        to += n * bytes;
        n = 0;
    }
    return 0;
}

/* Fills in a copy that fastdl_new_copy_ made of a host tensor. */
static int fastdl_fill_copy_(const DLTensor *from, uint64_t flags, const DLTensor *to, char order,
                             fastdl_misfit_ *misfit)
{
    if (fastdl_is_empty_(from))
        return 0;
    if (fastdl_dtype(from->dtype) != fastdl_dtype(to->dtype))
        return fastdl_convert_rows_(from, to, order, misfit);
    fastdl_copy_rows_(from, flags, (char *)to->data, order);
    return 0;
}

/* Whether elements of one type can be converted to another. */
static int fastdl_converts_(uint32_t from, uint32_t to)
{
    int kind = fastdl_kind_(from);
    return from == to || (kind != 0 && kind <= fastdl_kind_(to) && to != FASTDL_BOOL);
}

/* The element type of a copy that is to meet a specification: `own` if it is accepted, or if it
 * cannot be converted to any accepted one. */
static DLDataType fastdl_choose_dtype_(DLDataType own, const fastdl_spec *spec)
{
    uint32_t from = fastdl_dtype(own), to = from;
    if (spec->like != NULL) {
        uint32_t wanted = fastdl_dtype(spec->like->view->dl.dtype);
        to = fastdl_converts_(from, wanted) ? wanted : from;
    } else {
        for (size_t i = spec->dtype_count; i-- > 0;) {
            if (spec->dtypes[i] == from)
                return own;
            if (fastdl_converts_(from, spec->dtypes[i]))
                to = spec->dtypes[i];
        }
    }
    return fastdl_data_type(to);
}

/* Sets ValueError for an integer, from elements with that type code, that is out of range for a
 * copy. */
static void fastdl_raise_misfit_(const DLTensor *copy, const char *name, uint8_t code, char order,
                                 const fastdl_misfit_ *misfit)
{
    int64_t index[FASTDL_MAX_NDIM], place = misfit->place;
    fastdl_text_ type, where;
    for (int32_t i = 0; i < copy->ndim; i++) {
        int32_t k = order == 'F' ? i : copy->ndim - 1 - i;
        index[k] = place % copy->shape[k];
        place /= copy->shape[k];
    }
    type.length = where.length = 0;
    fastdl_put_dtype_(&type, fastdl_dtype(copy->dtype));
    fastdl_put_tuple_(&where, index, copy->ndim);
    PyErr_Format(PyExc_ValueError,
                 code == kDLUInt ? "%s: expected numbers that fit %s, got %llu at index %s"
                                 : "%s: expected numbers that fit %s, got %lld at index %s",
                 name, type.text, (long long)misfit->value, where.text);
}

/* Refuses a tensor whose element type is not what its table says: 0, or -1 with an exception that
 * names the argument. What is only borrowed is not asked, to save time. */
static int fastdl_check_copyable_(PyObject *obj, const DLTensor *tensor, const char *name)
{
    const fastdl_record *record = fastdl_known_(Py_TYPE(obj));
    if (record == NULL)
        return -1;
    if (!(record->facts & FASTDL_TYPE_ASK_BITS) || fastdl_check_width_(obj, tensor) == 0)
        return 0;
    fastdl_name_argument_(name);
    return -1;
}

/* Makes a copy of a host tensor that was planned for it. NULL with an exception that names the
 * argument. */
static DLManagedTensorVersioned *fastdl_make_copy_(const fastdl_view *from, const char *name,
                                                   const fastdl_view *plan, char order,
                                                   int32_t alignment)
{
    DLManagedTensorVersioned *copy = fastdl_new_copy_(plan, alignment);
    fastdl_misfit_ misfit;
    if (copy == NULL) {
        fastdl_name_argument_(name);
        return NULL;
    }
    if (fastdl_fill_copy_(&from->dl, from->flags, &copy->dl_tensor, order, &misfit) == 0)
        return copy;
    fastdl_raise_misfit_(&copy->dl_tensor, name, from->dl.dtype.code, order, &misfit);
    free(copy);
    return NULL;
}

/* Replaces the tensor of a view by a copy that meets a specification: 0; 1 if no copy can meet it,
 * with the reason in *mismatch; -1 with an exception. */
static int fastdl_substitute_copy_(PyObject *obj, fastdl_view *view, const char *name,
                                   const fastdl_spec *spec, fastdl_mismatch_ *mismatch)
{
    char order = (spec->layout & (FASTDL_C | FASTDL_F)) == FASTDL_F ? 'F' : 'C';
    DLDataType dtype = view->dl.dtype;
    DLManagedTensorVersioned *copy;
    fastdl_spec of_copy = *spec;
    fastdl_mismatch_ reason;
    fastdl_view plan;
    if (spec->rules & FASTDL_WRITABLE || fastdl_is_packed(dtype, view->flags) ||
        !fastdl_find_device((int32_t)view->dl.device.device_type)->host ||
        *mismatch == FASTDL_WRONG_NDIM_ || *mismatch == FASTDL_NO_NDIM_ ||
        *mismatch == FASTDL_WRONG_SIZE_) /* a copy would not fix it */
        return 1;
    if (spec->rules & FASTDL_CONVERT)
        dtype = fastdl_choose_dtype_(dtype, spec);
    fastdl_plan_copy_(&view->dl, view->flags, dtype, order, &plan);
    of_copy.alignment = 0; /* new memory is aligned, and nobody else's */
    of_copy.no_alias_count = 0;
    reason = fastdl_compare_(&plan, name, &of_copy);
    if (reason != FASTDL_MATCHES_) {
        /* A copy of pinned memory may be refused for its device, although that of the original was
         * right. */
        if (plan.dl.device.device_type == view->dl.device.device_type ||
            (reason != FASTDL_WRONG_DEVICE_ && reason != FASTDL_OTHER_DEVICE_))
            *mismatch = reason;
        return 1;
    }
    if (fastdl_check_copyable_(obj, &view->dl, name) < 0)
        return -1;
    copy = fastdl_make_copy_(view, name, &plan, order, spec->alignment);
    if (copy == NULL)
        return -1;
    fastdl_release(view);
    view->own_ = copy;
    view->dl = copy->dl_tensor;
    view->flags = copy->flags;
    return 0;
}

/* ---- objects that are not tensors ---- */

#if !defined(Py_LIMITED_API) || Py_LIMITED_API + 0 >= 0x030B0000

/* The element type for the format of a buffer; lanes 0 if there is none. The item size decides
 * where the size of a letter depends on the platform (long) or on the byte-order prefix. */
static DLDataType fastdl_dtype_of_format_(const char *format, Py_ssize_t itemsize)
{
    static const struct {
        char letter;
        uint8_t code, bytes; /* 0 bytes: 4 or 8 */
    } numbers[] = {
        {'?', kDLBool, 1}, {'b', kDLInt, 1},   {'h', kDLInt, 2},   {'i', kDLInt, 4},
        {'q', kDLInt, 8},  {'l', kDLInt, 0},   {'n', kDLInt, 0},   {'B', kDLUInt, 1},
        {'H', kDLUInt, 2}, {'I', kDLUInt, 4},  {'Q', kDLUInt, 8},  {'L', kDLUInt, 0},
        {'N', kDLUInt, 0}, {'e', kDLFloat, 2}, {'f', kDLFloat, 4}, {'d', kDLFloat, 8},
    };
    DLDataType result = {0, 0, 0};
    int is_complex;
    format += *format == '@' || *format == '=' || *format == (PY_BIG_ENDIAN ? '>' : '<');
    is_complex = *format == 'Z';
    format += is_complex;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        Py_ssize_t bytes = is_complex ? itemsize / 2 : itemsize;
        if (format[0] != numbers[i].letter || format[1] != '\0' ||
            (is_complex && (numbers[i].code != kDLFloat || numbers[i].bytes < 4)) ||
            (numbers[i].bytes != 0 ? bytes != numbers[i].bytes : bytes != 4 && bytes != 8))
            continue;
        result.code = is_complex ? (uint8_t)kDLComplex : numbers[i].code;
        result.bits = (uint8_t)(itemsize * 8);
        result.lanes = 1;
    }
    return result;
}

static int fastdl_has_suboffsets_(const Py_buffer *buffer)
{
    for (int i = 0; i < buffer->ndim && buffer->suboffsets != NULL; i++)
        if (buffer->suboffsets[i] >= 0)
            return 1;
    return 0;
}

/* Describes a buffer with a format and strides in *tensor: 0, or -1 with BufferError. `dims`, which
 * receives its shape and strides, has room for 2 * FASTDL_MAX_NDIM numbers. */
FASTDL_SHARED_ int fastdl_read_buffer_(const Py_buffer *buffer, DLTensor *tensor, int64_t *dims)
{
    const char *format = buffer->format == NULL ? "B" : buffer->format;
    fastdl_layout layout;
    fastdl_fault fault;
    int has_elements = 1;
    if (buffer->ndim > FASTDL_MAX_NDIM || (buffer->ndim > 0 && buffer->shape == NULL)) {
        fastdl_raise_(PyExc_BufferError, "expected a shape of at most %d sizes, got %d",
                      FASTDL_MAX_NDIM, buffer->ndim);
        return -1;
    }
    if (fastdl_has_suboffsets_(buffer)) {
        fastdl_raise_(PyExc_BufferError,
                      "expected a buffer of elements, got one of pointers to them (with "
                      "suboffsets), which DLPack cannot describe: copy the data first");
        return -1;
    }
    memset(tensor, 0, sizeof(*tensor));
    tensor->dtype = fastdl_dtype_of_format_(format, buffer->itemsize);
    if (tensor->dtype.lanes == 0) {
        PyObject *text = PyUnicode_DecodeLatin1(format, (Py_ssize_t)strlen(format), NULL);
        if (text != NULL)
            fastdl_raise_(PyExc_BufferError,
                          "expected a buffer of native numbers or bools, got format %R with "
                          "itemsize %zd, which DLPack cannot describe: convert the values first",
                          text, buffer->itemsize);
        Py_XDECREF(text);
        return -1;
    }
    tensor->data = buffer->buf;
    tensor->device.device_type = kDLCPU;
    tensor->ndim = buffer->ndim;
    tensor->shape = dims;
    for (int i = 0; i < buffer->ndim; i++) {
        dims[i] = buffer->shape[i];
        has_elements &= dims[i] != 0;
    }
    /* Exporters without strides, such as ctypes, are compact. Without elements, strides mean
     * nothing. */
    if (buffer->strides != NULL && has_elements)
        tensor->strides = dims + FASTDL_MAX_NDIM;
    for (int i = 0; tensor->strides != NULL && i < buffer->ndim; i++) {
        tensor->strides[i] = buffer->strides[i] / buffer->itemsize;
        if (dims[i] > 1 && buffer->strides[i] % buffer->itemsize != 0) {
            fastdl_raise_(PyExc_BufferError,
                          "expected strides in multiples of %zd bytes, one element, got %zd in "
                          "dimension %d: copy the array first",
                          buffer->itemsize, buffer->strides[i], i);
            return -1;
        }
    }
    fault = fastdl_check(tensor, 0, &layout);
    if (fault == FASTDL_OK)
        return 0;
    fastdl_raise_fault(fault, tensor);
    return -1;
}

static DLManagedTensorVersioned *fastdl_export_(const fastdl_description *description);

/* The tensor of an object's buffer, which is locked as long as the tensor lives: 1; 0 if the object
 * has no buffer, or one that hides the element type; -1 with an exception. */
static int fastdl_own_buffer_(PyObject *obj, DLManagedTensorVersioned **out)
{
    fastdl_description description;
    Py_buffer buffer;
    PyObject *lock, *interface = fastdl_type_lookup_(Py_TYPE(obj), "__array_interface__");
    Py_XDECREF(interface);
    if (PyErr_Occurred())
        return -1;
    if (interface != NULL) /* NumPy exports dates as a buffer of bytes */
        return 0;
    lock = PyMemoryView_FromObject(obj);
    if (lock == NULL)
        return fastdl_clear_if_(PyExc_TypeError) ? 0 : -1;
    *out = NULL;
    fastdl_start_description_(lock, &description);
    if (PyObject_GetBuffer(lock, &buffer, PyBUF_FULL_RO) == 0) {
        if (buffer.readonly)
            description.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
        if (fastdl_read_buffer_(&buffer, &description.dl, description.room) == 0)
            *out = fastdl_export_(&description);
        PyBuffer_Release(&buffer);
    }
    fastdl_release_object_(lock); /* which the tensor keeps */
    return *out != NULL ? 1 : -1;
}

#else

static int fastdl_own_buffer_(PyObject *obj, DLManagedTensorVersioned **out)
{
    (void)obj;
    (void)out;
    return 0;
}

#endif

/* Makes a view that owns `managed`, which is ready on the stream that `api` names. */
static void fastdl_fill_view_(fastdl_view *view, DLManagedTensorVersioned *managed,
                              const DLPackExchangeAPI *api)
{
    view->own_ = managed;
    view->api_ = api;
    view->flags = managed->flags;
    view->dl = managed->dl_tensor;
    fastdl_normalise_(&view->dl);
}

/* The same for the tensor of `obj`: 0, or -1 with an exception. */
static int fastdl_view_owned_(PyObject *obj, fastdl_view *view)
{
    const fastdl_record *record = fastdl_known_(Py_TYPE(obj));
    const DLPackExchangeAPI *api;
    DLManagedTensorVersioned *managed;
    fastdl_init(view);
    if (record == NULL || fastdl_own_(obj, record, &managed, &api) < 0)
        return -1;
    fastdl_fill_view_(view, managed, api);
    return 0;
}

/* The same for the buffer of an object, on the host: 1; 0 if it has none; -1 with an exception. */
static int fastdl_view_buffer_(PyObject *obj, fastdl_view *view)
{
    DLManagedTensorVersioned *managed;
    int result = fastdl_own_buffer_(obj, &managed);
    if (result > 0)
        fastdl_fill_view_(view, managed, &fastdl_protocol_table_);
    return result;
}

/* The same for the tensor that fastdl.asarray makes of an object or, without the package, for its
 * buffer. */
static int fastdl_view_array_(PyObject *obj, fastdl_view *view)
{
    PyObject *tensor, *package = PyImport_ImportModule("fastdl");
    int result;
    if (package == NULL)
        return fastdl_clear_if_(PyExc_Exception) ? fastdl_view_buffer_(obj, view) : -1;
    tensor = PyObject_CallMethod(package, "asarray", "(O)", obj);
    Py_DECREF(package);
    result = tensor == NULL || fastdl_view_owned_(tensor, view) < 0 ? -1 : 1;
    Py_XDECREF(tensor); /* the view owns an export of it */
    return result;
}

/* Whether an object has `__dlpack__`, or -1 with an exception. */
static int fastdl_has_dlpack_(PyObject *obj)
{
    fastdl_names_ made;
    const fastdl_names_ *names = fastdl_get_names_(&made);
    fastdl_method_ method;
    int result = names == NULL ? -1 : fastdl_find_method_(obj, names->dlpack, &method);
    if (result > 0)
        Py_DECREF(method.callable);
    if (names == &made)
        fastdl_drop_names_(&made);
    return result;
}

/* Called with the exception of a failed borrow. If the object is not a tensor: makes a view of it
 * as an array, and returns 0. Otherwise -1 with that exception, or with a better one. */
static int fastdl_view_as_array_(PyObject *obj, fastdl_view *view)
{
    PyObject *type, *value, *traceback;
    int result;
    PyErr_Fetch(&type, &value, &traceback);
    result = fastdl_has_dlpack_(obj) == 0 ? fastdl_view_array_(obj, view) : 0;
    if (result == 0) {
        fastdl_restore_(type, value, traceback);
        return -1;
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return result < 0 ? -1 : 0;
}

/* Handles an argument that could not be borrowed: 0 if the rules allow an alternative that worked;
 * else -1 with an exception that names the argument. */
static int fastdl_argument_failed_(PyObject *obj, const char *name, int32_t rules,
                                   fastdl_view *view)
{
    if (rules & FASTDL_ASARRAY && PyErr_ExceptionMatches(PyExc_TypeError) &&
        fastdl_view_as_array_(obj, view) == 0)
        return 0;
    fastdl_name_argument_(name);
    return -1;
}

static int fastdl_own_as_(PyObject *obj, const char *name, const fastdl_spec *spec,
                          DLManagedTensorVersioned **out)
{
    fastdl_view view;
    *out = NULL;
    if (fastdl_view_owned_(obj, &view) < 0 &&
        fastdl_argument_failed_(obj, name, spec->rules, &view) < 0)
        return -1;
    if (fastdl_check_spec_(obj, name, spec, &view) < 0) {
        fastdl_release(&view);
        return -1;
    }
    *out = view.own_;
    return 0;
}

/* ---- producers ---- */

/* Ensures that an exception is set after a producer's function has failed: -1. */
static int fastdl_describe_failed_(PyObject *self)
{
    if (!PyErr_Occurred())
        fastdl_raise_about_(PyExc_BufferError,
                            "the function that describes '%U' failed without giving a reason",
                            Py_TYPE(self));
    return -1;
}

/* Calls a producer's function for the tensor of an object, and checks the result: 0, or -1 with an
 * exception. */
static int fastdl_describe_(PyObject *self, fastdl_describer describe,
                            fastdl_description *description)
{
    fastdl_layout layout;
    fastdl_fault fault;
    fastdl_start_description_(self, description);
    if (describe(self, description) < 0 || PyErr_Occurred())
        return fastdl_describe_failed_(self);
    description->flags &=
        DLPACK_FLAG_BITMASK_READ_ONLY | DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED;
    fault = fastdl_check(&description->dl, description->flags, &layout);
    if (fault != FASTDL_OK) {
        fastdl_raise_fault(fault, &description->dl);
        return -1;
    }
    fastdl_normalise_(&description->dl);
    return 0;
}

/* A managed tensor of a checked description. NULL with MemoryError. */
static DLManagedTensorVersioned *fastdl_export_(const fastdl_description *description)
{
    fastdl_wrapper_ *wrapper = fastdl_new_wrapper_(&description->dl, description->flags);
    DLTensor *dl = wrapper == NULL ? NULL : &wrapper->managed.dl_tensor;
    size_t dims = (size_t)description->dl.ndim;
    if (wrapper == NULL)
        return NULL;
    if (dl->strides != wrapper->dims)
        memcpy(wrapper->dims, dl->strides, dims * sizeof(int64_t));
    dl->strides = wrapper->dims;
    if (dims > 0)
        memcpy(wrapper->dims + dims, dl->shape, dims * sizeof(int64_t));
    dl->shape = wrapper->dims + dims;
    fastdl_keep_(wrapper, description->owner);
    return &wrapper->managed;
}

static int fastdl_produce_(PyObject *self, fastdl_describer describe,
                           DLManagedTensorVersioned **out)
{
    fastdl_description description;
    DLManagedTensorVersioned *managed;
    if (fastdl_describe_(self, describe, &description) < 0)
        return -1;
    managed = fastdl_export_(&description);
    if (managed == NULL)
        return -1;
    *out = managed;
    return 0;
}

/* Why a tensor is not lent: -1 with an exception. */
static int fastdl_refuse_to_lend_(PyObject *self, fastdl_description *description, int failed)
{
    fastdl_layout layout;
    fastdl_fault fault;
    if (failed)
        return fastdl_describe_failed_(self);
    fault = fastdl_check(&description->dl, description->flags, &layout);
    if (fault != FASTDL_OK)
        fastdl_raise_fault(fault, &description->dl);
    else if (description->flags != 0)
        fastdl_raise_about_(PyExc_BufferError,
                            "a tensor of '%U' is read-only or padded, which a borrowed DLTensor "
                            "cannot express: call __dlpack__(max_version=(1, 0))",
                            Py_TYPE(self));
    else
        fastdl_raise_about_(PyExc_BufferError,
                            "'%U' does not store shape and strides to be lent: its author has "
                            "to store them, or to publish it without FASTDL_LENDS",
                            Py_TYPE(self));
    return -1;
}

/* For the table of a producer in a module that has not imported the package. */
static const char *const fastdl_produced_words_ =
    "results of a producer's type are fastdl.Tensors, which its module can make only after "
    "fastdl_import(): install or upgrade fastdlpack, and call fastdl_import() in that module";

/* The allocator in the table of a producer: that of fastdl.Tensor. Needs no thread state. */
static int fastdl_allocate_produced_(DLTensor *prototype, DLManagedTensorVersioned **out,
                                     void *context,
                                     void (*SetError)(void *, const char *, const char *))
{
    const fastdl_runtime *package =
        (const fastdl_runtime *)fastdl_atomic_load_(&fastdl_state_.runtime);
    if (package != NULL)
        return package->tensor->managed_tensor_allocator(prototype, out, context, SetError);
    SetError(context, "TypeError", fastdl_produced_words_);
    return -1;
}

static int fastdl_wrap_produced_(DLManagedTensorVersioned *managed, void **out)
{
    const fastdl_runtime *package = fastdl_package_();
    if (package != NULL)
        return package->tensor->managed_tensor_to_py_object_no_sync(managed, out);
    PyErr_SetString(PyExc_TypeError, fastdl_produced_words_);
    return -1;
}

/* The arguments of `__dlpack__`; NULL: not given. Borrowed. */
typedef struct {
    PyObject *stream, *max_version, *dl_device, *copy, *version;
} fastdl_request_;

#define FASTDL_MEMBER_(name) {#name, sizeof(#name) - 1, offsetof(fastdl_request_, name)}

static int fastdl_read_keywords_(PyObject *const *values, Py_ssize_t count, PyObject *names,
                                 fastdl_request_ *request)
{
    /* All lengths differ, so at most one name is compared. */
    static const struct {
        const char *name;
        Py_ssize_t length;
        size_t offset;
    } keywords[] = {FASTDL_MEMBER_(stream), FASTDL_MEMBER_(max_version), FASTDL_MEMBER_(dl_device),
                    FASTDL_MEMBER_(copy), FASTDL_MEMBER_(version)};
    const int known = sizeof(keywords) / sizeof(keywords[0]);
    memset(request, 0, sizeof(*request));
    if (count > 0) {
        PyErr_Format(PyExc_TypeError, "__dlpack__() takes no positional arguments, got %zd", count);
        return -1;
    }
    for (Py_ssize_t i = 0; names != NULL && i < PyTuple_Size(names); i++) {
        PyObject *name = PyTuple_GetItem(names, i);
        int k = 0;
        while (k < known && PyUnicode_GetLength(name) != keywords[k].length)
            k++;
        if (k == known || PyUnicode_CompareWithASCIIString(name, keywords[k].name) != 0) {
            PyErr_Format(PyExc_TypeError, "__dlpack__() got an unexpected keyword argument '%U'",
                         name);
            return -1;
        }
        if (values[i] != Py_None)
            *(PyObject **)((char *)request + keywords[k].offset) = values[i];
    }
    return 0;
}

/* An int as 64 bits, saturated. 0, or -1 with TypeError, whose format has a %R, or with what the
 * object raised. */
static int fastdl_read_int_(PyObject *value, const char *format, int64_t *number)
{
    PyObject *index;
    int overflow;
    if (PyBool_Check(value) || !PyIndex_Check(value)) {
        PyErr_Format(PyExc_TypeError, format, value);
        return -1;
    }
    index = PyNumber_Index(value);
    if (index == NULL)
        return -1;
    *number = PyLong_AsLongLongAndOverflow(index, &overflow);
    Py_DECREF(index);
    if (overflow != 0)
        *number = overflow > 0 ? INT64_MAX : INT64_MIN;
    return PyErr_Occurred() ? -1 : 0;
}

/* Two ints from a tuple or a list: 0, or -1 as above, also for any other object. */
static int fastdl_read_pair_(PyObject *pair, const char *format, const char *item_format,
                             int64_t *numbers)
{
    Py_ssize_t size = -1;
    if (PyTuple_Check(pair) || PyList_Check(pair))
        size = PySequence_Size(pair);
    if (size != 2) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_TypeError, format, pair);
        return -1;
    }
    for (int i = 0; i < 2; i++) {
        PyObject *item = PySequence_GetItem(pair, i);
        int failed = item == NULL || fastdl_read_int_(item, item_format, &numbers[i]) < 0;
        Py_XDECREF(item);
        if (failed)
            return -1;
    }
    return 0;
}

/* Whether to return a versioned capsule: 1, 0, or -1 with an exception. */
static int fastdl_wants_versioned_(const fastdl_request_ *request)
{
    int64_t numbers[2];
    if (request->max_version != NULL && request->version != NULL) {
        PyErr_SetString(PyExc_TypeError, "expected max_version or version, got both");
        return -1;
    }
    if (request->version != NULL) {
        if (fastdl_read_int_(request->version, "expected an int in version, got %R", numbers) < 0)
            return -1;
        if (numbers[0] < 70)
            return 0;
        if (numbers[0] >= 100 && numbers[0] <= FASTDL_DLPACK_MAJOR * 100 + FASTDL_DLPACK_MINOR * 10)
            return 1;
        PyErr_Format(PyExc_BufferError,
                     "expected version up to 69, or 100 to 130, got %R: 70 to 99 is a layout that "
                     "never shipped, and DLPack 1.3 is the newest that fastdl speaks",
                     request->version);
        return -1;
    }
    if (request->max_version == NULL)
        return 0;
    if (fastdl_read_pair_(request->max_version, "expected max_version as (major, minor), got %R",
                          "expected an int in max_version, got %R", numbers) < 0)
        return -1;
    if (numbers[0] < 0 || numbers[1] < 0) {
        PyErr_Format(PyExc_TypeError, "expected max_version of numbers from 0 on, got %R",
                     request->max_version);
        return -1;
    }
    return numbers[0] >= FASTDL_DLPACK_MAJOR;
}

/* The device that a consumer requests: 0, or -1 with an exception. */
static int fastdl_read_target_(PyObject *dl_device, DLDevice *target)
{
    int64_t numbers[2] = {0, 0};
    PyObject *pair = dl_device;
    int failed;
    Py_INCREF(pair);
    if (!PyTuple_Check(dl_device) && !PyList_Check(dl_device)) {
        PyObject *method = fastdl_type_lookup_(Py_TYPE(dl_device), "__dlpack_device__");
        if (method != NULL) {
            Py_DECREF(pair);
            pair = PyObject_CallMethod(dl_device, "__dlpack_device__", NULL);
            Py_DECREF(method);
        } else if (PyErr_Occurred()) {
            Py_CLEAR(pair);
        }
    }
    failed = pair == NULL || fastdl_read_pair_(pair, "expected dl_device as (type, id), got %R",
                                               "expected ints in dl_device, got %R", numbers) < 0;
    Py_XDECREF(pair);
    if (failed)
        return -1;
    if (numbers[0] == kDLCPU && numbers[1] != 0) {
        PyErr_Format(PyExc_BufferError,
                     "cannot export to dl_device %R: expected the one CPU, 'cpu' or (1, 0)",
                     dl_device);
        return -1;
    }
    if (numbers[0] <= 0 || numbers[0] > INT32_MAX || numbers[1] < INT32_MIN ||
        numbers[1] > INT32_MAX) {
        PyErr_Format(PyExc_BufferError, "cannot export to dl_device %R: there is no such device",
                     dl_device);
        return -1;
    }
    target->device_type = (DLDeviceType)numbers[0];
    target->device_id = (int32_t)numbers[1];
    return 0;
}

/* Checks that a stream, which may be absent, is one that the device has: 0, or -1 with ValueError
 * or BufferError. */
static int fastdl_check_stream_(const fastdl_request_ *request, int64_t stream, DLDevice device)
{
    const fastdl_device_fact *fact = fastdl_find_device((int32_t)device.device_type);
    fastdl_text_ name;
    if (request->stream == NULL || stream == -1)
        return 0;
    name.length = 0;
    fastdl_put_device_(&name, device);
    if (stream < -1 || stream == INT64_MAX)
        PyErr_Format(PyExc_ValueError, "expected a stream handle of 64 bits, or -1, got %R",
                     request->stream);
    else if (fact->stream == FASTDL_STREAM_NONE)
        PyErr_Format(PyExc_ValueError, "%s has no streams: expected stream=None or -1, got %R",
                     name.text, request->stream);
    else if (fact->stream == FASTDL_STREAM_OPAQUE)
        PyErr_Format(PyExc_BufferError, "DLPack has no stream numbers for %s: pass stream=None",
                     name.text);
    else if (fact->stream == FASTDL_STREAM_CUDA && stream == 0)
        PyErr_SetString(PyExc_ValueError,
                        "stream 0 is ambiguous on CUDA: pass 1 for the legacy default stream or 2 "
                        "for the per-thread default stream");
    else if (fact->stream == FASTDL_STREAM_ROCM && (stream == 1 || stream == 2))
        PyErr_Format(PyExc_ValueError, "ROCm has no stream %R: pass 0 for the default stream",
                     request->stream);
    else
        return 0;
    return -1;
}

/* Whether the memory is already ready on the consumer's stream: 1, 0, or -1 with an exception. */
static int fastdl_is_ready_(const fastdl_request_ *request, int64_t stream, DLDevice device,
                            DLPackCurrentWorkStream current)
{
    void *handle = NULL;
    uint64_t own;
    if (!fastdl_is_ordered_((int32_t)device.device_type) || (request->stream && stream == -1))
        return 1;
    if (current(device.device_type, device.device_id, &handle) != 0 || PyErr_Occurred()) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_BufferError, "the producer cannot tell its stream");
        return -1;
    }
    own = (uintptr_t)handle; /* CUDA's legacy default stream is both NULL and 1 */
    if (request->stream == NULL)
        stream = 0;
    if (fastdl_find_device((int32_t)device.device_type)->stream == FASTDL_STREAM_CUDA) {
        own = own == 1 ? 0 : own;
        stream = stream == 1 ? 0 : stream;
    }
    return own == (uint64_t)stream;
}

/* Lets the package, if it is imported, do the export: its own tensor on the object orders streams
 * and copies. NULL with an exception; without one if the package is not imported. */
static PyObject *fastdl_delegate_(PyObject *self, PyObject *const *values, PyObject *names)
{
    PyObject *name = PyUnicode_InternFromString("fastdl");
    PyObject *package = name == NULL ? NULL : PyImport_GetModule(name);
    PyObject *import = package == NULL ? NULL : fastdl_optional_attribute_(package, "from_dlpack");
    PyObject *tensor = NULL, *method = NULL, *nothing = NULL, *keywords = NULL, *capsule = NULL;
    if (import != NULL)
        tensor = PyObject_CallFunctionObjArgs(import, self, NULL);
    if (tensor != NULL && (method = fastdl_attribute_(tensor, "__dlpack__")) != NULL &&
        (nothing = PyTuple_New(0)) != NULL && (keywords = PyDict_New()) != NULL) {
        int failed = 0;
        for (Py_ssize_t i = 0; names != NULL && i < PyTuple_Size(names) && !failed; i++)
            failed = PyDict_SetItem(keywords, PyTuple_GetItem(names, i), values[i]) < 0;
        if (!failed)
            capsule = PyObject_Call(method, nothing, keywords);
    }
    Py_XDECREF(keywords);
    Py_XDECREF(nothing);
    Py_XDECREF(method);
    Py_XDECREF(tensor);
    Py_XDECREF(import);
    Py_XDECREF(package);
    Py_XDECREF(name);
    return capsule;
}

static int fastdl_is_same_device_(DLDevice a, DLDevice b)
{
    return a.device_type == b.device_type && a.device_id == b.device_id;
}

/* BufferError for an export that needs the package. */
static void fastdl_raise_needs_package_(DLDevice here, DLDevice target)
{
    fastdl_text_ from, to;
    from.length = to.length = 0;
    fastdl_put_device_(&from, here);
    fastdl_put_device_(&to, target);
    PyErr_Format(PyExc_BufferError,
                 fastdl_is_same_device_(here, target)
                     ? "a tensor on %s is ready only on its producer's stream, and nothing here "
                       "orders streams or copies there: import fastdl first (pip install "
                       "fastdlpack), which does, or pass stream=-1 and order the work yourself"
                     : "a tensor on %s cannot be copied to %s by its producer: import fastdl "
                       "first (pip install fastdlpack), or ask for the data where it is",
                 from.text, to.text);
}

static void fastdl_destroy_versioned_(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) /* else consumed */
        fastdl_discard_(
            (DLManagedTensorVersioned *)PyCapsule_GetPointer(capsule, "dltensor_versioned"), NULL);
}

static void fastdl_destroy_legacy_(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor"))
        fastdl_discard_(NULL, (DLManagedTensor *)PyCapsule_GetPointer(capsule, "dltensor"));
}

/* A legacy managed tensor (before 1.0) around a versioned one. */
typedef struct {
    DLManagedTensor managed;
    DLManagedTensorVersioned *inner;
} fastdl_legacy_;

/* A deleter, so it is called on any thread, with or without a thread state. */
static void fastdl_delete_legacy_(DLManagedTensor *self)
{
    fastdl_legacy_ *legacy = (fastdl_legacy_ *)self;
    legacy->inner->deleter(legacy->inner);
    free(legacy);
}

/* A legacy capsule. Steals `managed`, also on failure. NULL with an exception. */
static PyObject *fastdl_legacy_capsule_(DLManagedTensorVersioned *managed)
{
    DLDataType dtype = managed->dl_tensor.dtype;
    int read_only = (managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
    fastdl_legacy_ *legacy = NULL;
    PyObject *capsule;
    if (read_only || fastdl_is_packed(dtype, 0) != fastdl_is_packed(dtype, managed->flags)) {
        fastdl_text_ text;
        text.length = 0;
        fastdl_put_tensor_(&text, &managed->dl_tensor, 0);
        PyErr_Format(PyExc_BufferError,
                     "%s %s, which a legacy DLPack capsule cannot say: ask with "
                     "max_version=(1, 0) or newer%s",
                     text.text, read_only ? "is read-only" : "has padded elements",
                     read_only ? ", or export a copy" : "");
    } else {
        legacy = (fastdl_legacy_ *)malloc(sizeof(fastdl_legacy_));
        if (legacy == NULL)
            PyErr_NoMemory();
    }
    if (legacy == NULL) {
        fastdl_discard_(managed, NULL);
        return NULL;
    }
    legacy->managed.dl_tensor = managed->dl_tensor;
    legacy->managed.manager_ctx = legacy;
    legacy->managed.deleter = fastdl_delete_legacy_;
    legacy->inner = managed;
    capsule = PyCapsule_New(legacy, "dltensor", fastdl_destroy_legacy_);
    if (capsule == NULL)
        fastdl_discard_(NULL, &legacy->managed);
    return capsule;
}

static PyObject *fastdl_capsule_(DLManagedTensorVersioned *managed, int versioned)
{
    PyObject *capsule;
    if (managed == NULL)
        return NULL;
    if (!versioned)
        return fastdl_legacy_capsule_(managed);
    capsule = PyCapsule_New(managed, "dltensor_versioned", fastdl_destroy_versioned_);
    if (capsule == NULL)
        fastdl_discard_(managed, NULL);
    return capsule;
}

/* A row-major copy of a tensor in host memory. NULL with MemoryError. */
static DLManagedTensorVersioned *fastdl_copy_of_(const fastdl_description *description)
{
    int64_t strides[FASTDL_MAX_NDIM];
    DLManagedTensorVersioned *copy;
    fastdl_misfit_ unused;
    fastdl_layout layout;
    fastdl_view plan;
    DLTensor from = description->dl;
    if (from.strides == NULL) {
        fastdl_compact_strides(from.ndim, from.shape, strides);
        from.strides = strides;
    }
    fastdl_plan_copy_(&from, description->flags, from.dtype, 'C', &plan);
    copy = fastdl_new_copy_(&plan, 256);
    if (copy == NULL)
        return NULL;
    if (fastdl_is_packed(from.dtype, description->flags)) { /* which is compact */
        fastdl_check(&from, description->flags, &layout);
        if (layout.nbytes > 0)
            memcpy(copy->dl_tensor.data, from.data, (size_t)layout.nbytes);
    } else {
        (void)fastdl_fill_copy_(&from, description->flags, &copy->dl_tensor, 'C', &unused);
    }
    return copy;
}

/* Whether memory of a device satisfies a consumer that requested another. */
static int fastdl_satisfies_(DLDevice here, DLDevice target)
{
    return fastdl_is_same_device_(here, target) ||
           (target.device_type == kDLCPU && fastdl_find_device((int32_t)here.device_type)->host);
}

/* A capsule, if no driver is needed. NULL with an exception; NULL without one if a driver is
 * needed. */
static PyObject *fastdl_answer_(const fastdl_description *description,
                                const fastdl_request_ *request, const DLDevice *target,
                                int64_t stream, DLPackCurrentWorkStream current, int versioned)
{
    DLDevice here = description->dl.device;
    int is_ready;
    if (!fastdl_satisfies_(here, *target))
        return NULL;
    if (fastdl_check_stream_(request, stream, here) < 0)
        return NULL;
    if (request->copy == Py_True)
        return here.device_type == kDLCPU ? fastdl_capsule_(fastdl_copy_of_(description), versioned)
                                          : NULL;
    is_ready = fastdl_is_ready_(request, stream, here, current);
    return is_ready > 0 ? fastdl_capsule_(fastdl_export_(description), versioned) : NULL;
}

/* The same if a driver is needed and the package is not imported. */
static PyObject *fastdl_copy_to_host_(const fastdl_description *description, const DLDevice *target,
                                      int versioned)
{
    const DLTensor *dl = &description->dl;
    if (fastdl_satisfies_(dl->device, *target) &&
        fastdl_find_device((int32_t)dl->device.device_type)->host) /* not pinned: that is allowed */
        return fastdl_capsule_(fastdl_copy_of_(description), versioned);
    fastdl_raise_needs_package_(dl->device, *target);
    return NULL;
}

/* `__dlpack__` of a producer: the rules of _protocol/producer.py. */
static PyObject *fastdl_dlpack_(PyObject *self, fastdl_describer describe,
                                DLPackCurrentWorkStream current, PyObject *const *values,
                                Py_ssize_t count, PyObject *names)
{
    fastdl_description description;
    fastdl_request_ request;
    DLDevice target = {kDLCPU, 0};
    int64_t stream = 0;
    int versioned;
    PyObject *capsule;
    if (fastdl_read_keywords_(values, count, names, &request) < 0)
        return NULL;
    versioned = fastdl_wants_versioned_(&request);
    if (versioned < 0)
        return NULL;
    if (request.copy != NULL && !PyBool_Check(request.copy)) {
        PyErr_Format(PyExc_TypeError, "expected copy=None, True or False, got %R", request.copy);
        return NULL;
    }
    if (request.dl_device != NULL && fastdl_read_target_(request.dl_device, &target) < 0)
        return NULL;
    if (request.stream != NULL &&
        fastdl_read_int_(request.stream, "expected a stream as an int or None, got %R", &stream) <
            0)
        return NULL;
    if (fastdl_describe_(self, describe, &description) < 0)
        return NULL;
    if (request.dl_device == NULL)
        target = description.dl.device;
    Py_XINCREF(description.owner); /* streams, messages and the package may run anything */
    capsule = fastdl_answer_(&description, &request, &target, stream, current, versioned);
    if (capsule == NULL && !PyErr_Occurred())
        capsule = fastdl_delegate_(self, values, names);
    if (capsule == NULL && !PyErr_Occurred())
        capsule = fastdl_copy_to_host_(&description, &target, versioned);
    Py_XDECREF(description.owner);
    return capsule;
}

static PyObject *fastdl_dlpack_device_(PyObject *self, fastdl_describer describe)
{
    fastdl_description description;
    if (fastdl_describe_(self, describe, &description) < 0)
        return NULL;
    return Py_BuildValue("(ii)", (int)description.dl.device.device_type,
                         (int)description.dl.device.device_id);
}

/* Adds an attribute to a type, or removes it if `value` is NULL: 0, or -1 with an exception. */
static int fastdl_set_in_type_(PyTypeObject *type, const char *name, PyObject *value)
{
#ifndef Py_LIMITED_API
    /* A type that is immutable to Python is mutable to its author. */
    if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) ||
        PyType_HasFeature(type, Py_TPFLAGS_IMMUTABLETYPE))
        return value != NULL ? PyDict_SetItemString(type->tp_dict, name, value)
                             : PyDict_DelItemString(type->tp_dict, name);
#endif
    return PyObject_SetAttrString((PyObject *)type, name, value);
}

/* Whether a type may be given attributes: 0, or -1 with TypeError. */
static int fastdl_check_own_type_(PyTypeObject *type)
{
    PyObject *module;
    int is_foreign;
#ifdef Py_LIMITED_API
    int is_immutable = (PyType_GetFlags(type) & (1UL << 9 | 1UL << 8)) != 1UL << 9;
    if (is_immutable) { /* a static type, or Py_TPFLAGS_IMMUTABLETYPE */
        fastdl_raise_about_(PyExc_TypeError,
                            "'%U' is immutable, and the limited API cannot add __dlpack__ to such "
                            "a type: make it without Py_TPFLAGS_IMMUTABLETYPE, or compile fastdl.c "
                            "without Py_LIMITED_API",
                            type);
        return -1;
    }
#else
    if (PyType_Ready(type) < 0)
        return -1;
#endif
    module = fastdl_of_type_(type, "__module__");
    if (module == NULL && !fastdl_clear_if_(PyExc_Exception))
        return -1;
    is_foreign = module != NULL && PyUnicode_Check(module) &&
                 PyUnicode_CompareWithASCIIString(module, "builtins") == 0 &&
                 !PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE);
#ifndef Py_LIMITED_API
    is_foreign |= type->tp_dict == NULL;
#endif
    Py_XDECREF(module);
    if (!is_foreign)
        return 0;
    fastdl_raise_about_(PyExc_TypeError,
                        "expected a type of your own to publish, got '%U', which is Python's",
                        type);
    return -1;
}

enum {
    FASTDL_PUBLISHED_ = 5
};

/* Whether a type already publishes this producer: 1; 0 if it has none of the attributes; -1 with
 * TypeError if it has those of another producer. */
static int fastdl_is_published_(PyTypeObject *type, const fastdl_producer *producer,
                                const char *const *names)
{
    PyObject *attributes = fastdl_of_type_(type, "__dict__");
    const char *taken = NULL;
    int is_same = 0, failed = attributes == NULL;
    for (int i = 0; i < FASTDL_PUBLISHED_ && !failed && taken == NULL; i++) {
        PyObject *value = fastdl_class_item_(attributes, names[i]);
        failed = value == NULL && PyErr_Occurred();
        if (value == NULL)
            continue;
        taken = names[i];
        is_same =
            PyCapsule_IsValid(value, "dlpack_exchange_api") &&
            PyCapsule_GetPointer(value, "dlpack_exchange_api") == (const void *)&producer->api;
        Py_DECREF(value);
    }
    Py_XDECREF(attributes);
    if (taken != NULL && !is_same) {
        PyObject *name = fastdl_type_name_(type);
        if (name != NULL)
            PyErr_Format(PyExc_TypeError,
                         "'%U' has %s already: publish one producer in a type, and define nothing "
                         "of the protocol in it yourself",
                         name, taken);
        Py_XDECREF(name);
        failed = 1;
    }
    return failed ? -1 : is_same;
}

static int fastdl_publish_(PyTypeObject *type, fastdl_producer *producer)
{
    static const char *const names[FASTDL_PUBLISHED_] = {"__dlpack_c_exchange_api__",
                                                         "__c_dlpack_exchange_api__", "__dlpack__",
                                                         "__dlpack_device__", "__dlpack_info__"};
    PyObject *values[FASTDL_PUBLISHED_];
    int done = 0, result;
    if (fastdl_check_own_type_(type) < 0)
        return -1;
    result = fastdl_is_published_(type, producer, names);
    if (result != 0)
        return result < 0 ? -1 : 0;
    values[0] = PyCapsule_New(&producer->api, "dlpack_exchange_api", NULL);
    if (values[0] != NULL)
        (void)fastdl_mark_as_producer_(values[0], &producer->api);
    values[1] = PyErr_Occurred() ? NULL : PyLong_FromVoidPtr(&producer->api);
    for (int i = 0; i < 3; i++)
        values[2 + i] = PyErr_Occurred() ? NULL : PyDescr_NewMethod(type, &producer->methods[i]);
    if (!PyErr_Occurred())
        while (done < FASTDL_PUBLISHED_ &&
               fastdl_set_in_type_(type, names[done], values[done]) == 0)
            done++;
    if (done < FASTDL_PUBLISHED_) {
        PyObject *kind, *value, *traceback;
        PyErr_Fetch(&kind, &value, &traceback);
        while (done-- > 0)
            if (fastdl_set_in_type_(type, names[done], NULL) < 0)
                PyErr_WriteUnraisable((PyObject *)type);
        fastdl_restore_(kind, value, traceback);
        result = -1;
    }
    for (int i = 0; i < FASTDL_PUBLISHED_; i++)
        Py_XDECREF(values[i]);
    PyType_Modified(type);
    return result;
}

/* ---- the module's state ---- */

static const fastdl_functions_ fastdl_cold_ = {
    fastdl_import_package_,
    fastdl_exchange_api_,
    fastdl_own_any_,
    fastdl_own_as_,
    fastdl_wrap_,
    fastdl_empty_,
    fastdl_zeros_,
    fastdl_work_stream_,
    fastdl_order_,
    fastdl_empty_on_,
    fastdl_wrap_on_,
    fastdl_look_up_,
    fastdl_borrow_owned_,
    fastdl_borrow_refused_,
    fastdl_complete_slow_path_,
    fastdl_check_view_,
    fastdl_lazy_bits_,
    fastdl_requires_grad_,
    fastdl_aliased_,
    fastdl_substitute_copy_,
    fastdl_raise_mismatch_,
    fastdl_argument_failed_,
    fastdl_discard_,
    fastdl_target_,
    fastdl_interpreter_is_gone_,
    fastdl_publish_,
    fastdl_produce_,
    fastdl_dlpack_,
    fastdl_dlpack_device_,
    fastdl_refuse_to_lend_,
    fastdl_allocate_produced_,
    fastdl_wrap_produced_,
};

#if (defined(__GNUC__) || defined(__clang__)) && !defined(_WIN32)
__attribute__((weak))
#elif defined(_WIN32)
__declspec(selectany)
#endif
fastdl_state_t_ fastdl_state_ = {fastdl_no_types_, NULL, NULL, FASTDL_TAG_OFFSET_, &fastdl_cold_};

#ifdef __cplusplus
} /* extern "C" */
#endif

#if defined(__cplusplus) && defined(__clang__)
#pragma clang diagnostic pop
#elif defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#endif /* FASTDL_C_ */
