/* SPDX-License-Identifier: Apache-2.0 */
#include "facts.h"

#include <string.h>

#include <fastdl/fastdl.h>

#include "_memory/atomics.h"
#include "_memory/dtypes.h"

/* ---- rows ---- */

/* Appends a row to `rows`, which it returns. Releases both and returns NULL on failure. */
static PyObject *with_row(PyObject *rows, PyObject *row)
{
    if (row == NULL || PyList_Append(rows, row) < 0)
        Py_CLEAR(rows);
    Py_XDECREF(row);
    return rows;
}

PyObject *fdl_device_facts(PyObject *module, PyObject *nothing)
{
    PyObject *rows = PyList_New(0);
    (void)module, (void)nothing;
    for (const fastdl_device_fact *row = fastdl_devices(); rows != NULL && row->name != NULL; row++)
        rows = with_row(rows, Py_BuildValue("isNNi", (int)row->type, row->name,
                                            PyBool_FromLong(row->host),
                                            PyBool_FromLong(row->addresses), row->stream));
    return rows;
}

PyObject *fdl_dtype_facts(PyObject *module, PyObject *nothing)
{
    PyObject *rows = PyList_New(0);
    (void)module, (void)nothing;
    for (const fdl_dtype_fact *row = fdl_dtypes; rows != NULL && row->name != NULL; row++)
        rows = with_row(rows, Py_BuildValue("siiz", row->name, row->code, row->bits, row->format));
    return rows;
}

/* ---- objects ---- */

/* An element type or a device as a number, and the object that stands for it. */
typedef struct {
    uint64_t number;
    PyObject *object; /* owned */
} fact;

#define SLOTS 128 /* DLPack 1.3 names 36 element types of one lane */
#define TRIES 4   /* the number of slots in which a fact may be stored */

typedef struct {
    fdl_pointer by_number[SLOTS], by_object[SLOTS]; /* to a fact, or NULL */
    PyObject *make;
} fact_table;

static fact_table dtypes, devices;

void fdl_set_dtype_and_device_factories(PyObject *dtype, PyObject *device)
{
    dtypes.make = Py_NewRef(dtype);
    devices.make = Py_NewRef(device);
}

/* The first of the slots for a key; the others follow. Multiplication moves the differences between
 * keys to the highest bits. */
static unsigned slot_of(uint64_t key)
{
    return (unsigned)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 57);
}

static uint64_t key_of(PyObject *object)
{
    return (uint64_t)(uintptr_t)object;
}

/* Finds the fact of `object` or, if that is NULL, of the number `key`. */
static const fact *find(fdl_pointer *slots, uint64_t key, const PyObject *object)
{
    for (unsigned i = slot_of(key), last = i + TRIES; i < last; i++) {
        const fact *found = fdl_pointer_get(&slots[i % SLOTS]);
        if (found == NULL || (object != NULL ? found->object == object : found->number == key))
            return found;
    }
    return NULL;
}

static int put(fdl_pointer *slots, uint64_t key, fact *added)
{
    for (unsigned i = slot_of(key), last = i + TRIES; i < last; i++)
        if (fdl_pointer_set(&slots[i % SLOTS], added))
            return 1;
    return 0;
}

/* Two threads may store the same fact twice: both entries are valid. */
static void remember(fact_table *table, uint64_t number, PyObject *object)
{
    fact *added = PyMem_RawMalloc(sizeof(fact));
    if (added == NULL)
        return;
    added->number = number;
    added->object = Py_NewRef(object);
    if (!put(table->by_number, number, added)) {
        Py_DECREF(object);
        PyMem_RawFree(added);
        return;
    }
    (void)put(table->by_object, key_of(object), added);
}

/* Stores `made`, which may be NULL, and returns it. */
static PyObject *remembered(fact_table *table, uint64_t number, PyObject *made)
{
    if (made != NULL)
        remember(table, number, made);
    return made;
}

PyObject *fdl_dtype_object(DLDataType dtype)
{
    uint64_t number = fastdl_dtype(dtype);
    const fact *known = find(dtypes.by_number, number, NULL);
    if (known != NULL)
        return Py_NewRef(known->object);
    return remembered(&dtypes, number,
                      PyObject_CallFunction(dtypes.make, "iii", (int)dtype.code, (int)dtype.bits,
                                            (int)dtype.lanes));
}

static uint64_t number_of_device(DLDevice device)
{
    return (uint32_t)device.device_type | (uint64_t)(uint32_t)device.device_id << 32;
}

PyObject *fdl_device_object(DLDevice device)
{
    uint64_t number = number_of_device(device);
    const fact *known = find(devices.by_number, number, NULL);
    if (known != NULL)
        return Py_NewRef(known->object);
    return remembered(&devices, number,
                      PyObject_CallFunction(devices.make, "ii", (int)(int32_t)device.device_type,
                                            (int)device.device_id));
}

/* `text` as UTF-8. NULL, without an exception, if it has none or holds a NUL. */
static const char *utf8_of(PyObject *text)
{
    Py_ssize_t size;
    const char *utf8 = PyUnicode_AsUTF8AndSize(text, &size);
    if (utf8 == NULL)
        (void)fastdl_clear_if_(PyExc_Exception);
    return utf8 != NULL && strlen(utf8) == (size_t)size ? utf8 : NULL;
}

int fdl_dtype_of(PyObject *named, DLDataType *dtype)
{
    if (PyUnicode_CheckExact(named)) {
        const char *name = utf8_of(named);
        const fdl_dtype_fact *row = name != NULL ? fdl_dtype_named(name) : NULL;
        if (row == NULL)
            return 0;
        dtype->code = row->code;
        dtype->bits = row->bits;
        dtype->lanes = 1;
    } else {
        const fact *known = find(dtypes.by_object, key_of(named), named);
        if (known == NULL)
            return 0;
        *dtype = fastdl_data_type((uint32_t)known->number);
    }
    return 1;
}

int fdl_means_host(PyObject *named)
{
    const DLDevice host = {kDLCPU, 0};
    const fact *known;
    if (PyUnicode_CheckExact(named))
        return PyUnicode_CompareWithASCIIString(named, "cpu") == 0;
    known = find(devices.by_object, key_of(named), named);
    return known != NULL && known->number == number_of_device(host);
}
