"""Mutants of pickling, Arrow arrays, the array interface and dtypes."""

from tests.mutants.mutant import mutant

ARROW, PICKLES, INTERFACES = (
    f"tests/test_{name}.py" for name in ("arrow", "pickling", "array_interface")
)

FORMS = [
    mutant(
        f"{ARROW}::test_a_moved_array_outlives_its_capsule",
        "an exported Arrow array never releases the memory",
        "release_array",
        "    fdl_description_release(own->memory, 0);\n",
        "",
    ),
    mutant(
        f"{ARROW}::test_capsules_that_no_one_takes_release_what_they_hold",
        "an Arrow array that nobody took is leaked",
        "destroy_array",
        "    if (array->release != NULL)\n        array->release(array);",
        "",
    ),
    mutant(
        f"{ARROW}::test_capsules_are_consumed_once",
        "an imported Arrow array stays in its capsule",
        "move_array",
        "    imported->array = *array;\n    array->release = NULL;",
        "    imported->array = *array;",
    ),
    mutant(
        f"{ARROW}::test_nulls_are_refused_with_their_number",
        "nulls of an unknown number are shown",
        "validity",
        "return array->null_count == 0 ||",
        "return array->null_count <= 0 ||",
    ),
    mutant(
        f"{ARROW}::test_an_offset",
        "the offset of an Arrow array is taken for bytes",
        "move_array",
        "(uint64_t)array->offset * (dtype.bits / 8u)",
        "(uint64_t)array->offset",
    ),
    mutant(
        f"{ARROW}::test_import",
        "an Arrow array can be written",
        "move_array",
        "imported->managed.flags = DLPACK_FLAG_BITMASK_READ_ONLY;",
        "",
    ),
    mutant(
        f"{PICKLES}::test_arguments_that_do_not_fit",
        "elements may be outside of their buffer",
        "from_memory",
        "layout.high > view.len - offset",
        "layout.high < 0",
    ),
    mutant(
        f"{INTERFACES}::test_malformed_interfaces",
        "elements may be before their buffer",
        "from_memory",
        "or layout.low + offset < 0",
        "or layout.low > 0",
    ),
    mutant(
        f"{PICKLES}::test_read_only_is_kept",
        "read-only memory is restored as writable",
        "reduce",
        "bytes(memory) if tensor.readonly else Writable(memory)",
        "Writable(memory)",
    ),
    mutant(
        f"{PICKLES}::test_column_major_stays_so",
        "column-major elements are restored in row-major order",
        "unpickle",
        "strides = None if order == ROW_MAJOR else",
        "strides = None if True else",
    ),
    mutant(
        f"{INTERFACES}::test_sizeof_counts_what_fastdl_allocated",
        "memory of others counts as the object's",
        "fdl_is_memory",
        "return block->drop == drop_memory;",
        "return block->drop != NULL;",
    ),
    mutant(
        f"{INTERFACES}::test_masked_elements_are_not_shown",
        "masked elements are shown",
        "check_mask",
        "            and ma.is_masked(x)):",
        "            and False):",
    ),
    mutant(
        f"{INTERFACES}::test_a_type_that_changes_while_the_mask_is_read",
        "the type of an array is read before Python code that can change it",
        "borrow",
        "        check_mask(<object>candidate)\n    number = PyArray_TYPE(array)\n",
        "        number = PyArray_TYPE(array)\n        check_mask(<object>candidate)\n"
        "    else:\n        number = PyArray_TYPE(array)\n",
    ),
    mutant(
        f"{INTERFACES}::test_missing_values_of_a_frame",
        "the missing values of a frame are not counted",
        "count",
        'if hasattr(type(x), "columns") and',
        'if False and hasattr(type(x), "columns") and',
    ),
    mutant(
        f"{INTERFACES}::test_missing_values_are_not_shown",
        "missing values are shown as NaN",
        "check",
        "    if found:\n",
        "    if False:\n",
    ),
    mutant(
        f"{INTERFACES}::test_missing_values_are_not_shown",
        "a library that holds what others have is asked for an array",
        "holder",
        "if hasattr(cls, name) and",
        "if False and",
    ),
    mutant(
        f"{ARROW}::test_what_cannot_be_counted_is_refused",
        "missing values that cannot be counted are shown",
        "_from_array_method",
        "if not countable:",
        "if False:",
    ),
    mutant(
        f"{ARROW}::test_nulls_are_counted_at_every_level",
        "the nulls in lists are not counted",
        "count_below",
        "return count_nulls(schema->children[0], array->children[0], first * size, end * size,\n"
        "                           depth);",
        "return 0;",
    ),
    mutant(
        f"{ARROW}::test_what_cannot_be_counted_is_refused",
        "the length of a child is trusted",
        "has_slots",
        "first <= end && end <= array->length",
        "first <= end",
    ),
    mutant(
        f"{ARROW}::test_nulls_are_counted_at_every_level",
        "an array of a stream is not released",
        "nulls_of_stream",
        "        array.release(&array);\n    }\n    if (schema.release != NULL)",
        "    }\n    if (schema.release != NULL)",
    ),
    mutant(
        "tests/test_header.py::test_nulls_that_a_library_exports_as_numbers",
        "an array of PyArrow's tensors is not asked for nulls",
        "fastdl_adopt_",
        "if (facts & FASTDL_TYPE_ASK_VALUES && fastdl_check_values_(obj, tensor, facts) < 0)",
        "if (facts & FASTDL_TYPE_ASK_BITS && fastdl_check_values_(obj, tensor, facts) < 0)",
    ),
    mutant(
        "tests/test_indexing.py::test_views_of_oneapi_memory_keep_the_start_of_the_allocation",
        "the byte offset of oneAPI memory is lost",
        "fdl_folds_offset",
        "->addresses && device_type != kDLOneAPI",
        "->addresses",
    ),
]
