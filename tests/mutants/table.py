"""The mutants: ways to break fastdl, each of which must turn a test red.

Each is one mistake that a person could make. Its text must occur exactly once in its file, so that
it stays the mistake that its name says; who changes the code mends the table.
"""

from typing import NamedTuple

DRIVER, EVENT, WORK, ACQUIRE, MEMORY, TRANSFER, POINTER, EXPORT = (
    f"src/fastdl/_core/{name}.c"
    for name in "driver event work acquire memory transfer pointer export".split()
)
BINDING = "src/fastdl/_core/device.pyx"
STREAMS, CONSUMER = "src/fastdl/_streams.py", "src/fastdl/_consumer.py"

HANDSHAKE, FAULTS, DRIVERS, CAPTURES, TABLES, WORKS = (
    f"tests/test_{name}.py"
    for name in "handshake handshake_faults driver_faults captures streams work_streams".split()
)
ALLOCATIONS, COPIES = "tests/test_device_memory.py", "tests/test_transfers.py"


class Mutant(NamedTuple):
    name: str  # what it stands for
    file: str
    changes: tuple[tuple[str, str], ...]  # what to replace, by what
    tests: tuple[str, ...]  # where a test is expected to turn red


def mutant(tests, name, file, *texts):
    """`tests`: a file or several; `texts`: old, new, old, new, ..."""
    tests = (tests,) if isinstance(tests, str) else tests
    return Mutant(name, file, tuple(zip(texts[::2], texts[1::2], strict=True)), tests)


EVENTS = [
    mutant(
        HANDSHAKE,
        "a wait is ignored",
        EVENT,
        "return FDL_TRY(event->driver, failure, stream_wait, fdl_handle(stream), event->handle, 0)",
        "return event == NULL && stream == 0 && failure == NULL",
    ),
    mutant(
        HANDSHAKE,
        "an event is recorded on the default stream",
        EVENT,
        "if (FDL_TRY(driver, failure, event_record, event->handle, fdl_handle(stream)) == 0)",
        "if (FDL_TRY(driver, failure, event_record, event->handle,"
        " fdl_handle(driver->kind == FASTDL_STREAM_CUDA)) == 0)",
    ),
    mutant(
        HANDSHAKE,
        "an event is made and not recorded",
        EVENT,
        "if (FDL_TRY(driver, failure, event_record, event->handle, fdl_handle(stream)) == 0)",
        "if (event->handle != NULL)",
    ),
    mutant(
        CAPTURES,
        "the per-thread default stream is taken for the legacy one",
        EVENT,
        "if (FDL_TRY(driver, failure, event_record, event->handle, fdl_handle(stream)) == 0)",
        "if (FDL_TRY(driver, failure, event_record, event->handle,"
        " fdl_handle(stream == 2 ? 1 : stream)) == 0)",
    ),
    mutant(
        HANDSHAKE,
        "an event is given back while others hold it",
        EVENT,
        "if (event == NULL || !fdl_count_release(&event->refs))",
        "if (event == NULL || (fdl_count_release(&event->refs), 0))",
    ),
    mutant(
        HANDSHAKE,
        "an event is destroyed while others hold it",
        EVENT,
        "if (event == NULL || !fdl_count_release(&event->refs))\n        return;\n"
        "    if (!event->pooled) {",
        "if (event == NULL)\n        return;\n    (void)fdl_count_release(&event->refs);\n"
        "    if (event->handle != NULL) {",
    ),
    mutant(
        FAULTS,
        "events of all devices are in one pool",
        EVENT,
        "return &kept[driver->kind == FASTDL_STREAM_CUDA ? 0 : 1][ordinal];",
        "return &kept[driver->kind == FASTDL_STREAM_CUDA ? 0 : 1][ordinal * 0];",
    ),
    mutant(
        FAULTS,
        "an event of a foreign context comes into the pool",
        EVENT,
        "event = new_event(driver, ordinal, 0, failure);",
        "event = new_event(driver, ordinal, 1, failure);",
    ),
    mutant(
        HANDSHAKE,
        "events are not used again",
        EVENT,
        "    if (!event->pooled) {",
        "    if (event != NULL) {",
    ),
    mutant(
        DRIVERS,
        "an event whose record failed is lost",
        EVENT,
        "    fdl_event_release(event);\n    if (failure->code",
        "    if (failure->code",
    ),
    mutant(
        HANDSHAKE,
        "a query is answered yes while work is pending",
        EVENT,
        "complete = event->driver->event_query(event->handle) == 0;",
        "complete = event->driver->event_query(event->handle) >= 0;",
    ),
    mutant(
        FAULTS,
        "a failed query is taken for a yes",
        EVENT,
        "complete = event->driver->event_query(event->handle) == 0;",
        "complete = event->driver->event_query(event->handle) != 600;",
    ),
]

