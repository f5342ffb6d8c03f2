/* SPDX-License-Identifier: Apache-2.0
 *
 * What the host core needs from the device layer above it, called through function pointers:
 * _devices/exchanges.c defines the functions and sets the pointers. The host core uses nothing else
 * of that layer, and links without it.
 *
 * For ordinary host memory each function costs one comparison, without a call. Unless stated
 * otherwise, they need a thread state, and return 0, or -1 with an exception.
 */
#ifndef FASTDL_CORE_DEVICES_H_
#define FASTDL_CORE_DEVICES_H_

#include <Python.h>

#include "_memory/block.h"
#include "_memory/layout.h"

#include "object.h"

/* The functions of the device layer, documented with the functions below that call them. Those that
 * take memory are called only if it has work in flight, or is on a device with streams. */
typedef struct {
    int (*has_driver)(int kind);
    int (*imported_by_table)(fdl_description *description, const DLPackExchangeAPI *table,
                             int known, int order);
    int (*ordered_by_caller)(fdl_description *description);
    int (*imported_from_c)(fdl_description *description);
    int (*ready_for)(PyObject *tensor, int64_t stream);
    int (*order_for)(PyObject *tensor, int64_t stream);
    int (*order_for_work)(PyObject *tensor);
    int (*lend)(const fdl_description *description);
    int (*await_for_host)(const fdl_description *description);
    int (*current_work_stream)(DLDeviceType type, int32_t id, void **out);
    int (*order_streams)(DLDevice device, int64_t source, int64_t stream);
} fdl_device_calls;

/* NULL until the device layer is imported, as part of `import fastdl`: before that, fastdl sees no
 * device memory. But a partly failed import leaves the table of fastdl.Tensor behind, so its
 * function below checks for NULL. */
extern const fdl_device_calls *fdl_devices;

/* The facts about the device of a description. */
static inline const fastdl_device_fact *fdl_fact_of(const fdl_description *description)
{
    return fastdl_find_device((int32_t)description->managed.dl_tensor.device.device_type);
}

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
static inline int fdl_has_driver(int kind)
{
    return fdl_devices->has_driver(kind);
}

/* ---- imports ---- */

/* When device memory imported through an exchange table is ordered: */
enum {
    FDL_CALLER_ORDERS = -1, /* never: stream=-1 */
    FDL_ORDER_LATER = 0,    /* by fdl_ready_for, which must follow */
    FDL_ORDER_NOW = 1       /* immediately, for the calling thread's work stream */
};

/* Records that memory was just imported through `table`, and orders it as `order` says. `known`:
 * the memory is a re-import of a block that fastdl had exported. */
static inline int fdl_imported_by_table(fdl_description *description,
                                        const DLPackExchangeAPI *table, int known, int order)
{
    if (!fdl_is_ordered(fdl_fact_of(description)))
        return 0;
    return fdl_devices->imported_by_table(description, table, known, order);
}

/* Records that the caller, who passed the memory in a capsule, orders all work on it. */
static inline int fdl_ordered_by_caller(fdl_description *description)
{
    int kind = fdl_fact_of(description)->stream; /* pinned memory has streams as well */
    if (description->block->work != NULL ||      /* it is ordered already */
        (kind != FASTDL_STREAM_CUDA && kind != FASTDL_STREAM_ROCM))
        return 0;
    return fdl_devices->ordered_by_caller(description);
}

/* Records that the memory comes from C code that uses the calling thread's work stream, and may
 * keep using it. */
static inline int fdl_imported_from_c(fdl_description *description)
{
    return fdl_is_ordered(fdl_fact_of(description)) ? fdl_devices->imported_from_c(description) : 0;
}

/* Makes `stream`, if that is not -1, wait for the library through whose table the memory of a
 * Tensor was just imported. */
static inline int fdl_ready_for(PyObject *tensor, int64_t stream)
{
    return fdl_devices->ready_for(tensor, stream);
}

/* ---- exports ---- */

/* Makes `stream`, if that is not -1, wait for all work on the memory of a Tensor. */
static inline int fdl_order_for(PyObject *tensor, int64_t stream)
{
    if (fdl_description_in(tensor)->block->work == NULL)
        return 0;
    return fdl_devices->order_for(tensor, stream);
}

/* Makes the calling thread's work stream wait for all work on the memory of a Tensor. */
static inline int fdl_order_for_work(PyObject *tensor)
{
    if (fdl_description_in(tensor)->block->work == NULL)
        return 0;
    return fdl_devices->order_for_work(tensor);
}

/* Prepares the memory for C code that launches on the calling thread's work stream and orders
 * nothing itself. */
static inline int fdl_lend(const fdl_description *description)
{
    return description->block->work == NULL ? 0 : fdl_devices->lend(description);
}

/* Call this before the host reads or writes memory that it can access: waits for the work in
 * flight. All code in fastdl that touches host memory, or passes it to code that will, calls
 * this. */
static inline int fdl_await_for_host(const fdl_description *description)
{
    return description->block->work == NULL ? 0 : fdl_devices->await_for_host(description);
}

/* ---- two functions of every exchange table of fastdl ---- */

/* DLPackManagedTensorAllocator, for host memory. SetError may be NULL. Needs no thread state. */
int fdl_allocate(DLTensor *prototype, DLManagedTensorVersioned **out, void *error_ctx,
                 void (*SetError)(void *error_ctx, const char *kind, const char *message));

/* DLPackCurrentWorkStream: the calling thread's work stream. NULL stands for the default stream on
 * CUDA and ROCm, and for "no stream" elsewhere. Needs no thread state. */
int fdl_current_work_stream(DLDeviceType type, int32_t id, void **out);

/* ---- for C ---- */

/* `order` of fastdl_runtime: BufferError on devices whose streams fastdl does not order. */
int fdl_order(DLDevice device, void *source, void *stream);

#endif
