/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FASTDL_MEMORY_COPY_H_
#define FASTDL_MEMORY_COPY_H_

#include "layout.h"

/* A tensor as the fewest nested loops: dimensions of size 1 are dropped, and neighbours that one
 * stride describes are fused. Outer dimensions first. */
typedef struct {
    int32_t ndim;
    int64_t shape[FASTDL_MAX_NDIM];
    int64_t strides[FASTDL_MAX_NDIM]; /* in bytes */
} fdl_walk;

void fdl_walk_of(const DLTensor *tensor, fdl_walk *walk);

/* Copies the elements of `source`, with any strides, to compact row-major memory at `target`, which
 * has room for them and does not overlap. Both are in host memory; `source` has passed fastdl_check
 * with these flags. Needs no thread state. */
void fdl_copy_compact(const DLTensor *source, uint64_t flags, void *target);

#endif
