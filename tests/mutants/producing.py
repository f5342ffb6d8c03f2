"""Mutants of producers made by FASTDL_PRODUCER, and of keys of launches."""

from tests.mutants.mutant import mutant

PRODUCERS, LAUNCH = "tests/test_c_producer.py", "tests/test_launch.py"

PRODUCING = [
    mutant(
        PRODUCERS,
        "every table counts as one that checks what it lends",
        "fastdl_is_of_producer_",
        "PyCapsule_GetContext(capsule) == (const void *)(table + 1)",
        "capsule != NULL && table != NULL",
    ),
    mutant(
        PRODUCERS,
        "a producer lends what it has not checked",
        "fastdl_lend_",
        "fastdl_check(&description.dl, 0, &layout) != FASTDL_OK",
        "(memset(&layout, 0, sizeof(layout)), 0)",
    ),
    mutant(
        PRODUCERS,
        "an export does not keep the owner",
        "fastdl_export_",
        "    fastdl_keep_(wrapper, description->owner);\n",
        "",
    ),
    mutant(
        LAUNCH,
        "a key keeps what it borrowed",
        "add_argument",
        "    fastdl_release(&view);\n",
        "",
    ),
    mutant(
        LAUNCH,
        "the buffer of a key stays locked",
        "sign",
        "        PyBuffer_Release(&into);",
        "        into.obj = NULL;",
    ),
    mutant(
        LAUNCH,
        "a long key is written past its room",
        "reserve",
        "    if (FASTDL_LIKELY_(key->room - key->length >= more))\n        return 0;\n",
        "    if (FASTDL_LIKELY_(key->room >= more))\n        return 0;\n",
    ),
    mutant(
        LAUNCH,
        "values are packed past the end of the buffer",
        "fastdl_pack",
        "room - at < count * width",
        "room - at < width",
    ),
    mutant(
        LAUNCH,
        "strides that nobody uses are in the key",
        "fastdl_signature",
        "is_empty || tensor->shape[i] == 1 ? 0 : strides[i]",
        "is_empty ? 0 : strides[i]",
    ),
]
