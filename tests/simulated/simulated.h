/* SPDX-License-Identifier: Apache-2.0 */

/* A driver without a device: what its parts know of each other.
 *
 * One set of sources builds libcuda.so.1 and libamdhip64.so.6. Device memory is host memory, and
 * work is queued and runs on real bytes as late as the semantics allow.
 *
 *   clocks.c   a vector clock for each stream and host thread. It says what comes before what, and
 *              so which two accesses to the same bytes have no order, whatever became of the bytes
 *   objects.c  threads, contexts, streams, events; handles and their reuse
 *   memory.c   allocations, and what a pointer is
 *   capture.c  stream capture: who joins, who is refused, who breaks it
 *   work.c     every action, told to capture.c and clocks.c in turn; what is queued, and its end
 *   control.c  the fk_* functions of the tests; what each driver call begins and ends with
 *   driver.c   the drivers' symbols, thin, where CUDA and HIP differ in names alone
 *   cuda.c, hip.c   those that only one of them has
 *
 * One lock protects everything; every function here expects it to be held. Functions that return
 * int return a code of the drivers, which CUDA and HIP number alike. */
#ifndef FASTDL_SIMULATED_H
#define FASTDL_SIMULATED_H

#ifdef __MINGW32__
#define __USE_MINGW_ANSI_STDIO 1 /* C99's formats */
#define FORMAT(at) format(gnu_printf, at, at + 1)
#define EXPORT __declspec(dllexport) /* nothing else is exported then */
#define HIDDEN
#else
#define FORMAT(at) format(printf, at, at + 1)
#define EXPORT __attribute__((visibility("default")))
#define HIDDEN __attribute__((visibility("hidden")))
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef FK_OLD /* a driver from before these existed */
#define EXPORT_OPTIONAL HIDDEN
#else
#define EXPORT_OPTIONAL EXPORT
#endif

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    DEINITIALIZED = 4,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    ILLEGAL_STATE = 401,
    NOT_READY = 600,
    CONTEXT_IS_DESTROYED = 709,
    NOT_PERMITTED = 800,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    CAPTURE_MERGE = 902,
    CAPTURE_UNJOINED = 904,
    CAPTURE_ISOLATION = 905,
    CAPTURE_IMPLICIT = 906,
    CAPTURED_EVENT = 907,
    CAPTURE_WRONG_THREAD = 908,
    UNKNOWN = 999
};

enum {
    MAX_DEVICES = 16,
    MAX_DEPTH = 64,      /* of a thread's context stack */
    MAX_STREAMS = 4096,  /* alive at once */
    MAX_EVENTS = 65536,  /* likewise */
    CAPTURE_STREAMS = 16 /* in one capture */
};

enum {
    MODE_GLOBAL = 0,
    MODE_THREAD_LOCAL = 1,
    MODE_RELAXED = 2
};

typedef struct Thread Thread;
typedef struct Context Context;
typedef struct Stream Stream;
typedef struct Event Event;
typedef struct Capture Capture;
typedef struct Allocation Allocation;
typedef struct Op Op;

/* ------------------------------------------------------------------------------------- texts */

typedef struct {
    char *data;
    size_t length, capacity;
} Text;

__attribute__((FORMAT(2))) void text_add(Text *text, const char *format, ...);
void text_clear(Text *text);

/* Memory for the simulation itself; without it the process ends. */
void *must_have(void *memory);

/* ------------------------------------------------------------------------------------- clocks */

typedef struct {
    uint32_t *at; /* by component: how much of it is known to have happened */
    size_t length;
} Clock;

/* ------------------------------------------------------------------------------------ objects */

/* Whose address is a handle. Slots are used again, last freed first. */
typedef struct Slot {
    void *object; /* NULL while free */
    struct Slot *next_free;
} Slot;

struct Thread {
    int serial;
    Context *stack[MAX_DEPTH];
    int depth;
    int device; /* HIP's current one */
    int mode;   /* of what a capture allows */
    bool in_callback;
    const char *symbol; /* the call it is in */
    int last_error;     /* HIP: until it is asked for */
    const char *last_failed;
    uint32_t component;
    Clock clock;
    Thread *next;
};

struct Context {
    int device;
    bool primary;
    int retained;     /* of a primary one; made ones count 1 until they are destroyed */
    bool reset;       /* a primary one that nobody has retained since its reset */
    uint64_t id;      /* another after each reset */
    Context *another; /* of those that are not primary */
    Stream *legacy;
    Stream *streams; /* all of them, destroyed ones too: their work goes on */
};