EDGES = [
    mutant(
        HANDSHAKE,
        "no event is recorded at import",
        WORK,
        "(void)add_edge(work, event);",
        "fdl_event_release(event);",
    ),
    mutant(
        HANDSHAKE,
        "the event of an import is given back while it is an edge",
        WORK,
        "(void)add_edge(work, event);",
        "(void)add_edge(work, event);\n    fdl_event_release(event);",
    ),
    mutant(
        HANDSHAKE,
        "events are used without a reference",
        WORK,
        "        fdl_event_retain(edges[i]);\n",
        "",
    ),
    mutant(
        HANDSHAKE,
        "edges are dropped although pending",
        WORK,
        "if (fdl_event_is_complete(edges[i])) {",
        "if (fdl_event_is_complete(edges[i]) || 1) {",
    ),
    mutant(
        HANDSHAKE,
        "complete edges are kept",
        WORK,
        "if (fdl_event_is_complete(edges[i])) {",
        "if (0) {",
    ),
    mutant(
        HANDSHAKE,
        "nothing is waited for because two handles are equal",
        WORK,
        "    event = fdl_event_record(driver, work->device.device_id, source, failure);\n"
        "    if (event == NULL)\n        return -1;\n    (void)add_edge(work, event);",
        "    event = fdl_event_record(driver, work->device.device_id, source, failure);\n"
        "    if (event == NULL)\n        return -1;\n    work->stream = source;\n"
        "    (void)add_edge(work, event);",
        "    if (stream == -1)\n        return 0;\n    if (find_sources",
        "    if (stream == -1 || stream == work->stream)\n        return 0;\n    if (find_sources",
    ),
    mutant(
        HANDSHAKE,
        "a stream waits for one edge alone",
        WORK,
        "    for (int i = 0; i < count && !failed; i++)\n"
        "        failed = fdl_event_order(edges[i], stream, failure);\n    release_all",
        "    for (int i = 0; i < count && i < 1 && !failed; i++)\n"
        "        failed = fdl_event_order(edges[i], stream, failure);\n    release_all",
    ),
    mutant(
        HANDSHAKE,
        "record() overwrites the other edges",
        WORK,
        "for (int i = 0; i < count && count == MAX_EDGES && event != NULL; i++)",
        "for (int i = 0; i < count && event != NULL; i++)",
    ),
    mutant(
        HANDSHAKE,
        "the edge that stands for all others does not come after them",
        WORK,
        "for (int i = 0; i < count && count == MAX_EDGES && !failed; i++)",
        "for (int i = 0; i < 0; i++)",
    ),
    mutant(
        DRIVERS,
        "edges are dropped before another stands for them",
        WORK,
        "for (int i = 0; i < count && count == MAX_EDGES && event != NULL; i++)",
        "for (int i = 0; i < count && count == MAX_EDGES; i++)",
    ),
    mutant(
        HANDSHAKE,
        "record() does nothing",
        BINDING,
        "check(calls.work_record(work_of(tensor), stream, &failure)",
        "check(0",
    ),
    mutant(
        HANDSHAKE,
        "release() does nothing",
        STREAMS,
        "driver.release(tensor, named(stream, tensor.device))",
        "named(stream, tensor.device)",
    ),
    mutant(
        HANDSHAKE,
        "release() orders the wrong way",
        WORK,
        "bridge_checked(driver, work, stream, target, &capture, failure) < 0);",
        "bridge_checked(driver, work, target, stream, &capture, failure) < 0);",
    ),
    mutant(
        HANDSHAKE,
        "the host does not wait for a stream",
        WORK,
        "failed = event == NULL || fdl_event_wait(event, failure) < 0;",
        "failed = event == NULL;",
    ),
    mutant(
        DRIVERS,
        "the host does not wait for edges",
        WORK,
        "failed = failed || fdl_event_wait(edges[i], failure) < 0;",
        "failed = failed || 0;",
    ),
    mutant(
        DRIVERS,
        "an edge is dropped although the host could not wait for it",
        WORK,
        "        if (!failed)\n            drop_edge(work, edges[i]);",
        "        drop_edge(work, edges[i]);",
    ),
    mutant(
        DRIVERS,
        "host memory is exported without waiting",
        STREAMS,
        "    if device.is_host and stream is None:\n        driver.wait(tensor)",
        "    if device.is_host and stream is None:\n        pass",
    ),
]

