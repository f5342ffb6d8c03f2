/* SPDX-License-Identifier: Apache-2.0 */

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
    fastdl_layout layout;
    compact.strides = NULL;
    compact.data = &layout; /* anything but NULL */
    if (fastdl_check(&compact, plan->flags, &layout) != FASTDL_OK || layout.nbytes > INT64_MAX / 8)
        return -1;
    *bytes = layout.nbytes;
    return 0;
}

/* Allocates a planned copy, aligned to `alignment` bytes and to a cache line, without filling in
 * its elements. NULL with MemoryError. */
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
        fastdl_raise_(PyExc_MemoryError, "cannot allocate a copy larger than the address space");
        return NULL;
    }
    if (start + unit + (uint64_t)bytes <= (uint64_t)PTRDIFF_MAX)
        copy = (fastdl_copy_ *)malloc((size_t)(start + unit + (uint64_t)bytes));
    if (copy == NULL) {
        fastdl_raise_(PyExc_MemoryError, "cannot allocate %lld bytes for a copy", (long long)bytes);
        return NULL;
    }
    fastdl_start_managed_(&copy->managed, fastdl_delete_copy_, &plan->dl, plan->flags);
    to = &copy->managed.dl_tensor;
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

/* The kind of an element type: not convertible, bool, integer, floating. Each converts to its own
 * kind and to higher ones. */
static int fastdl_kind_(uint32_t dtype)
{
#define FASTDL_KIND_(number, type, kind)                                                           \
    case number:                                                                                   \
        return kind;
    switch (dtype) {
        FASTDL_EACH_INTEGER(FASTDL_KIND_, 2)
        FASTDL_EACH_FLOATING(FASTDL_KIND_, 3)
    default:
        return dtype == FASTDL_BOOL;
    }
#undef FASTDL_KIND_
}

/* A buffer of elements during a conversion, a cache line or more at a time. */
#define FASTDL_RUN_ 1024

typedef union {
    int64_t whole[FASTDL_RUN_]; /* of bool and integers; uint64 as its bits */
    double real[FASTDL_RUN_];
    char bytes[FASTDL_RUN_ * 8];
} fastdl_run_;

/* Reads bools or integers as 64-bit integers. */
static void fastdl_read_whole_(uint32_t dtype, const char *from, int n, fastdl_run_ *run)
{
    int is_bool = dtype == FASTDL_BOOL;
    FASTDL_DISPATCH_INTEGER(is_bool ? FASTDL_UINT8 : dtype, T, {
        for (int i = 0; i < n; i++) {
            T value;
            memcpy(&value, from + (size_t)i * sizeof(value), sizeof(value));
            run->whole[i] = is_bool ? value != 0 : (int64_t)value;
        }
    });
}

/* Writes integers; returns whether some are out of range for the type. */
static int fastdl_write_whole_(uint32_t dtype, int is_unsigned, int n, const fastdl_run_ *run,
                               char *to)
{
    int misfits = 0; /* collected: a loop that may exit early is not vectorised */
    FASTDL_DISPATCH_INTEGER(dtype, T, {
        for (int i = 0; i < n; i++) {
            T value = (T)run->whole[i];
            misfits |= (int64_t)value != run->whole[i];
            misfits |= run->whole[i] < 0 && (is_unsigned || T_DTYPE == FASTDL_UINT64);
            memcpy(to + (size_t)i * sizeof(value), &value, sizeof(value));
        }
    });
    return misfits;
}

/* Converts integers to doubles, rounding inexact ones to odd: narrower types then round as if from
 * the integer itself. */
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

/* GCC vectorises a loop of unknown length only at -O3; other compilers do at -O2. The loops of
 * 64-bit integers cannot be vectorised; they take twice the time across a line of 32 bytes. */
#if defined(__GNUC__) && !defined(__clang__)
#define FASTDL_VECTORISED_ __attribute__((optimize("O3", "align-loops=32")))
#else
#define FASTDL_VECTORISED_
#endif

/* Converts numbers to float32 or float64, which hardware supports. */
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

/* Reads numbers of any type as float64. */
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