struct Stream {
    int serial;
    Context *context;
    Thread *owner; /* of a per-thread stream */
    bool is_legacy;
    bool blocking;                  /* ordered with the legacy stream */
    Slot *slot;                     /* NULL for special streams and destroyed ones */
    Capture *capture;               /* that it is part of */
    int member;                     /* its number there */
    unsigned seen[CAPTURE_STREAMS]; /* of each member's captured work, what its next op follows */
    uint32_t component;
    Clock clock;
    Stream *next;
};

struct Event {
    Context *context;
    bool recorded;
    Capture *capture; /* that it was last recorded in */
    unsigned seen[CAPTURE_STREAMS];
    Slot *slot;
    Clock clock;
};

void objects_reset(void);
Thread *thread_self(void);
Thread *threads_all(void);
Context *context_of(int device); /* NULL if there is no such device */
Context *context_from(Thread *self, void *handle);
Context *context_current(Thread *self); /* CUDA's; NULL if none, or it is dead */
Context *context_make(int device);
void context_retain(Context *context);
int context_end(Thread *self, Context *context); /* destroys it or, if it is primary, resets it */
Context *context_here(Thread *self);             /* the same, or that of HIP's current device */
int stream_create(Context *context, unsigned flags, void **handle);
int stream_destroy(Thread *self, Stream *stream);
/* Handles 0, 1 and 2 are of `context`, which may be NULL for others. */
int stream_from(Thread *self, Context *context, void *handle, Stream **stream);
void stream_name(const Stream *stream, char *text, size_t size);
int event_create(Context *context, unsigned flags, void **handle);
int event_destroy(Event *event);
int event_from(Thread *self, void *handle, Event **event);
int objects_live(const char *what); /* "events" or "streams" */

/* ------------------------------------------------------------------------------------- memory */

typedef enum {
    DEVICE_MEMORY,
    MANAGED_MEMORY,
    PINNED_MEMORY
} Kind;

struct Allocation {
    uintptr_t start;
    size_t size;
    Kind kind;
    int device;
    bool live;
    Allocation *next;
};

void memory_reset(void);
int memory_allocate(Thread *self, int device, Kind kind, size_t size, uintptr_t *address);
int memory_free(Thread *self, uintptr_t address, bool host_call);
Allocation *memory_find(uintptr_t address);              /* alive, and around this address */
bool memory_is_ours(uintptr_t address);                  /* alive or not */
Allocation *memory_ask(Thread *self, uintptr_t address); /* for what a pointer is */
int memory_live(void);

/* ---------------------------------------------------------------------------------- operations */

typedef struct {
    uintptr_t start;
    size_t length;
    bool write;
    int payload; /* of a write: 0 to 255 fills, 256 leaves the bytes as they are */
} Range;

/* A copy of height x width bytes. */
typedef struct {
    uintptr_t to, from;
    size_t width, height;
    size_t to_pitch, from_pitch;
} Box;

struct Op {
    const char *name;
    unsigned serial;
    char who[160]; /* for reports; made by work.c */
    Range *ranges;
    size_t count, capacity;
    bool is_copy;
    bool is_block; /* the making or the end of an allocation */
    Box box;
    void (*function)(void *);
    void *data;
    uint32_t component, clock; /* what a clock must have for the operation to come before */
    bool wanted;               /* by who waits for it now */
    Op *next;                  /* in the order of submission */
};

Op *op_new(const char *name);
void op_touch(Op *op, uintptr_t start, size_t length, bool write, int payload);

/* Each: 0, or a driver's error, in which case nothing happened (but a capture may be broken). */
int work_submit(Thread *self, Stream *stream, Op *op); /* owns `op`, also on failure */
int work_host(Thread *self, Op *op);                   /* likewise: an access by the host, now */
int work_copy(Thread *self, Stream *stream, const char *name, const Box *box);
int work_record(Thread *self, Event *event, Stream *stream);
int work_wait(Thread *self, Stream *stream, Event *event);
int work_sync_stream(Thread *self, Stream *stream);
int work_sync_event(Thread *self, Event *event);
void work_sync_context(Thread *self, const Context *context);
int work_query_event(Thread *self, Event *event);
void work_reset(void); /* forgets what is queued */
void work_run(void);   /* all of it */

