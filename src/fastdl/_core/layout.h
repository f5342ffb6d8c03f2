/* SPDX-License-Identifier: Apache-2.0
 *
 * Element types, devices and the geometry of a tensor: the part of the public header that knows
 * nothing of Python. Every size that fastdl believes has passed through fastdl_check, whatever path
 * it came by.
 */
#ifndef FASTDL_CORE_LAYOUT_H_
#define FASTDL_CORE_LAYOUT_H_

#define FASTDL_NO_PYTHON
#include <fastdl/fastdl.h>
#undef FASTDL_NO_PYTHON

/* Alignment in bytes of memory that fastdl allocates, as DLPack recommends. */
#define FDL_ALIGNMENT 256

#endif
