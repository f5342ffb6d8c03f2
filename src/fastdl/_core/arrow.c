/* SPDX-License-Identifier: Apache-2.0
 *
 * Ownership. A struct of the Arrow C data interface belongs to whoever holds it while its `release`
 * is not NULL; moving it is a copy of the struct, after which the old one's `release` is NULL.
 *
 * Export: the exported array owns a description (block.h), and drops it when it is released.
 * Import: the array is moved into a managed tensor whose deleter releases it; that is imported like
 * any foreign managed tensor (import.h).
 */
#include "arrow.h"

#include <stdlib.h>
#include <string.h>

#include "_memory/layout.h"
#include "devices.h"
#include "import.h"

#define SCHEMA_NAME "arrow_schema"
#define ARRAY_NAME "arrow_array"
#define STREAM_NAME "arrow_array_stream"

/* The structs and the flag of the Arrow C data and stream interfaces, which are frozen. */
struct ArrowSchema {
    const char *format, *name, *metadata;
    int64_t flags, n_children;
    struct ArrowSchema **children, *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};

struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children, *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

struct ArrowArrayStream {
    int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *);
    int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *);
    const char *(*get_last_error)(struct ArrowArrayStream *);
    void (*release)(struct ArrowArrayStream *);
    void *private_data;
};

#define ARROW_FLAG_NULLABLE 2 /* set by libraries even if the type is not a table field */

static const struct {
    DLDataType dtype;
    const char *format;
} types[] = {
    {{kDLBool, 8, 1}, "b"},   {{kDLInt, 8, 1}, "c"},    {{kDLUInt, 8, 1}, "C"},
    {{kDLInt, 16, 1}, "s"},   {{kDLUInt, 16, 1}, "S"},  {{kDLInt, 32, 1}, "i"},
    {{kDLUInt, 32, 1}, "I"},  {{kDLInt, 64, 1}, "l"},   {{kDLUInt, 64, 1}, "L"},
    {{kDLFloat, 16, 1}, "e"}, {{kDLFloat, 32, 1}, "f"}, {{kDLFloat, 64, 1}, "g"},
};

#define TYPES (sizeof types / sizeof types[0])

static const char *format_of(DLDataType dtype)
{
    for (size_t i = 0; i < TYPES; i++)
        if (types[i].dtype.code == dtype.code && types[i].dtype.bits == dtype.bits &&
            types[i].dtype.lanes == dtype.lanes)
            return types[i].format;
    return NULL;
}

/* The element type of a format, if that is a plain number; otherwise NULL. */
static const DLDataType *type_of_format(const char *format)
{
    for (size_t i = 0; i < TYPES; i++)
        if (types[i].dtype.code != kDLBool && strcmp(format, types[i].format) == 0)
            return &types[i].dtype;
    return NULL;
}

int fdl_arrow_has(DLDataType dtype)
{
    return format_of(dtype) != NULL;
}

/* ---- out ---- */

/* What an exported array owns. A struct of its own, since the array may be moved. */
typedef struct {
    fdl_description *memory;
    const void *buffers[2]; /* validity bits (NULL: all valid), and values */
} exported;

static void release_schema(struct ArrowSchema *schema)
{
    schema->release = NULL; /* its strings are static */
}

