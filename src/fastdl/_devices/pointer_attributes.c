/* SPDX-License-Identifier: Apache-2.0 */
#include "pointer_attributes.h"

#include "_core/lifetime.h"
#include "_memory/layout.h"

/* ---- CUDA ---- */

enum {
    CU_MEMORY_TYPE = 2,
    CU_IS_MANAGED = 8,
    CU_DEVICE_ORDINAL = 9,
    CU_MEMPOOL_HANDLE = 17 /* since CUDA 11.2, like memory pools */
};
#define CU_HOST 1

static int find_cuda(fdl_driver *driver, const void *pointer, DLDevice *found, fdl_failure *failure)
{
    int names[] = {CU_MEMORY_TYPE, CU_IS_MANAGED, CU_DEVICE_ORDINAL};
    unsigned type = 0, managed = 0;
    int ordinal = 0;
    void *values[3];
    values[0] = &type;
    values[1] = &managed;
    values[2] = &ordinal;
    if (FDL_TRY(driver, failure, cu_pointer_attributes, 3, names, values, pointer) < 0)
        return -1;
    if (type == 0)
        return 0;
    /* The reported type of managed memory is host or device, depending on where it is at the
     * moment. */
    found->device_type = managed ? kDLCUDAManaged : type == CU_HOST ? kDLCUDAHost : kDLCUDA;
    found->device_id = ordinal;
    return 0;
}

/* Whether memory may be managed, as its tensor claims, although CU_IS_MANAGED is not set: memory
 * from pools. */
static int may_be_managed(fdl_driver *driver, const void *pointer)
{
    int name = CU_MEMPOOL_HANDLE;
    void *pool = NULL, *value = &pool, *paused = fdl_pause_python();
    int code = FDL_CALL(driver, cu_pointer_attributes, 1, &name, &value, pointer);
    fdl_resume_python(paused);
    return code == 0 && pool != NULL;
}

/* ---- HIP ---- */

typedef struct {
    int type;
    int device;
    void *device_pointer;
    void *host_pointer;
    int is_managed;
    unsigned flags;
} hip_attributes;

#define ROCM_6 60000000 /* the types are numbered differently since then */
#define INVALID_VALUE 1

static int find_hip(fdl_driver *driver, const void *pointer, DLDevice *found, fdl_failure *failure)
{
    hip_attributes attributes = {0};
    int code = FDL_CALL(driver, hip_pointer_attributes, &attributes, pointer);
    int host = driver->version >= ROCM_6 ? 1 : 0;
    if (code == INVALID_VALUE || (driver->version >= ROCM_6 && code == 0 && attributes.type == 0))
        return 0; /* unknown */
    if (fdl_driver_check(driver, offsetof(fdl_driver, hip_pointer_attributes), code, failure) < 0)
        return -1;
    /* DLPack has no number for managed memory of ROCm: it is used like device memory. */
    found->device_type = attributes.type == host && !attributes.is_managed ? kDLROCMHost : kDLROCM;
    found->device_id = attributes.device;
    return 0;
}

int fdl_pointer_find(fdl_driver *driver, const void *pointer, DLDevice *found, fdl_failure *failure)
{
    void *paused = fdl_pause_python();
    int failed;
    found->device_type = kDLCPU;
    found->device_id = 0;
    failed = driver->kind == FASTDL_STREAM_CUDA ? find_cuda(driver, pointer, found, failure)
                                                : find_hip(driver, pointer, found, failure);
    fdl_resume_python(paused);
    return failed;
}

/* ---- the device in a tensor ---- */

static int agrees(DLDevice said, DLDevice found)
{
    if (found.device_type == kDLCUDAManaged)
        return said.device_type == kDLCUDAManaged || said.device_type == kDLCUDA;
    return found.device_type == said.device_type && found.device_id == said.device_id;
}

int fdl_pointer_check(fdl_driver *driver, const DLTensor *tensor, fdl_failure *failure)
{
    const void *pointer = (void *)((uintptr_t)tensor->data + (uintptr_t)tensor->byte_offset);
    unsigned long long address = (uintptr_t)pointer; /* Windows' %p has no 0x */
    DLDevice said = tensor->device, found;
    if (fdl_pointer_find(driver, pointer, &found, failure) < 0)
        return -1;
    if (agrees(said, found) ||
        (said.device_type == kDLCUDAManaged && may_be_managed(driver, pointer)))
        return 0;
    if (found.device_type == kDLCPU)
        return fdl_refuse(failure, "the %s driver has no record of the address %#llx of the data",
                          driver->name, address);
    return fdl_refuse(failure, "the %s driver reports that the data, at %#llx, is on %s:%d",
                      driver->name, address, fastdl_find_device((int32_t)found.device_type)->name,
                      (int)found.device_id);
}