PRODUCERS = [
    mutant(
        HANDSHAKE,
        "later writes of a producer with a table are not asked for",
        WORK,
        "        if (found != stream)\n            sources->streams[sources->count++] = found;\n",
        "",
    ),
    mutant(
        HANDSHAKE,
        "its table is asked and not waited for",
        WORK,
        "failed = bridge_checked(driver, work, sources->streams[i], stream, &capture, failure);",
        "failed = 0;",
    ),
    mutant(
        HANDSHAKE,
        "the table is forgotten after the import",
        WORK,
        "    work->producer = producer;\n",
        "    work->producer = producer == NULL ? producer : NULL;\n",
    ),
    mutant(
        HANDSHAKE,
        "the work stream is not ordered at an import through a table",
        WORK,
        "return source == stream ? 0 : order_on(work, driver, stream, NULL, failure);",
        "return 0;",
    ),
    mutant(
        HANDSHAKE,
        "an import through a table is not ordered at all",
        ACQUIRE,
        "if (!order || fdl_work_ready_for",
        "if (order >= 0 || fdl_work_ready_for",
    ),
    mutant(
        WORKS,
        "an import through a table ignores stream=",
        CONSUMER,
        "driver.ready_for(tensor, passed)",
        "driver.ready_for(tensor, driver.work_stream(*tensor.device))",
    ),
    mutant(
        TABLES,
        "the stream is not passed to the producer",
        CONSUMER,
        'keywords["stream"] = passed  #',
        "pass  #",
    ),
    mutant(
        HANDSHAKE,
        "the device is not current while a producer is called",
        CONSUMER,
        "driver.call_on(where.type, where.id, producer, asked)",
        "producer(**asked)",
    ),
    mutant(
        HANDSHAKE,
        "stream=-1 is recorded all the same",
        WORK,
        "    if (stream == -1) {\n        work->callers = 1;\n        return 0;\n    }\n",
        "",
    ),
    mutant(
        TABLES,
        "the caller's order is forgotten",
        WORK,
        "work->callers = 1;",
        "work->callers = 0;",
    ),
    mutant(
        HANDSHAKE,
        "stream=-1 is ordered at export",
        STREAMS,
        "    if stream == -1:\n        return\n    if device.is_host",
        "    if stream == -1:\n        stream = None\n    if device.is_host",
    ),
    mutant(
        DRIVERS,
        "a tensor is leaked when its import cannot be ordered",
        ACQUIRE,
        "Py_CLEAR(tensor);",
        "tensor = NULL;",
    ),
    mutant(
        HANDSHAKE,
        "work of C code on the work stream is not waited for",
        WORK,
        "fdl_store_release(&work->lent, 1);",
        "fdl_store_release(&work->lent, 0);",
    ),
]

