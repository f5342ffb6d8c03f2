/* SPDX-License-Identifier: Apache-2.0
 *
 * Export: each exported array without children owns a description (block.h), and drops it when it
 * is released.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arrow.h"
#include "arrow_abi.h"
#include "devices.h"

#define ARROW_FLAG_NULLABLE 2 /* set by libraries even if the type is not a table field */

const fdl_arrow_type fdl_arrow_types[] = {
    {{kDLBool, 8, 1}, "b"},   {{kDLInt, 8, 1}, "c"},    {{kDLUInt, 8, 1}, "C"},
    {{kDLInt, 16, 1}, "s"},   {{kDLUInt, 16, 1}, "S"},  {{kDLInt, 32, 1}, "i"},
    {{kDLUInt, 32, 1}, "I"},  {{kDLInt, 64, 1}, "l"},   {{kDLUInt, 64, 1}, "L"},
    {{kDLFloat, 16, 1}, "e"}, {{kDLFloat, 32, 1}, "f"}, {{kDLFloat, 64, 1}, "g"},
    {{0, 0, 0}, NULL},
};

/* The format of an element type; NULL if Arrow has none. */
static const char *format_of(DLDataType dtype)
{
    const fdl_arrow_type *row = fdl_arrow_types;
    while (row->format != NULL && (row->dtype.code != dtype.code || row->dtype.bits != dtype.bits ||
                                   row->dtype.lanes != dtype.lanes))
        row++;
    return row->format;
}

int fdl_arrow_has(DLDataType dtype)
{
    return format_of(dtype) != NULL;
}

/* The state that an exported array of numbers owns, in a separate struct, since the array may be
 * moved. */
typedef struct {
    fdl_description *memory;
    const void *buffers[2]; /* validity bits (NULL: all valid), and values */
} exported;

static const void *no_validity[1]; /* the buffers of a table */

static void release_schema(struct ArrowSchema *schema)
{
    for (int64_t i = 0; i < schema->n_children; i++) {
        if (schema->children[i]->release != NULL)
            schema->children[i]->release(schema->children[i]);
        free(schema->children[i]);
    }
    free(schema->children);
    free(schema->private_data); /* its name; the formats are static */
    schema->release = NULL;
}

/* May run on any thread, with or without a thread state. */
static void release_array(struct ArrowArray *array)
{
    exported *own = array->private_data;
    for (int64_t i = 0; i < array->n_children; i++) {
        if (array->children[i]->release != NULL)
            array->children[i]->release(array->children[i]);
        free(array->children[i]);
    }
    free(array->children);
    if (own != NULL)
        fdl_description_release(own->memory, 0);
    free(own);
    array->release = NULL;
}

static void destroy_schema(PyObject *capsule)
{
    struct ArrowSchema *schema = PyCapsule_GetPointer(capsule, SCHEMA_NAME);
    if (schema == NULL)
        return;
    if (schema->release != NULL)
        schema->release(schema);
    free(schema);
}

static void destroy_array(PyObject *capsule)
{
    struct ArrowArray *array = PyCapsule_GetPointer(capsule, ARRAY_NAME);
    if (array == NULL)
        return;
    if (array->release != NULL)
        array->release(array);
    free(array);
}

/* A new capsule that owns `schema`, which is NULL if memory ran out and is freed on failure. NULL
 * with an exception. */
static PyObject *schema_capsule(struct ArrowSchema *schema)
{
    PyObject *capsule =
        schema == NULL ? PyErr_NoMemory() : PyCapsule_New(schema, SCHEMA_NAME, destroy_schema);
    if (capsule == NULL && schema != NULL) {
        schema->release(schema);
        free(schema);
    }
    return capsule;
}

static PyObject *array_capsule(struct ArrowArray *array)
{
    PyObject *capsule =
        array == NULL ? PyErr_NoMemory() : PyCapsule_New(array, ARRAY_NAME, destroy_array);
    if (capsule == NULL && array != NULL) {
        array->release(array);
        free(array);
    }
    return capsule;
}

/* ---- numbers ---- */

/* `count` bools as bits, the first one lowest: new memory, or NULL. */
static fdl_description *packed_bools(const unsigned char *bools, int64_t count)
{
    int64_t nbytes = count / 8 + (count % 8 != 0);
    DLTensor prototype;
    fdl_description *memory;
    unsigned char *bits;
    memset(&prototype, 0, sizeof prototype);
    prototype.device.device_type = kDLCPU;
    prototype.ndim = 1;
    prototype.shape = &nbytes;
    prototype.dtype.code = kDLUInt;
    prototype.dtype.bits = 8;
    prototype.dtype.lanes = 1;
    memory = fdl_memory_new(&prototype, 0, nbytes);
    if (memory == NULL)
        return NULL;
    bits = memory->managed.dl_tensor.data;
    memset(bits, 0, (size_t)nbytes);
    for (int64_t i = 0; i < count; i++)
        bits[i / 8] |= (unsigned char)((bools[i] != 0) << i % 8);
    return memory;
}

