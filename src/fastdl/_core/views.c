/* SPDX-License-Identifier: Apache-2.0 */
#include "views.h"

#include <string.h>

#include "_memory/layout.h"
#include "facts.h"
#include "import.h"

/* A view under construction: its source, the request, and its shape and strides. */
typedef struct {
    PyObject *tensor;
    const DLTensor *source;
    uint64_t flags;
    const char *verb; /* for messages: "cannot be `verb` `requested`" */
    int32_t count;    /* of `requested`; -1: the request is the type of `result` */
    int64_t requested[FASTDL_MAX_NDIM]; /* sizes or axes */
    int32_t axis;                       /* the next dimension of the source, for an index */
    uint64_t offset; /* in elements; wraps only where a dimension is 0, and is not used then */
    int empty;
    DLTensor result; /* its shape and strides are those below */
    int64_t shape[FASTDL_MAX_NDIM], strides[FASTDL_MAX_NDIM];
} view_parts;

/* Starts a view, without dimensions yet. */
static void begin(view_parts *view, PyObject *tensor, const char *verb)
{
    fdl_description *own = fdl_description_in(tensor);
    view->tensor = tensor;
    view->source = &own->managed.dl_tensor;
    view->flags = own->managed.flags & FDL_LASTING_FLAGS;
    view->verb = verb;
    view->count = -1;
    view->axis = view->empty = 0;
    view->offset = 0;
    view->result = *view->source;
    view->result.ndim = 0;
    view->result.shape = view->shape;
    view->result.strides = view->strides;
}

static void append(view_parts *view, int64_t dim, int64_t stride)
{
    view->shape[view->result.ndim] = dim;
    view->strides[view->result.ndim] = stride;
    view->result.ndim++;
    view->empty |= dim == 0;
}

static int64_t size_of(const view_parts *view)
{
    fastdl_layout layout;
    (void)fastdl_check(view->source, view->flags, &layout);
    return layout.size;
}

/* ---- the result ---- */

/* Raises `error`. Returns NULL. */
static PyObject *refuse(const view_parts *view, PyObject *error, const char *why)
{
    PyObject *requested = view->count >= 0 ? fdl_int_tuple(view->requested, view->count)
                                           : fdl_dtype_object(view->result.dtype);
    PyObject *summary = requested == NULL ? NULL : fdl_tensor_summary(view->tensor);
    if (summary != NULL)
        PyErr_Format(error, "%U cannot be %s %S: %s", summary, view->verb, requested, why);
    Py_XDECREF(summary);
    Py_XDECREF(requested);
    return NULL;
}

static PyObject *raise_copy_required(const view_parts *view, const char *why)
{
    PyObject *module = PyImport_ImportModule("fastdl._core.errors"), *error = NULL;
    if (module != NULL)
        error = PyObject_GetAttrString(module, "CopyRequiredError");
    if (error != NULL)
        refuse(view, error, why);
    Py_XDECREF(error);
    Py_XDECREF(module);
    return NULL;
}

static const char share_bytes[] = "its elements share bytes, so only row-major order is defined: "
                                  "use numpy() first";

/* The new Tensor; NULL with an exception if the view is impossible. */
static PyObject *finish(view_parts *view)
{
    fastdl_layout layout;
    fastdl_fault fault = fastdl_check(&view->result, view->flags, &layout);
    if (fault == FASTDL_PACKED_STRIDES)
        return refuse(view, PyExc_BufferError, share_bytes);
    if (fault != FASTDL_OK)
        return refuse(view, PyExc_ValueError, fastdl_fault_text(fault));
    return fdl_make_view(view->tensor, &view->result, view->flags);
}

/* ---- the request ---- */

/* In NumPy's indexing a bool is a mask; numpy.bool has `__index__` in some releases. */
static int is_bool(PyObject *key)
{
    return PyBool_Check(key) || strcmp(Py_TYPE(key)->tp_name, "numpy.bool") == 0 ||
           strcmp(Py_TYPE(key)->tp_name, "numpy.bool_") == 0;
}

