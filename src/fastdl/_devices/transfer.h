/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies between the host and devices, and on and between devices, into new compact memory.
 *
 * A copy runs on one stream, after all known work on the source; later work on that stream, or work
 * that waits for the result, sees it. The host does not wait if both sides are device or pinned
 * memory; the source then gets an edge too, and its owner is kept until the copy has ended. If
 * either side is ordinary host memory the host waits, since its owner does not use streams.
 *
 * Strided device memory is copied by the driver in boxes of up to three dimensions, one call each;
 * fastdl has no kernels. Strided host memory is made compact by the host first.
 *
 * During a graph capture on its stream only copies within one device are possible. They become part
 * of the graph, and so does the memory they use: keep both tensors for as long as the graph.
 */
#ifndef FASTDL_DEVICES_TRANSFER_H_
#define FASTDL_DEVICES_TRANSFER_H_

#include "_core/block.h"

#include "driver.h"

/* How: */
enum {
    FDL_COPY_FINISHED = 1, /* the host waits for the copy in every case */
    FDL_COPY_POOLED = 2    /* device memory may be allocated in the order of `stream` */
};

/* New memory on `target` with the elements of `source`, which is alive meanwhile, compact and
 * row-major. `stream` belongs to the target's device or, if that is the host, to the source's; -1:
 * the calling thread's work stream. The result has the source's lasting flags except READ_ONLY, and
 * is marked as copied. NULL with *failure, or with an exception of the table that the source came
 * from. Needs the GIL, and releases it while the host waits. */
fdl_description *fdl_transfer(const fdl_description *source, DLDevice target, int64_t stream,
                              int how, fdl_failure *failure);

#endif