/* `name` is allocated, and consumed even on failure; NULL for none. Returns NULL if memory runs
 * out. */
static struct ArrowSchema *new_schema(const char *format, char *name)
{
    struct ArrowSchema *schema = calloc(1, sizeof *schema);
    if (schema == NULL) {
        free(name);
        return NULL;
    }
    schema->format = format;
    schema->name = name == NULL ? "" : name;
    schema->flags = ARROW_FLAG_NULLABLE;
    schema->release = release_schema;
    schema->private_data = name;
    return schema;
}

/* An array of `count` elements of a compact tensor, from `first` on. NULL without memory. */
static struct ArrowArray *new_array(const fdl_description *source, int64_t first, int64_t count)
{
    const DLTensor *tensor = &source->managed.dl_tensor;
    struct ArrowArray *array = calloc(1, sizeof *array);
    exported *own = malloc(sizeof *own);
    const unsigned char *values = tensor->data;
    if (array == NULL || own == NULL)
        goto fail;
    if (count != 0)
        values += first * fastdl_itemsize(tensor->dtype);
    own->memory = tensor->dtype.code == kDLBool ? packed_bools(values, count)
                                                : fdl_description_copy(source, 0);
    if (own->memory == NULL)
        goto fail;
    if (tensor->dtype.code == kDLBool)
        values = own->memory->managed.dl_tensor.data;
    own->buffers[0] = NULL;
    own->buffers[1] = values;
    array->length = count;
    array->n_buffers = 2;
    array->buffers = own->buffers;
    array->release = release_array;
    array->private_data = own;
    return array;
fail:
    free(array);
    free(own);
    return NULL;
}

/* ---- tables ---- */

/* NULL without memory; never for no children. A tensor without elements may have any size. */
static void *new_children(int64_t count, size_t size)
{
    return (uint64_t)count < PTRDIFF_MAX / size ? calloc((size_t)count + 1, size) : NULL;
}

/* The type of a table of `count` columns. NULL without memory. */
static struct ArrowSchema *new_table_schema(const char *format, int64_t count)
{
    struct ArrowSchema *table = new_schema("+s", NULL);
    if (table == NULL)
        return NULL;
    table->children = new_children(count, sizeof *table->children);
    while (table->children != NULL && table->n_children < count) {
        char *name = malloc(32);
        if (name == NULL)
            break;
        snprintf(name, 32, "column_%lld", (long long)table->n_children);
        table->children[table->n_children] = new_schema(format, name);
        if (table->children[table->n_children] == NULL)
            break;
        table->n_children++;
    }
    if (table->children != NULL && table->n_children == count)
        return table;
    release_schema(table);
    free(table);
    return NULL;
}

/* A table whose columns are the rows of a compact tensor. NULL without memory. Each column owns the
 * memory, since a consumer may move it out. */
static struct ArrowArray *new_table(const fdl_description *source)
{
    const int64_t *shape = source->managed.dl_tensor.shape;
    struct ArrowArray *table = calloc(1, sizeof *table);
    if (table == NULL)
        return NULL;
    table->length = shape[1];
    table->n_buffers = 1;
    table->buffers = no_validity;
    table->release = release_array;
    table->children = new_children(shape[0], sizeof *table->children);
    while (table->children != NULL && table->n_children < shape[0]) {
        table->children[table->n_children] =
            new_array(source, table->n_children * shape[1], shape[1]);
        if (table->children[table->n_children] == NULL)
            break;
        table->n_children++;
    }
    if (table->children != NULL && table->n_children == shape[0])
        return table;
    release_array(table);
    free(table);
    return NULL;
}

PyObject *fdl_arrow_export(PyObject *tensor)
{
    const fdl_description *source = fdl_description_in(tensor);
    const DLTensor *memory = &source->managed.dl_tensor;
    const char *format = format_of(memory->dtype);
    PyObject *schema, *array, *both;
    if (fdl_await_for_host(source) < 0)
        return NULL;
    schema = schema_capsule(memory->ndim == 1 ? new_schema(format, NULL)
                                              : new_table_schema(format, memory->shape[0]));
    if (schema == NULL)
        return NULL;
    array = array_capsule(memory->ndim == 1 ? new_array(source, 0, memory->shape[0])
                                            : new_table(source));
    both = array == NULL ? NULL : PyTuple_Pack(2, schema, array);
    Py_DECREF(schema);
    Py_XDECREF(array);
    return both;
}