/* Whether `number` is an int, or has `__index__`, and is not a bool. */
static int is_index(PyObject *number)
{
    return PyIndex_Check(number) && !is_bool(number);
}

static int read_integer(PyObject *number, const char *what, int64_t *value)
{
    Py_ssize_t n;
    if (!is_index(number)) {
        PyErr_Format(PyExc_TypeError, "expected ints as %s, got '%.100s'", what,
                     Py_TYPE(number)->tp_name);
        return -1;
    }
    n = PyNumber_AsSsize_t(number, PyExc_ValueError);
    if (n == -1 && PyErr_Occurred())
        return -1;
    *value = n;
    return 0;
}

/* Reads the ints in a tuple, or in the one sequence in it. 0, or -1 with an exception. */
static int read_numbers(view_parts *view, PyObject *arguments, const char *what)
{
    PyObject *only = PyTuple_GET_SIZE(arguments) == 1 ? PyTuple_GET_ITEM(arguments, 0) : NULL;
    PyObject *numbers;
    Py_ssize_t n;
    int failed = 0;
    if (only != NULL && PySequence_Check(only) && !PyIndex_Check(only))
        numbers = PySequence_Tuple(only);
    else
        numbers = Py_NewRef(arguments);
    if (numbers == NULL)
        return -1;
    n = PyTuple_GET_SIZE(numbers);
    if (n > FASTDL_MAX_NDIM) {
        PyErr_Format(PyExc_ValueError, "expected at most %d ints as %s, got %zd", FASTDL_MAX_NDIM,
                     what, n);
        failed = 1;
    }
    for (Py_ssize_t i = 0; i < n && !failed; i++)
        failed = read_integer(PyTuple_GET_ITEM(numbers, i), what, &view->requested[i]) < 0;
    view->count = (int32_t)n;
    Py_DECREF(numbers);
    return failed ? -1 : 0;
}

/* Converts the request to `axes`, counted from 0, and marks them in `marked`, which has an entry
 * for each dimension. 0 if one does not exist or is repeated. */
static int read_axes(const view_parts *view, int32_t *axes, char *marked)
{
    int32_t ndim = view->source->ndim;
    for (int32_t i = 0; i < ndim; i++)
        marked[i] = 0;
    for (int32_t k = 0; k < view->count; k++) {
        int64_t axis = view->requested[k];
        if (axis < -ndim || axis >= ndim)
            return 0;
        axes[k] = (int32_t)(axis < 0 ? axis + ndim : axis);
        if (marked[axes[k]]++)
            return 0;
    }
    return 1;
}

/* ---- reshape ---- */

/* The requested shape, with -1 replaced by a size. 0 with ValueError if it does not hold as many
 * elements as the tensor. */
static int complete_shape(view_parts *view)
{
    int64_t size = size_of(view), *open = NULL, count, low, high;
    DLTensor others = {.ndim = view->count, .shape = view->shape};
    for (int32_t i = 0; i < view->count; i++) {
        view->shape[i] = view->requested[i];
        if (view->shape[i] >= 0)
            continue;
        if (view->shape[i] != -1 || open != NULL) {
            refuse(view, PyExc_ValueError, "expected sizes from 0, one of which may be -1");
            return 0;
        }
        open = &view->shape[i];
        *open = 1;
    }
    if (fastdl_measure_(&others, &count, &low, &high) != FASTDL_OK ||
        (open != NULL ? count == 0 || size % count != 0 : count != size)) {
        refuse(view, PyExc_ValueError, "expected a shape with the same number of elements");
        return 0;
    }
    if (open != NULL)
        *open = size / count;
    view->result.ndim = view->count;
    return 1;
}

/* Whether dimension `i` and the `count` elements after it, which are `step` apart, form one run. */
static int continues(const DLTensor *tensor, int32_t i, int64_t count, int64_t step)
{
    int64_t next;
    return tensor->shape[i] == 1 ||
           (!fastdl_mul_(count, step, &next) && tensor->strides[i] == next);
}

