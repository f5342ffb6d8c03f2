/* SPDX-License-Identifier: Apache-2.0 */
#include "strided.h"

#include "_core/copy.h"

#define MAX_PITCH 0x7FFFFFFF /* what CUDA says of every device */

int fdl_rows_of(const DLTensor *tensor, fdl_rows *rows)
{
    fdl_walk walk;
    int64_t width = fastdl_itemsize(tensor->dtype);
    fdl_walk_of(tensor, &walk);
    if (walk.ndim > 0 && walk.strides[walk.ndim - 1] == width)
        width *= walk.shape[--walk.ndim];
    if (walk.ndim != 1 || walk.strides[0] < width || walk.strides[0] > MAX_PITCH)
        return 0;
    rows->width = (size_t)width;
    rows->height = (size_t)walk.shape[0];
    rows->pitch = (size_t)walk.strides[0];
    return 1;
}

/* One side of CUDA_MEMCPY2D */
typedef struct {
    size_t x, y;
    unsigned type;
    const void *host;
    unsigned long long device;
    void *array;
    size_t pitch;
} cuda_side;

enum {
    CU_HOST = 1,
    CU_UNIFIED = 4,
    HIP_INFERRED = 4 /* hipMemcpyDefault: as the pointers are */
};

int fdl_copy_rows(fdl_driver *driver, void *target, int target_is_host, const void *source,
                  const fdl_rows *rows, void *stream, fdl_failure *failure)
{
    struct {
        cuda_side source, target;
        size_t width, height;
    } p = {0};
    if (driver->kind == FASTDL_STREAM_ROCM)
        return rows->height == 1
                   ? FDL_TRY(driver, failure, hip_copy, target, source, rows->width, HIP_INFERRED,
                             stream)
                   : FDL_TRY(driver, failure, hip_copy_2d, target, rows->width, source, rows->pitch,
                             rows->width, rows->height, HIP_INFERRED, stream);
    if (rows->height == 1)
        return FDL_TRY(driver, failure, cu_copy, target, source, rows->width, stream);
    p.source.type = CU_UNIFIED;
    p.source.device = (uintptr_t)source;
    p.source.pitch = rows->pitch;
    p.target.type = target_is_host ? CU_HOST : CU_UNIFIED;
    p.target.host = target;
    p.target.device = (uintptr_t)target;
    p.target.pitch = p.width = rows->width;
    p.height = rows->height;
    return FDL_TRY(driver, failure, cu_copy_2d, &p, stream);
}