WORK_STREAMS = [
    mutant(
        WORKS,
        "the work stream of another device is used",
        WORK,
        "            scope->device.device_id == device.device_id)",
        "            scope->device.device_id >= 0)",
    ),
    mutant(
        WORKS,
        "a work stream leaks to other threads",
        WORK,
        "static FDL_THREAD_LOCAL fdl_stream_scope *innermost;",
        "static fdl_stream_scope *innermost;",
    ),
    mutant(
        WORKS,
        "the outer work stream is not restored",
        WORK,
        "            *link = scope->outer;\n",
        "            *link = NULL;\n",
    ),
    mutant(
        WORKS,
        "a work stream is not left",
        STREAMS,
        "        self._scope.end()",
        "        pass",
    ),
    mutant(
        WORKS,
        "managed memory has no part in the work streams of CUDA",
        WORK,
        "if (fastdl_find_device((int32_t)scope->device.device_type)->stream == kind &&",
        "if (scope->device.device_type == device.device_type &&",
    ),
]

CONTEXTS = [
    mutant(
        HANDSHAKE,
        "the context of the device is not pushed",
        DRIVER,
        "if (scope->context != context) {",
        "if (0) {",
    ),
    mutant(
        HANDSHAKE,
        "the context of the device is not popped",
        DRIVER,
        "    if (scope->pushed)\n        (void)driver->cu_pop(&current);\n",
        "",
    ),
    mutant(
        HANDSHAKE,
        "a current context is taken for that of the device",
        DRIVER,
        "if (scope->context != context) {",
        "if (scope->context == NULL) {",
    ),
    mutant(
        FAULTS,
        "what a producer left current is not undone",
        DRIVER,
        "if (driver->cu_get_current(&current) != 0 || current != scope->context)",
        "if (scope->pushed < 0)",
    ),
    mutant(
        FAULTS,
        "HIP's current device is not restored",
        DRIVER,
        "(void)driver->hip_set_device(scope->ordinal);",
        "(void)ordinal;",
    ),
    mutant(
        HANDSHAKE,
        "HIP's current device is not set",
        DRIVER,
        "scope->ordinal != ordinal && FDL_TRY(driver, failure, hip_set_device, ordinal) < 0",
        "0",
    ),
    mutant(
        FAULTS,
        "a device that does not exist is entered",
        DRIVER,
        "if (ordinal < 0 || ordinal >= driver->devices)",
        "if (ordinal < 0)",
    ),
    mutant(
        DRIVERS,
        "a needed symbol that is missing is called",
        DRIVER,
        "if (address == NULL && name != NULL && symbols[i].needed)",
        "if (0)",
    ),
    mutant(
        DRIVERS,
        "an old driver is used",
        DRIVER,
        "if (driver->version < (driver == &cuda.driver ? OLDEST_CUDA : OLDEST_HIP))",
        "if (driver->version < 0)",
    ),
    mutant(
        DRIVERS,
        "out of memory is not told from other errors",
        DRIVER,
        "failure->no_memory = code == OUT_OF_MEMORY;",
        "failure->no_memory = 0;",
    ),
]

THE_GIL = [
    mutant(
        HANDSHAKE,
        "the host waits with the GIL",
        EVENT,
        "    void *paused = fdl_pause_python();\n    int mode",
        "    void *paused = NULL;\n    int mode",
    ),
    mutant(
        HANDSHAKE,
        "events are destroyed with the GIL",
        EVENT,
        "        void *paused = fdl_pause_python();\n        (void)event->driver->event_destroy",
        "        void *paused = NULL;\n        (void)event->driver->event_destroy",
    ),
    mutant(
        HANDSHAKE,
        "contexts are made with the GIL",
        DRIVER,
        "void *context = NULL, *paused = fdl_pause_python();",
        "void *context = NULL, *paused = NULL;",
    ),
]

