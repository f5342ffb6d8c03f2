"""What fastdl believes of drivers and libraries: one row for each belief, and nowhere else.

docs/streams.md shows the table (docs/quote.py generates it), and the checks of conformance*.py each
name the belief that they ask about; tests/test_beliefs.py keeps both in step. `python -m tests.gpu`
asks a real driver, and what it finds in docs/gpu.json fills the last column.
"""

import json
from dataclasses import dataclass
from pathlib import Path

REPORT = Path(__file__).parents[2] / "docs" / "gpu.json"


@dataclass(frozen=True)
class Belief:
    name: str  # by which checks refer to it
    text: str
    source: str  # public
    simulated: str  # how the simulation encodes it
    needs: str = ""  # what one NVIDIA GPU with a current driver does not have


CUDA_H = "cuda.h"

BELIEFS = (
    # ---- contexts
    Belief(
        "start",
        "Before `cuInit`, and in a child made by `fork`, every call answers 3; each error has a "
        "name",
        CUDA_H,
        "`control.c`: `call_enter` compares the process",
    ),
    Belief(
        "no-context",
        "Without a current context, calls that need one answer 201; the attributes of a pointer "
        "can be asked for all the same",
        CUDA_H,
        "`CONTEXT` at each call of `driver.c`, `cuda.c` and `cuda_memory.c`",
    ),
    Belief(
        "stack",
        "Each thread has a stack of contexts; `cuCtxSetCurrent` replaces its top; to retain a "
        "primary context makes nothing current",
        CUDA_H,
        "`cuda.c`: `push`, and the calls around it",
    ),
    Belief(
        "primary-context",
        "Libraries work in the primary context, of which there is one for each device",
        "CUDA documentation, runtime and driver interoperability; sources of torch, CuPy, Numba",
        "`objects.c`: `contexts` has one for each device; `others` are made beside them",
    ),
    Belief(
        "current-device",
        "Libraries follow the context that is current on the thread",
        "sources of torch and CuPy",
        "the stand-ins of `tests/gpu/arrays.py` use the driver as those do",
        needs="two devices",
    ),
    Belief(
        "default-streams",
        "The default streams 0, 1 and 2 are those of the current context, whichever that is",
        "cuda.h; pytorch#185527",
        "`objects.c`: `stream_from` is given the current context",
    ),
    Belief(
        "green-context",
        "Green contexts have default streams of their own",
        "not documented; pytorch#185527",
        "`cuda_contexts.c`",
    ),
    Belief(
        "event-context",
        "An event is recorded on streams of its own context only (400); a stream waits for events "
        "of any context, and of any device",
        CUDA_H,
        "`work.c`: `work_record` compares contexts, `work_wait` does not",
    ),
    Belief(
        "handles-without-a-context",
        "Nothing is known of calls that name an event or a stream while no context is current; "
        "fastdl makes one current for each",
        "open",
        "201, the least that fastdl must survive",
    ),
    Belief(
        "reset",
        "`cudaDeviceReset` ends the primary context and all of its streams, events and memory, and "
        "changes its id",
        "CUDA documentation; not documented: the id",
        "`objects.c`: `context_end`; the handle stays, and its id does not",
    ),
    # ---- order
    Belief(
        "events",
        "An event that was never recorded holds nothing back; queries answer 600 while there is "
        "work, and do not wait",
        CUDA_H,
        "`work.c`: `work_query_event`, `work_query_stream`",
    ),
    Belief(
        "last-record",
        "A wait means the event as it was recorded last before the wait, so that it can be "
        "recorded again, or destroyed, at once",
        CUDA_H,
        "`clocks.c`: a wait copies the clock of the event; `graph.c`: its node",
    ),
    Belief(
        "event-outlives-stream",
        "An event outlives the stream that it was recorded on",
        CUDA_H,
        "`objects.c`: work of a destroyed stream goes on",
    ),
    Belief(
        "implicit-order",
        "Blocking streams, the per-thread ones included, join the legacy default stream; "
        "non-blocking ones do not; each thread has its own stream 2",
        "CUDA documentation, stream synchronization behavior",
        "`clocks.c` and `graph.c`, each for itself: `submit`",
    ),
    Belief(
        "blocking-calls",
        "To free memory, allocate it or destroy an event may wait for the device; nothing is "
        "promised",
        "cuda.h; pytorch#119393",
        "`strict`: they order nothing, so that nobody can rely on it",
    ),
    # ---- callbacks
    Belief(
        "driver-lock",
        "Any call may wait while a callback of `cuLaunchHostFunc` runs, since the driver may hold "
        "its lock meanwhile",
        "numba-cuda#317, #321; cuda-python#1065, #2280; chainer#2090",
        "`control.c`: a call with the GIL held fails the test; with `locked_callbacks` calls wait",
    ),
    Belief(
        "callbacks",
        "A callback of `cuLaunchHostFunc` must not call the driver; error 800 *may* be the answer",
        "cuda.h; iree#15673",
        "`control.c`: `call_enter` answers 800 and reports a violation; `graph.c` runs callbacks "
        "on a thread of their own",
    ),
    # ---- captures
    Belief(
        "captures",
        "A capture begins and ends as cuda.h says: codes 401, 900, 903, 904, 908",
        CUDA_H,
        "`capture.c`: `capture_begin`, `capture_end`",
    ),
    Belief(
        "legacy-capture",
        "`cuStreamIsCapturing` of the legacy stream answers 906 while a blocking stream captures, "
        "and breaks nothing; a capture of a non-blocking one is invisible there",
        CUDA_H,
        "`capture.c`: `legacy_conflict`",
    ),
    Belief(
        "capture-edges",
        "An event recorded in a capture can be waited for in that capture alone, and one from "
        "outside not at all (902, 905, 907); a refused wait breaks the capture",
        CUDA_H,
        "`capture.c`: `capture_wait`",
    ),
    Belief(
        "capture-forks",
        "A stream that waits for a captured event joins that capture, and has its id",
        CUDA_H,
        "`capture.c`: `join`",
    ),
    Belief(
        "capture-ids",
        "`cuStreamGetCaptureInfo_v2` is there from CUDA 11.3 on; before, the ids of captures are "
        "unknown",
        "headers of CUDA 11.8 to 13.5",
        "`FK_OLD` builds a driver without it",
    ),
    Belief(
        "capture-safe",
        "To create, record, wait for and destroy events, and to ask about pointers, breaks no "
        "capture",
        "sources of torch",
        "`capture.c`: those calls ask no capture",
    ),
    Belief(
        "capture-unsafe",
        "In global mode, to allocate, query or synchronise breaks a capture of any thread (900)",
        CUDA_H,
        "`capture.c`: `capture_unsafe`",
    ),
    Belief(
        "relaxed",
        "In the relaxed mode `cuEventQuery`, waiting, allocating and freeing break no capture of "
        "another thread",
        "cuda.h; pytorch#148594, #158352",
        "`capture.c`: `capture_unsafe` looks at the mode of the thread",
    ),
    # ---- memory
    Belief(
        "allocation",
        "`cuMemAlloc` and `cuMemFree` answer as cuda.h says: codes 1 and 2; freeing 0 is allowed",
        CUDA_H,
        "`memory.c`",
    ),
    Belief(
        "pointers",
        "Each pointer tells its type, device and range, in memory of pools too; the type of "
        "memory that the driver does not know is 0, also where the device reaches all of the "
        "host's memory (HMM)",
        "cuda.h; not documented: HMM, and the range in pools",
        "`cuda_memory.c`: `pointer_attribute`",
    ),
    Belief(
        "range-size",
        "The range of an allocation is at least as large as what was asked for",
        CUDA_H,
        "`cuda_memory.c`: exactly what was asked for",
    ),
    Belief(
        "managed",
        "`IS_MANAGED` is set for memory of `cuMemAllocManaged`, whatever its type",
        "cuda.h; MatX#1240",
        "`cuda_memory.c`; `managed_type` chooses the type",
    ),
    Belief(
        "managed-pools",
        "`IS_MANAGED` is not set for managed memory from pools",
        "cuda-python `_buffer.pyx`",
        "`cuda_memory.c`: `MANAGED_POOL_MEMORY`",
    ),
    Belief(
        "copies",
        "`cuMemcpyAsync` copies between memory of any kind that is not on two devices, and "
        "`cuMemcpy2DAsync` from a device to the host, in order with their stream",
        CUDA_H,
        "`work.c`: `work_copy`; pageable memory is not finished when the call returns, and rows "
        "within memory of devices are refused, since they may be",
    ),
    Belief(
        "peer-copies",
        "`cuMemcpyPeerAsync` copies between devices without peer access, memory of pools included, "
        "for which `cuMemcpyAsync` is refused",
        "cuda.h; sources of torch (its allocator); llama.cpp#4638; alpaka#1909",
        "`work.c`: `copy_is_promised`; `cuMemcpyAsync` is refused for memory of any allocator",
        needs="two devices",
    ),
    # ---- libraries
    Belief(
        "producer-streams",
        "`__dlpack__` of torch, CuPy and JAX takes the streams that the standard names; 0 and 2 "
        "differ, and JAX takes -1 for a handle",
        "their sources",
        "the stand-ins of `tests/gpu/arrays.py`",
    ),
    Belief(
        "producers-order",
        "torch and CuPy make the stream that is passed wait for their current one, and with -1 "
        "order nothing",
        "their sources",
        "`Library` and `TabledLibrary` of `tests/gpu/arrays.py`",
    ),
    Belief(
        "producers-ignore",
        "`Buffer` and `StridedMemoryView` of cuda.core, arrays of nanobind and tensors of tvm-ffi "
        "take `stream` and do nothing with it; the table of `StridedMemoryView` knows no stream",
        "their sources; nanobind#1383",
        "not encoded: fastdl knows those types, and `tests/test_unordered.py` has stand-ins",
    ),
    Belief(
        "non-blocking-streams",
        "torch's own streams are non-blocking, so that the legacy default stream does not wait for "
        "them",
        "sources of torch",
        "scenarios run with streams of both kinds",
    ),
    # ---- ROCm
    Belief(
        "hip-captures",
        "On ROCm before 7.2.1 (`hipRuntimeGetVersion` below 70253211), to query an event or to "
        "wait for it breaks the captures of all threads, whatever their mode",
        "ROCm/rocm-systems#3169, #3176, #3199, #3380; pytorch#176251",
        "`driver.c`: `break_captures`, by its `version`",
        needs="an AMD GPU",
    ),
    Belief(
        "hip-callbacks",
        "ROCm has no error 800: a call in a callback is not refused",
        "headers of ROCm 5.0 to 6.2; AMDGPU.jl#537",
        "`control.c`: `call_enter` answers 999 and reports a violation",
        needs="an AMD GPU",
    ),
    Belief(
        "hip-pointers",
        "ROCm 6 numbers the types of memory anew; before, an unknown pointer is an error",
        "headers of ROCm 5.7 and 6.2",
        "`hip.c`, by its `version`",
        needs="an AMD GPU",
    ),
)

