/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies between the host and devices, and on and between devices, into new memory.
 *
 * A copy is one call of the driver on one stream, after all known work on the source; later work on
 * that stream, or work that waits for the result, sees it. The host does not wait if both sides are
 * device or pinned memory; the source then gets an edge too, and its owner is kept alive until the
 * copy has ended. If either side is ordinary host memory the host waits, since its owner does not
 * use streams.
 *
 * One call copies the span of the source, from its lowest byte to its highest, or, if the span is
 * mostly gaps, rows of it to the host. fastdl has no kernels: for anything else, and for copies
 * that the driver refuses between two devices, the caller can go through the host.
 *
 * Memory for a copy on a device is from the allocator of the table that the source was imported
 * through, if there is one, and else from the driver (memory.h).
 *
 * No copy becomes part of a graph that is being captured: the graph would need the memory for its
 * lifetime.
 */
#ifndef FASTDL_DEVICES_TRANSFER_H_
#define FASTDL_DEVICES_TRANSFER_H_

#include "_memory/block.h"

#include "driver.h"

/* *result: new memory on `target` with the elements of `source`, which the caller keeps alive; at
 * least one of the two is driver memory, and not of two different drivers. It is compact and
 * row-major if the source is, or if rows were copied; otherwise it has the source's strides. NULL
 * if one call of the driver cannot do it efficiently: the source is on the host and not compact, or
 * the result would be on a device, and have negative strides, overlap itself, or be mostly gaps; or
 * the driver does not copy between the two devices.
 *
 * `stream` belongs to the target's device or, if that is the host, to the source's; -1: the calling
 * thread's work stream. `finished`: the host always waits for the copy. The result has the source's
 * lasting flags except READ_ONLY, and is marked as copied. 0, or -1 with *failure or an exception
 * of the table that the source was imported through. Needs the GIL, and releases it while the host
 * waits. */
int fdl_transfer(const fdl_description *source, DLDevice target, int64_t stream, int finished,
                 fdl_description **result, fdl_failure *failure);

#endif
