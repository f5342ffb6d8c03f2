/* The symbols of libcuda.so.1 that are about contexts beside the primary ones, and about the end of
 * a context. */
#include "simulated.h"

#include <string.h>

typedef int CUdevice;
typedef unsigned long long cuuint64_t;
typedef void *CUcontext, *CUgreenCtx, *CUdevResourceDesc;

/* Unique for the life of the process, other than handles. */
EXPORT_OPTIONAL int cuCtxGetId(CUcontext handle, cuuint64_t *id)
{
    CALL(0);
    Context *top = self->depth == 0 ? NULL : self->stack[self->depth - 1];
    Context *context = handle == NULL ? top : context_from(self, handle);
    if (id == NULL)
        GIVE(INVALID_VALUE);
    if (context == NULL)
        GIVE(INVALID_CONTEXT);
    if (context->retained == 0 || context->reset)
        GIVE(CONTEXT_IS_DESTROYED);
    *id = context->id;
    GIVE(SUCCESS);
}

/* Whoever has retained the context still has: it is alive again when it is next retained. It stays
 * current where it was. */
EXPORT int cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    CALL(0);
    Context *context = context_of(device);
    if (context == NULL)
        GIVE(INVALID_DEVICE);
    GIVE(context->reset ? SUCCESS : context_end(self, context));
}

/* --------------------------------------------------------------------------------- made by users
 */

EXPORT int cuCtxCreate_v2(CUcontext *handle, unsigned flags, CUdevice device)
{
    CALL(0);
    if (handle == NULL || flags != 0)
        GIVE(INVALID_VALUE);
    if (context_of(device) == NULL)
        GIVE(INVALID_DEVICE);
    if (self->depth == MAX_DEPTH)
        GIVE(OUT_OF_MEMORY);
    Context *made = context_make(device, false);
    self->stack[self->depth++] = made;
    *handle = made;
    GIVE(SUCCESS);
}

static void leave_stack(Thread *self, const Context *context)
{
    if (self->depth > 0 && self->stack[self->depth - 1] == context)
        self->depth--;
}

EXPORT int cuCtxDestroy_v2(CUcontext handle)
{
    CALL(0);
    Context *context = handle == NULL ? NULL : context_from(self, handle);
    if (context == NULL || context->primary || context->green)
        GIVE(INVALID_CONTEXT);
    FAIL_ON(context_end(self, context));
    leave_stack(self, context);
    GIVE(SUCCESS);
}

/* ------------------------------------------------------------------------------- green contexts */

/* A part of a device's processors. What is in it does not matter here. */
typedef struct {
    int type;
    char rest[140];
} CUdevResource;

static char whole; /* the descriptor of all of a device */

EXPORT_OPTIONAL int cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, int type)
{
    CALL(0);
    if (resource == NULL || type != 1)
        GIVE(INVALID_VALUE);
    if (context_of(device) == NULL)
        GIVE(INVALID_DEVICE);
    memset(resource, 0, sizeof *resource);
    resource->type = type;
    GIVE(SUCCESS);
}

EXPORT_OPTIONAL int cuDevResourceGenerateDesc(CUdevResourceDesc *description,
                                              CUdevResource *resources, unsigned count)
{
    CALL(0);
    if (description == NULL || resources == NULL || count != 1 || resources->type != 1)
        GIVE(INVALID_VALUE);
    *description = &whole;
    GIVE(SUCCESS);
}

/* With default streams of its own, as the flag demands. */
EXPORT_OPTIONAL int cuGreenCtxCreate(CUgreenCtx *handle, CUdevResourceDesc description,
                                     CUdevice device, unsigned flags)
{
    CALL(0);
    if (handle == NULL || description != &whole || flags != 1)
        GIVE(INVALID_VALUE);
    if (context_of(device) == NULL)
        GIVE(INVALID_DEVICE);
    *handle = context_make(device, true);
    GIVE(SUCCESS);
}

static Context *green_from(Thread *self, CUgreenCtx handle)
{
    Context *context = handle == NULL ? NULL : context_from(self, handle);
    return context != NULL && context->green ? context : NULL;
}

EXPORT_OPTIONAL int cuCtxFromGreenCtx(CUcontext *context, CUgreenCtx handle)
{
    CALL(0);
    if (context == NULL)
        GIVE(INVALID_VALUE);
    *context = green_from(self, handle);
    GIVE(*context == NULL ? INVALID_CONTEXT : SUCCESS);
}

EXPORT_OPTIONAL int cuGreenCtxDestroy(CUgreenCtx handle)
{
    CALL(0);
    Context *context = green_from(self, handle);
    if (context == NULL)
        GIVE(INVALID_CONTEXT);
    FAIL_ON(context_end(self, context));
    leave_stack(self, context);
    GIVE(SUCCESS);
}