/* Finds strides for another shape; 0 if there are none. From the last dimension to the first, runs
 * of dimensions that one stride describes are split into the new sizes. */
static int find_strides(const DLTensor *tensor, int32_t ndim, const int64_t *shape,
                        int64_t *strides)
{
    int32_t k = ndim;
    int64_t run = 1, step = 1;
    for (int32_t i = tensor->ndim; i-- > 0;) {
        int64_t cut = 1;
        if (run == 1) /* only dimensions of size 1 so far, whose strides mean nothing */
            step = tensor->strides[i];
        run *= tensor->shape[i];
        if (i > 0 && continues(tensor, i - 1, run, step))
            continue;
        for (; k > 0 && (cut < run || shape[k - 1] == 1); k--) {
            strides[k - 1] = (int64_t)((uint64_t)cut * (uint64_t)step);
            cut *= shape[k - 1];
        }
        if (cut != run)
            return 0;
        run = 1;
    }
    while (k-- > 0)
        strides[k] = 1; /* of size 1: those of a tensor without dimensions */
    return 1;
}

PyObject *fdl_reshape(PyObject *tensor, PyObject *sizes)
{
    view_parts view;
    begin(&view, tensor, "reshaped to");
    if (read_numbers(&view, sizes, "shape") < 0 || !complete_shape(&view))
        return NULL;
    if (size_of(&view) == 0)
        fastdl_compact_strides(view.result.ndim, view.shape, view.strides);
    else if (!find_strides(view.source, view.result.ndim, view.shape, view.strides))
        return raise_copy_required(&view, "its strides allow no view of that shape: use "
                                          "copy().reshape(...)");
    return finish(&view);
}

/* ---- permute, T, mT, squeeze, unsqueeze ---- */

static PyObject *permuted(view_parts *view, const int32_t *axes)
{
    for (int32_t k = 0; k < view->source->ndim; k++)
        append(view, view->source->shape[axes[k]], view->source->strides[axes[k]]);
    return finish(view);
}

PyObject *fdl_permute(PyObject *tensor, PyObject *axes)
{
    view_parts view;
    int32_t order[FASTDL_MAX_NDIM];
    char marked[FASTDL_MAX_NDIM];
    begin(&view, tensor, "permuted by");
    if (read_numbers(&view, axes, "axes") < 0)
        return NULL;
    if (view.count != view.source->ndim || !read_axes(&view, order, marked))
        return refuse(&view, PyExc_ValueError, "expected each of its dimensions once");
    return permuted(&view, order);
}

PyObject *fdl_transpose(PyObject *tensor, int stacked)
{
    view_parts view;
    int32_t order[FASTDL_MAX_NDIM], ndim;
    begin(&view, tensor, "permuted by");
    ndim = view.source->ndim;
    view.count = ndim == 2 || (stacked && ndim > 2) ? ndim : 2;
    for (int32_t i = 0; i < view.count; i++) {
        order[i] = i < view.count - 2 ? i : 2 * view.count - 3 - i;
        view.requested[i] = order[i];
    }
    if (view.count != ndim)
        return refuse(&view, PyExc_ValueError,
                      stacked ? "mT is for two dimensions or more"
                              : "T is for two dimensions: use mT to swap the last two, or "
                                "permute(...) for any order");
    return permuted(&view, order);
}

