/* SPDX-License-Identifier: Apache-2.0
 *
 * The drivers of devices, CUDA's and HIP's, through one set of names.
 *
 * Nothing is linked: the driver's library is loaded when the first tensor needs it, never on
 * import. A machine without one is not an error; a call that needs the driver reports why it is
 * missing.
 *
 * All calls are made with the device current (HIP) or its primary context (CUDA), and the previous
 * one is restored afterwards. If another context of the device is current, the default streams 0, 1
 * and 2, which then belong to that context, are refused. Primary contexts are retained once and
 * never released; but a reset of the device destroys them with everything in them. fdl_enter
 * notices that.
 *
 * No call is made with the GIL held. Any of them can wait for a lock that the driver holds while it
 * runs callbacks; a callback that waits for the GIL would then deadlock. So fdl_enter releases the
 * GIL, and fdl_leave reacquires it: between the two Python must not be used. Every function may be
 * called on any thread, with or without a Python thread state, unless it says otherwise, but not in
 * a callback of the driver itself: there, the work of a deleter is deferred (put_off.h).
 *
 * Functions return 0, or -1 with *failure filled in.
 */
#ifndef FASTDL_DEVICES_DRIVER_H_
#define FASTDL_DEVICES_DRIVER_H_

#include <stddef.h>
#include <stdint.h>

#include "_memory/failure.h"

#include "_memory/lock.h"

#ifdef _WIN32
#define FDL_DRIVER_ABI __stdcall
#define FDL_LIBRARY_OF_CUDA "nvcuda.dll"
#define FDL_LIBRARY_OF_HIP "amdhip64.dll"
#else
#define FDL_DRIVER_ABI
#define FDL_LIBRARY_OF_CUDA "libcuda"
#define FDL_LIBRARY_OF_HIP "libamdhip64"
#endif

/* The calls that both drivers have in the same form: X(member, parameters, CUDA's name, HIP's name,
 * needed). */
#define FDL_DRIVER_CALLS(X)                                                                        \
    X(init, (unsigned flags), "cuInit", "hipInit", 1)                                              \
    X(get_version, (int *version), "cuDriverGetVersion", "hipRuntimeGetVersion", 1)                \
    X(count_devices, (int *count), "cuDeviceGetCount", "hipGetDeviceCount", 1)                     \
    X(event_create, (void **event, unsigned flags), "cuEventCreate", "hipEventCreateWithFlags", 1) \
    X(event_record, (void *event, void *stream), "cuEventRecord", "hipEventRecord", 1)             \
    X(event_query, (void *event), "cuEventQuery", "hipEventQuery", 1)                              \
    X(event_synchronize, (void *event), "cuEventSynchronize", "hipEventSynchronize", 1)            \
    X(event_destroy, (void *event), "cuEventDestroy_v2", "hipEventDestroy", 1)                     \
    X(stream_wait, (void *stream, void *event, unsigned flags), "cuStreamWaitEvent",               \
      "hipStreamWaitEvent", 1)                                                                     \
    X(stream_synchronize, (void *stream), "cuStreamSynchronize", "hipStreamSynchronize", 1)        \
    X(is_capturing, (void *stream, int *status), "cuStreamIsCapturing", "hipStreamIsCapturing", 1) \
    X(capture_info,                                                                                \
      (void *stream, int *status, uint64_t *id, void **graph, const void **nodes, size_t *count),  \
      "cuStreamGetCaptureInfo_v2", "hipStreamGetCaptureInfo_v2", 0)                                \
    X(exchange_capture_mode, (int *mode), "cuThreadExchangeStreamCaptureMode",                     \
      "hipThreadExchangeStreamCaptureMode", 1)

