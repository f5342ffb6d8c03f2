/* SPDX-License-Identifier: Apache-2.0
 *
 * What a driver knows of an address. Libraries name the wrong device or kind of memory now and then
 * (managed memory as pinned, always device 0), so whoever acts on foreign memory asks first.
 */
#ifndef FASTDL_DEVICES_POINTER_ATTRIBUTES_H_
#define FASTDL_DEVICES_POINTER_ATTRIBUTES_H_

#include <fastdl/dlpack.h>

#include "driver.h"

/* The kind of memory at `pointer`, and the number of its device, in *found. Memory that the driver
 * does not know is kDLCPU: plain host memory, or none at all. No device need be current. 0, or -1
 * with *failure. */
int fdl_pointer_find(fdl_driver *driver, const void *pointer, DLDevice *found,
                     fdl_failure *failure);

/* The same, compared with what a tensor says: *found is where its memory really is. Fails if the
 * tensor is wrong, but for two slips: managed memory may be called device memory, and may name any
 * device. Memory that is said to be the CPU's may be pinned or managed. */
int fdl_pointer_check(fdl_driver *driver, const DLTensor *tensor, DLDevice *found,
                      fdl_failure *failure);

#endif
