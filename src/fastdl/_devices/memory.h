/* SPDX-License-Identifier: Apache-2.0
 *
 * fastdl's own memory on devices: device, managed and pinned memory of CUDA and ROCm, as blocks.
 *
 * Memory is freed once all work that fastdl knows to be in flight on it has ended (the edges of the
 * block's work), on the thread that drops the last reference if that has a Python thread state, and
 * otherwise a little later (deferred.h). The host waits for the edges, without the GIL, since the
 * driver's free may not wait.
 *
 * If the driver refuses temporarily, as during a capture, it is also freed later. Once the driver
 * is gone, or in a forked child, there is nothing left to free. Freeing never fails, raises or
 * prints.
 */
#ifndef FASTDL_DEVICES_MEMORY_H_
#define FASTDL_DEVICES_MEMORY_H_

#include "_memory/block.h"

#include "driver.h"

/* New, uninitialised memory of `nbytes` for `prototype`, on its device, which may be the CPU or any
 * CUDA or ROCm device type, ready on every stream. Its strides have been checked (NULL: compact
 * row-major ones), and the first element is at its `byte_offset`. NULL with *failure. */
fdl_description *fdl_memory_on_device(const DLTensor *prototype, uint64_t flags, int64_t nbytes,
                                      fdl_failure *failure);

/* Whether the memory of `block` was allocated here, so that its device is certain. */
int fdl_memory_is_ours(const fdl_block *block);

#endif
