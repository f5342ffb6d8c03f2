# SPDX-License-Identifier: Apache-2.0
"""What fastdl assumes about drivers and libraries on a GPU: each assumption, its public source, and
how the simulation encodes it. The site has it as a table: see docs/quote.py.

*Not documented* is what no vendor has written down: any release may change it.
"""

from collections.abc import Iterator

# Files without a folder are in tests/simulated.
ASSUMPTIONS = (
    (
        "Before `cuInit`, and in a child made by `fork`, every call returns 3; each error has a "
        "name",
        "cuda.h",
        "`control.c`: `call_enter` compares the process",
    ),
    (
        "Without a current context, calls that need one return 201; those about the attributes of "
        "a pointer do not need one",
        "cuda.h",
        "`CONTEXT` at each call of `driver.c` and `cuda.c`",
    ),
    (
        "Each thread has a stack of contexts, and `cuCtxSetCurrent` replaces its top; retaining a "
        "primary context does not make it current",
        "cuda.h",
        "`cuda.c`: `push`, and the calls around it",
    ),
    (
        "Libraries work in the primary context, of which each device has one",
        "CUDA documentation, runtime and driver interoperability; sources of torch, CuPy, Numba",
        "`objects.c`: `contexts` has one for each device; `others` are created in addition",
    ),
    (
        "Libraries use the context that is current on the thread",
        "sources of torch and CuPy",
        "the stand-ins of `tests/gpu/arrays.py` use the driver in the same way",
    ),
    (
        "The default streams 0, 1 and 2 are those of the current context, whichever that is",
        "cuda.h; pytorch#185527",
        "`objects.c`: `stream_from` gets the current context",
    ),
    (
        "Green contexts have default streams of their own",
        "not documented; pytorch#185527",
        "not encoded: fastdl refuses all contexts but the primary one",
    ),
    (
        "An event is recorded only on streams of its own context (400); a stream can wait for "
        "events of any context and device",
        "cuda.h",
        "`work.c`: `work_record` compares contexts, `work_wait` does not",
    ),
    (
        "Calls with an event or a stream may fail while no context is current: fastdl makes one "
        "current for each",
        "not documented",
        "they return 201, the least that fastdl must survive",
    ),
    (
        "`cudaDeviceReset` ends the primary context with all of its streams and events, and "
        "changes its id",
        "CUDA documentation; the id: not documented",
        "`objects.c`: `context_end` keeps the handle and changes the id",
    ),
    (
        "An event that was never recorded delays nothing; a query returns 600 while work is "
        "unfinished, and does not wait",
        "cuda.h",
        "`work.c`: `work_query_event`",
    ),
    (
        "A wait refers to the last recording before it, so the event can be recorded again, or "
        "destroyed, at once",
        "cuda.h",
        "`clocks.c`: a wait copies the clock of the event",
    ),
    (
        "An event outlives the stream that it was recorded on",
        "cuda.h",
        "`objects.c`: work of a destroyed stream continues",
    ),
    (
        "Blocking streams, including the per-thread ones, join the legacy default stream; "
        "non-blocking ones do not; each thread has its own stream 2",
        "CUDA documentation, stream synchronization behavior",
        "`clocks.c`: `arrive`",
    ),
    (
        "Destroying an event may wait for the device, or may not",
        "pytorch#119393",
        "`objects.c`: `event_destroy` orders nothing, so nothing can rely on it",
    ),
    (
        "Any call may wait while a callback of `cuLaunchHostFunc` runs, since the driver may hold "
        "its lock",
        "numba-cuda#317, #321; cuda-python#1065, #2280; chainer#2090",
        "`control.c`: a call with the GIL held fails the test; with `locked_callbacks` calls wait",
    ),
    (
        "A callback of `cuLaunchHostFunc` must not call the driver, which *may* return 800",
        "cuda.h; iree#15673",
        "`control.c`: `call_enter` returns 800 and reports a violation; `work.c` runs callbacks on "
        "a thread of their own",
    ),
    (
        "A capture begins and ends as cuda.h says: codes 401, 900, 904, 908",
        "cuda.h",
        "`capture.c`: `capture_begin`, `capture_end`",
    ),
    (
        "`cuStreamIsCapturing` of the legacy stream returns 906 while a blocking stream captures, "
        "and breaks nothing; the capture of a non-blocking stream is invisible there",
        "cuda.h",
        "`capture.c`: `legacy_conflict`",
    ),
    (
        "Only streams in the same capture can wait for an event recorded in it, and they cannot "
        "wait for one from outside (902, 905, 907); a refused wait breaks the capture",
        "cuda.h",
        "`capture.c`: `capture_wait`",
    ),
    (
        "A stream that waits for a captured event joins that capture, and has its id",
        "cuda.h",
        "`capture.c`: `join`",
    ),
    (
        "`cuStreamGetCaptureInfo_v2` exists from CUDA 11.3 on; before, captures have no known ids",
        "headers of CUDA 11.8 to 13.5",
        "`FK_OLD` builds a driver without it",
    ),
    (
        "Creating, recording, waiting for and destroying events, and queries about pointers, break "
        "no capture",
        "sources of torch",
        "`capture.c`: those calls do not check for captures",
    ),
    (
        "In global mode, a query or a synchronisation breaks a capture of any thread (900)",
        "cuda.h",
        "`capture.c`: `capture_unsafe`",
    ),
    (
        "In relaxed mode, `cuEventQuery` and waits break no capture of another thread",
        "cuda.h; pytorch#148594, #158352",
        "`capture.c`: `capture_unsafe` reads the mode of the thread",
    ),
    (
        "The driver reports type and device of each pointer, also in memory pools; the type of "
        "memory unknown to it is 0, even where the device reaches all of the host's memory (HMM)",
        "cuda.h; HMM: not documented",
        "`cuda.c`: `pointer_attribute`",
    ),
    (
        "`IS_MANAGED` is set for memory of `cuMemAllocManaged`, whatever its type",
        "cuda.h; MatX#1240",
        "`cuda.c`; `managed_type` chooses the type",
    ),
    (
        "`IS_MANAGED` is not set for managed memory from pools",
        "cuda-python, in _buffer.pyx",
        "`cuda.c`; `managed_pool` chooses it",
    ),
    (
        "`cuMemcpyAsync` and `cuMemcpy2DAsync` copy from a device to the host in the order of "
        "their stream",
        "cuda.h",
        "`work.c`: `work_copy`; a copy to pageable memory may end after the call returns",
    ),
    (
        "`__dlpack__` of torch, CuPy and JAX takes the streams that the standard names, but 0 and "
        "2 differ, and JAX takes -1 for a handle",
        "their sources",
        "the stand-ins of `tests/gpu/arrays.py`",
    ),
    (
        "torch and CuPy make the given stream wait for their current one, and order nothing for -1",
        "their sources",
        "`Library` and `TabledLibrary` of `tests/gpu/arrays.py`",
    ),
    (
        "`Buffer` and `StridedMemoryView` of cuda.core, arrays of nanobind and tensors of tvm-ffi "
        "ignore `stream`; the table of `StridedMemoryView` has no stream",
        "their sources; nanobind#1383",
        "not encoded: `tests/protocol/test_unordered.py` has stand-ins of those types",
    ),
    (
        "torch's own streams are non-blocking, so the legacy default stream does not wait for them",
        "sources of torch",
        "scenarios run with streams of both kinds",
    ),
    (
        "On ROCm before 7.2.1 (`hipRuntimeGetVersion` below 70253211), querying an event or "
        "waiting for it breaks the captures of all threads, whatever their mode",
        "ROCm/rocm-systems#3169, #3176, #3199, #3380; pytorch#176251",
        "not encoded: fastdl queries no event there, which `tests/devices/test_captures.py` counts",
    ),
    (
        "ROCm has no error 800: a call in a callback is not refused",
        "headers of ROCm 5.0 to 6.2; AMDGPU.jl#537",
        "`control.c`: `call_enter` reports a violation in any case",
    ),
    (
        "ROCm 6 renumbers the types of memory; before, an unknown pointer is an error",
        "headers of ROCm 5.7 and 6.2",
        "`hip.c`, by its `version`",
    ),
)


def as_markdown() -> Iterator[str]:
    yield "| assumed | source | in `tests/simulated`, or where it says |"
    yield "|---|---|---|"
    for row in ASSUMPTIONS:
        yield f"| {' | '.join(row)} |"
