"""Mutants of memory that fastdl allocates, and of its copies."""

from tests.mutants.mutant import COPIES, MEMORY, OWN, POINTER, TRANSFER, mutant

MEMORIES = [
    mutant(
        f"{OWN}::test_freeing_waits_for_what_was_recorded",
        "memory is freed without waiting",
        MEMORY,
        "if (work != NULL &&\n        fdl_work_finish(",
        "if (0 &&\n        fdl_work_finish(",
    ),
    mutant(
        OWN,
        "memory is freed with the GIL",
        MEMORY,
        "    paused = fdl_pause_python();\n    failed = fdl_enter(",
        "    paused = NULL;\n    failed = fdl_enter(",
    ),
    mutant(
        f"{OWN}::test_freeing_during_a_capture",
        "memory is freed without a guard for captures",
        MEMORY,
        "int mode = fdl_relax_captures(driver);\n        failed = free_now",
        "int mode = -1;\n        failed = free_now",
    ),
    mutant(
        f"{OWN}::test_freeing_in_a_callback_of_the_driver_is_put_off",
        "memory that cannot be freed for the moment is leaked",
        MEMORY,
        "return !is_temporary(failure.code) && (asked || memory->tried++ > 0);",
        "return 1;",
    ),
    mutant(
        f"{OWN}::test_what_the_driver_refuses_for_the_moment_is_put_off",
        "memory in use is freed although waiting failed",
        MEMORY,
        "        fdl_work_finish(work, stream == NULL ? -1 : (int64_t)(uintptr_t)stream, "
        "failure) < 0)\n        return -1;",
        "        fdl_work_finish(work, stream == NULL ? -1 : (int64_t)(uintptr_t)stream, "
        "failure) < 0)\n        *asked = 1;",
    ),
    mutant(
        f"{OWN}::test_memory_of_a_stream",
        "memory of a stream is not said to be ready there alone",
        MEMORY,
        "failed = fdl_work_record_on(work, memory->ordinal, stream, failure) < 0;",
        "failed = 0;",
    ),
    mutant(
        f"{OWN}::test_the_free_stream_does_not_come_after_the_legacy_stream",
        "a free stream waits for the legacy stream",
        MEMORY,
        "stream_create, &made, NON_BLOCKING)",
        "stream_create, &made, 0)",
    ),
    mutant(
        f"{COPIES}::test_the_source_is_ready",
        "a copy does not wait for its source",
        TRANSFER,
        "return work == NULL ? 0 : fdl_work_order_on(work, t->ordinal, t->stream, failure);",
        "return 0;",
    ),
    mutant(
        f"{COPIES}::test_the_host_waits_before_it_reads_pinned_memory",
        "the host reads a source that is not there yet",
        TRANSFER,
        "return work == NULL ? 0 : fdl_work_wait(work, failure);",
        "return work == NULL || failure == NULL ? 0 : 0;",
    ),
    mutant(
        COPIES,
        "a copy leaves no edge on its result",
        TRANSFER,
        "if (fdl_work_record_on(writing, t->ordinal, t->stream, failure) < 0 ||",
        "if (",
    ),
    mutant(
        COPIES,
        "a copy leaves no edge on its source",
        TRANSFER,
        "||\n        fdl_work_record_on(reading, t->ordinal, t->stream, failure) < 0)",
        "||\n        reading == NULL)",
    ),
    mutant(
        f"{COPIES}::test_a_foreign_owner_is_kept_until_the_copy_has_ended",
        "a source is given back while it is copied",
        TRANSFER,
        "        fdl_work_hold(reading);",
        "        (void)reading;",
    ),
    mutant(
        COPIES,
        "ordinary host memory is not waited for",
        TRANSFER,
        "t->waits = !is_asynchronous(t, t->to);",
        "t->waits = 0;",
    ),
    mutant(
        f"{COPIES}::test_the_stream_of_the_source_serves_copies_to_the_host",
        "the host reads a pinned result that is not there yet",
        TRANSFER,
        "if (work == NULL || fdl_work_wait(work, &failure) == 0)\n        return 0;",
        "if (work == NULL || &failure != NULL)\n        return 0;",
    ),
    mutant(
        f"{COPIES}::test_copies_that_cannot_be_captured",
        "a copy from the host enters a graph",
        TRANSFER,
        "    if (t->captured && (t->how",
        "    if (0 && (t->how",
    ),
    mutant(
        f"{COPIES}::test_what_a_tensor_says_of_its_memory",
        "a tensor is believed about its memory",
        POINTER,
        "    if (agrees(said, *found))",
        "    if (1 || agrees(said, *found))",
    ),
    mutant(
        f"{COPIES}::test_kinds_of_memory_on_cuda",
        "managed memory is taken for what it is at the moment",
        POINTER,
        "managed ? kDLCUDAManaged : type == CU_HOST ? kDLCUDAHost : kDLCUDA;",
        "type == CU_HOST ? kDLCUDAHost : managed ? kDLCUDAManaged : kDLCUDA;",
    ),
    mutant(
        f"{COPIES}::test_kinds_of_memory_on_both_sides_of_rocm_6",
        "kinds of memory are those of ROCm 6 before it",
        POINTER,
        "int host = driver->version >= ROCM_6 ? 1 : 0;",
        "int host = 1;",
    ),
]
