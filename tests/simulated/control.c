/* SPDX-License-Identifier: Apache-2.0 */

/* What every driver call begins and ends with, and the functions by which a test rules the
 * simulation. tests/support/simulation.py is their manual as seen from Python. */
#define _GNU_SOURCE
#include "simulated.h"

#ifndef _WIN32
#include <dlfcn.h>
#endif
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

Settings settings;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t entered = PTHREAD_COND_INITIALIZER, returned = PTHREAD_COND_INITIALIZER;
static bool in_function;
static unsigned long functions_run;
static Text violations, gil_violations, calls;

struct Symbol {
    char name[64];
    long calls;
    bool ignored;
    bool failing;
    int code;
    long after; /* calls that still succeed */
    Symbol *next;
};
static Symbol *symbols;

/* -------------------------------------------------------------------------------------- texts */

void text_add(Text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0)
        return;
    size_t needed = text->length + (size_t)length + 1;
    if (needed > text->capacity) {
        text->capacity = 2 * needed;
        text->data = must_have(realloc(text->data, text->capacity));
    }
    va_start(arguments, format);
    vsnprintf(text->data + text->length, (size_t)length + 1, format, arguments);
    va_end(arguments);
    text->length += (size_t)length;
}

void text_clear(Text *text)
{
    free(text->data);
    *text = (Text){0};
}