/* The calls that only CUDA has, or has in a different form. */
#define FDL_CUDA_CALLS(X)                                                                          \
    X(cu_get_device, (int *device, int ordinal), "cuDeviceGet", NULL, 1)                           \
    X(cu_current_device, (int *device), "cuCtxGetDevice", NULL, 1)                                 \
    X(cu_context_id, (void *context, uint64_t *id), "cuCtxGetId", NULL, 0)                         \
    X(cu_primary_state, (int device, unsigned *flags, int *active), "cuDevicePrimaryCtxGetState",  \
      NULL, 1)                                                                                     \
    X(cu_retain_primary, (void **context, int device), "cuDevicePrimaryCtxRetain", NULL, 1)        \
    X(cu_push, (void *context), "cuCtxPushCurrent_v2", NULL, 1)                                    \
    X(cu_pop, (void **context), "cuCtxPopCurrent_v2", NULL, 1)                                     \
    X(cu_get_current, (void **context), "cuCtxGetCurrent", NULL, 1)                                \
    X(cu_set_current, (void *context), "cuCtxSetCurrent", NULL, 1)                                 \
    X(cu_error_name, (int code, const char **name), "cuGetErrorName", NULL, 1)                     \
    X(cu_pointer_attributes,                                                                       \
      (unsigned count, int *attributes, void **values, const void *pointer),                       \
      "cuPointerGetAttributes", NULL, 1)                                                           \
    X(cu_copy, (void *target, const void *source, size_t bytes, void *stream), "cuMemcpyAsync",    \
      NULL, 1)                                                                                     \
    X(cu_copy_2d, (const void *parameters, void *stream), "cuMemcpy2DAsync_v2", NULL, 1)

/* The calls that only HIP has, or has in a different form. */
#define FDL_HIP_CALLS(X)                                                                           \
    X(hip_get_device, (int *ordinal), NULL, "hipGetDevice", 1)                                     \
    X(hip_set_device, (int ordinal), NULL, "hipSetDevice", 1)                                      \
    X(hip_pointer_attributes, (void *attributes, const void *pointer), NULL,                       \
      "hipPointerGetAttributes", 1)                                                                \
    X(hip_copy, (void *target, const void *source, size_t bytes, int kind, void *stream), NULL,    \
      "hipMemcpyAsync", 1)                                                                         \
    X(hip_copy_2d,                                                                                 \
      (void *target, size_t target_pitch, const void *source, size_t pitch, size_t width,          \
       size_t height, int kind, void *stream),                                                     \
      NULL, "hipMemcpy2DAsync", 1)                                                                 \
    X(hip_peek_at_error, (void), NULL, "hipPeekAtLastError", 1)                                    \
    X(hip_last_error, (void), NULL, "hipGetLastError", 1)

#define FDL_MEMBER(member, parameters, cuda, hip, needed) int(FDL_DRIVER_ABI * member) parameters;

#define FDL_MAX_DEVICES 64

/* One driver. Once ready, only the members from `contexts` to `events` change. */
typedef struct {
    const char *name; /* "CUDA" or "HIP" */
    int kind;         /* FASTDL_STREAM_CUDA or FASTDL_STREAM_ROCM */
    int version;      /* in the driver's own numbering */
    int devices;
    void *contexts[FDL_MAX_DEVICES];           /* CUDA's primary contexts, once retained */
    void *lives[FDL_MAX_DEVICES];              /* the life of the context then: see fdl_life_of */
    struct fdl_event *events[FDL_MAX_DEVICES]; /* kept for reuse: see event.c */
    int spare_events[FDL_MAX_DEVICES];         /* their number */
    FDL_DRIVER_CALLS(FDL_MEMBER)
    FDL_CUDA_CALLS(FDL_MEMBER)
    FDL_HIP_CALLS(FDL_MEMBER)
    const char *(FDL_DRIVER_ABI *hip_error_name)(int code);
} fdl_driver;

/* The driver for a kind of streams, loaded and initialised at the first call, which may take a
 * second. NULL with *failure if the machine has none, or if the process was forked after it was
 * initialised. */
fdl_driver *fdl_driver_find(int kind, fdl_failure *failure);

/* Whether a driver has been loaded. */
int fdl_driver_is_loaded(void);

/* Guards the lists of events and work that are kept for reuse. Held only for a few stores.
 * Reset in a forked child, where the thread that held it does not exist. */
extern fdl_lock fdl_lists;

/* Codes of both drivers that fastdl acts on. */
enum {
    FDL_INVALID_CONTEXT = 201,
    FDL_CONTEXT_IS_DESTROYED = 709,
    FDL_IMPLICIT_CAPTURE = 906
};

/* Whether this code means that a context was destroyed, with everything in it. */
static inline int fdl_context_is_gone(int code)
{
    return code == FDL_INVALID_CONTEXT || code == FDL_CONTEXT_IS_DESTROYED;
}

/* Whether events may be queried. On HIP before 7.2.1 a query, like any call that may make the host
 * wait, breaks a capture of any thread, in any capture mode (ROCm/rocm-systems#3176), and whether
 * there is a capture is unknown. */