BY_NAME = {belief.name: belief for belief in BELIEFS}

# What was found out about a belief, by the worst of its answers.
CONFIRMED, REFUTED, ANSWERED, UNASKED = "confirmed", "refuted", "answered", "not asked"


def verdicts(rows):
    """{belief: what became of it}, of the rows that the checks gave.

    An answer that was expected confirms, one that was not refutes. Where nothing is promised there
    is nothing to confirm: such a belief is answered. What got no answer was not asked.
    """
    found = dict.fromkeys(BY_NAME, UNASKED)
    ranks = [UNASKED, ANSWERED, CONFIRMED, REFUTED]
    for row in rows:
        kind = {"noted": ANSWERED, "checked": CONFIRMED if row["ok"] else REFUTED}
        verdict = kind.get(row["kind"], UNASKED)
        if ranks.index(verdict) > ranks.index(found[row["belief"]]):
            found[row["belief"]] = verdict
    return found


def reported(path=REPORT):
    """The report of a GPU that is committed, or an empty one: the simulation confirms nothing."""
    report = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {} if report.get("dry run") else report


def as_markdown():
    """For docs/streams.md."""
    report = reported()
    if report:
        where = report["facts"]
        name, driver = where.get("GPU", "a GPU"), where.get("driver", "unknown")
        yield (
            f"The last column is from the run on {name} with driver {driver} of which "
            "[gpu.md](gpu.md) tells."
        )
    else:
        yield "**Nothing on this page has been confirmed on hardware yet.**"
    yield from ("", "| believed | source | in `tests/simulated` | on hardware |", "|" + "---|" * 4)
    found = report.get("beliefs", {})
    for belief in BELIEFS:
        word = found.get(belief.name, UNASKED)
        if word == UNASKED:
            word = f"needs {belief.needs}" if belief.needs else UNASKED
        yield f"| {belief.text} | {belief.source} | {belief.simulated} | {word} |"
