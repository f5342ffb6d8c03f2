/* SPDX-License-Identifier: Apache-2.0
 *
 * The attributes of an address, from the driver. Libraries sometimes name the wrong device or kind
 * of memory (managed memory as pinned, always device 0), so check before acting on foreign
 * memory.
 */
#ifndef FASTDL_DEVICES_POINTER_ATTRIBUTES_H_
#define FASTDL_DEVICES_POINTER_ATTRIBUTES_H_

#include <fastdl/dlpack.h>

#include "driver.h"

/* The kind of memory at `pointer`, and the number of its device, in *found. Memory unknown to the
 * driver is kDLCPU: plain host memory, or not mapped at all. No device has to be current. 0, or -1
 * with *failure. */
int fdl_pointer_find(fdl_driver *driver, const void *pointer, DLDevice *found,
                     fdl_failure *failure);

/* Compares the driver's attributes with the device in a tensor. Fails if the tensor is wrong, but
 * tolerates two mistakes: managed memory may be called device memory, and may name any device.
 * Memory that the tensor calls managed may be from any pool, since CUDA does not report which pools
 * are managed. */
int fdl_pointer_check(fdl_driver *driver, const DLTensor *tensor, fdl_failure *failure);

#endif
