# SPDX-License-Identifier: Apache-2.0
"""What a check may find, and how bad that is."""

# Severities, the worst first.
MEMORY = "memory-unsafe"  # a crash; use after free, a double free, or a leak
DATA = "wrong data"  # wrong values, or a write that is not visible, or visible where it must not be
ERROR = "wrong error"  # a missing error, or one of the wrong type
DEVIATION = "deviation"  # from a recommendation, or documented by the library
INVALID = "invalid input"  # what a library does with input on which the standard is silent
SEVERITIES = (MEMORY, DATA, ERROR, DEVIATION, INVALID)

# Outcomes, the worst first.
CRASHED, TIMED_OUT, FAILED = "crashed", "timed out", "failed"
DEVIATES, PASSED, SKIPPED = "deviates", "passed", "n/a"
BAD = (CRASHED, TIMED_OUT, FAILED)
OUTCOMES = (*BAD, DEVIATES, PASSED, SKIPPED)

SECTIONS = {
    "producer": "what __dlpack__ and __dlpack_device__ return",
    "consumer": "what from_dlpack does with a correct producer",
    "dtype": "element types, both ways",
    "layout": "strides, in every form",
    "offset": "byte_offset",
    "ownership": "who frees the memory, and when",
    "readonly": "memory that must not be written to",
    "copy": "copy= and dl_device=",
    "versions": "legacy and versioned capsules, and versions to come",
    "streams": "stream=",
    "table": "the exchange table, __dlpack_c_exchange_api__",
    "threads": "several threads at once",
    "hostile": "descriptions that no correct producer gives, on which the standard is silent",
    "failure": "errors, and what is left after one",
}
