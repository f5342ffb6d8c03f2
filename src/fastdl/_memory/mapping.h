/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that other processes can map: a file, always an anonymous one, mapped as a whole.
 */
#ifndef FASTDL_MEMORY_MAPPING_H_
#define FASTDL_MEMORY_MAPPING_H_

#include "block.h"

/* A uint8 tensor of shape (nbytes,) on the file behind the descriptor `fd`, readable and writable,
 * in a new block. The block owns the mapping and the descriptor, and releases both on any thread.
 * NULL with errno on failure, which also closes the descriptor. `nbytes` is not 0. */
fdl_description *fdl_mapping_new(int fd, int64_t nbytes);

#endif
