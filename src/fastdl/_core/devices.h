/* SPDX-License-Identifier: Apache-2.0
 *
 * What the host core needs from the device layer above it. Declared here and defined in
 * _devices/exchanges.c: the host core uses nothing else of that layer.
 *
 * For ordinary host memory each function costs one comparison. Unless stated otherwise, they need a
 * thread state, and return 0, or -1 with an exception.
 */
#ifndef FASTDL_CORE_DEVICES_H_
#define FASTDL_CORE_DEVICES_H_

#include <Python.h>

#include "block.h"
#include "layout.h"

/* ---- streams ---- */

/* Whether fastdl orders work on the memory of a device. It does not on the host, nor where streams
 * have no numbers. */
static inline int fdl_is_ordered(const fastdl_device_fact *fact)
{
    return !fact->host &&
           (fact->stream == FASTDL_STREAM_CUDA || fact->stream == FASTDL_STREAM_ROCM);
}

/* The default stream of a kind of streams, in DLPack's numbers. */
static inline int64_t fdl_default_stream(int kind)
{
    return kind == FASTDL_STREAM_CUDA ? 1 : 0;
}

/* Whether this machine has the driver for a kind of streams. */
int fdl_has_driver(int kind);

/* ---- imports ---- */

/* When device memory that came through an exchange table is ordered: */
enum {
    FDL_CALLER_ORDERS = -1, /* never: stream=-1 */
    FDL_ORDER_LATER = 0,    /* by fdl_ready_for, which must follow */
    FDL_ORDER_NOW = 1       /* immediately, for the calling thread's work stream */
};

/* Records that memory was just imported through `table`, and orders it as `order` says. `known`:
 * fastdl had exported it, and its block has come back. */
int fdl_came_through(fdl_description *description, const DLPackExchangeAPI *table, int known,
                     int order);

/* Records that the caller, who passed the memory in a capsule, orders all work on it. */
int fdl_ordered_by_caller(fdl_description *description);

/* Records that the memory comes from C code that uses the calling thread's work stream, and may
 * keep using it. */
int fdl_came_from_c(fdl_description *description);

/* Makes `stream`, if that is not -1, wait for the library through whose table the memory of a
 * Tensor was just imported. */
int fdl_ready_for(PyObject *tensor, int64_t stream);

/* ---- exports ---- */

/* Makes `stream`, if that is not -1, wait for all work on the memory of a Tensor. */
int fdl_order_for(PyObject *tensor, int64_t stream);

/* The same for the calling thread's work stream. */
int fdl_order_for_work(PyObject *tensor);

/* Prepares the memory for C code that launches on the calling thread's work stream and orders
 * nothing itself. */
int fdl_lend(const fdl_description *description);

/* Call this before the host reads or writes the memory, if it can: waits for what is in flight.
 * Everything in fastdl that touches host memory, or hands it to code that will, goes through here.
 */
int fdl_await_for_host(const fdl_description *description);

/* ---- two functions of every exchange table of fastdl ---- */

/* DLPackManagedTensorAllocator: host, CUDA and ROCm memory, ready at once. SetError may be NULL.
 * Needs no thread state. */
int fdl_allocate(DLTensor *prototype, DLManagedTensorVersioned **out, void *error_ctx,
                 void (*SetError)(void *error_ctx, const char *kind, const char *message));

/* DLPackCurrentWorkStream: the calling thread's work stream. NULL stands for the default stream on
 * CUDA and ROCm, and for "no stream" elsewhere. Needs no thread state. */
int fdl_current_work_stream(DLDeviceType type, int32_t id, void **out);

#endif
