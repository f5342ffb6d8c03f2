/* SPDX-License-Identifier: Apache-2.0
 *
 * The copies that a driver makes: of consecutive bytes, and of rows.
 */
#ifndef FASTDL_DEVICES_STRIDED_H_
#define FASTDL_DEVICES_STRIDED_H_

#include <fastdl/dlpack.h>

#include "driver.h"

/* `height` rows of `width` bytes, which are `pitch` bytes apart. */
typedef struct {
    size_t width, height, pitch;
} fdl_rows;

/* Whether the elements of a tensor, at least one and not packed, are such rows in row-major order:
 * they have one stride apart from that of consecutive elements. Fills in *rows if so. */
int fdl_rows_of(const DLTensor *tensor, fdl_rows *rows);

/* Queues the copy of rows in device memory, or of one row in any memory, to consecutive bytes. The
 * stream's device is current. 0, or -1 with *failure. */
int fdl_copy_rows(fdl_driver *driver, void *target, int target_is_host, const void *source,
                  const fdl_rows *rows, void *stream, fdl_failure *failure);

#endif
