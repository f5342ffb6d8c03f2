/* SPDX-License-Identifier: Apache-2.0 */

/* ---- expecting ---- */

/* Whether two elements of a tensor may be the same memory: false if each stride exceeds everything
 * that the shorter strides reach. */
static int fastdl_shares_itself_in_any_order_(const DLTensor *dl)
{
    int32_t order[FASTDL_MAX_NDIM], n = 0;
    uint64_t reach = 0; /* a tensor with elements reaches less than 2**64 bytes */
    if (fastdl_is_empty_(dl))
        return 0;
    for (int32_t i = 0; i < dl->ndim; i++) {
        int32_t at = n;
        uint64_t distance = fastdl_distance_(dl->strides[i]);
        if (dl->shape[i] == 1)
            continue;
        for (; at > 0 && fastdl_distance_(dl->strides[order[at - 1]]) > distance; at--)
            order[at] = order[at - 1];
        order[at] = i;
        n++;
    }
    for (int32_t k = 0; k < n; k++) {
        uint64_t distance = fastdl_distance_(dl->strides[order[k]]);
        if (distance <= reach)
            return 1;
        reach += (uint64_t)(dl->shape[order[k]] - 1) * distance;
    }
    return 0;
}

/* The alignment that is required of a tensor; 0 requires what its elements need. */
static uint64_t fastdl_wanted_alignment_(const DLTensor *dl, int32_t alignment)
{
    return alignment > 0 ? (uint64_t)alignment : fastdl_alignment_(dl->dtype);
}

/* How many bytes the first element is past a multiple of the required alignment. */
static uint64_t fastdl_past_(const DLTensor *dl, int32_t alignment)
{
    return (fastdl_base_(dl) + dl->byte_offset) % fastdl_wanted_alignment_(dl, alignment);
}

/* Compares the device and the alignment of a tensor. */
static fastdl_mismatch_ fastdl_compare_place_(const DLTensor *dl, int32_t device, int32_t alignment)
{
    int32_t type = (int32_t)dl->device.device_type;
    if (device == FASTDL_HOST ? !fastdl_find_device(type)->host
                              : device != FASTDL_ANY_DEVICE && device != type)
        return FASTDL_WRONG_DEVICE_;
    return fastdl_past_(dl, alignment) != 0 && !fastdl_is_empty_(dl) ? FASTDL_UNALIGNED_
                                                                     : FASTDL_MATCHES_;
}

/* The range that a tensor reaches within one period of its long strides, in bytes. */
typedef struct {
    uint64_t start, length;
} fastdl_round_;

/* Includes the strides of `threshold` bytes or more in the common divisor *step, and returns the
 * range that the shorter ones reach. */
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
 * Two columns of a matrix, for example, are disjoint ranges modulo the length of a row. */
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

/* The index of the first entry of `no_alias` that a tensor overlaps, or `count`. */
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

/* Appends the shape that a spec requires: "(n=5, 3, any)", with "..., " for leading dimensions. */
static void fastdl_put_shape_(fastdl_text_ *text, const fastdl_spec *spec)
{
    int32_t wanted = fastdl_wanted_ndim_(spec);
    fastdl_put_(text, spec->rules & FASTDL_TRAILING ? "(..., " : "(");
    for (int32_t i = 0; i < wanted; i++) {
        const fastdl_dim *dim = spec->shape[i];
        if (dim != NULL && dim->name != NULL)
            fastdl_put_(text, "%s%s", dim->name, dim->size >= 0 ? "=" : "");
        if (dim != NULL && dim->size >= 0)
            fastdl_put_(text, "%lld", (long long)dim->size);
        else if (dim == NULL)
            fastdl_put_(text, "any");
        fastdl_put_(text, "%s", i + 1 < wanted ? ", " : wanted == 1 ? "," : "");
    }
    fastdl_put_(text, ")");
}

