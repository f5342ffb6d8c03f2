/* SPDX-License-Identifier: Apache-2.0 */
#include "index.h"

#include <string.h>

#include "_memory/layout.h"

/* A view while it is put together. `axis` is the next dimension of the source. */
typedef struct {
    const DLTensor *source;
    int32_t axis, ndim;
    int64_t shape[FASTDL_MAX_NDIM], strides[FASTDL_MAX_NDIM];
    uint64_t offset; /* in elements; wraps only where a dimension is 0, and is not used then */
    int empty;
} view_parts;

static void append(view_parts *view, int64_t dim, int64_t stride)
{
    view->shape[view->ndim] = dim;
    view->strides[view->ndim] = stride;
    view->ndim++;
    view->empty |= dim == 0;
}

static void keep_dimensions(view_parts *view, int32_t count)
{
    for (; count > 0; count--, view->axis++)
        append(view, view->source->shape[view->axis], view->source->strides[view->axis]);
}

static int take_slice(view_parts *view, PyObject *slice)
{
    int64_t stride = view->source->strides[view->axis];
    Py_ssize_t start, stop, step, count;
    if (PySlice_Unpack(slice, &start, &stop, &step) < 0)
        return -1;
    count = PySlice_AdjustIndices((Py_ssize_t)view->source->shape[view->axis], &start, &stop, step);
    /* A stride over one element or none is never used, and a huge step would not fit. */
    append(view, count, count > 1 ? (int64_t)((uint64_t)stride * (uint64_t)step) : stride);
    view->offset += (uint64_t)start * (uint64_t)stride;
    view->axis++;
    return 0;
}

/* Raises TypeError about an index that is none of those that a Tensor takes. What its `__index__`
 * has raised is the cause. */
static void refuse_index(PyObject *key)
{
    PyObject *type, *value, *traceback, *cause;
    PyErr_Fetch(&type, &cause, &traceback);
    if (type != NULL)
        PyErr_NormalizeException(&type, &cause, &traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    PyErr_Format(PyExc_TypeError,
                 "expected integers, slices, None or Ellipsis as indices, got '%.100s': a Tensor "
                 "has basic indexing only; for more, index the array that numpy() or "
                 "fastdl.convert gives",
                 Py_TYPE(key)->tp_name);
    if (cause == NULL)
        return;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyException_SetCause(value, cause);
    PyErr_Restore(type, value, traceback);
}

static int take_integer(view_parts *view, PyObject *number)
{
    Py_ssize_t dim = (Py_ssize_t)view->source->shape[view->axis];
    Py_ssize_t i = PyNumber_AsSsize_t(number, PyExc_IndexError);
    if (i == -1 && PyErr_Occurred()) {
        /* Arrays have `__index__`, which fails unless they are one integer. */
        if (PyErr_ExceptionMatches(PyExc_TypeError))
            refuse_index(number);
        return -1;
    }
    if (i < -dim || i >= dim) {
        PyErr_Format(PyExc_IndexError, "index %zd is out of bounds for dimension %d of size %zd", i,
                     (int)view->axis, dim);
        return -1;
    }
    view->offset += (uint64_t)(i < 0 ? i + dim : i) * (uint64_t)view->source->strides[view->axis];
    view->axis++;
    return 0;
}

/* Whether the key fits the tensor: *skipped is what an Ellipsis stands for. */
static int count_keys(PyObject *const *keys, Py_ssize_t n, const DLTensor *source, int32_t *skipped)
{
    Py_ssize_t ellipses = 0, added = 0, integers = 0, taken;
    for (Py_ssize_t k = 0; k < n; k++) {
        if (keys[k] == Py_Ellipsis)
            ellipses++;
        else if (keys[k] == Py_None)
            added++;
        else if (!PySlice_Check(keys[k]))
            integers++;
    }
    taken = n - ellipses - added;
    if (ellipses > 1) {
        PyErr_Format(PyExc_IndexError, "expected at most one Ellipsis in an index, got %zd",
                     ellipses);
        return -1;
    }
    if (taken > source->ndim) {
        PyErr_Format(PyExc_IndexError, "expected no more indices than dimensions (%d), got %zd",
                     (int)source->ndim, taken);
        return -1;
    }
    if (source->ndim + added - integers > FASTDL_MAX_NDIM) {
        PyErr_Format(PyExc_IndexError, "expected a view of at most %d dimensions, got %zd",
                     FASTDL_MAX_NDIM, source->ndim + added - integers);
        return -1;
    }
    *skipped = source->ndim - (int32_t)taken;
    return 0;
}

/* A bool would be a mask in NumPy's indexing; NumPy's own has `__index__` in some releases. */
static int is_bool(PyObject *key)
{
    return PyBool_Check(key) || strcmp(Py_TYPE(key)->tp_name, "numpy.bool") == 0 ||
           strcmp(Py_TYPE(key)->tp_name, "numpy.bool_") == 0;
}

int fdl_is_index(PyObject *number)
{
    return PyIndex_Check(number) && !is_bool(number);
}

static int select_parts(view_parts *view, PyObject *const *keys, Py_ssize_t n)
{
    int32_t skipped;
    if (count_keys(keys, n, view->source, &skipped) < 0)
        return -1;
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *key = keys[k];
        int failed = 0;
        if (key == Py_Ellipsis) {
            keep_dimensions(view, skipped);
            skipped = 0;
        } else if (key == Py_None) {
            append(view, 1, 0);
        } else if (PySlice_Check(key)) {
            failed = take_slice(view, key);
        } else if (fdl_is_index(key)) {
            failed = take_integer(view, key);
        } else {
            refuse_index(key);
            failed = 1;
        }
        if (failed)
            return -1;
    }
    keep_dimensions(view, skipped); /* without an Ellipsis one stands at the end */
    return 0;
}

/* `view` as a tensor of its own, on the block of `description`. */
static PyObject *make_view(PyObject *tensor, view_parts *view)
{
    DLTensor result = *view->source;
    result.ndim = view->ndim;
    result.shape = view->shape;
    result.strides = view->strides;
    if (!view->empty) {
        uint64_t bytes = view->offset * (uint64_t)fastdl_itemsize(result.dtype);
        if (fdl_folds_offset((int32_t)result.device.device_type))
            result.data = (void *)((uintptr_t)result.data + (uintptr_t)bytes);
        else
            result.byte_offset += bytes;
    }
    return fdl_make_view(tensor, &result,
                         fdl_description_in(tensor)->managed.flags & FDL_LASTING_FLAGS);
}

/* Raises BufferError. Returns NULL. */
static PyObject *refuse_packed(PyObject *tensor)
{
    PyObject *words = fdl_tensor_summary(tensor);
    if (words != NULL)
        PyErr_Format(PyExc_BufferError,
                     "%U cannot be indexed: its elements share bytes, so use numpy() first", words);
    Py_XDECREF(words);
    return NULL;
}

PyObject *fdl_index(PyObject *tensor, PyObject *key)
{
    const DLManagedTensorVersioned *managed = &fdl_description_in(tensor)->managed;
    int several = PyTuple_Check(key);
    view_parts view;
    if (fastdl_is_packed(managed->dl_tensor.dtype, managed->flags))
        return refuse_packed(tensor);
    view.source = &managed->dl_tensor;
    view.axis = view.ndim = view.empty = 0;
    view.offset = 0;
    if (select_parts(&view, several ? ((PyTupleObject *)key)->ob_item : &key,
                     several ? PyTuple_GET_SIZE(key) : 1) < 0)
        return NULL;
    return make_view(tensor, &view);
}