PyObject *fdl_squeeze(PyObject *tensor, PyObject *axis)
{
    view_parts view;
    int32_t axes[FASTDL_MAX_NDIM];
    char dropped[FASTDL_MAX_NDIM];
    int possible = 1;
    begin(&view, tensor, "squeezed along");
    view.count = 0;
    if (axis != Py_None) {
        PyObject *arguments = PyTuple_Pack(1, axis);
        int failed = arguments == NULL || read_numbers(&view, arguments, "axis") < 0;
        Py_XDECREF(arguments);
        if (failed)
            return NULL;
        possible = read_axes(&view, axes, dropped);
    }
    for (int32_t i = 0; possible && i < view.source->ndim; i++) {
        int64_t dim = view.source->shape[i];
        if (axis == Py_None ? dim != 1 : !dropped[i])
            append(&view, dim, view.source->strides[i]);
        else
            possible = dim == 1;
    }
    if (!possible)
        return refuse(&view, PyExc_ValueError, "expected dimensions of size 1, each once");
    return finish(&view);
}

PyObject *fdl_unsqueeze(PyObject *tensor, PyObject *axis)
{
    view_parts view;
    int64_t place;
    int32_t ndim;
    begin(&view, tensor, "unsqueezed at");
    if (read_integer(axis, "axis", &view.requested[0]) < 0)
        return NULL;
    view.count = 1;
    ndim = view.source->ndim;
    if (ndim == FASTDL_MAX_NDIM)
        return refuse(&view, PyExc_ValueError, "expected a tensor of fewer than 64 dimensions");
    place = view.requested[0] < 0 ? view.requested[0] + ndim + 1 : view.requested[0];
    if (place < 0 || place > ndim)
        return refuse(&view, PyExc_ValueError,
                      "expected an axis from 0 to its number of dimensions, or a negative one "
                      "counted from the end of the result");
    for (int32_t i = 0; i <= ndim; i++) {
        if (i == place)
            append(&view, 1, 0);
        if (i < ndim)
            append(&view, view.source->shape[i], view.source->strides[i]);
    }
    return finish(&view);
}

/* ---- expand ---- */

PyObject *fdl_expand(PyObject *tensor, PyObject *sizes)
{
    view_parts view;
    int32_t added;
    begin(&view, tensor, "expanded to");
    if (read_numbers(&view, sizes, "shape") < 0)
        return NULL;
    added = view.count - view.source->ndim;
    for (int32_t k = 0; k < view.count && added >= 0; k++) {
        int is_new = k < added;
        int64_t own = is_new ? 1 : view.source->shape[k - added];
        int64_t dim = view.requested[k] == -1 && !is_new ? own : view.requested[k];
        if (dim < 0 || (dim != own && own != 1))
            added = -1;
        else
            append(&view, dim, is_new || dim != own ? 0 : view.source->strides[k - added]);
    }
    if (added < 0)
        return refuse(&view, PyExc_ValueError,
                      "only dimensions of size 1 can be expanded: pass -1 or the same size for "
                      "others, and new dimensions in front");
    view.flags |= DLPACK_FLAG_BITMASK_READ_ONLY;
    return finish(&view);
}

/* ---- read-only ---- */

PyObject *fdl_as_readonly(PyObject *tensor)
{
    const DLManagedTensorVersioned *own = &fdl_description_in(tensor)->managed;
    return fdl_make_view(tensor, &own->dl_tensor,
                         (own->flags & FDL_LASTING_FLAGS) | DLPACK_FLAG_BITMASK_READ_ONLY);
}

/* ---- another type ---- */

/* Changes the element size in the last dimension of `view` from `own` to `size` bytes. 0 with an
 * exception if that is impossible. */
static int resize_elements(view_parts *view, int64_t own, int64_t size)
{
    int32_t last = view->result.ndim - 1;
    int64_t bytes;
    if (last < 0 || fastdl_mul_(view->shape[last], own, &bytes) || bytes % size != 0) {
        refuse(view, PyExc_ValueError,
               "expected a last dimension whose bytes are a multiple of the new element size");
        return 0;
    }
    if (size_of(view) != 0 && view->shape[last] != 1 && view->strides[last] != 1) {
        raise_copy_required(view, "its last dimension has gaps: use copy().view(...)");
        return 0;
    }
    view->shape[last] = bytes / size;
    view->strides[last] = 1;
    for (int32_t i = 0; i < last; i++) {
        if (!fastdl_mul_(view->strides[i], own, &bytes) && bytes % size == 0) {
            view->strides[i] = bytes / size;
        } else if (view->shape[i] > 1 && size_of(view) != 0) {
            raise_copy_required(view, "its strides are not a multiple of the new element size: use "
                                      "copy().view(...)");
            return 0;
        }
    }
    return 1;
}

