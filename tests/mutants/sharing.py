"""Mutants of memory that processes share."""

from tests.mutants.mutant import PRODUCER, mutant

TESTS = "tests/test_sharing.py"

SHARING = [
    mutant(
        f"{TESTS}::test_a_segment_has_one_descriptor_and_views_none",
        "the descriptor of shared memory stays open",
        "drop_mapping",
        "    close(fd);\n",
        "    (void)fd;\n",
    ),
    mutant(
        f"{TESTS}::test_what_comes_back_is_what_was_sent",
        "a received descriptor of a known segment stays open",
        "_received",
        "if fd >= 0:",
        "if False:",
    ),
    mutant(
        f"{TESTS}::test_memory_that_is_not_what_it_should_be",
        "a file that others can cut off is mapped",
        "_check",
        "if fcntl.fcntl(fd, fcntl.F_GET_SEALS) & wanted != wanted:",
        "if False:",
    ),
    mutant(
        f"{TESTS}::test_memory_that_is_not_what_it_should_be",
        "a file of another size is mapped",
        "_check",
        " or found.st_size != size",
        "",
    ),
    mutant(
        f"{TESTS}::test_workers_that_end_after_each_task",
        "a child does not wait for its receivers",
        "_prepare",
        "    util.Finalize(None, _wait, exitpriority=-10)\n",
        "",
    ),
    mutant(
        f"{TESTS}::test_few_descriptors",
        "handles take the last descriptors",
        "_leave_some",
        "fd >= limit - SPARE",
        "fd >= limit",
    ),
    mutant(
        f"{TESTS}::test_a_handle_of_a_newer_release",
        "what is wrong with a handle is raised",
        "receive",
        "except Exception as error:",
        "except OSError as error:",
    ),
    mutant(
        f"{PRODUCER}::test_packed_elements_are_for_those_who_know_them",
        "packed elements are exported to consumers of any version",
        "plain_capsule",
        "||\n        fastdl_is_packed(managed->dl_tensor.dtype, managed->flags)",
        "",
    ),
]
