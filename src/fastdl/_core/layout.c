/* SPDX-License-Identifier: Apache-2.0 */
#include "layout.h"

#include "facts.h"

#if defined(__GNUC__) || defined(__clang__)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)
#else
#define UNLIKELY(condition) (condition)
#endif

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
    }
    return "an unknown fault";
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

/* Elements, and what the strides reach to both sides of the first one, in elements. This is what
 * an exchange costs per dimension. An overflow is reported only after the last dimension: if one of
 * them is 0, then *size is 0, nothing is reached and nothing has overflowed. */
static inline fdl_fault measure(const DLTensor *tensor, int64_t *size, int64_t *low, int64_t *high)
{
    const int64_t *shape = tensor->shape, *strides = tensor->strides;
    int64_t count = 1, below = 0, above = 0;
    fdl_fault fault = FDL_OK;
    int empty = 0;
    for (int32_t i = 0; i < tensor->ndim; i++) {
        int64_t dim = shape[i], last;
        if (UNLIKELY(dim <= 0)) {
            if (dim < 0)
                return FDL_NEGATIVE_DIM;
            empty = 1;
            continue;
        }
        if (UNLIKELY(mul(count, dim, &count)))
            fault = FDL_SIZE_OVERFLOW;
        if (strides == NULL)
            continue;
        /* Plain branches: each becomes one jump on the overflow flag, which a condition that joins
         * them, or a hint, would first turn into a number. */
        if (mul(dim - 1, strides[i], &last))
            goto out_of_reach;
        if (last < 0) {
            if (add(below, last, &below))
                goto out_of_reach;
        } else if (add(above, last, &above)) {
            goto out_of_reach;
        }
        continue;
    out_of_reach:
        fault = fault == FDL_OK ? FDL_REACH_OVERFLOW : fault;
    }
    *size = empty ? 0 : count;
    *low = below;
    *high = strides == NULL ? count - 1 : above;
    return empty ? FDL_OK : fault;
}

/* Whether `base` + byte_offset, and everything reached from there, are possible addresses, and
 * elements have memory at all. 0 - low is at most 2**63, so no side of a comparison can wrap. */
static inline fdl_fault check_addresses(const DLTensor *tensor, const fdl_layout *layout,
                                        uint64_t base)
{
    uint64_t first = base + tensor->byte_offset;
    if (UNLIKELY(first < base || first > UINTPTR_MAX ||
                 first < (uint64_t)0 - (uint64_t)layout->low ||
                 (uint64_t)layout->high > UINTPTR_MAX - first))
        return FDL_OFFSET_OVERFLOW;
    return UNLIKELY(tensor->data == NULL) ? FDL_NULL_DATA : FDL_OK;
}

/* The rest of fdl_layout_check for rare tensors, apart so that the common path calls nothing. */
static fdl_fault check_elsewhere(const DLTensor *tensor, const fdl_layout *layout)
{
    /* Of a handle only the offset counts. */
    int addresses = fdl_device_find((int32_t)tensor->device.device_type)->addresses;
    return check_addresses(tensor, layout, addresses ? (uint64_t)(uintptr_t)tensor->data : 0);
}

/* Sizes of packed elements are in bits, and only a compact layout is possible. */
static fdl_fault check_packed(const DLTensor *tensor, fdl_layout *layout)
{
    int64_t bits;
    if (!fdl_is_contiguous(tensor, 'C'))
        return FDL_PACKED_STRIDES;
    if (mul(layout->size, (int64_t)tensor->dtype.bits * tensor->dtype.lanes, &bits) ||
        add(bits, 7, &bits))
        return FDL_SIZE_OVERFLOW;
    layout->nbytes = layout->high = bits / 8;
    return check_elsewhere(tensor, layout);
}

fdl_fault fdl_layout_check(const DLTensor *tensor, uint64_t flags, fdl_layout *layout)
{
    DLDataType dtype = tensor->dtype;
    int64_t itemsize, size, low, high;
    fdl_fault fault;

    layout->size = layout->nbytes = layout->low = layout->high = 0;
    if (UNLIKELY((int32_t)tensor->device.device_type <= 0))
        return FDL_BAD_DEVICE;
    if (UNLIKELY((uint32_t)tensor->ndim > FDL_MAX_NDIM))
        return FDL_BAD_NDIM;
    if (UNLIKELY(!fdl_dtype_exists(dtype.code, dtype.bits)))
        return FDL_BAD_BITS;
    if (UNLIKELY(dtype.lanes == 0))
        return FDL_BAD_LANES;
    if (UNLIKELY(tensor->ndim > 0 && tensor->shape == NULL))
        return FDL_NULL_SHAPE;

    fault = measure(tensor, &size, &low, &high);
    if (UNLIKELY(fault != FDL_OK))
        return fault;
    if (UNLIKELY(size == 0))
        return FDL_OK; /* reaches nothing: data, strides and byte_offset are all right */
    layout->size = size;
    if (UNLIKELY(fdl_is_packed(dtype, flags)))
        return check_packed(tensor, layout);

    itemsize = fdl_itemsize(dtype);
    if (UNLIKELY(mul(size, itemsize, &layout->nbytes)))
        return FDL_SIZE_OVERFLOW;
    if (UNLIKELY(mul(low, itemsize, &low) || mul(high, itemsize, &high) ||
                 add(high, itemsize, &high)))
        return FDL_REACH_OVERFLOW;
    layout->low = low;
    layout->high = high;
    if (UNLIKELY(tensor->device.device_type != kDLCPU))
        return check_elsewhere(tensor, layout);
    return check_addresses(tensor, layout, (uint64_t)(uintptr_t)tensor->data);
}