PyObject *fdl_view_as(PyObject *tensor, DLDataType dtype)
{
    view_parts view;
    int64_t own, size;
    begin(&view, tensor, "viewed as");
    for (int32_t i = 0; i < view.source->ndim; i++)
        append(&view, view.source->shape[i], view.source->strides[i]);
    if (fastdl_dtype(dtype) == fastdl_dtype(view.source->dtype))
        return finish(&view);
    view.result.dtype = dtype;
    if (fastdl_is_packed(view.source->dtype, view.flags) || fastdl_is_packed(dtype, 0))
        return refuse(&view, PyExc_BufferError,
                      "sub-byte elements share bytes and cannot be reinterpreted: use numpy() "
                      "first, or name a type whose lanes fill bytes, such as \"int4x2\"");
    view.flags &= ~(uint64_t)DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED;
    own = fastdl_itemsize(view.source->dtype);
    size = fastdl_itemsize(dtype);
    if (own != size && !resize_elements(&view, own, size))
        return NULL;
    if (fastdl_alignment_(dtype) > fastdl_alignment_(view.source->dtype) && size_of(&view) != 0 &&
        (fastdl_base_(view.source) + view.source->byte_offset) % fastdl_alignment_(dtype) != 0)
        return raise_copy_required(&view, "its address is not aligned for such elements: use "
                                          "copy().view(...)");
    return finish(&view);
}

/* ---- indexing ---- */

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

/* Raises TypeError about an index that a Tensor does not accept. An exception of its `__index__` is
 * the cause. */
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
                 "has basic indexing only; for more, index an array from numpy() or "
                 "fastdl.convert",
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

/* Checks the number of keys: 0, with *skipped the number of dimensions that an Ellipsis stands for;
 * -1 with IndexError. */
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
        } else if (is_index(key)) {
            failed = take_integer(view, key);
        } else {
            refuse_index(key);
            failed = 1;
        }
        if (failed)
            return -1;
    }
    keep_dimensions(view, skipped); /* without an Ellipsis one is implied at the end */
    return 0;
}

/* The view of a part of a tensor, which needs no further checks. */
static PyObject *finish_part(view_parts *view)
{
    DLTensor *result = &view->result;
    if (!view->empty) {
        uint64_t bytes = view->offset * (uint64_t)fastdl_itemsize(result->dtype);
        if (fdl_folds_offset((int32_t)result->device.device_type))
            result->data = (void *)((uintptr_t)result->data + (uintptr_t)bytes);
        else
            result->byte_offset += bytes;
    }
    return fdl_make_view(view->tensor, result, view->flags);
}

/* Raises BufferError. Returns NULL. */
static PyObject *refuse_packed(PyObject *tensor)
{
    PyObject *summary = fdl_tensor_summary(tensor);
    if (summary != NULL)
        PyErr_Format(PyExc_BufferError,
                     "%U cannot be indexed: its elements share bytes, so use numpy() first",
                     summary);
    Py_XDECREF(summary);
    return NULL;
}

PyObject *fdl_index(PyObject *tensor, PyObject *key)
{
    const DLManagedTensorVersioned *managed = &fdl_description_in(tensor)->managed;
    int several = PyTuple_Check(key);
    view_parts view;
    if (fastdl_is_packed(managed->dl_tensor.dtype, managed->flags))
        return refuse_packed(tensor);
    begin(&view, tensor, "indexed");
    if (select_parts(&view, several ? ((PyTupleObject *)key)->ob_item : &key,
                     several ? PyTuple_GET_SIZE(key) : 1) < 0)
        return NULL;
    return finish_part(&view);
}
