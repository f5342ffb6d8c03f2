/* SPDX-License-Identifier: Apache-2.0 */
#include "layout.h"

#include "facts.h"

/* r = a * b and r = a + b; nonzero when the result does not fit. */
#if defined(__GNUC__) || defined(__clang__)

static inline int mul(int64_t a, int64_t b, int64_t *r)
{
    return __builtin_mul_overflow(a, b, r);
}

static inline int add(int64_t a, int64_t b, int64_t *r)
{
    return __builtin_add_overflow(a, b, r);
}

#else

static inline int mul(int64_t a, int64_t b, int64_t *r)
{
    if (a != 0 && b != 0) {
        /* INT64_MIN / -1 overflows, so that pair is refused before dividing. */
        if ((a == -1 && b == INT64_MIN) || (b == -1 && a == INT64_MIN))
            return 1;
        if (a > 0 ? (b > 0 ? a > INT64_MAX / b : b < INT64_MIN / a)
                  : (b > 0 ? a < INT64_MIN / b : a < INT64_MAX / b))
            return 1;
    }
    *r = a * b;
    return 0;
}

static inline int add(int64_t a, int64_t b, int64_t *r)
{
    if (b > 0 ? a > INT64_MAX - b : a < INT64_MIN - b)
        return 1;
    *r = a + b;
    return 0;
}

#endif

const char *fdl_fault_text(fdl_fault fault)
{
    switch (fault) {
    case FDL_OK:
        return "no fault";
    case FDL_BAD_DEVICE:
        return "a device type that is not positive";
    case FDL_BAD_NDIM:
        return "a number of dimensions outside 0 to 64";
    case FDL_BAD_BITS:
        return "an element size that its type code does not have";
    case FDL_BAD_LANES:
        return "0 lanes";
    case FDL_NULL_SHAPE:
        return "dimensions but a NULL shape";
    case FDL_NEGATIVE_DIM:
        return "a negative dimension";
    case FDL_SIZE_OVERFLOW:
        return "more bytes than a 64-bit count can hold";
    case FDL_REACH_OVERFLOW:
        return "strides that reach outside the address space";
    case FDL_PACKED_STRIDES:
        return "strides over elements that share bytes (only a compact row-major layout has a "
               "meaning there)";
    case FDL_OFFSET_OVERFLOW:
        return "a byte_offset that leads outside the address space";
    case FDL_NULL_DATA:
        return "elements but a NULL data pointer";
    case FDL_BAD_VERSION:
        return "a major version that fastdl does not know";
    case FDL_NO_MEMORY:
        return "no room in memory";
    }
    return "an unknown fault";
}

int64_t fdl_itemsize(DLDataType dtype)
{
    return ((int64_t)dtype.bits * dtype.lanes + 7) / 8;
}

int fdl_is_packed(DLDataType dtype, uint64_t flags)
{
    return ((unsigned)dtype.bits * dtype.lanes) % 8 != 0 &&
           !(flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED);
}

void fdl_compact_strides(int32_t ndim, const int64_t *shape, int64_t *strides)
{
    int64_t step = 1;
    for (int32_t i = ndim; i-- > 0;) {
        strides[i] = step;
        if (mul(step, shape[i] > 0 ? shape[i] : 1, &step))
            step = 1;
    }
}

int fdl_is_contiguous(const DLTensor *tensor, char order)
{
    int32_t ndim = tensor->ndim;
    int compact = 1;
    int64_t step = 1;
    if (tensor->strides == NULL && order == 'C')
        return 1;
    for (int32_t k = 0; k < ndim; k++) {
        int32_t i = order == 'F' ? k : ndim - 1 - k;
        if (tensor->shape[i] == 0)
            return 1;
        if (tensor->shape[i] != 1) {
            if (tensor->strides == NULL || tensor->strides[i] != step)
                compact = 0; /* keep looking: a later dimension may be 0 */
            if (mul(step, tensor->shape[i], &step))
                compact = 0;
        }
    }
    return compact;
}

