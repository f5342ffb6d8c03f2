/* SPDX-License-Identifier: Apache-2.0
 *
 * The copies that a driver can make: lines of bytes, and boxes of up to three dimensions.
 */
#ifndef FASTDL_DEVICES_STRIDED_H_
#define FASTDL_DEVICES_STRIDED_H_

#include <fastdl/dlpack.h>

#include "driver.h"

/* The source, the target and the stream. Its device is current. */
typedef struct {
    fdl_driver *driver;
    void *stream;
    char *target;
    const char *source;
    int target_is_host, source_is_host;
} fdl_device_copy;

/* Both queue copies, and return 0, or -1 with *failure; some copies may be queued by then. */

/* Consecutive bytes. */
int fdl_copy_bytes(const fdl_device_copy *copy, size_t bytes, fdl_failure *failure);

/* The elements of `tensor`, at copy->source, at least one and not packed, to compact row-major
 * memory. The driver is called once if the tensor is a box with at most three different steps, the
 * first of which is one element; otherwise once for each index of the remaining dimensions: those
 * whose steps are negative, zero, over 2 GiB, or not multiples of each other. */
int fdl_copy_strided(const fdl_device_copy *copy, const DLTensor *tensor, fdl_failure *failure);

#endif
