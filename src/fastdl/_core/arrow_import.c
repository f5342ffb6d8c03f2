/* SPDX-License-Identifier: Apache-2.0
 *
 * Import: an array is moved into a managed tensor whose deleter releases the array. The managed
 * tensor is imported like any foreign one (import.h). Several arrays, columns and bools are copied.
 */
#include <stdlib.h>
#include <string.h>

#include "arrow.h"
#include "arrow_abi.h"
#include "import.h"

/* The element type of a format, if that is a number or a bool; otherwise NULL. */
static const DLDataType *type_of_format(const char *format)
{
    for (const fdl_arrow_type *row = fdl_arrow_types; row->format != NULL; row++)
        if (strcmp(format, row->format) == 0)
            return &row->dtype;
    return NULL;
}

/* ---- streams ---- */

/* A stream, and the arrays read from it so far. */
typedef struct {
    struct ArrowArrayStream stream;
    struct ArrowSchema schema;
    struct ArrowArray *arrays;
    size_t count;
} chunks;

/* Sets a pending exception aside, since producers in Python must not see it. */
static void release_chunks(chunks *c)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    for (size_t i = 0; i < c->count; i++)
        if (c->arrays[i].release != NULL)
            c->arrays[i].release(&c->arrays[i]);
    free(c->arrays);
    if (c->schema.release != NULL)
        c->schema.release(&c->schema);
    if (c->stream.release != NULL)
        c->stream.release(&c->stream);
    PyErr_Restore(type, value, traceback);
}

/* 0, or -1 with the exception for what a function of the stream returned. */
static int check_stream(struct ArrowArrayStream *stream, int failed)
{
    const char *message;
    if (!failed)
        return 0;
    message = stream->get_last_error(stream);
    PyErr_Format(PyExc_BufferError, "reading the Arrow stream failed: %.200s",
                 message == NULL ? strerror(failed) : message);
    return -1;
}

/* Moves the stream out of a capsule, and reads its type: 0; 1 if it was consumed already; -1 with
 * an exception. The caller holds the critical section of the capsule: only one of several threads
 * gets the stream. */
static int open_stream(PyObject *capsule, chunks *c)
{
    struct ArrowArrayStream *stream = PyCapsule_GetPointer(capsule, STREAM_NAME);
    int failed;
    memset(c, 0, sizeof *c);
    if (stream == NULL)
        return -1;
    if (stream->release == NULL)
        return 1;
    c->stream = *stream;
    stream->release = NULL;
    Py_BEGIN_ALLOW_THREADS /* it may wait for threads that need the GIL */
    failed = c->stream.get_schema(&c->stream, &c->schema);
    Py_END_ALLOW_THREADS
    return check_stream(&c->stream, failed);
}

