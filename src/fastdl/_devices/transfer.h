/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies between the host and devices, and on and between devices, into new compact memory.
 *
 * A copy runs on one stream: after all work on the source that is known, and what comes after it
 * there, or waits for the result, sees the result. The host does not wait where both sides are
 * memory of the device or pinned; then the source has an edge too, and whoever owns it is kept
 * until the copy has ended. Ordinary host memory is waited for, on either side: its owner knows
 * nothing of streams.
 *
 * Strided device memory is copied by the driver in boxes of up to three dimensions, one call each;
 * fastdl has no kernels. Strided host memory is made compact by the host first.
 *
 * During a graph capture on its stream only copies on one device are made. They become part of the
 * graph, and so does the memory that they use: keep both tensors for as long as the graph.
 */
#ifndef FASTDL_DEVICES_TRANSFER_H_
#define FASTDL_DEVICES_TRANSFER_H_

#include "_core/block.h"

#include "driver.h"

/* How: */
enum {
    FDL_COPY_FINISHED = 1, /* the host waits for the copy in every case */
    FDL_COPY_POOLED = 2    /* memory of the device may be allocated in the order of `stream` */
};

/* New memory on `target` with the elements of `source`, which is alive meanwhile, compact and
 * row-major. `stream` is one of the target's device, or if that is the host of the source's; -1:
 * the calling thread's work stream. The result has the source's lasting flags but the one that it
 * is read-only, and is marked as copied. NULL with *failure, or with an exception of the table that
 * the source came from. With the GIL, which others get while the host waits. */
fdl_description *fdl_transfer(const fdl_description *source, DLDevice target, int64_t stream,
                              int how, fdl_failure *failure);

#endif