/* ------------------------------------------------------------------------------------- capture */

struct Capture {
    uint64_t id;
    Stream *members[CAPTURE_STREAMS];
    unsigned count[CAPTURE_STREAMS]; /* captured on each */
    int size;
    int mode;
    Thread *thread;
    bool invalid, ended;
    Capture *next;
};

void capture_reset(void);
int capture_live(void);
int capture_begin(Thread *self, Stream *stream, int mode);
int capture_end(Thread *self, Stream *stream, void **graph);
int capture_status(Stream *stream, int *status);
/* Whether what is submitted to the stream becomes part of a graph, or an error. */
int capture_submit(Stream *stream, bool *captured);
int capture_record(Event *event, Stream *stream, bool *captured);
int capture_wait(Stream *stream, Event *event, bool *captured);
int capture_sync_stream(Thread *self, Stream *stream);
int capture_sync_event(Thread *self, Event *event);
int capture_ask(Stream *stream);  /* calls that a capturing stream does not survive */
int capture_unsafe(Thread *self); /* calls that a capture may forbid to a thread */

/* ------------------------------------------------------------------------------------- clocks */

void clocks_reset(bool all); /* or only what was accessed and found */
uint32_t clocks_component(void);
void clocks_thread(Thread *thread); /* a thread that was not seen before */
void clocks_submit(Thread *self, Stream *stream, Op *op);
void clocks_host(Thread *self, Op *op);
void clocks_record(Thread *self, Event *event, Stream *stream);
void clocks_wait(Thread *self, Stream *stream, const Event *event);
void clocks_sync_stream(Thread *self, const Stream *stream);
void clocks_sync_event(Thread *self, const Event *event);
void clocks_publish(const Thread *self);
void clocks_acquire(Thread *self);
bool clocks_know(const Clock *clock, uint32_t component, uint32_t value);
void clocks_free(Clock *clock);
const Text *clocks_report(void);

/* ------------------------------------------------------------------------------------- control */

typedef struct {
    int devices;
    int version;
    int managed_type; /* CU_MEMORYTYPE of managed memory */
    int managed_pool; /* which is said to be from a pool */
    bool initialized;
    int process;            /* that initialised */
    int deinitialized;      /* it answers as it does at the end of a process */
    int locked_callbacks;   /* other threads' calls wait until a host function has returned */
    int forgives_not_ready; /* HIP: hipErrorNotReady is no last error, as in newer versions */
} Settings;

extern Settings settings;

__attribute__((FORMAT(2))) void violation(const Thread *self, const char *format, ...);
void lock(void);
void unlock(void);
/* Around a function of the host, which runs without the lock; and until no other thread is there.
 */
void executor_leave(void);
void executor_return(void);
void executor_free(void);

typedef struct Symbol Symbol;

enum {
    ANYTIME = 1,  /* needs no driver_ready */
    CONTEXT = 2,  /* needs a current context, alive */
    CALLBACK = 4, /* allowed inside a host callback */
    GO_ON = -1
};

void check_gil(const char *name); /* of a call that does not begin with CALL */

/* driver.c, of what cuda.c and hip.c have in common. */
int driver_version(void);
/* cuda.c, hip.c: whether it can be called; CUDA must have been initialised, HIP does so now. */
int driver_ready(void);

/* Takes the lock and returns GO_ON, or returns the code that the call is to return. */
int call_enter(Symbol **symbol, const char *name, int flags, Thread **self);
int call_leave(Thread *self, int code);

#define CALL(flags)                                                                                \
    static Symbol *symbol_;                                                                        \
    Thread *self = NULL;                                                                           \
    int early_ = call_enter(&symbol_, __func__, flags, &self);                                     \
    if (early_ != GO_ON)                                                                           \
    return early_
#define GIVE(code) return call_leave(self, (code))
#define FAIL_ON(code)                                                                              \
    do {                                                                                           \
        int code_ = (code);                                                                        \
        if (code_ != SUCCESS)                                                                      \
            return call_leave(self, code_);                                                        \
    } while (0)

/* Finds the object of a handle, or leaves the call. */
#define STREAM(handle)                                                                             \
    Stream *stream = NULL;                                                                         \
    FAIL_ON(stream_from(self, context_here(self), (handle), &stream))
#define EVENT(handle)                                                                              \
    Event *event = NULL;                                                                           \
    FAIL_ON(event_from(self, (handle), &event))

#endif
