/* SPDX-License-Identifier: Apache-2.0
 *
 * Work in flight: the work queued on the device memory of a block, and the ordering of later work
 * after it.
 *
 * A fdl_work holds events (the *edges*), never streams: a foreign stream may be destroyed, and
 * another stream may get the same handle. Each edge marks the work queued on a stream so far; a
 * stream that will use the memory waits for all edges. Edges whose work has ended are dropped. A
 * wait is skipped for equal handles only if both streams are known to be alive: the producer's
 * current stream, just queried, and the stream that the caller passed.
 *
 * Streams are DLPack's numbers: -1 means that the caller orders all work; on CUDA 1 is the legacy
 * default stream and 2 the calling thread's own; on ROCm 0 is the default stream; others are
 * handles. Functions return 0, or -1 with *failure filled in. They may be called on any thread;
 * those that may call the producer's table ("Calls the producer") need the GIL.
 *
 * During a graph capture nothing is recorded, since an event from a capture means nothing outside
 * of it. Instead the capture is stored with the memory, and only streams in that capture can use
 * it.
 */
#ifndef FASTDL_DEVICES_ORDERING_H_
#define FASTDL_DEVICES_ORDERING_H_

#include "_core/devices.h"

#include "driver.h"

/* The fdl_work of a block on `device`, which `work` points into, created at first use. The memory
 * may be pinned by the driver of a device. NULL when out of memory. */
fdl_work *fdl_work_of(fdl_work **work, DLDevice device);

/* Frees a fdl_work with its edges. NULL is allowed. */
void fdl_work_free(fdl_work *work);

/* For imported memory that is ready for work queued on `source` from now on: the work queued there
 * so far becomes an edge, and `stream` waits for it, unless `source` is in a capture. Without a
 * driver the two must be the same stream, which is stored: only exports for that stream then work.
 * Called once, before other code can reach the memory. */
int fdl_work_ready_on(fdl_work *work, int64_t source, int64_t stream, fdl_failure *failure);

/* For memory imported through this table, whose library may queue more work on it: its current
 * stream is queried whenever the memory is exported. fdl_work_ready_for follows. */
void fdl_work_from_table(fdl_work *work, const DLPackExchangeAPI *producer);

/* For re-imported memory from this table, whose library may have queued unrecorded work on it: the
 * work on its current stream becomes an edge. fdl_work_ready_for follows. */
int fdl_work_reimported(fdl_work *work, const DLPackExchangeAPI *table, fdl_failure *failure);

/* As fdl_work_ready_on, for memory from a table: `source` is the producer's current stream. Calls
 * the producer, unless `stream` is -1. Re-imported memory is ordered as by fdl_work_order. */
int fdl_work_ready_for(fdl_work *work, int64_t stream, fdl_failure *failure);

/* fdl_work_ready_on for memory from C code that uses the calling thread's work stream, and may keep
 * using it, as after fdl_work_lend. */
int fdl_work_ready_from_c(fdl_work *work, fdl_failure *failure);

/* Adds an edge for work on the memory that has been queued on `stream`. */
int fdl_work_record(fdl_work *work, int64_t stream, fdl_failure *failure);

/* fdl_work_record for a stream of device `ordinal`; the memory may be on another device. */
int fdl_work_record_on(fdl_work *work, int32_t ordinal, int64_t stream, fdl_failure *failure);

/* Orders work queued on `stream` from now on after all known work on the memory. Calls the
 * producer. Costs nothing when nothing is in flight. */
int fdl_work_order(fdl_work *work, int64_t stream, fdl_failure *failure);

/* Records that C code queues work unknown to fastdl on the calling thread's work stream: the next
 * user of the memory also waits for that stream or, if its scope has ended, for the work queued in
 * the scope. Another thread that uses the memory before the scope ends cannot wait for it: see
 * fdl_work_record. */
void fdl_work_note_lent(fdl_work *work);

/* fdl_work_order for the calling thread's work stream, and fdl_work_note_lent. */
int fdl_work_lend(fdl_work *work, fdl_failure *failure);

/* Call this before the host uses the memory: waits for the edges, without the GIL. Calls the
 * producer. */
int fdl_work_wait(fdl_work *work, fdl_failure *failure);

/* Orders the next user of the memory after the work queued on `stream`: the producer's current
 * stream waits for it if there is a table; otherwise the host waits. Calls the producer. */
int fdl_work_release(fdl_work *work, int64_t stream, fdl_failure *failure);

/* Makes work queued on `stream` from now on wait for the work queued on `source` now: two streams
 * of one device, whatever memory they work on. */
int fdl_order_streams(DLDevice device, int64_t source, int64_t stream, fdl_failure *failure);

/* Whether the caller that imported the memory orders all work on it (stream=-1). */
int fdl_work_is_callers(const fdl_work *work);

/* The number of edges, complete ones included: for tests. */
int fdl_work_edges(fdl_work *work);

/* ---- the work stream of a thread ---- */

/* A scope in which `stream` is the thread's work stream for `device`. The caller allocates it, and
 * fills in `device` and `stream`. */
typedef struct fdl_stream_scope {
    struct fdl_stream_scope *outer;
    DLDevice device;
    int64_t stream;
    int lent; /* memory was lent to C code that works on `stream` */
} fdl_stream_scope;

/* Begins a scope on the calling thread. */
void fdl_stream_scope_begin(fdl_stream_scope *scope);

/* Ends a scope. The next users of memory that was lent in the scope wait for its work, since the
 * stream handle may become invalid. Nothing is recorded if the stream is capturing. 1, without any
 * effect, if the thread is not in this scope. */
int fdl_stream_scope_end(fdl_stream_scope *scope, fdl_failure *failure);

/* Drops the recorded work of all ended scopes: for tests. */
void fdl_work_forget(int kind);

/* The stream for which an import without a stream is ordered: the stream of the innermost scope for
 * the device, otherwise the default stream. -1 for devices without numbered streams. Managed memory
 * is used by streams of CUDA, so it shares their scopes; so does pinned memory. */
int64_t fdl_work_stream(DLDevice device);

#endif
