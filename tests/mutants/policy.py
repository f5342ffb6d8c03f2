"""Mutants of what Python decides about copies."""

from tests.mutants.mutant import (
    COPIES,
    COPYING,
    UNORDERED,
    mutant,
)

COPY_POLICY = [
    mutant(
        "tests/test_from_dlpack.py",
        "a producer is believed that does not know copy=False",
        "ask_producer",
        '    if plan.copy is False and "copy" not in asked:',
        "    if False:",
    ),
    mutant(
        COPYING,
        "a copy of a copy is the same",
        "ensure_placement",
        "tensor.is_copied and plan.path != COPY",
        "tensor.is_copied",
    ),
    mutant(
        COPYING,
        "a producer that cannot copy is asked for another stream",
        "plan_protocol",
        "theirs = None if elsewhere and stream != -1 else stream",
        "theirs = None",
    ),
    mutant(
        "tests/test_negotiation.py::test_a_wrong_delivery_is_no_refusal",
        "a wrong delivery is taken for a refusal",
        "ask_producer",
        "        if capsule is not None:\n            raise  #",
        "        if False:\n            raise  #",
    ),
    mutant(
        COPYING,
        "a producer gets the stream of another device",
        "plan_protocol",
        "theirs = None if elsewhere and stream != -1 else stream",
        "theirs = stream",
    ),
    mutant(
        COPYING,
        "a type with a table alone cannot be copied",
        "accept_from_table",
        "if not (copies and has_dlpack_method(x)):",
        "if not copies:",
    ),
    mutant(
        COPYING,
        "to() orders nothing where there is nothing to copy",
        "to_device",
        "    if number is not None and number != -1:\n",
        "    if number is None and number == -1:\n",
    ),
    mutant(
        COPYING,
        "a copy to pinned memory runs on a stream of the target",
        "to_device",
        "target == CPU or (target.is_host and not here.is_host)",
        "target == CPU",
    ),
    mutant(
        f"{UNORDERED}::test_its_data_is_on_no_stream",
        "data that its library has not ordered is called ready",
        "plan_protocol",
        "if facts & exchange.TYPE_UNORDERED and ready_on is not None and ready_on != -1:",
        "if False:",
    ),
    mutant(
        f"{UNORDERED}::test_the_caller_orders_it",
        "data that its library has not ordered cannot be had at all",
        "plan_protocol",
        "and ready_on is not None and ready_on != -1:",
        "and ready_on is not None:",
    ),
    mutant(
        f"{COPIES}::test_a_copy_that_must_be_compact",
        "a library that takes no strides gets them",
        "make_copy",
        "compact and not target.is_host and not tensor.is_contiguous()",
        "False",
    ),
    mutant(
        f"{UNORDERED}::test_a_table_tells_what_such_a_library_ignores",
        "what a library ignores is not asked of its table",
        "plan_protocol",
        "return plan_table(None, None, theirs, refused) if has_table else refused",
        "return refused",
    ),
    mutant(
        f"{UNORDERED}::test_the_header_refuses_it_too",
        "the header calls such data ready",
        "fastdl_protocol_own_",
        "if (record->facts & FASTDL_TYPE_UNORDERED &&",
        "if (0 &&",
    ),
    mutant(
        f"{UNORDERED}::test_a_table_without_a_stream_orders_nothing",
        "a table without a stream is taken at its word",
        "fdl_acquire",
        "if (record->facts & FASTDL_TYPE_NO_STREAM && order != FDL_CALLER_ORDERS &&",
        "if (0 &&",
    ),
    mutant(
        f"{UNORDERED}::test_the_caller_orders_what_a_table_without_a_stream_gives",
        "memory is given back to the default stream of a library that has none",
        "fdl_acquire",
        "record->facts & FASTDL_TYPE_NO_STREAM ? NULL : record->api",
        "record->api",
    ),
    mutant(
        f"{UNORDERED}::test_the_header_refuses_a_table_without_a_stream",
        "the header lends what a table without a stream has",
        "fastdl_complete_slow_path_",
        "    if (facts & FASTDL_TYPE_NO_STREAM &&\n"
        "        fastdl_refuse_unordered_(obj, (int32_t)dl->device.device_type) < 0)\n"
        "        return -1;\n",
        "",
    ),
    mutant(
        COPYING,
        "a copy is not done when it should be",
        "copy_to",
        "t->finished || !is_asynchronous(t, t->to)",
        "!is_asynchronous(t, t->to)",
    ),
]
