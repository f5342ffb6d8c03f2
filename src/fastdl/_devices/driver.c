/* SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"

#include <stdio.h>
#include <string.h>

#include "_core/lifetime.h"
#include "_memory/atomics.h"
#include "_memory/layout.h"

#include "library.h"
#include "put_off.h"

/* ---- the two drivers ---- */

enum {
    UNTRIED,
    READY,
    ABSENT
};

typedef struct {
    fdl_driver driver;
    int state;
    fdl_failure why; /* of ABSENT */
    char path[1024]; /* set by tests, or empty */
} slot;

static slot cuda = {.driver = {.name = "CUDA", .kind = FASTDL_STREAM_CUDA}};
static slot hip = {.driver = {.name = "HIP", .kind = FASTDL_STREAM_ROCM}};
static fdl_lock loading;
fdl_lock fdl_lists;
static int in_forked_child; /* of a process that had initialised a driver */

static slot *slot_of(int kind)
{
    return kind == FASTDL_STREAM_CUDA ? &cuda : &hip;
}

/* ---- symbols ---- */

typedef struct {
    size_t member;
    const char *names[2]; /* CUDA's and HIP's; NULL: it has none */
    int needed;
} symbol;

#define ROW(member, parameters, cuda, hip, needed)                                                 \
    {offsetof(fdl_driver, member), {cuda, hip}, needed},
static const symbol symbols[] = {
    FDL_DRIVER_CALLS(ROW) FDL_CUDA_CALLS(ROW)
        FDL_HIP_CALLS(ROW){offsetof(fdl_driver, hip_error_name), {NULL, "hipGetErrorName"}, 1},
};
#define SYMBOLS (sizeof(symbols) / sizeof(symbols[0]))

static const char *name_in(const fdl_driver *driver, const symbol *row)
{
    return row->names[driver->kind == FASTDL_STREAM_CUDA ? 0 : 1];
}

#define OUT_OF_MEMORY 2 /* in both */

#define ROCM_7_2_1 70253211

int fdl_may_query(const fdl_driver *driver)
{
    return driver->kind != FASTDL_STREAM_ROCM || driver->version >= ROCM_7_2_1;
}

int fdl_driver_answer(const fdl_driver *driver, int code)
{
    if (code != 0 && driver->kind == FASTDL_STREAM_ROCM && driver->hip_peek_at_error() == code)
        (void)driver->hip_last_error();
    return code;
}

int fdl_driver_check(const fdl_driver *driver, size_t member, int code, fdl_failure *failure)
{
    const char *call = "a call", *error = NULL;
    if (code == 0)
        return 0;
    for (size_t i = 0; i < SYMBOLS; i++)
        if (symbols[i].member == member)
            call = name_in(driver, &symbols[i]);
    if (driver->kind == FASTDL_STREAM_ROCM)
        error = driver->hip_error_name(code);
    else if (driver->cu_error_name(code, &error) != 0)
        error = NULL;
    (void)fdl_refuse(failure, "%s returned %s (%d)", call, error != NULL ? error : "an error",
                     code);
    failure->code = code;
    failure->no_memory = code == OUT_OF_MEMORY;
    return -1;
}

/* ---- loading ---- */

#define OLDEST_CUDA 11000   /* cuDevicePrimaryCtxRelease_v2, and today's capture API */
#define OLDEST_HIP 50000000 /* hipStreamIsCapturing */

static int load(slot *here, fdl_failure *failure)
{
    fdl_driver *driver = &here->driver;
    void *library = here->path[0] != '\0' ? fdl_library_at(here->path)
                                          : fdl_library_of(driver->kind == FASTDL_STREAM_CUDA);
    if (library == NULL)
        return fdl_refuse(failure, "this machine has no %s driver: %s was not found", driver->name,
                          driver->kind == FASTDL_STREAM_CUDA ? FDL_LIBRARY_OF_CUDA
                                                             : FDL_LIBRARY_OF_HIP);
    for (size_t i = 0; i < SYMBOLS; i++) {
        const char *name = name_in(driver, &symbols[i]);
        void *address = name == NULL ? NULL : fdl_library_symbol(library, name);
        if (address == NULL && name != NULL && symbols[i].needed)
            return fdl_refuse(failure, "the %s driver of this machine is too old: it has no %s",
                              driver->name, name);
        memcpy((char *)driver + symbols[i].member, &address, sizeof(address));
    }
    if (FDL_TRY(driver, failure, init, 0) < 0 ||
        FDL_TRY(driver, failure, get_version, &driver->version) < 0 ||
        FDL_TRY(driver, failure, count_devices, &driver->devices) < 0)
        return -1;
    if (driver->version < (driver == &cuda.driver ? OLDEST_CUDA : OLDEST_HIP))
        return fdl_refuse(failure, "the %s driver of this machine is too old: its version is %d",
                          driver->name, driver->version);
    if (driver->devices > FDL_MAX_DEVICES)
        driver->devices = FDL_MAX_DEVICES;
    return 0;
}