/* Reads the next array: 1; 0 at the end; -1 with an exception. */
static int read_chunk(chunks *c)
{
    struct ArrowArray *grown = realloc(c->arrays, (c->count + 1) * sizeof *grown);
    int failed;
    if (grown == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    c->arrays = grown;
    memset(&grown[c->count], 0, sizeof *grown);
    Py_BEGIN_ALLOW_THREADS
    failed = c->stream.get_next(&c->stream, &grown[c->count]);
    Py_END_ALLOW_THREADS
    if (check_stream(&c->stream, failed) < 0)
        return -1;
    if (grown[c->count].release == NULL)
        return 0;
    c->count++;
    return 1;
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

/* count_nulls for a whole array. */
static int64_t count_all(const struct ArrowSchema *schema, const struct ArrowArray *array,
                         int depth)
{
    return array == NULL ? UNKNOWN : count_nulls(schema, array, 0, array->length, depth);
}

/* count_nulls for a dictionary or the values of runs, for a range of the array that refers to them.
 * Any number of slots may refer to a null, which counts once if the range is the `whole` array. */
static int64_t count_shared(const struct ArrowSchema *schema, const struct ArrowArray *array,
                            int whole, int depth)
{
    int64_t count = count_all(schema, array, depth);
    return whole || count == 0 ? count : UNKNOWN;
}

/* How many values are null in the slots of a range, counted from the array's offset. A list or
 * struct that is null counts once. UNKNOWN if it cannot be determined. */
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
    if (type_of_format(schema->format) != NULL)
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

static PyObject *number_or_none(int64_t count)
{
    return count == UNKNOWN ? Py_NewRef(Py_None) : PyLong_FromLongLong(count);
}

/* Reads the structs in two capsules: 1, or 0 with an exception. */
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
    chunks c;
    int64_t count = 0;
    int more = open_stream(capsule, &c);
    if (more > 0)
        count = UNKNOWN; /* it was consumed */
    while (more >= 0 && count != UNKNOWN && (more = read_chunk(&c)) > 0) {
        count = sum(count, count_all(&c.schema, &c.arrays[0], DEPTH));
        c.arrays[0].release(&c.arrays[0]);
        c.count = 0;
    }
    release_chunks(&c);
    return more < 0 ? NULL : number_or_none(count);
}

/* ---- types ---- */

/* The rows of an Arrow array, in DLPack's terms. */
typedef struct {
    DLDataType dtype;
    int32_t ndim;                   /* of the Tensor */
    int64_t shape[FASTDL_MAX_NDIM]; /* of a row, from index 1 on */
    int64_t inner;                  /* elements of a row */
} row_type;

static int is_table(const struct ArrowSchema *schema)
{
    return schema->format != NULL && strcmp(schema->format, "+s") == 0 &&
           schema->dictionary == NULL;
}

/* The value of a key in the metadata of a type; NULL if there is none. */
static const char *find_entry(const char *metadata, const char *key, int32_t *length)
{
    int32_t pairs, size;
    if (metadata == NULL)
        return NULL;
    memcpy(&pairs, metadata, sizeof pairs);
    metadata += sizeof pairs;
    for (; pairs > 0; pairs--) {
        const char *own = metadata + sizeof size;
        memcpy(&size, metadata, sizeof size);
        if (size < 0)
            return NULL;
        metadata = own + size;
        memcpy(length, metadata, sizeof *length);
        metadata += sizeof *length;
        if (*length < 0 || ((size_t)size == strlen(key) && memcmp(own, key, (size_t)size) == 0))
            return *length < 0 ? NULL : metadata;
        metadata += *length;
    }
    return NULL;
}

/* The metadata of the type "fixed_shape_tensor"; NULL for other types. `length` may be NULL. */
static const char *find_tensor_metadata(const struct ArrowSchema *schema, int32_t *length)
{
    static const char own[] = "arrow.fixed_shape_tensor";
    int32_t size;
    const char *found = find_entry(schema->metadata, "ARROW:extension:name", &size);
    if (found == NULL || (size_t)size != strlen(own) || memcmp(found, own, strlen(own)) != 0)
        return NULL;
    return find_entry(schema->metadata, "ARROW:extension:metadata",
                      length == NULL ? &size : length);
}

/* See fdl_arrow_import. */
static PyObject *tensor_metadata(const struct ArrowSchema *schema)
{
    int32_t length;
    const char *found = find_tensor_metadata(schema, &length);
    return found == NULL ? Py_NewRef(Py_None) : PyBytes_FromStringAndSize(found, length);
}

/* Whether a type is an extension type, whose values mean more than their storage. */
static int is_extended(const struct ArrowSchema *schema)
{
    int32_t length;
    return find_entry(schema->metadata, "ARROW:extension:name", &length) != NULL;
}

/* Fills in the type of numbers, bools or lists of one size: 0; -1 without an exception for others.
 * `of_tensors`: a fixed_shape_tensor counts as such a list. */
static int find_type(const struct ArrowSchema *schema, row_type *type, int of_tensors)
{
    const DLDataType *dtype = NULL;
    type->ndim = 1;
    type->inner = 1;
    if (schema == NULL ||
        (is_extended(schema) && (!of_tensors || find_tensor_metadata(schema, NULL) == NULL)))
        return -1;
    while (schema != NULL && schema->format != NULL && schema->dictionary == NULL &&
           strncmp(schema->format, "+w:", 3) == 0 && schema->n_children == 1 &&
           schema->children != NULL) {
        int64_t size = strtoll(schema->format + 3, NULL, 10);
        if (type->ndim == FASTDL_MAX_NDIM || size < 0 ||
            fastdl_mul_(type->inner, size, &type->inner))
            return -1;
        type->shape[type->ndim++] = size;
        schema = schema->children[0];
        if (schema != NULL && is_extended(schema))
            return -1;
    }
    if (schema != NULL && schema->format != NULL && schema->dictionary == NULL)
        dtype = type_of_format(schema->format);
    if (dtype == NULL)
        return -1;
    type->dtype = *dtype;
    return 0;
}

static int are_equal(const row_type *a, const row_type *b)
{
    return a->dtype.code == b->dtype.code && a->dtype.bits == b->dtype.bits && a->ndim == b->ndim &&
           memcmp(&a->shape[1], &b->shape[1], sizeof(int64_t) * (size_t)(a->ndim - 1)) == 0;
}

/* Methods of PyArrow's arrays that return the values of unsupported arrays, by the starts of their
 * formats. */
static const struct {
    const char *start, *line;
} remedies[] = {
    {"tdD", ".view('int32') has its values"},
    {"tts", ".view('int32') has its values"},
    {"ttm", ".view('int32') has its values"},
    {"ti", NULL},
    {"t", ".view('int64') has its values"},
    {"+l", ".flatten() has its values"},
    {"+L", ".flatten() has its values"},
    {"+w", ".flatten() has its values"},
    {"u", ".dictionary_encode().indices has a number for each text"},
    {"U", ".dictionary_encode().indices has a number for each text"},
    {"vu", ".dictionary_encode().indices has a number for each text"},
    {"", NULL},
};

/* Raises BufferError for a type: -1. `how` is the code that makes a PyArrow array. */
static int refuse_type(const struct ArrowSchema *schema, const char *how)
{
    const char *format = schema->format == NULL ? "" : schema->format;
    const char *line = ".dictionary_decode() has its values";
    size_t i = 0;
    if (is_table(schema)) {
        PyErr_SetString(PyExc_BufferError,
                        "expected an Arrow table whose columns have one type, of numbers, bools or "
                        "lists of one size, got other types: pyarrow.table(x).column(0) has "
                        "the first column");
        return -1;
    }
    if (is_extended(schema)) {
        line = ".storage has its values";
    } else if (schema->dictionary != NULL) {
        const char *values = schema->dictionary->format;
        if (values != NULL && *values != '\0' && strchr("uUv", *values) != NULL)
            line = ".indices has a number for each text";
    } else {
        while (strncmp(format, remedies[i].start, strlen(remedies[i].start)) != 0)
            i++;
        line = remedies[i].line;
    }
    PyErr_Format(PyExc_BufferError,
                 "expected an Arrow array of numbers, bools, or lists of one size, got format "
                 "'%.40s'%s%s%s",
                 format, line == NULL ? "" : ": ", line == NULL ? "" : how,
                 line == NULL ? "" : line);
    return -1;
}

/* Whether a table has the index of a DataFrame of pandas among its columns. */
static int has_index(const struct ArrowSchema *schema)
{
    static const char names[] = "\"index_columns\": [\"";
    int32_t length;
    const char *facts = find_entry(schema->metadata, "pandas", &length);
    for (; facts != NULL && length >= (int32_t)sizeof names - 1; facts++, length--)
        if (memcmp(facts, names, sizeof names - 1) == 0)
            return 1;
    return 0;
}

/* Reads the common type and the number of columns: 0, or -1 with BufferError. */
static int read_type(const struct ArrowSchema *schema, row_type *type, int64_t *columns,
                     const char *how)
{
    row_type other;
    if (!is_table(schema)) {
        *columns = 1;
        return find_type(schema, type, 1) < 0 ? refuse_type(schema, how) : 0;
    }
    if (has_index(schema)) {
        PyErr_SetString(PyExc_BufferError,
                        "expected an Arrow table of data columns only, got one with the index of a "
                        "DataFrame: reset_index(drop=True) of the DataFrame drops it");
        return -1;
    }
    *columns = schema->children == NULL ? 0 : schema->n_children;
    if (*columns <= 0 || find_type(schema->children[0], type, 0) < 0 ||
        type->ndim == FASTDL_MAX_NDIM)
        return refuse_type(schema, how);
    for (int64_t i = 1; i < *columns; i++)
        if (find_type(schema->children[i], &other, 0) < 0 || !are_equal(type, &other))
            return refuse_type(schema, how);
    return 0;
}

/* ---- in ---- */

/* Refuses nulls and malformed arrays: 0, or -1 with BufferError. The sizes come from another
 * library, and are not trusted. */
static int check_array(const struct ArrowSchema *schema, const struct ArrowArray *array,
                       const row_type *type, int64_t columns)
{
    int64_t nulls = count_all(schema, array, DEPTH), values;
    if (nulls == UNKNOWN)
        PyErr_Format(PyExc_BufferError,
                     "expected an Arrow array that matches its type, got length %lld, offset %lld, "
                     "n_buffers %lld, n_children %lld. Its producer is at fault",
                     (long long)array->length, (long long)array->offset,
                     (long long)array->n_buffers, (long long)array->n_children);
    else if (nulls != 0)
        PyErr_Format(
            PyExc_BufferError,
            "the Arrow array has nulls (%lld of %lld values), which a tensor cannot express: fill "
            "or drop them first",
            (long long)nulls,
            (long long)(fastdl_mul_(type->inner, columns, &values) ||
                                fastdl_mul_(values, array->length, &values)
                            ? array->length
                            : values));
    return nulls == 0 ? 0 : -1;
}

/* Finds the element buffer of a checked array, and the start of row `first` in it: 0, or -1 with
 * BufferError. */
static int find_elements(const struct ArrowArray *array, int64_t first, const row_type *type,
                         const unsigned char **elements, int64_t *start)
{
    first += array->offset;
    for (int32_t i = 1; i < type->ndim; i++) {
        array = array->children[0];
        first = first * type->shape[i] + array->offset;
    }
    if (array->n_buffers != 2 || array->n_children != 0 || array->buffers[1] == NULL) {
        PyErr_Format(PyExc_BufferError,
                     "expected an Arrow array of two buffers and no children, got n_buffers %lld, "
                     "n_children %lld. Its producer is at fault",
                     (long long)array->n_buffers, (long long)array->n_children);
        return -1;
    }
    *elements = array->buffers[1];
    *start = first;
    return 0;
}

typedef struct {
    DLManagedTensorVersioned managed;
    struct ArrowArray array;
} imported_array; /* followed by the shape */

static void delete_imported(DLManagedTensorVersioned *managed)
{
    imported_array *imported = managed->manager_ctx;
    imported->array.release(&imported->array);
    free(imported);
}

/* A Tensor on an array, which is moved. `elements` is NULL if there are none. */
static PyObject *move_array(struct ArrowArray *array, const row_type *type,
                            const unsigned char *elements, int64_t start)
{
    size_t shape_size = sizeof(int64_t) * (size_t)type->ndim;
    imported_array *imported = calloc(1, sizeof *imported + shape_size);
    DLTensor *tensor;
    if (imported == NULL)
        return PyErr_NoMemory();
    imported->array = *array;
    array->release = NULL;
    imported->managed.version.major = FASTDL_DLPACK_MAJOR;
    imported->managed.version.minor = FASTDL_DLPACK_MINOR;
    imported->managed.manager_ctx = imported;
    imported->managed.deleter = delete_imported;
    imported->managed.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
    tensor = &imported->managed.dl_tensor;
    tensor->data = (void *)(uintptr_t)elements;
    tensor->device.device_type = kDLCPU;
    tensor->ndim = type->ndim;
    tensor->dtype = type->dtype;
    tensor->shape = (int64_t *)(imported + 1);
    memcpy(tensor->shape, type->shape, shape_size);
    tensor->byte_offset = (uint64_t)start * (type->dtype.bits / 8u);
    return fdl_take_versioned(&imported->managed, NULL);
}

/* Copies the elements of the rows of an array from `first` on. */
static int copy_rows(const struct ArrowArray *array, int64_t first, int64_t rows,
                     const row_type *type, unsigned char *to)
{
    const unsigned char *elements;
    int64_t start, count = rows * type->inner, itemsize = fastdl_itemsize(type->dtype);
    if (count == 0)
        return 0;
    if (find_elements(array, first, type, &elements, &start) < 0)
        return -1;
    if (type->dtype.code != kDLBool)
        memcpy(to, elements + start * itemsize, (size_t)(count * itemsize));
    for (int64_t i = 0; type->dtype.code == kDLBool && i < count; i++)
        to[i] = (unsigned char)is_valid(elements, start + i);
    return 0;
}

static void swap(int64_t *a, int64_t *b)
{
    int64_t kept = *a;
    *a = *b;
    *b = kept;
}

/* A Tensor on a copy of checked arrays, or of the columns of tables. The elements of a column lie
 * side by side. */
static PyObject *copy_arrays(const struct ArrowArray *arrays, size_t count, int of_tables,
                             int64_t columns, const row_type *type)
{
    int64_t shape[FASTDL_MAX_NDIM + 1], nbytes = fastdl_itemsize(type->dtype), row;
    fdl_description *memory;
    unsigned char *to;
    DLTensor prototype;
    memset(&prototype, 0, sizeof prototype);
    prototype.device.device_type = kDLCPU;
    prototype.dtype = type->dtype;
    prototype.ndim = type->ndim + of_tables;
    prototype.shape = shape;
    shape[0] = columns;
    memcpy(&shape[of_tables], type->shape, sizeof(int64_t) * (size_t)type->ndim);
    if (fastdl_mul_(nbytes, type->inner, &row) || fastdl_mul_(row, type->shape[0], &nbytes) ||
        fastdl_mul_(nbytes, columns, &nbytes))
        return PyErr_NoMemory();
    memory = fdl_memory_new(&prototype, DLPACK_FLAG_BITMASK_IS_COPIED, nbytes);
    if (memory == NULL)
        return PyErr_NoMemory();
    to = memory->managed.dl_tensor.data;
    for (int64_t column = 0; column < columns; column++)
        for (size_t i = 0; i < count; i++) {
            const struct ArrowArray *own = of_tables ? arrays[i].children[column] : &arrays[i];
            if (copy_rows(own, of_tables ? arrays[i].offset : 0, arrays[i].length, type, to) < 0) {
                fdl_description_release(memory, 1);
                return NULL;
            }
            to += arrays[i].length * row;
        }
    if (of_tables) {
        swap(&memory->managed.dl_tensor.shape[0], &memory->managed.dl_tensor.shape[1]);
        swap(&memory->managed.dl_tensor.strides[0], &memory->managed.dl_tensor.strides[1]);
    }
    return fdl_tensor_wrap(memory);
}

/* See fdl_arrow_import. A single array may be moved. */
static PyObject *import_arrays(const struct ArrowSchema *schema, struct ArrowArray *arrays,
                               size_t count, row_type *type, int64_t columns)
{
    PyObject *tensor, *metadata, *both;
    const unsigned char *elements = NULL;
    int64_t start = 0;
    type->shape[0] = 0;
    for (size_t i = 0; i < count; i++) {
        if (check_array(schema, &arrays[i], type, columns) < 0)
            return NULL;
        if (fastdl_add_(type->shape[0], arrays[i].length, &type->shape[0]))
            return PyErr_NoMemory();
    }
    metadata = tensor_metadata(schema);
    if (metadata == NULL)
        return NULL;
    if (count != 1 || is_table(schema) || type->dtype.code == kDLBool)
        tensor = copy_arrays(arrays, count, is_table(schema), columns, type);
    else if (type->shape[0] != 0 && type->inner != 0 &&
             find_elements(&arrays[0], 0, type, &elements, &start) < 0)
        tensor = NULL;
    else
        tensor = move_array(&arrays[0], type, elements, start);
    both = tensor == NULL ? NULL : PyTuple_Pack(2, tensor, metadata);
    Py_XDECREF(tensor);
    Py_DECREF(metadata);
    return both;
}

PyObject *fdl_arrow_import(PyObject *schema_capsule_, PyObject *array_capsule_)
{
    struct ArrowSchema *schema;
    struct ArrowArray *array;
    row_type type;
    int64_t columns;
    if (!open_pair(schema_capsule_, array_capsule_, &schema, &array))
        return NULL;
    if (schema->release == NULL || array->release == NULL) {
        PyErr_SetString(PyExc_ValueError, "the Arrow capsules have been consumed already: call "
                                          "__arrow_c_array__ again for others");
        return NULL;
    }
    if (read_type(schema, &type, &columns, "pyarrow.array(x)") < 0)
        return NULL;
    return import_arrays(schema, array, 1, &type, columns);
}

PyObject *fdl_arrow_import_stream(PyObject *capsule)
{
    PyObject *result = NULL;
    chunks c;
    row_type type;
    int64_t columns;
    int more = open_stream(capsule, &c);
    if (more > 0)
        PyErr_SetString(PyExc_ValueError, "the Arrow stream has been consumed already: call "
                                          "__arrow_c_stream__ again for another");
    if (more == 0)
        more = read_type(&c.schema, &type, &columns, "pyarrow.chunked_array(x).combine_chunks()");
    if (more == 0) {
        while ((more = read_chunk(&c)) > 0)
            ;
        if (more == 0)
            result = import_arrays(&c.schema, c.arrays, c.count, &type, columns);
    }
    release_chunks(&c);
    return result;
}