CAPTURE = [
    mutant(
        CAPTURES,
        "captures are not asked for",
        DRIVER,
        "int status = 0, code = driver->is_capturing(fdl_handle(stream), &status);",
        "int status = 0, code = 0;",
    ),
    mutant(
        CAPTURES,
        "a capture of another stream (906) is taken for a failure of the driver",
        DRIVER,
        "if (code == IMPLICIT_CAPTURE) {",
        "if (0) {",
    ),
    mutant(
        CAPTURES,
        "events are recorded at an import inside a capture",
        WORK,
        "    if (capture.active) {\n        work->captured = 1;",
        "    if (0) {\n        work->captured = 1;",
    ),
    mutant(
        CAPTURES,
        "edges from outside enter a capture",
        WORK,
        "if (count > 0 && capture.active)",
        "if (0)",
    ),
    mutant(
        CAPTURES,
        "what was imported inside is given to another capture",
        WORK,
        "if (!capture.active || capture.id != work->id)",
        "if (!capture.active)",
    ),
    mutant(
        CAPTURES,
        "what was imported inside is given to streams outside",
        WORK,
        "if (!capture.active || capture.id != work->id)",
        "if (0)",
    ),
    mutant(
        CAPTURES,
        "what was imported inside is not ordered within the capture",
        WORK,
        "if (stream != work->stream && bridge(driver, work, work->stream, stream, failure) < 0)",
        "if (0)",
    ),
    mutant(
        CAPTURES,
        "a producer that captures another graph is waited for",
        WORK,
        "(other.active && other.id != capture->id)",
        "0",
    ),
    mutant(
        CAPTURES,
        "a producer outside of the capture is waited for",
        WORK,
        "if (other.active != capture->active ||",
        "if (",
    ),
    mutant(
        CAPTURES,
        "record() inside a capture",
        WORK,
        "    if (capture.active)\n"
        '        return fdl_refuse(failure, "a graph is being captured on that stream',
        '    if (0)\n        return fdl_refuse(failure, "a graph is being captured on that stream',
    ),
    mutant(
        CAPTURES,
        "the host waits inside a capture",
        WORK,
        "    if (capture.active)\n"
        '        return fdl_refuse(failure, "a graph is being captured, during which',
        '    if (0)\n        return fdl_refuse(failure, "a graph is being captured, during which',
    ),
    mutant(
        CAPTURES,
        "an event is asked without a guard for captures",
        EVENT,
        "    mode = fdl_relax_captures(event->driver);\n    complete",
        "    mode = -1;\n    complete",
    ),
    mutant(
        CAPTURES,
        "an event is waited for without a guard for captures",
        EVENT,
        "    int mode = fdl_relax_captures(event->driver);\n    int failed",
        "    int mode = -1;\n    int failed",
    ),
    mutant(
        CAPTURES,
        "the capture mode of a thread is not given back",
        DRIVER,
        "    if (mode >= 0)\n        (void)driver->exchange_capture_mode(&mode);",
        "    (void)driver;\n    (void)mode;",
    ),
    mutant(
        CAPTURES,
        "HIP is asked during a capture",
        EVENT,
        "if (event->driver->kind == FASTDL_STREAM_ROCM && "
        "fdl_load_acquire(&event->driver->captures))",
        "if (0)",
    ),
]

NUMBERS = [
    mutant(
        TABLES,
        "stream 0 of CUDA is not made 1",
        STREAMS,
        "if kind == CUDA and stream == 0:\n        stream = 1",
        "if kind == CUDA and stream == 0:\n        pass",
    ),
    mutant(
        TABLES,
        "a consumer's stream 0 is accepted on CUDA",
        STREAMS,
        "    if kind == CUDA and stream == 0:\n        raise",
        "    if kind is None:\n        raise",
    ),
    mutant(
        HANDSHAKE,
        "the default stream of a table (NULL) is passed on as it is",
        WORK,
        "*stream = handle == NULL ? fdl_default_stream(work->kind) : (int64_t)(uintptr_t)handle;",
        "*stream = (int64_t)(uintptr_t)handle;",
    ),
    mutant(
        TABLES,
        "ROCm has streams 1 and 2",
        STREAMS,
        "if kind == ROCM and stream in (1, 2):",
        "if kind == ROCM and stream in ():",
    ),
    mutant(
        TABLES,
        "True is a stream",
        STREAMS,
        'if isinstance(stream, bool) or not hasattr(stream, "__index__"):',
        'if not hasattr(stream, "__index__"):',
    ),
    mutant(
        TABLES,
        "a stream of more than 64 bits",
        STREAMS,
        "if not 0 <= stream < 2**63:",
        "if not 0 <= stream:",
    ),
    mutant(
        TABLES,
        "a negative stream",
        STREAMS,
        "if not 0 <= stream < 2**63:",
        "if not -9 <= stream < 2**63:",
    ),
    mutant(
        TABLES,
        "the default of ROCm is that of CUDA",
        STREAMS,
        "DEFAULT = {CUDA: 1, ROCM: 0}",
        "DEFAULT = {CUDA: 1, ROCM: 1}",
    ),
    mutant(
        TABLES,
        "None at export waits for nothing",
        STREAMS,
        "    if stream == -1:\n        return\n    if device.is_host",
        "    if stream == -1 or stream is None:\n        return\n    if device.is_host",
    ),
    mutant(
        (TABLES, HANDSHAKE),
        "managed memory is taken for host memory",
        STREAMS,
        "return NONE if device.is_host else device.stream_kind",
        "return NONE if device.is_host or device.type == 13 else device.stream_kind",
    ),
    mutant(
        WORKS,
        "managed memory from a table is taken for host memory",
        ACQUIRE,
        "if (fact->host || (fact->stream",
        "if (fact->host || (int)device.device_type == 13 || (fact->stream",
    ),
]

