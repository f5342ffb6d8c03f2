/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies from a device to ordinary host memory: the only ones that fastdl makes with a driver.
 *
 * A copy is one call of the driver on one stream, after all known work on the source. The host
 * waits for it, since the owner of host memory does not use streams. The copy covers the span of
 * the source, from its lowest byte to its highest, or, if the span is mostly gaps, only its rows.
 *
 * No copy becomes part of a graph that is being captured: the graph would need the memory for its
 * lifetime.
 */
#ifndef FASTDL_DEVICES_TRANSFER_H_
#define FASTDL_DEVICES_TRANSFER_H_

#include "_memory/block.h"

#include "driver.h"

/* Copies the elements of `source`, which is on a CUDA or ROCm device and which the caller keeps
 * alive, to new host memory, *result. That is compact and row-major if the source is, or if rows
 * were copied; otherwise it has the source's strides.
 *
 * `stream` belongs to the device; -1: the calling thread's work stream. The result has the source's
 * lasting flags except READ_ONLY, and is marked as copied. 0, or -1 with *failure or an exception
 * of the table that the source was imported through. Needs the GIL, and releases it while the host
 * waits. */
int fdl_to_host(const fdl_description *source, int64_t stream, fdl_description **result,
                fdl_failure *failure);

#endif
