/* SPDX-License-Identifier: Apache-2.0
 *
 * fastdl/launch.h: what a kernel compiler needs from the tensors of a call, without Python: a key
 * that selects the compiled kernel, and the addresses, sizes and strides in the form in which the
 * kernel takes them.
 *
 *     char key[2 * FASTDL_SIGNATURE_ROOM(4)];   // two tensors of up to four dimensions
 *     size_t length = fastdl_signature(&x.dl, x.flags, &fastdl_every_difference, key);
 *     length += fastdl_signature(&y.dl, y.flags, &fastdl_every_difference, key + length);
 *
 * x and y are views (fastdl_borrow), or any tensors that have passed fastdl_check.
 */
#ifndef FASTDL_LAUNCH_H_
#define FASTDL_LAUNCH_H_

#include <string.h>

#include "fastdl.h"

#if defined(__cplusplus) && defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wold-style-cast"
#elif defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#pragma GCC diagnostic ignored "-Wuseless-cast"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ========================================================================
 * Launching kernels
 *
 * Nothing in this section needs a thread state.
 * ===================================================================== */

/* How much of the sizes, or of the strides, is in a key. */
enum {
    FASTDL_LEFT_OUT = 0,
    FASTDL_COARSE =
        1, /* sizes: rounded up to a power of two; strides: 'C', 'F' contiguous or not */
    FASTDL_EXACT = 2
};

/* What is in a key. The number of dimensions always is. */
typedef struct {
    uint8_t dtype, device, read_only; /* 1 or 0 */
    uint8_t sizes, strides;           /* FASTDL_LEFT_OUT, FASTDL_COARSE or FASTDL_EXACT */
    /* The highest alignment of the first element that a kernel can exploit, in bytes: a power of
     * two up to 2**31; 1: none. */
    uint32_t alignment;
} fastdl_signature_rules;

static const fastdl_signature_rules fastdl_every_difference = {1, 1, 1, FASTDL_EXACT, FASTDL_EXACT,
                                                               16};

/* The maximum size of the key of a tensor, in bytes. */
#define FASTDL_SIGNATURE_ROOM(ndim) (20 + 16 * (size_t)(ndim))

/* The class of a size, rounded up to a power of two: 0; 1; 2; 3 and 4; 5 to 8; ... */
static inline char fastdl_size_class_(int64_t size)
{
    char bits = 0;
    if (size <= 0)
        return 0;
    for (uint64_t rest = (uint64_t)(size - 1); rest > 0; rest >>= 1)
        bits++;
    return (char)(bits + 1);
}

/* The alignment of the first element: the greatest power of two, up to `most`. */
static inline uint32_t fastdl_alignment_(const DLTensor *tensor, uint32_t most)
{
    uint64_t address = tensor->byte_offset | most;
    if (tensor->device.device_type == kDLCPU ||
        fastdl_find_device((int32_t)tensor->device.device_type)->addresses)
        address = (fastdl_address_(tensor) + tensor->byte_offset) | most;
    return (uint32_t)(address & (~address + 1));
}

/* Writes the properties of a tensor that `rules` select to `key`, and returns the number of bytes:
 * at most FASTDL_SIGNATURE_ROOM(tensor->ndim), the size that `key` must have. Keys of several
 * tensors may be concatenated: with the same rules and number of tensors, two such keys are equal
 * only if every tensor is. The stride of a dimension of size 1, and every stride of a tensor
 * without elements, counts as 0: they are never used. NULL strides are compact ones. Keys are valid
 * in one process: their layout may change with any release. */