/* May run on any thread, with or without a thread state. */
static void release_array(struct ArrowArray *array)
{
    exported *own = array->private_data;
    array->release = NULL;
    fdl_description_release(own->memory, 0);
    free(own);
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

/* `count` bools as bits, the first one lowest: new memory, or NULL with MemoryError. */
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
    if (memory == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    bits = memory->managed.dl_tensor.data;
    memset(bits, 0, (size_t)nbytes);
    for (int64_t i = 0; i < count; i++)
        bits[i / 8] |= (unsigned char)((bools[i] != 0) << i % 8);
    return memory;
}

/* A description for the exported array to own. NULL with an exception. */
static fdl_description *memory_of(const fdl_description *source)
{
    const DLTensor *tensor = &source->managed.dl_tensor;
    fdl_description *memory;
    if (fdl_await_for_host(source) < 0)
        return NULL;
    if (tensor->dtype.code == kDLBool)
        return packed_bools(tensor->data, tensor->shape[0]);
    memory = fdl_description_copy(source, 0);
    if (memory == NULL)
        PyErr_NoMemory();
    return memory;
}

static PyObject *schema_capsule(const char *format)
{
    PyObject *capsule;
    struct ArrowSchema *schema = calloc(1, sizeof *schema);
    if (schema == NULL)
        return PyErr_NoMemory();
    schema->format = format;
    schema->name = "";
    schema->flags = ARROW_FLAG_NULLABLE;
    schema->release = release_schema;
    capsule = PyCapsule_New(schema, SCHEMA_NAME, destroy_schema);
    if (capsule == NULL)
        free(schema);
    return capsule;
}

static PyObject *array_capsule(const fdl_description *source)
{
    PyObject *capsule;
    struct ArrowArray *array = calloc(1, sizeof *array);
    exported *own = malloc(sizeof *own);
    if (array == NULL || own == NULL) {
        free(array);
        free(own);
        return PyErr_NoMemory();
    }
    own->memory = memory_of(source);
    if (own->memory == NULL) {
        free(array);
        free(own);
        return NULL;
    }
    own->buffers[0] = NULL;
    own->buffers[1] = own->memory->managed.dl_tensor.data;
    array->length = source->managed.dl_tensor.shape[0];
    array->n_buffers = 2;
    array->buffers = own->buffers;
    array->release = release_array;
    array->private_data = own;
    capsule = PyCapsule_New(array, ARRAY_NAME, destroy_array);
    if (capsule == NULL) {
        array->release(array);
        free(array);
    }
    return capsule;
}

PyObject *fdl_arrow_export(PyObject *tensor)
{
    const fdl_description *source = fdl_description_in(tensor);
    PyObject *schema, *array, *both;
    schema = schema_capsule(format_of(source->managed.dl_tensor.dtype));
    if (schema == NULL)
        return NULL;
    array = array_capsule(source);
    both = array == NULL ? NULL : PyTuple_Pack(2, schema, array);
    Py_DECREF(schema);
    Py_XDECREF(array);
    return both;
}

/* ---- nulls ---- */

enum {
    UNKNOWN = -1,
    DEPTH = 64
};

/* The validity bits of an array; NULL: all slots are valid. */
static const unsigned char *validity(const struct ArrowArray *array)
{
    return array->null_count == 0 || array->n_buffers == 0 ? NULL : array->buffers[0];
}

static int is_valid(const unsigned char *bits, int64_t slot)
{
    return bits[slot / 8] >> slot % 8 & 1;
}

/* How many slots in a range, counted from the start of the buffers, are null. */
static int64_t invalid_slots(const struct ArrowArray *array, int64_t first, int64_t end)
{
    const unsigned char *bits = validity(array);
    int64_t count = 0;
    for (; bits != NULL && first < end; first++)
        count += !is_valid(bits, first);
    return count;
}

/* Whether the structs match, and the range is within the array. The sizes come from another
 * library, and are not trusted. */
static int has_slots(const struct ArrowSchema *schema, const struct ArrowArray *array,
                     int64_t first, int64_t end)
{
    return schema != NULL && array != NULL && schema->format != NULL && array->length >= 0 &&
           array->offset >= 0 && array->offset <= INT64_MAX / 8 - array->length && first >= 0 &&
           first <= end && end <= array->length && array->n_buffers >= 0 &&
           (array->n_buffers == 0 || array->buffers != NULL) &&
           array->n_children == schema->n_children && array->n_children >= 0 &&
           (array->n_children == 0 || (array->children != NULL && schema->children != NULL));
}

static int64_t sum(int64_t count, int64_t more)
{
    return count == UNKNOWN || more == UNKNOWN || more > INT64_MAX - count ? UNKNOWN : count + more;
}

static int64_t count_nulls(const struct ArrowSchema *schema, const struct ArrowArray *array,
                           int64_t first, int64_t end, int depth);

/* How many values are null below valid slots, a range that is counted from the start of the
 * buffers. UNKNOWN for kinds that are not listed here. */
static int64_t count_below(const struct ArrowSchema *schema, const struct ArrowArray *array,
                           int64_t first, int64_t end, int depth)
{
    int64_t count = 0;
    if (strcmp(schema->format, "+s") == 0) {
        for (int64_t i = 0; i < array->n_children; i++)
            count =
                sum(count, count_nulls(schema->children[i], array->children[i], first, end, depth));
        return count;
    }
    if (strncmp(schema->format, "+w:", 3) == 0 && array->n_children == 1) {
        long long size = strtoll(schema->format + 3, NULL, 10);
        if (size < 0 || (size > 0 && end > INT64_MAX / size))
            return UNKNOWN;
        return count_nulls(schema->children[0], array->children[0], first * size, end * size,
                           depth);
    }
    return UNKNOWN;
}

/* The same in all of an array. */
static int64_t count_all(const struct ArrowSchema *schema, const struct ArrowArray *array,
                         int depth)
{
    return array == NULL ? UNKNOWN : count_nulls(schema, array, 0, array->length, depth);
}

/* The same in a dictionary or in the values of runs, for a range of the array that refers to them.
 * Any number of its slots may refer to a null, which counts once if the range is the `whole`. */
static int64_t count_shared(const struct ArrowSchema *schema, const struct ArrowArray *array,
                            int whole, int depth)
{
    int64_t count = count_all(schema, array, depth);
    return whole || count == 0 ? count : UNKNOWN;
}

/* How many values are null in the slots of a range, counted from the array's offset. A list or
 * struct that is null counts once. UNKNOWN: it cannot be known. */
static int64_t count_nulls(const struct ArrowSchema *schema, const struct ArrowArray *array,
                           int64_t first, int64_t end, int depth)
{
    const unsigned char *bits;
    int64_t count = 0, stop;
    int whole;
    if (!has_slots(schema, array, first, end) || depth-- == 0)
        return UNKNOWN;
    if (strcmp(schema->format, "n") == 0)
        return end - first;
    whole = first == 0 && end == array->length && end > 0;
    if (strcmp(schema->format, "+r") == 0) /* runs: the second child has their values */
        return array->n_children == 2
                   ? count_shared(schema->children[1], array->children[1], whole, depth)
                   : UNKNOWN;
    first += array->offset;
    end += array->offset;
    if (schema->dictionary != NULL)
        return sum(invalid_slots(array, first, end),
                   count_shared(schema->dictionary, array->dictionary, whole, depth));
    if (strcmp(schema->format, "b") == 0 || type_of_format(schema->format) != NULL)
        return invalid_slots(array, first, end);
    bits = validity(array);
    for (; first < end && count != UNKNOWN; first = stop + 1) { /* runs of valid slots */
        stop = bits == NULL ? end : first;
        while (stop < end && is_valid(bits, stop))
            stop++;
        count = sum(count + (stop < end), count_below(schema, array, first, stop, depth));
    }
    return count;
}

/* The number of nulls in all arrays of a stream, or UNKNOWN; -2 with an exception. */
static int64_t nulls_of_stream(struct ArrowArrayStream *stream)
{
    struct ArrowSchema schema;
    struct ArrowArray array;
    int64_t count = 0;
    int failed;
    memset(&schema, 0, sizeof schema);
    memset(&array, 0, sizeof array);
    Py_BEGIN_ALLOW_THREADS /* it may wait for threads that need the GIL */
    failed = stream->get_schema(stream, &schema);
    while (!failed && count != UNKNOWN) {
        array.release = NULL;
        failed = stream->get_next(stream, &array);
        if (failed || array.release == NULL)
            break;
        count = sum(count, count_all(&schema, &array, DEPTH));
        array.release(&array);
    }
    if (schema.release != NULL)
        schema.release(&schema);
    Py_END_ALLOW_THREADS
    if (failed) {
        const char *message = stream->get_last_error(stream);
        PyErr_Format(PyExc_BufferError, "reading the Arrow stream failed: %.200s",
                     message == NULL ? strerror(failed) : message);
        return -2;
    }
    return count;
}

static PyObject *number_or_none(int64_t count)
{
    return count == UNKNOWN ? Py_NewRef(Py_None) : PyLong_FromLongLong(count);
}

/* What the two capsules hold; 0 with an exception. */
static int open_pair(PyObject *schema_capsule_, PyObject *array_capsule_,
                     struct ArrowSchema **schema, struct ArrowArray **array)
{
    *schema = PyCapsule_GetPointer(schema_capsule_, SCHEMA_NAME);
    *array = *schema == NULL ? NULL : PyCapsule_GetPointer(array_capsule_, ARRAY_NAME);
    return *array != NULL;
}

PyObject *fdl_arrow_nulls(PyObject *schema_capsule_, PyObject *array_capsule_)
{
    struct ArrowSchema *schema;
    struct ArrowArray *array;
    if (!open_pair(schema_capsule_, array_capsule_, &schema, &array))
        return NULL;
    if (schema->release == NULL || array->release == NULL)
        return number_or_none(UNKNOWN);
    return number_or_none(count_all(schema, array, DEPTH));
}

PyObject *fdl_arrow_stream_nulls(PyObject *capsule)
{
    struct ArrowArrayStream *stream = PyCapsule_GetPointer(capsule, STREAM_NAME);
    int64_t count;
    if (stream == NULL)
        return NULL;
    if (stream->release == NULL)
        return number_or_none(UNKNOWN);
    count = nulls_of_stream(stream);
    return count < UNKNOWN ? NULL : number_or_none(count);
}

/* ---- in ---- */

typedef struct {
    DLManagedTensorVersioned managed;
    struct ArrowArray array;
    int64_t shape;
} imported_array;

static void delete_imported(DLManagedTensorVersioned *managed)
{
    imported_array *imported = managed->manager_ctx;
    imported->array.release(&imported->array);
    free(imported);
}

/* The method of PyArrow's arrays that gives the values of other arrays, by the starts of their
 * formats. */
static const struct {
    const char *start, *method;
} remedies[] = {
    {"b", "cast('uint8')"},
    {"tdD", "view('int32')"},
    {"tts", "view('int32')"},
    {"ttm", "view('int32')"},
    {"ti", ""},
    {"t", "view('int64')"},
    {"+s", "field(0)"},
    {"+l", "flatten()"},
    {"+L", "flatten()"},
    {"+w", "flatten()"},
    {"", ""},
};

/* The element type, or NULL with BufferError. */
static const DLDataType *type_of(const struct ArrowSchema *schema)
{
    const char *format = schema->format == NULL ? "" : schema->format;
    const DLDataType *dtype = type_of_format(format);
    const char *method = "dictionary_decode()";
    size_t i = 0;
    if (schema->dictionary == NULL) {
        if (dtype != NULL)
            return dtype;
        while (strncmp(format, remedies[i].start, strlen(remedies[i].start)) != 0)
            i++;
        method = remedies[i].method;
    }
    PyErr_Format(PyExc_BufferError,
                 "expected an Arrow array of plain numbers, got one of format '%.40s'%s%s%s",
                 format, *method ? ": pyarrow.array(x)." : "", method,
                 *method ? " has its values" : "");
    return NULL;
}

/* 0, or -1 with BufferError. The sizes come from another library, and are not trusted. */
static int check_array(const struct ArrowArray *array)
{
    int64_t nulls;
    if (array->length < 0 || array->offset < 0 || array->offset > INT64_MAX / 8 - array->length ||
        array->n_buffers != 2 || array->n_children != 0 || array->buffers == NULL) {
        PyErr_Format(PyExc_BufferError,
                     "expected an Arrow array of two buffers and no children, got length %lld, "
                     "offset %lld, n_buffers %lld, n_children %lld. Its producer is at fault",
                     (long long)array->length, (long long)array->offset,
                     (long long)array->n_buffers, (long long)array->n_children);
        return -1;
    }
    nulls = invalid_slots(array, array->offset, array->offset + array->length);
    if (nulls != 0) {
        PyErr_Format(PyExc_BufferError,
                     "the Arrow array has nulls (%lld of %lld values), which a tensor cannot "
                     "express: fill or drop them first",
                     (long long)nulls, (long long)array->length);
        return -1;
    }
    return 0;
}

static PyObject *move_array(struct ArrowArray *array, DLDataType dtype)
{
    imported_array *imported = calloc(1, sizeof *imported);
    DLTensor *tensor;
    if (imported == NULL)
        return PyErr_NoMemory();
    imported->array = *array;
    array->release = NULL;
    imported->shape = array->length;
    imported->managed.version.major = FASTDL_DLPACK_MAJOR;
    imported->managed.version.minor = FASTDL_DLPACK_MINOR;
    imported->managed.manager_ctx = imported;
    imported->managed.deleter = delete_imported;
    imported->managed.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
    tensor = &imported->managed.dl_tensor;
    tensor->data = (void *)(uintptr_t)array->buffers[1];
    tensor->device.device_type = kDLCPU;
    tensor->ndim = 1;
    tensor->dtype = dtype;
    tensor->shape = &imported->shape;
    tensor->byte_offset = (uint64_t)array->offset * (dtype.bits / 8u);
    return fdl_take_versioned(&imported->managed, NULL);
}

PyObject *fdl_arrow_import(PyObject *schema_capsule_, PyObject *array_capsule_)
{
    struct ArrowSchema *schema;
    struct ArrowArray *array;
    const DLDataType *dtype;
    if (!open_pair(schema_capsule_, array_capsule_, &schema, &array))
        return NULL;
    if (schema->release == NULL || array->release == NULL) {
        PyErr_SetString(PyExc_ValueError, "the Arrow capsules have been consumed already: call "
                                          "__arrow_c_array__ again for others");
        return NULL;
    }
    dtype = type_of(schema);
    if (dtype == NULL || check_array(array) < 0)
        return NULL;
    return move_array(array, *dtype);
}