/* Writes float64 numbers as elements of a floating type. */
static void fastdl_write_real_(uint32_t dtype, int n, const fastdl_run_ *run, char *to)
{
    switch (dtype) {
        FASTDL_STORE_CASE_(FASTDL_FLOAT16, run)
        FASTDL_STORE_CASE_(FASTDL_BFLOAT16, run)
    default:
        fastdl_cast_run_(FASTDL_FLOAT64, run->bytes, n, dtype, to);
    }
}

/* Converts up to FASTDL_RUN_ consecutive elements. Returns whether an integer did not fit; *run
 * then has the integers. */
static int fastdl_convert_run_(uint32_t source, const char *from, int n, uint32_t target, char *to,
                               fastdl_run_ *run)
{
    if (source == FASTDL_BOOL || fastdl_kind_(target) == 2) {
        fastdl_read_whole_(source, from, n, run);
        if (fastdl_kind_(target) == 2)
            return fastdl_write_whole_(target, source == FASTDL_UINT64, n, run, to);
        fastdl_cast_run_(FASTDL_INT64, run->bytes, n, FASTDL_FLOAT64, run->bytes);
        fastdl_write_real_(target, n, run, to);
    } else if (source != FASTDL_FLOAT16 && source != FASTDL_BFLOAT16 && target != FASTDL_FLOAT16 &&
               target != FASTDL_BFLOAT16) { /* C has types for both */
        fastdl_cast_run_(source, from, n, target, to);
    } else {
        fastdl_read_real_(source, from, n, run);
        fastdl_write_real_(target, n, run, to);
    }
    return 0;
}

#define FASTDL_GATHER_CASE_(bytes)                                                                 \
    case bytes:                                                                                    \
        for (; i + 4 <= n; i += 4) {                                                               \
            memcpy(to + i * bytes, from + i * step, bytes);                                        \
            memcpy(to + (i + 1) * bytes, from + (i + 1) * step, bytes);                            \
            memcpy(to + (i + 2) * bytes, from + (i + 2) * step, bytes);                            \
            memcpy(to + (i + 3) * bytes, from + (i + 3) * step, bytes);                            \
        }                                                                                          \
        for (; i < n; i++)                                                                         \
            memcpy(to + i * bytes, from + i * step, bytes);                                        \
        break;

/* Copies n elements that are `step` bytes apart to consecutive memory. For a size known at compile
 * time, a copy is a load and a store; four at a time, since a loop of one takes twice the time in
 * some processes. */
