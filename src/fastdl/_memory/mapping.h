/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that other processes can map: a file, in every use an anonymous one, mapped as a whole.
 */
#ifndef FASTDL_MEMORY_MAPPING_H_
#define FASTDL_MEMORY_MAPPING_H_

#include "block.h"

/* A uint8 tensor of shape (nbytes,) on the file behind the descriptor `fd`, readable and writable,
 * in a new block. The block owns the mapping and the descriptor: both end with it, on any thread.
 * NULL on failure, with errno; the descriptor is closed then, too. `nbytes` is not 0. */
fdl_description *fdl_mapping_new(int fd, int64_t nbytes);

#endif
