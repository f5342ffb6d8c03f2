/* SPDX-License-Identifier: Apache-2.0 */
#include "devices.h"

const fdl_device_calls *fdl_devices;

int fdl_allocate(DLTensor *prototype, DLManagedTensorVersioned **out, void *error_ctx,
                 void (*SetError)(void *error_ctx, const char *kind, const char *message))
{
    if (fdl_devices == NULL) {
        if (SetError != NULL)
            SetError(error_ctx, "RuntimeError", "`import fastdl` did not finish");
        return -1;
    }
    return fdl_devices->allocate(prototype, out, error_ctx, SetError);
}

int fdl_current_work_stream(DLDeviceType type, int32_t id, void **out)
{
    if (fdl_devices == NULL) {
        *out = NULL;
        return 0;
    }
    return fdl_devices->current_work_stream(type, id, out);
}