void violation(const Thread *self, const char *format, ...)
{
    char what[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    text_add(&violations, "%s, thread %d: %s\n", self->symbol == NULL ? "the test" : self->symbol,
             self->serial, what);
}

/* --------------------------------------------------------------------------------------- locks */

void lock(void)
{
    pthread_mutex_lock(&mutex);
}

void unlock(void)
{
    pthread_mutex_unlock(&mutex);
}

void executor_leave(void)
{
    in_function = true;
    functions_run++;
    pthread_cond_broadcast(&entered);
    unlock();
}

void executor_return(void)
{
    lock();
    in_function = false;
    pthread_cond_broadcast(&returned);
}

void executor_free(void)
{
    while (in_function)
        pthread_cond_wait(&returned, &mutex);
}

/* ------------------------------------------------------------------------------------ each call */

static Symbol *symbol_named(const char *name)
{
    for (Symbol *symbol = symbols; symbol != NULL; symbol = symbol->next)
        if (strcmp(symbol->name, name) == 0)
            return symbol;
    Symbol *made = must_have(calloc(1, sizeof(Symbol)));
    snprintf(made->name, sizeof made->name, "%s", name);
    made->next = symbols;
    symbols = made;
    return made;
}

/* Whether the calling thread keeps all others from Python, which no call of a driver may: it can
 * wait for a lock that the driver holds while it runs a callback, and the callback for Python. */
static bool holds_gil(void)
{
    /* `state` returns NULL after the end of Python, when `check` may say yes. */
#ifdef _WIN32 /* linked with Python */
    extern __declspec(dllimport) int PyGILState_Check(void);
    extern __declspec(dllimport) void *PyGILState_GetThisThreadState(void);
    int (*check)(void) = PyGILState_Check;
    void *(*state)(void) = PyGILState_GetThisThreadState;
#else
    int (*check)(void) = NULL;
    void *(*state)(void) = NULL;
    *(void **)&check = dlsym(RTLD_DEFAULT, "PyGILState_Check");
    *(void **)&state = dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState");
#endif
    return check != NULL && state() != NULL && check();
}

static void gil_violation(const char *name) /* with the lock held */
{
    text_add(&gil_violations, "thread %d calls %s with the GIL held\n", thread_self()->serial,
             name);
}

void check_gil(const char *name)
{
    if (!holds_gil())
        return;
    lock();
    gil_violation(name);
    unlock();
}

int call_leave(Thread *self, int code)
{
    text_add(&calls, "thread %d: %s = %d\n", self->serial, self->symbol, code);
    if (code != SUCCESS && !(code == NOT_READY && settings.forgives_not_ready)) {
        self->last_error = code;
        self->last_failed = self->symbol;
    }
    self->symbol = NULL;
    unlock();
    return code;
}

int call_enter(Symbol **place, const char *name, int flags, Thread **thread)
{
    bool gil = holds_gil();
    lock();
    Thread *self = *thread = thread_self();
    if (settings.locked_callbacks && !self->in_callback)
        executor_free();
    if (*place == NULL)
        *place = symbol_named(name);
    Symbol *symbol = *place;
    self->symbol = symbol->name;
    symbol->calls++;
    if (gil)
        gil_violation(name);
    if (self->in_callback && !(flags & CALLBACK)) {
        violation(self, "a host callback calls the driver");
        return call_leave(self, NOT_PERMITTED);
    }
    if (symbol->failing && symbol->after-- <= 0) {
        symbol->failing = false;
        return call_leave(self, symbol->code);
    }
    if (symbol->ignored)
        return call_leave(self, SUCCESS);
    if (settings.deinitialized && !(flags & CALLBACK))
        return call_leave(self, DEINITIALIZED);
    int ready = flags & ANYTIME ? SUCCESS : driver_ready();
    if (ready != SUCCESS)
        return call_leave(self, ready);
    if ((flags & CONTEXT) && context_here(self) == NULL)
        return call_leave(self, self->depth == 0 ? INVALID_CONTEXT : CONTEXT_IS_DESTROYED);
    return GO_ON;
}

/* The CUDA library's current context, or that of HIP's current device. */
Context *context_here(Thread *self)
{
#ifdef FK_HIP
    return context_of(self->device);
#else
    return context_current(self);
#endif
}

/* --------------------------------------------------------------------------------------- control
 */

static void settings_reset(void)
{
    bool initialized = settings.initialized;
    int process = settings.process;
    settings =
        (Settings){.devices = 2, .managed_type = 2, .initialized = initialized, .process = process};
}

static void forget(void)
{
    work_reset();
    clocks_reset(false);
    text_clear(&violations);
    text_clear(&calls);
    for (Thread *thread = threads_all(); thread != NULL; thread = thread->next)
        thread->last_error = SUCCESS;
    for (Symbol *symbol = symbols; symbol != NULL; symbol = symbol->next) {
        symbol->calls = 0;
        symbol->ignored = symbol->failing = false;
    }
}

static void simulation_reset(void)
{
    forget();
    text_clear(&gil_violations);
    memory_reset();
    capture_reset();
    clocks_reset(true);
    objects_reset();
}

__attribute__((constructor)) static void start(void)
{
    settings_reset();
    simulation_reset();
#ifndef _WIN32
    pthread_atfork(lock, unlock, unlock); /* a child finds the lock free */
#endif
}

/* A process in which nobody has asked for them must not end well. */
__attribute__((destructor)) static void stop(void)
{
    if (gil_violations.length > 0) {
        fprintf(stderr, "%s", gil_violations.data);
        _exit(70);
    }
}

/* As before the first call, but for cuInit. All handles and all memory are gone. */
EXPORT void fk_reset(void)
{
    lock();
    settings_reset();
    settings.initialized = false;
    simulation_reset();
    unlock();
}

/* Runs what is queued and forgets what was observed: accesses, reports, counts, injected faults;
 * but not that a call was made with the GIL held, which no test can want. */
EXPORT void fk_forget(void)
{
    lock();
    work_run();
    forget();
    settings.deinitialized = false;
    unlock();
}

/* A setting by its name; -1 if there is none. */
EXPORT int fk_set(const char *name, int value)
{
    const struct {
        const char *name;
        int *value;
    } known[] = {
        {"devices", &settings.devices},
        {"version", &settings.version},
        {"managed_type", &settings.managed_type},
        {"managed_pool", &settings.managed_pool},
        {"locked_callbacks", &settings.locked_callbacks},
        {"forgives_not_ready", &settings.forgives_not_ready},
        {"deinitialized", &settings.deinitialized},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0) {
            lock();
            *known[i].value = value;
            unlock();
            return 0;
        }
    return -1;
}

/* The call after the next `after` ones returns `code` and does nothing. */
EXPORT void fk_fail_next(const char *name, int code, long after)
{
    lock();
    Symbol *symbol = symbol_named(name);
    symbol->failing = true;
    symbol->code = code;
    symbol->after = after;
    unlock();
}

/* From now on the call does nothing and succeeds; its results are what the caller left there. */
EXPORT void fk_ignore(const char *name)
{
    lock();
    symbol_named(name)->ignored = true;
    unlock();
}

EXPORT long fk_calls(const char *name)
{
    lock();
    long count = symbol_named(name)->calls;
    unlock();
    return count;
}

EXPORT int fk_live(const char *what)
{
    lock();
    int count = strcmp(what, "allocations") == 0 ? memory_live()
                : strcmp(what, "captures") == 0  ? capture_live()
                                                 : objects_live(what);
    unlock();
    return count;
}

EXPORT int fk_context_depth(void)
{
    lock();
    int depth = thread_self()->depth;
    unlock();
    return depth;
}

/* All that is queued. */
EXPORT void fk_run(void)
{
    lock();
    if (!thread_self()->in_callback)
        work_run();
    unlock();
}

/* The same on a thread of the simulation's own. */
static pthread_t background;

static void *run_in_background(void *unused)
{
    fk_run();
    return unused;
}

/* Returns when a host function runs there, or has run. fk_join waits for the rest. */
EXPORT int fk_start(void)
{
    lock();
    unsigned long before = functions_run;
    int failed = pthread_create(&background, NULL, run_in_background, NULL);
    while (!failed && functions_run == before)
        pthread_cond_wait(&entered, &mutex);
    unlock();
    return failed ? -1 : 0;
}

EXPORT void fk_join(void)
{
    pthread_join(background, NULL);
}

/* ---- accesses by the test */

typedef struct {
    unsigned long long pointer, length;
    int mode; /* 'r' or 'w' */
    int payload;
} fk_access;

EXPORT int fk_kernel(void *handle, int count, const fk_access *accesses)
{
    Stream *stream;
    lock();
    Thread *self = thread_self();
    Context *context = context_here(self);
    int code = stream_from(self, context, handle, &stream);
    if (code == SUCCESS && stream->context != context)
        code = INVALID_HANDLE;
    if (code == SUCCESS) {
        Op *op = op_new("kernel");
        for (int i = 0; i < count; i++)
            op_touch(op, (uintptr_t)accesses[i].pointer, (size_t)accesses[i].length,
                     accesses[i].mode == 'w', accesses[i].payload);
        code = work_submit(self, stream, op);
    }
    unlock();
    return code;
}

/* What the host finds there now, and the check that it may look. */
EXPORT int fk_host_read(unsigned long long pointer, unsigned long long length, void *bytes)
{
    lock();
    Op *op = op_new("host read");
    op_touch(op, (uintptr_t)pointer, (size_t)length, false, 0);
    int code = work_host(thread_self(), op);
    if (code == SUCCESS && bytes != NULL && length > 0)
        memcpy(bytes, (const void *)(uintptr_t)pointer, (size_t)length);
    unlock();
    return code;
}

/* What this thread did so far, and what it knows, becomes known to whoever calls fk_acquire later:
 * a queue, a lock or a join between threads of the test. */
EXPORT void fk_publish(void)
{
    lock();
    clocks_publish(thread_self());
    unlock();
}

EXPORT void fk_acquire(void)
{
    lock();
    clocks_acquire(thread_self());
    unlock();
}

/* ---- texts: the length, and as much as fits with a NUL */

/* The last errors of threads, which nobody has asked for. */
static void last_errors(Text *text)
{
    for (Thread *thread = threads_all(); thread != NULL; thread = thread->next)
        if (thread->last_error != SUCCESS)
            text_add(text, "thread %d is left with the error %d of %s\n", thread->serial,
                     thread->last_error, thread->last_failed);
}

EXPORT size_t fk_text(const char *what, char *buffer, size_t size)
{
    Text errors = {0};
    const Text *text = strcmp(what, "races") == 0            ? clocks_report()
                       : strcmp(what, "violations") == 0     ? &violations
                       : strcmp(what, "gil_violations") == 0 ? &gil_violations
                       : strcmp(what, "log") == 0            ? &calls
                                                             : &errors;
    lock();
    last_errors(&errors);
    size_t length = text->length;
    snprintf(buffer, size, "%s", length > 0 ? text->data : "");
    unlock();
    text_clear(&errors);
    return length;
}
