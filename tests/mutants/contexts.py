"""Mutants of contexts beside the primary one, of resets, and of what waits until the host has."""

from tests.mutants.mutant import (
    CAPTURES,
    CONTEXTS,
    DRIVERS,
    FAULTS,
    mutant,
)

HIP = f"{CAPTURES}::test_hip_frees_memory_once_the_host_has_waited"

OTHER_CONTEXTS = [
    mutant(
        CONTEXTS,
        "a current context of the device is not kept",
        "make_current",
        "if (!primary && scope->context != NULL)",
        "if (0)",
    ),
    mutant(
        CONTEXTS,
        "a current context of another device is kept",
        "is_current",
        "return found == wanted;",
        "return found >= 0 && wanted >= 0;",
    ),
    mutant(
        CONTEXTS,
        "a current context that was destroyed is kept",
        "is_current",
        "if (fdl_context_is_gone(code))\n        return 0;",
        "if (fdl_context_is_gone(code))\n        return 1;",
    ),
    mutant(
        DRIVERS,
        "a context of which nothing is known is taken for another device's",
        "is_current",
        "if (fdl_context_is_gone(code))\n        return 0;",
        "if (code != 0)\n        return 0;",
    ),
    mutant(
        CONTEXTS,
        "events that are kept are of whatever context is current",
        "take_event",
        "if (event == NULL && fdl_enter_primary(",
        "if (event == NULL && fdl_enter(",
    ),
    mutant(
        f"{FAULTS}::test_a_stream_of_another_context",
        "what is queued on a stream of another device cannot be recorded",
        "fdl_event_record",
        "other < driver->devices;",
        "other < 0;",
    ),
    mutant(
        f"{CONTEXTS}::test_what_is_queued_in_another_context_cannot_be_recorded",
        "devices that nobody uses are woken",
        "fdl_event_record",
        "other != ordinal && fdl_is_in_use(driver, other) &&",
        "other != ordinal &&",
    ),
    mutant(
        CONTEXTS,
        "memory is of whatever context is current",
        "allocate",
        "if (fdl_enter_primary(driver, memory->ordinal, &scope, failure) < 0)",
        "if (fdl_enter(driver, memory->ordinal, &scope, failure) < 0)",
    ),
    mutant(
        CONTEXTS,
        "the default stream of the primary context is waited for when memory is freed",
        "give_back",
        "failed = (work != NULL && fdl_work_finish(work, &failure) < 0) ||\n"
        "             fdl_enter_primary(driver, memory->ordinal, &scope, &failure) < 0;",
        "failed = fdl_enter_primary(driver, memory->ordinal, &scope, &failure) < 0 ||\n"
        "             (work != NULL && fdl_work_finish(work, &failure) < 0);",
    ),
]

RESETS = [
    mutant(
        CONTEXTS,
        "a reset is not noticed",
        "make_current",
        "if (context == NULL || !is_unbroken(driver, ordinal, context))",
        "if (context == NULL)",
    ),
    mutant(
        CONTEXTS,
        "a reset is noticed only while the context is dead",
        "is_unbroken",
        "fdl_life_of(driver, ordinal) == fdl_handle((int64_t)id)",
        "id != 0",
    ),
    mutant(
        CONTEXTS,
        "whatever a driver answers is a reset",
        "is_unbroken",
        ": !fdl_context_is_gone(code);",
        ": 0;",
    ),
    mutant(
        CONTEXTS,
        "an old driver that cannot answer has reset the device",
        "fdl_is_in_use",
        "FDL_ASK(driver, cu_primary_state, device, &flags, &active) != 0 || active;",
        "(FDL_ASK(driver, cu_primary_state, device, &flags, &active) == 0 && active);",
    ),
    mutant(
        CONTEXTS,
        "a reset of another device is not noticed",
        "fdl_is_alive",
        "return ordinal == entered ||",
        "return ordinal >= 0 ||",
    ),
    mutant(
        CONTEXTS,
        "a context that was reset keeps its life",
        "retain",
        "if (driver->lives[ordinal] == life) {",
        "if (life == NULL) {",
    ),
    mutant(
        CONTEXTS,
        "events from before a reset are used again",
        "take_kept",
        "        if (event->life == life)\n            break;\n",
        "        if (event != NULL)\n            break;\n",
    ),
    mutant(
        CONTEXTS,
        "events from before a reset are asked",
        "is_gone",
        "return !fdl_is_alive(event->driver, event->ordinal, event->life);",
        "return event == NULL;",
    ),
    mutant(
        CONTEXTS,
        "events from before a reset are destroyed",
        "fdl_event_forget",
        "if (event->life == fdl_life_of(driver, ordinal))\n",
        "if (event != NULL)\n",
    ),
    mutant(
        CONTEXTS,
        "memory from before a reset is freed",
        "give_back",
        "if (memory->life != fdl_life_of(driver, memory->ordinal))",
        "if (0)",
    ),
]

WAITS_OF_THE_HOST = [
    mutant(
        HIP,
        "memory is freed although the host would wait",
        "drop_allocation",
        "if (!fdl_host_may_wait(memory->driver) || !give_back(",
        "if (!give_back(",
    ),
    mutant(
        HIP,
        "the host waits for the readers of foreign memory",
        "wait_for_block",
        "if ((has_no_edges(block->work) || fdl_host_may_wait(driver)) &&\n        (",
        "if ((",
    ),
    mutant(
        HIP,
        "a capture that was seen is forgotten",
        "fdl_host_may_wait",
        "!fdl_disturbs_captures(driver) ||",
        "driver != NULL ||",
    ),
    mutant(
        HIP,
        "after a wait nothing may be freed either",
        "fdl_end_after_wait",
        "    has_waited = 1;",
        "    has_waited = 0;",
    ),
    mutant(
        HIP,
        "nothing is freed once the host has waited",
        "fdl_work_wait",
        "    (void)fdl_end_after_wait();\n    return 0;",
        "    return 0;",
    ),
    mutant(
        HIP,
        "nothing is freed once a release has waited",
        "fdl_work_release",
        "    if (target == -1 && !failed)\n        (void)fdl_end_after_wait();",
        "",
    ),
    mutant(
        HIP,
        "nothing is freed once a copy has waited",
        "copy_to",
        "        (void)fdl_end_after_wait();",
        "        (void)0;",
    ),
    mutant(
        f"{CAPTURES}::test_hip_frees_memory_when_there_is_no_other",
        "memory runs out while there is some to free",
        "fdl_memory_on_device",
        "failure->no_memory && fdl_end_after_wait())",
        "failure->no_memory && 0)",
    ),
    mutant(
        CAPTURES,
        "two captures without a number are one",
        "fdl_capture_of",
        "capture->id = (uint64_t)stream;",
        "capture->id = 0;",
    ),
]
