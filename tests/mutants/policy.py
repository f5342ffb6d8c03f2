"""Mutants of what Python decides about copies."""

from tests.mutants.mutant import (
    CONSUMER,
    COPIES,
    COPYING,
    HEADER,
    PLACING,
    TRANSFER,
    UNORDERED,
    mutant,
)

COPY_POLICY = [
    mutant(
        COPYING,
        "a copy of a copy is the same",
        CONSUMER,
        "stream, not ours and tensor.is_copied)",
        "stream, tensor.is_copied)",
    ),
    mutant(
        COPYING,
        "a producer that cannot copy is asked for another stream",
        CONSUMER,
        "stream = stream if source == where or stream == -1 else None",
        "stream = None",
    ),
    mutant(
        COPYING,
        "a producer gets the stream of another device",
        CONSUMER,
        "stream = stream if source == where or stream == -1 else None",
        "",
    ),
    mutant(
        COPYING,
        "a type with a table alone cannot be copied",
        CONSUMER,
        "        and has_dlpack_method(x)  # its own",
        "        and True  # its own",
    ),
    mutant(
        COPYING,
        "to() orders nothing where there is nothing to copy",
        PLACING,
        "    if number is not None and number != -1:\n",
        "    if number is None and number == -1:\n",
    ),
    mutant(
        COPYING,
        "a copy to pinned memory runs on a stream of the target",
        PLACING,
        "target == CPU or (target.is_host and not here.is_host)",
        "target == CPU",
    ),
    mutant(
        f"{UNORDERED}::test_its_data_is_on_no_stream",
        "data that its library has not ordered is called ready",
        CONSUMER,
        "if facts & exchange.TYPE_UNORDERED and passed is not None and passed != -1:",
        "if False:",
    ),
    mutant(
        f"{UNORDERED}::test_the_caller_orders_it",
        "data that its library has not ordered cannot be had at all",
        CONSUMER,
        "and passed is not None and passed != -1:",
        "and passed is not None:",
    ),
    mutant(
        f"{COPIES}::test_a_copy_that_must_be_compact",
        "a library that takes no strides gets them",
        PLACING,
        "copy is None or (compact and not target.is_host and not copy.is_contiguous()):",
        "copy is None:",
    ),
    mutant(
        f"{UNORDERED}::test_a_table_tells_what_such_a_library_ignores",
        "what a library ignores is not asked of its table",
        CONSUMER,
        "tensor = acquire_over_table(x, None, stream if source == where else None)",
        "tensor = None",
    ),
    mutant(
        f"{UNORDERED}::test_the_header_refuses_it_too",
        "the header calls such data ready",
        HEADER,
        "if (record->facts & FASTDL_TYPE_UNORDERED && fastdl_is_ordered_(announced[0])) {",
        "if (0 && fastdl_is_ordered_(announced[0])) {",
    ),
    mutant(
        COPYING,
        "a copy is not done when it should be",
        TRANSFER,
        "t->finished || !is_asynchronous(t, t->to)",
        "!is_asynchronous(t, t->to)",
    ),
]
