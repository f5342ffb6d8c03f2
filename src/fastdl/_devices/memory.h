/* SPDX-License-Identifier: Apache-2.0
 *
 * fastdl's own memory on devices: device, managed and pinned memory of CUDA and ROCm, as blocks.
 *
 * Memory is freed when what fastdl knows to be in flight on it has ended (the edges of the block's
 * work), on whatever thread drops it last, with or without the GIL, even after the interpreter is
 * gone. Plain memory waits for them on the host, without the GIL: the driver's free need not.
 * Memory that was allocated on a stream is freed on one of fastdl's own, which waits instead.
 *
 * Where a driver must not be called (in its own callbacks) or a capture forbids it, the end of the
 * block is deferred (deferred.h). When the driver is gone, or in a forked child,
 * there is nothing to free any more. Freeing never fails, raises or prints.
 */
#ifndef FASTDL_DEVICES_MEMORY_H_
#define FASTDL_DEVICES_MEMORY_H_

#include "_core/block.h"

#include "driver.h"

/* New, uninitialised, compact row-major memory for `prototype`, as fdl_memory_new, on its device,
 * which may be any kind of CUDA's or ROCm's, or the CPU. `stream`: device memory is allocated in
 * the order of that stream, if the driver can do so, and is ready there; -1: it is ready at once,
 * anywhere. NULL with *failure. */
fdl_description *fdl_memory_on_device(const DLTensor *prototype, uint64_t flags, int64_t nbytes,
                                      int64_t stream, fdl_failure *failure);

/* Whether the memory of `block` was made here, so that its device is known for certain. */
int fdl_memory_is_ours(const fdl_block *block);

/* Ends what was deferred, and destroys fastdl's own streams of a driver: for tests. */
void fdl_memory_forget(fdl_driver *driver);

#endif