/* Sums what the strides reach, in elements, to both sides of the first element. */
static int reach(const DLTensor *tensor, int64_t *low, int64_t *high)
{
    *low = 0;
    *high = 0;
    for (int32_t i = 0; i < tensor->ndim; i++) {
        int64_t last, *side;
        if (mul(tensor->shape[i] - 1, tensor->strides[i], &last))
            return -1;
        side = last < 0 ? low : high;
        if (add(*side, last, side))
            return -1;
    }
    return 0;
}

/* Whether data + byte_offset and everything reached from there are possible addresses. */
static int addressable(const DLTensor *tensor, const fdl_layout *layout)
{
    uint64_t base = fdl_device_find((int32_t)tensor->device.device_type)->addresses
                        ? (uint64_t)(uintptr_t)tensor->data
                        : 0; /* a handle: only the offset counts */
    uint64_t first = base + tensor->byte_offset;
    if (first < base || first > UINTPTR_MAX)
        return 0;
    /* 0 - low is below 2**63, so neither side of these comparisons can wrap. */
    return first >= (uint64_t)0 - (uint64_t)layout->low &&
           (uint64_t)layout->high <= UINTPTR_MAX - first;
}

fdl_fault fdl_layout_check(const DLTensor *tensor, uint64_t flags, fdl_layout *layout)
{
    DLDataType dtype = tensor->dtype;
    int64_t itemsize, size = 1;
    int empty = 0, overflow = 0;

    layout->size = layout->nbytes = layout->low = layout->high = 0;
    if ((int32_t)tensor->device.device_type <= 0)
        return FDL_BAD_DEVICE;
    if (tensor->ndim < 0 || tensor->ndim > FDL_MAX_NDIM)
        return FDL_BAD_NDIM;
    if (dtype.bits == 0 ||
        (fdl_dtype_code_known(dtype.code) && fdl_dtype_find(dtype.code, dtype.bits) == NULL))
        return FDL_BAD_BITS;
    if (dtype.lanes == 0)
        return FDL_BAD_LANES;
    if (tensor->ndim > 0 && tensor->shape == NULL)
        return FDL_NULL_SHAPE;

    for (int32_t i = 0; i < tensor->ndim; i++) {
        int64_t dim = tensor->shape[i];
        if (dim < 0)
            return FDL_NEGATIVE_DIM;
        empty |= dim == 0;
        overflow |= mul(size, dim, &size);
    }
    if (empty)
        return FDL_OK; /* reaches nothing, so data, strides and byte_offset mean nothing */
    if (overflow)
        return FDL_SIZE_OVERFLOW;
    layout->size = size;

    itemsize = fdl_itemsize(dtype);
    if (fdl_is_packed(dtype, flags)) {
        int64_t bits;
        if (!fdl_is_contiguous(tensor, 'C'))
            return FDL_PACKED_STRIDES;
        if (mul(size, (int64_t)dtype.bits * dtype.lanes, &bits) || add(bits, 7, &bits))
            return FDL_SIZE_OVERFLOW;
        layout->nbytes = layout->high = bits / 8;
    } else {
        if (mul(size, itemsize, &layout->nbytes))
            return FDL_SIZE_OVERFLOW;
        if (tensor->strides == NULL) {
            layout->high = layout->nbytes;
        } else if (reach(tensor, &layout->low, &layout->high) ||
                   mul(layout->low, itemsize, &layout->low) ||
                   mul(layout->high, itemsize, &layout->high) ||
                   add(layout->high, itemsize, &layout->high)) {
            return FDL_REACH_OVERFLOW;
        }
    }

    if (!addressable(tensor, layout))
        return FDL_OFFSET_OVERFLOW;
    if (tensor->data == NULL)
        return FDL_NULL_DATA;
    return FDL_OK;
}
