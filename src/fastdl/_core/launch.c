/* SPDX-License-Identifier: Apache-2.0 */
#include "interface.h"

/* The state of a signer, in a bytes object that is its `self`. */
typedef struct {
    fastdl_signature_rules rules;
    char layout[16];
} knowledge;

static const fastdl_record *(*discover_type)(PyTypeObject *);
static PyObject *into_name; /* interned */

/* The key so far: on the stack, until it is too long for that. */
typedef struct {
    char *bytes;
    size_t length, room;
    char first[1024];
} text;

static int reserve(text *key, size_t more)
{
    char *grown;
    if (FASTDL_LIKELY_(key->room - key->length >= more))
        return 0;
    grown = (char *)PyMem_Malloc(2 * (key->room + more));
    if (grown == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    memcpy(grown, key->bytes, key->length);
    if (key->bytes != key->first)
        PyMem_Free(key->bytes);
    key->bytes = grown;
    key->room = 2 * (key->room + more);
    return 0;
}

static int raise_packing(int fault, const char *layout, Py_ssize_t number, size_t room)
{
    if (fault == FASTDL_PACK_NO_ROOM)
        PyErr_Format(PyExc_ValueError,
                     "into: %zu bytes end before argument %zd in the layout '%s': pass a larger "
                     "buffer",
                     room, number, layout);
    else
        PyErr_Format(PyExc_OverflowError,
                     "argument %zd has a size or a stride beyond a 32-bit integer: use a signer "
                     "with N and S for n and s in its layout '%s'",
                     number, layout);
    return -1;
}

/* Adds argument `number` to the key, and to `into` if that has memory. */
static int add_argument(PyObject *argument, Py_ssize_t number, const knowledge *known, text *key,
                        const Py_buffer *into, size_t *used)
{
    const fastdl_record *record = fdl_type_find(Py_TYPE(argument));
    fastdl_view view;
    int result = -1, fault = FASTDL_PACKED;
    fastdl_init(&view);
    if (record == NULL)
        record = discover_type(Py_TYPE(argument));
    if (record == NULL || fastdl_borrow_by_(argument, record, &view) < 0) {
        char name[32];
        PyOS_snprintf(name, sizeof(name), "argument %zd", number);
        (void)fastdl_state_.cold->argument_failed(argument, name, 0, &view);
        return -1;
    }
    if (reserve(key, FASTDL_SIGNATURE_ROOM(view.dl.ndim)) == 0) {
        key->length +=
            fastdl_signature(&view.dl, view.flags, &known->rules, key->bytes + key->length);
        if (into->obj != NULL)
            fault = fastdl_pack(&view.dl, known->layout, into->buf, (size_t)into->len, used);
        result = fault == FASTDL_PACKED
                     ? 0
                     : raise_packing(fault, known->layout, number, (size_t)into->len);
    }
    fastdl_release(&view);
    return result;
}

static int read_into(PyObject *const *values, PyObject *names, Py_buffer *into)
{
    PyObject *name = PyTuple_GET_ITEM(names, 0);
    if (PyTuple_GET_SIZE(names) != 1 ||
        (name != into_name && PyUnicode_CompareWithASCIIString(name, "into") != 0)) {
        PyErr_Format(PyExc_TypeError, "expected tensors and into=buffer, got the keywords %R",
                     names);
        return -1;
    }
    return values[0] == Py_None ? 0 : PyObject_GetBuffer(values[0], into, PyBUF_WRITABLE);
}

static PyObject *sign(PyObject *self, PyObject *const *arguments, Py_ssize_t count, PyObject *names)
{
    const knowledge *known = (const knowledge *)PyBytes_AS_STRING(self);
    Py_buffer into;
    PyObject *result = NULL;
    Py_ssize_t done = 0;
    size_t used = 0;
    text key;
    into.obj = NULL;
    if (names != NULL && read_into(arguments + count, names, &into) < 0)
        return NULL;
    key.bytes = key.first;
    key.length = 0;
    key.room = sizeof(key.first);
    while (done < count && add_argument(arguments[done], done + 1, known, &key, &into, &used) == 0)
        done++;
    if (done == count)
        result = PyBytes_FromStringAndSize(key.bytes, (Py_ssize_t)key.length);
    if (key.bytes != key.first)
        PyMem_Free(key.bytes);
    if (into.obj != NULL)
        PyBuffer_Release(&into);
    return result;
}

PyObject *fdl_make_signer(const fastdl_signature_rules *rules, PyObject *layout, PyObject *doc,
                          const fastdl_record *(*discover)(PyTypeObject *))
{
    static PyMethodDef definition = {"signature", (PyCFunction)(void (*)(void))sign,
                                     METH_FASTCALL | METH_KEYWORDS, NULL};
    const char *letters = PyUnicode_AsUTF8(layout);
    PyObject *self, *module, *function;
    knowledge known;
    if (into_name == NULL)
        into_name = PyUnicode_InternFromString("into");
    if (letters == NULL || into_name == NULL)
        return NULL;
    discover_type = discover;
    if (definition.ml_doc == NULL) {
        Py_INCREF(doc); /* for good */
        definition.ml_doc = PyBytes_AS_STRING(doc);
    }
    memset(&known, 0, sizeof(known));
    known.rules = *rules;
    PyOS_snprintf(known.layout, sizeof(known.layout), "%s", letters);
    self = PyBytes_FromStringAndSize((const char *)&known, sizeof(known));
    module = PyUnicode_FromString("fastdl");
    function = self == NULL || module == NULL ? NULL : PyCFunction_NewEx(&definition, self, module);
    Py_XDECREF(module);
    Py_XDECREF(self);
    return function;
}