static void fastdl_put_expected_dtypes_(fastdl_text_ *text, const fastdl_spec *spec)
{
    for (size_t i = 0; i < spec->dtype_count; i++) {
        fastdl_put_(text, "%s", i == 0 ? "" : i + 1 < spec->dtype_count ? ", " : " or ");
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
    if (dim != NULL && dim->name != NULL && dim->from[0] != '\0')
        fastdl_put_(text, ": %s is %lld in %s", dim->name, (long long)dim->size, dim->from);
}

static void fastdl_put_expected_ndim_(fastdl_text_ *text, const fastdl_spec *spec)
{
    int wanted = (int)fastdl_wanted_ndim_(spec);
    if (spec->ndim != 0 && !(spec->rules & FASTDL_TRAILING))
        fastdl_put_(text, "%d dimension%s", wanted, wanted == 1 ? "" : "s");
    else if (spec->max_ndim == 0)
        fastdl_put_(text, "%d or more dimensions", wanted);
    else
        fastdl_put_(text, "%d to %d dimensions", wanted, (int)spec->max_ndim);
}

/* The advice for a wrong element type: with FASTDL_CONVERT, why it was not converted. */
static const char *fastdl_dtype_advice_(const DLTensor *dl, const fastdl_spec *spec)
{
    if (!(spec->rules & FASTDL_CONVERT))
        return spec->like == NULL ? "convert it first" : "convert one of them first";
    if (spec->rules & FASTDL_WRITABLE)
        return "an output is not converted, so pass one of that type";
    if (!fastdl_find_device((int32_t)dl->device.device_type)->host)
        return "only host memory is converted, so convert it in the tensor's own library";
    return "fastdl does not make this conversion, so make it in the tensor's own library";
}

/* Appends what is wrong with the tensor itself, as in "float32 or float64, got int32: convert it
 * first". Returns the exception; NULL for any other mismatch. */
static PyObject *fastdl_put_own_mismatch_(fastdl_text_ *text, const DLTensor *dl, const char *name,
                                          const fastdl_spec *spec, fastdl_mismatch_ mismatch)
{
    int past;
    switch (mismatch) {
    case FASTDL_WRONG_DTYPE_:
        fastdl_put_expected_dtypes_(text, spec);
        fastdl_put_(text, ", got ");
        fastdl_put_dtype_(text, fastdl_dtype(dl->dtype));
        fastdl_put_(text, ": %s", fastdl_dtype_advice_(dl, spec));
        return PyExc_TypeError;
    case FASTDL_WRONG_NDIM_:
        fastdl_put_expected_ndim_(text, spec);
        fastdl_put_(text, ", got %d: reshape it", (int)dl->ndim);
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
        past = (int)fastdl_past_(dl, spec->alignment);
        fastdl_put_(text,
                    "data aligned to %d bytes, got an %s %d byte%s past a multiple: copy it first",
                    (int)fastdl_wanted_alignment_(dl, spec->alignment),
                    fastdl_base_(dl) == 0 ? "offset" : "address", past, past == 1 ? "" : "s");
        return PyExc_BufferError;
    default:
        return NULL;
    }
}

/* Appends any other mismatch: of flags, or with other arguments. Returns the exception. */
static PyObject *fastdl_put_mismatch_(fastdl_text_ *text, const fastdl_view *view,
                                      const fastdl_spec *spec, fastdl_mismatch_ mismatch)
{
    size_t i;
    switch (mismatch) {
    case FASTDL_WRONG_SPEC_:
        fastdl_put_(text, "a specification %s: the function itself is at fault",
                    fastdl_refers_ahead_(spec) ? "that refers to earlier arguments, got a later one"
                                               : "with ndim as well as shape, got ndim 0");
        return PyExc_ValueError;
    case FASTDL_READ_ONLY_:
        fastdl_put_(text, "a writable tensor, got a read-only one: pass a writable copy");
        return PyExc_BufferError;
    case FASTDL_OTHER_DTYPE_:
        fastdl_put_dtype_(text, fastdl_dtype(spec->like->view->dl.dtype));
        fastdl_put_(text, ", as %s has, got ", spec->like->name);
        fastdl_put_dtype_(text, fastdl_dtype(view->dl.dtype));
        fastdl_put_(text, ": %s", fastdl_dtype_advice_(&view->dl, spec));
        return PyExc_TypeError;
    case FASTDL_OTHER_DEVICE_:
        fastdl_put_device_(text, spec->like->view->dl.device);
        fastdl_put_(text, ", where %s is, got ", spec->like->name);
        fastdl_put_device_(text, view->dl.device);
        fastdl_put_(text, ": move one of them first");
        return PyExc_BufferError;
    case FASTDL_ALIASED_:
        i = fastdl_aliased_(view, spec->no_alias, spec->no_alias_count, spec->rules);
        fastdl_put_(text, "no memory shared with %s, got an overlap: pass a copy of one",
                    i < spec->no_alias_count ? spec->no_alias[i].name : "another argument");
        return PyExc_ValueError;
    default: /* the tensor has changed since it was compared */
        fastdl_put_(text, "a tensor that does not change during the call");
        return PyExc_ValueError;
    }
}

static int fastdl_raise_mismatch_(const fastdl_view *view, const char *name,
                                  const fastdl_spec *spec, fastdl_mismatch_ mismatch)
{
    fastdl_text_ text, tensor;
    PyObject *exception;
    text.length = tensor.length = 0;
    fastdl_put_(&text, "%s: expected ", name);
    exception = fastdl_put_own_mismatch_(&text, &view->dl, name, spec, mismatch);
    if (exception == NULL)
        exception = fastdl_put_mismatch_(&text, view, spec, mismatch);
    fastdl_put_tensor_(&tensor, &view->dl, view->flags);
    PyErr_Format(exception, "%s (%s is %s)", text.text, name, tensor.text);
    return -1;
}

/* For FASTDL_DISPATCH_*: TypeError for an element type outside its family. */
static void fastdl_unlisted_(uint32_t dtype, const char *family)
{
    int is_used = fastdl_atomic_load_(&fastdl_state_.home) != NULL, entered = 1;
    PyGILState_STATE state;
    fastdl_text_ text;
    /* In a thread unknown to Python nobody would see the exception, and waiting for the GIL could
     * deadlock: its holder may wait for this thread. */
    if (!Py_IsInitialized() || PyGILState_GetThisThreadState() == NULL)
        return;
    if (is_used)
        entered = fastdl_enter_home_(&state);
    else
        state = PyGILState_Ensure();
    if (entered < 0)
        return;
    text.length = 0;
    fastdl_put_dtype_(&text, dtype);
    PyErr_Format(PyExc_TypeError,
                 "expected an element type of FASTDL_DISPATCH_%s, got %s: convert it first, or let "
                 "the function require FASTDL_LIST_%s",
                 family, text.text, family);
    if (entered > 0)
        PyGILState_Release(state);
}

/* ---- arguments ---- */

/* Whether torch records gradients in this thread; 1 if that cannot be determined. -1 with an
 * exception. */
static int fastdl_grad_is_enabled_(void)
{
    int answer = -1;
    PyObject *torch = fastdl_loaded_("torch");
    if (torch != NULL)
        answer = fastdl_call_predicate_(torch, "is_grad_enabled");
    Py_XDECREF(torch);
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
                 "%s: expected a writable tensor, got one that requires grad while autograd "
                 "records, which would miss the write: call within torch.no_grad(), or pass a "
                 "detached tensor",
                 name);
    return -1;
}
