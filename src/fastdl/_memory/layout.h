/* SPDX-License-Identifier: Apache-2.0
 *
 * Element types, devices and the geometry of a tensor: the part of the public header that does not
 * need Python. Every size that fastdl trusts has passed fastdl_check, on every import path.
 */
#ifndef FASTDL_MEMORY_LAYOUT_H_
#define FASTDL_MEMORY_LAYOUT_H_

#define FASTDL_NO_PYTHON
#include <fastdl/fastdl.h>
#undef FASTDL_NO_PYTHON

/* Whether fastdl adds the byte offset of a tensor to its `data`. Several libraries ignore the
 * offset. Libraries of oneAPI apply it, and treat `data` as the start of an allocation, whose size
 * they query. */
static inline int fdl_folds_offset(int32_t device_type)
{
    return fastdl_find_device(device_type)->addresses && device_type != kDLOneAPI;
}

/* Alignment in bytes of memory that fastdl allocates, as DLPack recommends. */
#define FDL_ALIGNMENT 256

#endif
