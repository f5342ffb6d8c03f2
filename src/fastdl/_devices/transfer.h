/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies between the host and devices, and on and between devices, into new memory.
 *
 * A copy is one call of the driver on one stream, after all known work on the source; later work on
 * that stream, or work that waits for the result, sees it. The host does not wait if both sides are
 * device or pinned memory; the source then gets an edge too, and its owner is kept until the copy
 * has ended. If either side is ordinary host memory the host waits, since its owner does not use
 * streams.
 *
 * What one call copies is the span of the source, from its lowest byte to its highest, or rows of
 * it to the host, where the span is mostly gaps. fastdl has no kernels: what is neither is left to
 * the caller, who can go through the host, and so is what the driver refuses between two devices.
 *
 * Memory for a copy on a device is from the allocator of the table that the source came through, if
 * there is one, and else from the driver (memory.h).
 *
 * No copy becomes part of a graph that is being captured: it would need its memory for as long.
 */
#ifndef FASTDL_DEVICES_TRANSFER_H_
#define FASTDL_DEVICES_TRANSFER_H_

#include "_memory/block.h"

#include "driver.h"

/* *result: new memory on `target` with the elements of `source`, which is alive meanwhile; at least
 * one of the two is memory of a driver, and no two of different ones. It is compact and row-major
 * if the source is, or if rows were copied; otherwise it has the source's strides. NULL where one
 * call of the driver cannot do it well: the source is on the host and not compact, or the result
 * would be on a device, and have negative strides, share memory with itself, or be mostly gaps; or
 * the driver does not copy between the two devices.
 *
 * `stream` belongs to the target's device or, if that is the host, to the source's; -1: the calling
 * thread's work stream. `finished`: the host waits for the copy in every case. The result has the
 * source's lasting flags except READ_ONLY, and is marked as copied. 0, or -1 with *failure or an
 * exception of the table that the source came from. Needs the GIL, and releases it while the host
 * waits. */
int fdl_transfer(const fdl_description *source, DLDevice target, int64_t stream, int finished,
                 fdl_description **result, fdl_failure *failure);

#endif