static void fastdl_gather_(const char *from, int64_t step, int64_t size, int64_t n, char *to)
{
    int64_t i = 0;
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
        for (; i < n; i++)
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

/* Copies `bytes` bytes of elements without converting them. The package has cache-blocked loops for
 * this. */
static void fastdl_copy_rows_(const DLTensor *from, uint64_t flags, char *to, char order,
                              int64_t bytes, const fastdl_runtime *package)
{
    fastdl_walk_ walk;
    if (package != NULL) {
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
    if (fastdl_is_packed(from->dtype, flags)) { /* which is compact */
        memcpy(to, (const char *)from->data + from->byte_offset, (size_t)bytes);
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

/* Copies and converts elements: 0, or -1 for an integer that does not fit. */
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

/* Fills in a copy that fastdl_new_copy_ made of a host tensor: 0, or -1 for an integer that does
 * not fit. With `is_kept`, if the caller keeps the memory alive, a large copy releases the GIL.
 * Shape and strides, which another thread may replace, are read before. */
static int fastdl_fill_copy_(const DLTensor *from, uint64_t flags, const DLTensor *to, char order,
                             int is_kept, fastdl_misfit_ *misfit)
{
    const fastdl_runtime *package = fastdl_package_(); /* needs the GIL */
    int64_t strides[FASTDL_MAX_NDIM];
    PyThreadState *released = NULL;
    DLTensor source = *from;
    fastdl_layout layout;
    int result = 0;
    (void)fastdl_check(to, flags, &layout);
    if (layout.nbytes == 0)
        return 0;
    for (int32_t i = 0; i < from->ndim; i++)
        strides[i] = from->strides[i];
    source.shape = to->shape;
    source.strides = strides;
    if (is_kept && layout.nbytes > FASTDL_LARGE_COPY_)
        released = PyEval_SaveThread();
    if (fastdl_dtype(from->dtype) != fastdl_dtype(to->dtype))
        result = fastdl_convert_rows_(&source, to, order, misfit);
    else
        fastdl_copy_rows_(&source, flags, (char *)to->data, order, layout.nbytes, package);
    if (released != NULL)
        PyEval_RestoreThread(released);
    return result;
}

/* A row-major copy of a tensor in host memory. NULL with MemoryError. */
static DLManagedTensorVersioned *fastdl_copy_of_(const fastdl_description *description)
{
    int64_t strides[FASTDL_MAX_NDIM];
    DLManagedTensorVersioned *copy;
    fastdl_misfit_ unused;
    fastdl_view plan;
    DLTensor from = description->dl;
    if (from.strides == NULL) {
        fastdl_compact_strides(from.ndim, from.shape, strides);
        from.strides = strides;
    }
    fastdl_plan_copy_(&from, description->flags, from.dtype, 'C', &plan);
    copy = fastdl_new_copy_(&plan, 256);
    if (copy != NULL)
        (void)fastdl_fill_copy_(&from, description->flags, &copy->dl_tensor, 'C', 1, &unused);
    return copy;
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

/* Refuses a tensor whose table reports a wrong element type: 0, or -1 with an exception that names
 * the argument. Tensors that are only borrowed are not checked, to save time. */
static int fastdl_check_copyable_(PyObject *obj, uint32_t facts, const DLTensor *tensor,
                                  const char *name)
{
    if (!(facts & FASTDL_TYPE_ASK_BITS) || fastdl_check_width_(obj, tensor) == 0)
        return 0;
    fastdl_name_argument_(name);
    return -1;
}

/* Makes a copy of a host tensor that was planned for it. NULL with an exception that names the
 * argument. */
static DLManagedTensorVersioned *fastdl_make_copy_(const fastdl_view *from, const char *name,
                                                   const fastdl_view *plan, char order,
                                                   int32_t alignment, int is_kept)
{
    DLManagedTensorVersioned *copy = fastdl_new_copy_(plan, alignment);
    fastdl_misfit_ misfit;
    if (copy == NULL) {
        fastdl_name_argument_(name);
        return NULL;
    }
    if (fastdl_fill_copy_(&from->dl, from->flags, &copy->dl_tensor, order, is_kept, &misfit) == 0)
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
    const fastdl_record *record;
    fastdl_view plan;
    PyObject *keeper = NULL;
    if (spec->rules & FASTDL_WRITABLE || fastdl_is_packed(dtype, view->flags) ||
        !fastdl_find_device((int32_t)view->dl.device.device_type)->host ||
        *mismatch == FASTDL_WRONG_NDIM_ || *mismatch == FASTDL_WRONG_SPEC_ ||
        *mismatch == FASTDL_WRONG_SIZE_) /* a copy would not fix it */
        return 1;
    if (spec->rules & FASTDL_CONVERT)
        dtype = fastdl_choose_dtype_(dtype, spec);
    fastdl_plan_copy_(&view->dl, view->flags, dtype, order, &plan);
    of_copy.alignment = 0; /* new memory is aligned and not shared */
    of_copy.no_alias_count = 0;
    reason = fastdl_compare_(&plan, name, &of_copy);
    if (reason != FASTDL_MATCHES_) {
        /* A copy of pinned memory may have the wrong device although the original had the right
         * one. */
        if (plan.dl.device.device_type == view->dl.device.device_type ||
            (reason != FASTDL_WRONG_DEVICE_ && reason != FASTDL_OTHER_DEVICE_))
            *mismatch = reason;
        return 1;
    }
    record = fastdl_known_(Py_TYPE(obj));
    if (record == NULL || fastdl_check_copyable_(obj, record->facts, &view->dl, name) < 0)
        return -1;
    /* Another thread may replace memory lent by another library, unless its storage is held. */
    if (view->own_ != NULL || record->facts & FASTDL_TYPE_STORAGE ||
        !(record->facts & FASTDL_TYPE_NATIVE)) {
        keeper = fastdl_keeper_(obj, record->facts);
        if (keeper == NULL)
            return -1;
    }
    copy = fastdl_make_copy_(view, name, &plan, order, spec->alignment, keeper != NULL);
    if (keeper != NULL)
        fastdl_release_object_(keeper);
    if (copy == NULL)
        return -1;
    fastdl_release(view);
    view->own_ = copy;
    view->dl = copy->dl_tensor;
    view->flags = copy->flags;
    return 0;
}