static inline size_t fastdl_signature(const DLTensor *tensor, uint64_t flags,
                                      const fastdl_signature_rules *rules, char *key)
{
    int64_t compact[FASTDL_MAX_NDIM];
    const int64_t *strides = tensor->strides;
    int32_t ndim = tensor->ndim;
    /* Written as whole words, since they are read as such next. */
    uint32_t head[5] = {0, 0, 0, 0, (uint32_t)ndim};
    uint64_t kinds = 0;
    char *out = key + sizeof(head);
    int is_empty = 0;
    if (rules->dtype) {
        memcpy(&head[0], &tensor->dtype, sizeof(head[0]));
        kinds |= DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED;
    }
    if (rules->read_only)
        kinds |= DLPACK_FLAG_BITMASK_READ_ONLY;
    head[4] |= (uint32_t)(flags & kinds) << 8;
    if (rules->strides == FASTDL_COARSE)
        head[4] |= (uint32_t)fastdl_is_contiguous(tensor, 'C') << 16 |
                   (uint32_t)fastdl_is_contiguous(tensor, 'F') << 17;
    if (rules->alignment > 1)
        head[1] = fastdl_alignment_(tensor, rules->alignment);
    if (rules->device) {
        head[2] = (uint32_t)tensor->device.device_type;
        head[3] = (uint32_t)tensor->device.device_id;
    }
    memcpy(key, head, sizeof(head));
    for (int32_t i = 0; i < ndim; i++) {
        int64_t size = tensor->shape[i];
        is_empty |= size == 0;
        if (rules->sizes == FASTDL_EXACT) {
            memcpy(out, &size, sizeof(size));
            out += sizeof(size);
        } else if (rules->sizes == FASTDL_COARSE) {
            *out++ = fastdl_size_class_(size);
        }
    }
    if (rules->strides != FASTDL_EXACT)
        return (size_t)(out - key);
    if (strides == NULL && ndim > 0) {
        fastdl_compact_strides(ndim, tensor->shape, compact);
        strides = compact;
    }
    for (int32_t i = 0; i < ndim; i++) {
        int64_t stride = is_empty || tensor->shape[i] == 1 ? 0 : strides[i];
        memcpy(out, &stride, sizeof(stride));
        out += sizeof(stride);
    }
    return (size_t)(out - key);
}

/* What fastdl_pack returns. */
enum {
    FASTDL_PACKED = 0,
    FASTDL_PACK_NO_ROOM = 1,   /* the buffer is too small */
    FASTDL_PACK_TOO_LARGE = 2, /* a size or a stride does not fit an int32_t */
    FASTDL_PACK_BAD_LAYOUT = 3 /* an unknown letter */
};

/* Writes a tensor into `buffer`, which has `room` bytes, from byte *used on, and advances *used.
 * The values are laid out as in a C struct, each at a multiple of its size. The letters of `layout`
 * are
 *
 *     p    the address of the first element, a pointer
 *     n s  the sizes; the strides, in elements: ndim values each of type int32_t
 *     N S  the same of type int64_t
 *     d    the number of dimensions, an int32_t
 *
 * so "pNS" is `struct { void *data; int64_t sizes[ndim], strides[ndim]; }`. Kernels on a device
 * whose memory has handles instead of addresses get the handle, without the offset. After a failure
 * *used is unchanged, and the buffer from there on is undefined. */
static inline int fastdl_pack(const DLTensor *tensor, const char *layout, void *buffer, size_t room,
                              size_t *used)
{
    int64_t compact[FASTDL_MAX_NDIM];
    char *out = (char *)buffer;
    size_t at = *used;
    for (; *layout != '\0'; layout++) {
        size_t width = 4, count = (size_t)tensor->ndim;
        const int64_t *values = tensor->shape;
        int64_t one;
        switch (*layout) {
        case 'p':
            width = sizeof(void *);
            count = 1;
            break;
        case 'd':
            one = tensor->ndim;
            values = &one;
            count = 1;
            break;
        case 'N':
            width = 8;
            break;
        case 'n':
            break;
        case 'S':
            width = 8;
            /* fall through */
        case 's':
            values = tensor->strides;
            if (values == NULL && count > 0) {
                fastdl_compact_strides(tensor->ndim, tensor->shape, compact);
                values = compact;
            }
            break;
        default:
            return FASTDL_PACK_BAD_LAYOUT;
        }
        at = (at + width - 1) & ~(width - 1);
        if (at > room || room - at < count * width)
            return FASTDL_PACK_NO_ROOM;
        if (*layout == 'p') {
            uintptr_t data = (uintptr_t)tensor->data;
            if (tensor->byte_offset != 0 &&
                fastdl_find_device((int32_t)tensor->device.device_type)->addresses)
                data += (uintptr_t)tensor->byte_offset;
            memcpy(out + at, &data, sizeof(data));
            at += sizeof(data);
            continue;
        }
        for (size_t i = 0; i < count; i++, at += width) {
            int32_t narrow = (int32_t)values[i];
            if (width == 8)
                memcpy(out + at, &values[i], 8);
            else if (narrow == values[i])
                memcpy(out + at, &narrow, 4);
            else
                return FASTDL_PACK_TOO_LARGE;
        }
    }
    *used = at;
    return FASTDL_PACKED;
}

#ifdef __cplusplus
} /* extern "C" */
#endif

#if defined(__cplusplus) && defined(__clang__)
#pragma clang diagnostic pop
#elif defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#endif /* FASTDL_LAUNCH_H_ */
