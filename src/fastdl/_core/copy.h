/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FASTDL_CORE_COPY_H_
#define FASTDL_CORE_COPY_H_

#include <fastdl/dlpack.h>

/* Copies the elements of `source`, any strides, to compact row-major memory at `target`, which
 * has room for them and does not overlap. Both in host memory; `source` has passed
 * fastdl_check with these flags. Needs no thread state. */
void fdl_copy_compact(const DLTensor *source, uint64_t flags, void *target);

#endif