OWN_MEMORY = [
    mutant(
        ALLOCATIONS,
        "memory is freed without a wait",
        MEMORY,
        "    if (work != NULL &&\n        fdl_work_finish(",
        "    if (stream != NULL && work != NULL &&\n        fdl_work_finish(",
    ),
    mutant(
        ALLOCATIONS,
        "memory of a stream is freed without a wait",
        MEMORY,
        "    if (work != NULL &&\n        fdl_work_finish(",
        "    if (stream == NULL && work != NULL &&\n        fdl_work_finish(",
    ),
    mutant(
        ALLOCATIONS,
        "what is put off is never freed",
        MEMORY,
        "        fdl_block_end(block, 0);\n",
        "        (void)block;\n",
    ),
    mutant(
        ALLOCATIONS,
        "a refused free is repeated",
        MEMORY,
        "(asked || memory->tried++ > 0)",
        "(memory->tried++ > 0)",
    ),
    mutant(
        COPIES,
        "a copy does not wait for its source",
        TRANSFER,
        "return work == NULL ? 0 : fdl_work_order_on(work, t->ordinal, t->stream, failure);",
        "return work == NULL ? 0 : 0;",
    ),
    mutant(
        COPIES,
        "a copy to the host is not waited for",
        TRANSFER,
        "t->waits = !is_asynchronous(t, t->to);",
        "t->waits = 0;",
    ),
    mutant(
        COPIES,
        "the source of a copy may be rewritten",
        TRANSFER,
        "fdl_work_record_on(reading, t->ordinal, t->stream, failure) < 0)",
        "0)",
    ),
    mutant(
        COPIES,
        "the owner of a source is let go of at once",
        TRANSFER,
        "    if (!fdl_memory_is_ours(t->source->block))\n        fdl_work_hold(reading);\n",
        "",
    ),
    mutant(
        COPIES,
        "pinned memory is read without a wait",
        TRANSFER,
        "if (work == NULL || fdl_work_wait(work, &failure) == 0)",
        "if (work == NULL || failure.code == 0 || 1)",
    ),
    mutant(
        COPIES,
        "pinned memory is lent without a wait",
        EXPORT,
        "return fdl_await_for_host(description);",
        "return 0;",
    ),
    mutant(
        COPIES,
        "a failed copy is not waited for",
        TRANSFER,
        "safe = !failed || settle(t);",
        "safe = !failed || t != NULL || settle(t);",
    ),
    mutant(
        COPIES,
        "a device is believed",
        POINTER,
        "    if (agrees(said, *found))\n",
        "    if (agrees(said, said))\n",
    ),
]

MUTANTS = [
    *EVENTS,
    *EDGES,
    *PRODUCERS,
    *WORK_STREAMS,
    *CONTEXTS,
    *THE_GIL,
    *CAPTURE,
    *NUMBERS,
    *OWN_MEMORY,
]