static void after_fork(void)
{
    in_forked_child |= cuda.state == READY || hip.state == READY;
    fdl_lock_init(&loading); /* another thread of the parent may have held it */
    fdl_lock_init(&fdl_lists);
    fdl_put_off_after_fork(in_forked_child);
}

static int refuse_forked(fdl_failure *failure)
{
    return fdl_refuse(failure, "the process was forked after its parent had used the device "
                               "driver, which does not survive that: start processes by spawn");
}

fdl_driver *fdl_driver_find(int kind, fdl_failure *failure)
{
    slot *here = slot_of(kind);
    if (in_forked_child) {
        (void)refuse_forked(failure);
        return NULL;
    }
    if (fdl_load_acquire(&here->state) == UNTRIED) {
        void *paused = fdl_pause_python();
        fdl_lock_take(&loading);
        if (here->state == UNTRIED) {
            static int watched;
            if (!watched)
                watched = fdl_library_at_fork(after_fork);
            fdl_store_release(&here->state, load(here, &here->why) < 0 ? ABSENT : READY);
        }
        fdl_lock_give(&loading);
        fdl_resume_python(paused);
    }
    if (here->state == READY)
        return &here->driver;
    *failure = here->why;
    return NULL;
}

int fdl_driver_is_loaded(void)
{
    return fdl_load_acquire(&cuda.state) == READY || fdl_load_acquire(&hip.state) == READY;
}

void fdl_driver_replace(int kind, const char *path)
{
    slot *here = slot_of(kind);
    memset(here->driver.contexts, 0, sizeof(here->driver.contexts));
    memset(here->driver.lives, 0, sizeof(here->driver.lives));
    (void)snprintf(here->path, sizeof(here->path), "%s", path);
    here->state = UNTRIED;
}

/* ---- current devices ---- */

int fdl_is_in_use(fdl_driver *driver, int32_t ordinal)
{
    unsigned flags;
    int device, active;
    return driver->kind == FASTDL_STREAM_ROCM ||
           FDL_CALL(driver, cu_get_device, &device, ordinal) != 0 ||
           FDL_CALL(driver, cu_primary_state, device, &flags, &active) != 0 || active;
}

/* Whether the primary context of a device, which was retained once, has not been reset since. A
 * reset changes its id, but not its handle. An older driver can only report whether it is alive
 * now. */
static int is_unbroken(fdl_driver *driver, int32_t ordinal, void *context)
{
    uint64_t id;
    int code;
    if (driver->cu_context_id == NULL)
        return fdl_is_in_use(driver, ordinal);
    code = FDL_CALL(driver, cu_context_id, context, &id);
    return code == 0
               ? fdl_life_of(driver, ordinal) == fdl_handle((int64_t)id)
               : !fdl_context_is_gone(code); /* other errors are inconclusive, and will recur */
}

/* Retains a primary context, for the first time or after a reset. It may have to be created, which
 * takes a while. NULL with *failure. */
static void *retain(fdl_driver *driver, int32_t ordinal, fdl_failure *failure)
{
    void *context = NULL, *life = fdl_load_pointer(&driver->lives[ordinal]);
    uint64_t id = (uint64_t)(uintptr_t)life + 1; /* where contexts have no ids */
    int device, mode = fdl_relax_captures(driver);
    int failed = FDL_TRY(driver, failure, cu_get_device, &device, ordinal) < 0 ||
                 FDL_TRY(driver, failure, cu_retain_primary, &context, device) < 0 ||
                 (driver->cu_context_id != NULL &&
                  FDL_TRY(driver, failure, cu_context_id, context, &id) < 0);
    fdl_restore_captures(driver, mode);
    if (failed)
        return NULL;
    /* Two threads may both retain it: the extra reference is never released. */
    fdl_lock_take(&fdl_lists);
    if (driver->lives[ordinal] == life) {
        fdl_store_pointer(&driver->lives[ordinal], fdl_handle((int64_t)id));
        fdl_store_pointer(&driver->contexts[ordinal], context);
    }
    fdl_lock_give(&fdl_lists);
    return context;
}

static FDL_THREAD_LOCAL int32_t entered = -1; /* the device of the innermost CUDA scope */

int fdl_is_alive(fdl_driver *driver, int32_t ordinal, const void *life)
{
    if (driver->kind == FASTDL_STREAM_ROCM)
        return 1;
    if (life != fdl_life_of(driver, ordinal))
        return 0;
    return ordinal == entered || /* that scope has noticed the last reset */
           is_unbroken(driver, ordinal, fdl_load_pointer(&driver->contexts[ordinal]));
}

/* Whether the current context, which is not a primary one, is of device `ordinal`; -1 with
 * *failure. A context that was destroyed or reset belongs to no device. */
static int is_current(fdl_driver *driver, int32_t ordinal, fdl_failure *failure)
{
    int wanted, found, code = FDL_CALL(driver, cu_current_device, &found);
    if (fdl_context_is_gone(code))
        return 0;
    if (fdl_driver_check(driver, offsetof(fdl_driver, cu_current_device), code, failure) < 0 ||
        FDL_TRY(driver, failure, cu_get_device, &wanted, ordinal) < 0)
        return -1;
    return found == wanted;
}

