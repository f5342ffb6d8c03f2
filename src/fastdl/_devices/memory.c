/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"

#include <stdlib.h>

#include "_memory/layout.h"

#include "deferred.h"
#include "ordering.h"

/* The owner of a block. */
typedef struct {
    fdl_driver *driver;
    void *pointer;
    int32_t ordinal;
    int pinned;
    int tried;        /* number of failed attempts to free it */
    const void *life; /* of the primary context in which it was allocated */
} allocation;

/* ---- freeing ---- */

/* Frees memory through the driver. 1 when done, or if it is impossible; 0: try again later. */
static int give_back(allocation *memory, fdl_work *work)
{
    fdl_driver *driver = memory->driver;
    fdl_failure failure;
    fdl_scope scope;
    int failed, free_called = 0; /* the driver was called to free it */
    if (fdl_driver_is_lost())
        return 1;
    /* First wait for its users: in the caller's context, to which its default stream may belong. */
    failed = (work != NULL && fdl_work_finish(work, &failure) < 0) ||
             fdl_enter_primary(driver, memory->ordinal, &scope, &failure) < 0;
    if (!failed) {
        int mode = fdl_relax_captures(driver);
        free_called = 1;
        if (memory->life != fdl_life_of(driver, memory->ordinal))
            failed = 0; /* it was freed with the context */
        else if (memory->pinned)
            failed = FDL_TRY(driver, &failure, pinned_free, memory->pointer);
        else
            failed = FDL_TRY(driver, &failure, memory_free, memory->pointer);
        fdl_restore_captures(driver, mode);
        fdl_leave(&scope);
    }
    if (!failed || failure.code == FDL_DEINITIALIZED || fdl_context_is_gone(failure.code))
        return 1; /* done, or nothing is left to free, or no driver */
    /* Temporary refusals are retried. Memory in use is never freed: it is leaked if waiting fails
     * twice. */
    return !fdl_driver_refuses_now(failure.code) && (free_called || memory->tried++ > 0);
}

static int drop_allocation(fdl_block *block, int attached)
{
    allocation *memory = block->owner;
    (void)attached;
    if (!fdl_host_may_wait(memory->driver) || !give_back(memory, block->work)) {
        fdl_defer(block, memory->driver);
        return 0;
    }
    free(memory);
    return 1;
}

int fdl_memory_is_ours(const fdl_block *block)
{
    return block->drop == drop_allocation;
}

/* ---- allocating ---- */

#define PORTABLE 1u      /* pinned for every device, in both */
#define ATTACH_GLOBAL 1u /* managed for every stream, in both */

/* In the primary context, and freed with it: fastdl has no other contexts. */
static int allocate(allocation *memory, DLDevice device, size_t bytes, fdl_failure *failure)
{
    fdl_driver *driver = memory->driver;
    fdl_scope scope;
    int mode, failed;
    memory->ordinal = device.device_id;
    memory->pinned = device.device_type == kDLCUDAHost || device.device_type == kDLROCMHost;
    if (fdl_enter_primary(driver, memory->ordinal, &scope, failure) < 0)
        return -1;
    memory->life = fdl_life_of(driver, memory->ordinal);
    mode = fdl_relax_captures(driver);
    if (memory->pinned)
        failed = FDL_TRY(driver, failure, pinned_alloc, &memory->pointer, bytes, PORTABLE);
    else if (device.device_type == kDLCUDAManaged)
        failed = FDL_TRY(driver, failure, cu_alloc_managed, &memory->pointer, bytes, ATTACH_GLOBAL);
    else
        failed = FDL_TRY(driver, failure, memory_alloc, &memory->pointer, bytes);
    fdl_restore_captures(driver, mode);
    fdl_leave(&scope);
    return failed;
}

static fdl_description *allocate_tensor(fdl_driver *driver, DLTensor *tensor, uint64_t flags,
                                        int64_t nbytes, fdl_failure *failure)
{
    fdl_description *description = fdl_block_new_detached(tensor->ndim);
    allocation *memory = calloc(1, sizeof(allocation));
    /* On a device, its fdl_work also records use by C code, which leaves no other trace. */
    if (description == NULL || memory == NULL ||
        (!fastdl_find_device((int32_t)tensor->device.device_type)->host &&
         fdl_work_of(&description->block->work, tensor->device) == NULL)) {
        (void)fdl_refuse_memory(failure);
    } else {
        memory->driver = driver;
        /* CUDA cannot allocate 0 bytes, and a tensor without elements has an address, too. */
        if (allocate(memory, tensor->device, nbytes > 0 ? (size_t)nbytes : 1, failure) == 0) {
            tensor->data = memory->pointer;
            fdl_description_fill(description, tensor, flags);
            description->block->owner = memory;
            description->block->drop = drop_allocation;
            return description;
        }
    }
    free(memory);
    if (description != NULL)
        fdl_description_release(description, 0);
    return NULL;
}

fdl_description *fdl_memory_on_device(const DLTensor *prototype, uint64_t flags, int64_t nbytes,
                                      fdl_failure *failure)
{
    const fastdl_device_fact *fact = fastdl_find_device((int32_t)prototype->device.device_type);
    DLTensor tensor = *prototype;
    fdl_description *description = NULL;
    fdl_driver *driver;

    if (fact->type == kDLCPU) {
        description = fdl_memory_new(&tensor, flags, nbytes);
        if (description == NULL)
            (void)fdl_refuse_memory(failure);
        else if (tensor.strides != NULL) { /* a copy with the strides of its source */
            tensor.data = description->managed.dl_tensor.data;
            fdl_description_fill(description, &tensor, flags);
        }
        return description;
    }
    if (fact->stream != FASTDL_STREAM_CUDA && fact->stream != FASTDL_STREAM_ROCM) {
        (void)fdl_refuse(failure,
                         "expected a device on which fastdl allocates (the host, CUDA, ROCm), got "
                         "device (%d, %d): allocate with its own library, and import the result",
                         (int)tensor.device.device_type, (int)tensor.device.device_id);
        return NULL;
    }
    driver = fdl_driver_find(fact->stream, failure);
    if (driver == NULL)
        return NULL;
    fdl_end_deferred();
    description = allocate_tensor(driver, &tensor, flags, nbytes, failure);
    if (description == NULL && failure->no_memory && fdl_end_after_wait())
        description = allocate_tensor(driver, &tensor, flags, nbytes, failure);
    return description;
}