int fdl_may_query(const fdl_driver *driver);

/* Calls a member of FDL_*_CALLS and returns the driver's code. Every call is made through this or
 * FDL_TRY, and between fdl_enter and fdl_leave, or while the caller has released the GIL. */
#define FDL_CALL(driver, member, ...) fdl_driver_answer(driver, (driver)->member(__VA_ARGS__))

/* HIP stores the code of a failure as the thread's last error, and a library that queries it after
 * a launch would mistake fastdl's for its own. So this clears the error of fastdl's call, and no
 * other. */
int fdl_driver_answer(const fdl_driver *driver, int code);

/* FDL_CALL: 0, or -1 with a failure that names the call and the error. */
#define FDL_TRY(driver, failure, member, ...)                                                      \
    fdl_driver_check(driver, offsetof(fdl_driver, member), FDL_CALL(driver, member, __VA_ARGS__),  \
                     failure)

/* Turns the code that a member returned into a failure: 0 for success, or -1. */
int fdl_driver_check(const fdl_driver *driver, size_t member, int code, fdl_failure *failure);

/* ---- current devices ---- */

/* The state before fdl_enter. */
typedef struct {
    const fdl_driver *driver;
    void *paused;  /* see lifetime.h */
    void *context; /* CUDA */
    int pushed;
    int32_t outer; /* the device of the scope around it, or -1 */
    int ordinal;   /* HIP */
} fdl_scope;

/* Makes device `ordinal` current on this thread: on CUDA its primary context. Fails if another
 * context of the device is current, a green one for example, since the default streams of the
 * caller are those of that context. Releases the GIL until fdl_leave, unless the caller has done
 * so. A caller that needs Python in between, with the device current, releases and reacquires the
 * GIL itself. After a failure nothing has changed: do not call fdl_leave. */
int fdl_enter(fdl_driver *driver, int32_t ordinal, fdl_scope *scope, fdl_failure *failure);

/* Restores the state before fdl_enter, even if other code has changed it since, and reacquires the
 * GIL. */
void fdl_leave(const fdl_scope *scope);

/* CUDA: identifies a *life* of the primary context of a device, the time between two resets.
 * Everything created in it belongs to one life: handles of another life are invalid, and its work
 * has ended. The life is that at the last fdl_enter. Before CUDA 12, a reset after which another
 * library has used the device again goes unnoticed. On HIP, where hipDeviceReset cannot be
 * detected, always NULL. */
static inline const void *fdl_life_of(const fdl_driver *driver, int32_t ordinal)
{
    return fdl_load_pointer(&driver->lives[ordinal]);
}

/* Whether any code uses a device: on CUDA, whether its primary context is alive; on HIP always. */
int fdl_is_in_use(fdl_driver *driver, int32_t ordinal);

/* Whether a life has not ended. Call it in a scope of any device. */
int fdl_is_alive(fdl_driver *driver, int32_t ordinal, const void *life);

/* ---- streams ---- */

/* The driver's handle of a stream in DLPack's numbers. */
static inline void *fdl_handle(int64_t stream)
{
    return (void *)(uintptr_t)(uint64_t)stream;
}

/* Whether a graph is being captured on a stream, and which. CUDA before 11.3 cannot distinguish
 * captures: there each stream counts as one of its own. */
typedef struct {
    int active;
    uint64_t id;
    int64_t stream;
} fdl_capture;

/* Whether two streams are in one capture. */
static inline int fdl_same_capture(const fdl_capture *one, const fdl_capture *other)
{
    return one->active && other->active && one->id == other->id;
}

/* Fills in the capture of a stream. Fails if the stream cannot be used because another one is
 * capturing (CUDA's 906). The device of the stream is current. */
int fdl_capture_of(fdl_driver *driver, int64_t stream, fdl_capture *capture, fdl_failure *failure);

/* Call these around calls that would break a capture of another thread; the first returns the mode
 * to restore. */
int fdl_relax_captures(fdl_driver *driver);
void fdl_restore_captures(fdl_driver *driver, int mode);

/* ---- for tests ---- */

/* Drops the driver of that kind, whose contexts stay retained, and uses the library at `path`
 * instead, if there is one; "": the system's own, which is searched for again. No device tensor and
 * no other thread may use the driver meanwhile. */
void fdl_driver_replace(int kind, const char *path);

#endif