static int make_current(fdl_driver *driver, int32_t ordinal, fdl_scope *scope, fdl_failure *failure)
{
    void *context;
    int is_other;
    if (driver->kind == FASTDL_STREAM_ROCM)
        return FDL_TRY(driver, failure, hip_get_device, &scope->ordinal) < 0 ||
                       (scope->ordinal != ordinal &&
                        FDL_TRY(driver, failure, hip_set_device, ordinal) < 0)
                   ? -1
                   : 0;
    context = fdl_load_pointer(&driver->contexts[ordinal]);
    if (context == NULL || !is_unbroken(driver, ordinal, context))
        context = retain(driver, ordinal, failure);
    if (context == NULL || FDL_TRY(driver, failure, cu_get_current, &scope->context) < 0)
        return -1;
    if (scope->context != context) {
        is_other = scope->context != NULL ? is_current(driver, ordinal, failure) : 0;
        if (is_other > 0) /* its default streams are not those of the primary one */
            return fdl_refuse(failure,
                              "a context of device %d other than its primary one is current, in "
                              "which fastdl cannot order work: leave that context, or import and "
                              "export with stream=-1",
                              (int)ordinal);
        if (is_other < 0 || FDL_TRY(driver, failure, cu_push, context) < 0)
            return -1;
        scope->pushed = 1;
    }
    scope->outer = entered;
    entered = ordinal;
    return 0;
}

static void restore_current(const fdl_scope *scope)
{
    const fdl_driver *driver = scope->driver;
    void *current;
    if (driver->kind == FASTDL_STREAM_ROCM) {
        int ordinal;
        if (FDL_CALL(driver, hip_get_device, &ordinal) != 0 || ordinal != scope->ordinal)
            (void)FDL_CALL(driver, hip_set_device, scope->ordinal);
        return;
    }
    entered = scope->outer;
    if (scope->pushed)
        (void)FDL_CALL(driver, cu_pop, &current);
    /* A producer that was called in between may have replaced the top of the stack. */
    if (FDL_CALL(driver, cu_get_current, &current) != 0 || current != scope->context)
        (void)FDL_CALL(driver, cu_set_current, scope->context);
}

int fdl_enter(fdl_driver *driver, int32_t ordinal, fdl_scope *scope, fdl_failure *failure)
{
    memset(scope, 0, sizeof(*scope));
    if (in_forked_child) /* objects made by the parent still refer to the driver */
        return refuse_forked(failure);
    if (ordinal < 0 || ordinal >= driver->devices)
        return fdl_refuse(failure, "there is no %s device %d: this machine has %d", driver->name,
                          (int)ordinal, driver->devices);
    fdl_end_put_off();
    scope->driver = driver;
    scope->paused = fdl_pause_python();
    if (make_current(driver, ordinal, scope, failure) == 0)
        return 0;
    fdl_resume_python(scope->paused);
    return -1;
}

void fdl_leave(const fdl_scope *scope)
{
    restore_current(scope);
    fdl_resume_python(scope->paused);
}

/* ---- captures ---- */

#define CAPTURE_MODE_RELAXED 2
#define CAPTURE_ACTIVE 1
#define CAPTURE_INVALIDATED 2

int fdl_capture_of(fdl_driver *driver, int64_t stream, fdl_capture *capture, fdl_failure *failure)
{
    int status = 0, code = FDL_CALL(driver, is_capturing, fdl_handle(stream), &status);
    capture->active = 0;
    capture->id = (uint64_t)stream;
    capture->stream = stream;
    if (code == FDL_IMPLICIT_CAPTURE) {
        (void)fdl_refuse(failure, "a graph is being captured on this device, so its default stream "
                                  "cannot be used: pass stream=-1 or the capturing stream");
        failure->code = code;
        return -1;
    }
    if (fdl_driver_check(driver, offsetof(fdl_driver, is_capturing), code, failure) < 0)
        return -1;
    if (status == 0)
        return 0;
    if (status == CAPTURE_INVALIDATED)
        return fdl_refuse(failure, "the graph capture on this stream has been invalidated: "
                                   "end it, and capture the graph again");
    capture->active = status == CAPTURE_ACTIVE;
    if (driver->capture_info == NULL)
        return 0;
    return FDL_TRY(driver, failure, capture_info, fdl_handle(stream), &status, &capture->id, NULL,
                   NULL, NULL);
}

int fdl_relax_captures(fdl_driver *driver)
{
    int mode = CAPTURE_MODE_RELAXED;
    return FDL_CALL(driver, exchange_capture_mode, &mode) == 0 ? mode : -1;
}

void fdl_restore_captures(fdl_driver *driver, int mode)
{
    if (mode >= 0)
        (void)FDL_CALL(driver, exchange_capture_mode, &mode);
}
