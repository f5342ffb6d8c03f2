/* SPDX-License-Identifier: Apache-2.0
 *
 * The geometry of a tensor: how many elements, how many bytes, and which bytes its
 * strides reach. Every size that fastdl believes has passed through fdl_layout_check,
 * whatever path it came by.
 */
#ifndef FASTDL_CORE_LAYOUT_H_
#define FASTDL_CORE_LAYOUT_H_

#include <fastdl/dlpack.h>

/* The most dimensions fastdl takes. NumPy and torch have the same limit; it also bounds
 * what is read through an untrusted `shape` pointer. */
#define FDL_MAX_NDIM 64

/* Alignment in bytes of memory that fastdl allocates, as DLPack recommends. */
#define FDL_ALIGNMENT 256

/* What is wrong with a descriptor. */
typedef enum {
    FDL_OK = 0,
    FDL_BAD_DEVICE,
    FDL_BAD_NDIM,
    FDL_BAD_BITS,
    FDL_BAD_LANES,
    FDL_NULL_SHAPE,
    FDL_NEGATIVE_DIM,
    FDL_SIZE_OVERFLOW,
    FDL_REACH_OVERFLOW,
    FDL_PACKED_STRIDES,
    FDL_OFFSET_OVERFLOW,
    FDL_NULL_DATA,
} fdl_fault;

/* The fault in words that complete "the tensor has ...". */
const char *fdl_fault_text(fdl_fault fault);

typedef struct {
    int64_t size;   /* elements */
    int64_t nbytes; /* bytes of those elements laid out without gaps */
    int64_t low;    /* bytes reached below the first element: 0 or negative */
    int64_t high;   /* bytes reached from the first element upwards: one past the last */
} fdl_layout;

/* Checks everything about `tensor` that can be checked without reading its data, and fills
 * *layout. Reads `shape` and `strides` only once ndim is known to be 0 to 64.
 * `flags` are DLPACK_FLAG_BITMASK_* bits: SUBBYTE_TYPE_PADDED changes sizes.
 * Dimensions of a tensor without elements are not multiplied: (0, 2**62, 2**62) is fine. */
fdl_fault fdl_layout_check(const DLTensor *tensor, uint64_t flags, fdl_layout *layout);

/* The bytes one element takes when it stands alone: the unit of strides. A packed
 * sub-byte element counts as one byte. */
static inline int64_t fdl_itemsize(DLDataType dtype)
{
    return ((int64_t)dtype.bits * dtype.lanes + 7) / 8;
}

/* Whether elements share bytes: lanes * bits is not a whole number of bytes and the
 * elements are not padded. Such a tensor has no strides to speak of. */
static inline int fdl_is_packed(DLDataType dtype, uint64_t flags)
{
    return ((unsigned)dtype.bits * dtype.lanes) % 8 != 0 &&
           !(flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED);
}

/* Writes the strides, in elements, of a compact row-major tensor. Dimensions of size 0
 * count as 1, and products that do not fit end the row at 1: no element is reached then. */
void fdl_compact_strides(int32_t ndim, const int64_t *shape, int64_t *strides);

/* Whether the elements lie without gaps in the given order, 'C' (last dimension fastest)
 * or 'F' (first). Dimensions of size 1 may have any stride; no elements lie in any order. */
int fdl_is_contiguous(const DLTensor *tensor, char order);

#endif
