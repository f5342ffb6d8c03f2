"""Mutants of pickling, Arrow arrays, the array interface and dtypes."""

from tests.mutants.mutant import BLOCK, NUMPY, mutant

ARROW, PICKLES, INTERFACES = (
    f"tests/test_{name}.py" for name in ("arrow", "pickling", "array_interface")
)
ARROW_C, LAYOUT_H = "src/fastdl/_core/arrow.c", "src/fastdl/_core/layout.h"
TENSORS = "src/fastdl/_core/tensor.pyx"
PICKLING, ASARRAY = "src/fastdl/_convert/pickling.py", "src/fastdl/_convert/asarray.py"

FORMS = [
    mutant(
        f"{ARROW}::test_a_moved_array_outlives_its_capsule",
        "an exported Arrow array never releases the memory",
        ARROW_C,
        "    fdl_description_release(own->memory, 0);\n",
        "",
    ),
    mutant(
        f"{ARROW}::test_capsules_that_no_one_takes_release_what_they_hold",
        "an Arrow array that nobody took is leaked",
        ARROW_C,
        "    if (array->release != NULL)\n        array->release(array);",
        "",
    ),
    mutant(
        f"{ARROW}::test_capsules_are_consumed_once",
        "an imported Arrow array stays in its capsule",
        ARROW_C,
        "    imported->array = *array;\n    array->release = NULL;",
        "    imported->array = *array;",
    ),
    mutant(
        f"{ARROW}::test_nulls_are_refused_with_their_number",
        "nulls of an unknown number are shown",
        ARROW_C,
        "if (valid == NULL || array->null_count == 0)",
        "if (valid == NULL || array->null_count <= 0)",
    ),
    mutant(
        f"{ARROW}::test_an_offset",
        "the offset of an Arrow array is taken for bytes",
        ARROW_C,
        "(uint64_t)array->offset * (dtype.bits / 8u)",
        "(uint64_t)array->offset",
    ),
    mutant(
        f"{ARROW}::test_import",
        "an Arrow array can be written",
        ARROW_C,
        "imported->managed.flags = DLPACK_FLAG_BITMASK_READ_ONLY;",
        "",
    ),
    mutant(
        f"{PICKLES}::test_arguments_that_do_not_fit",
        "elements may be outside of their buffer",
        TENSORS,
        "layout.high > view.len - offset",
        "layout.high < 0",
    ),
    mutant(
        f"{INTERFACES}::test_malformed_interfaces",
        "elements may be before their buffer",
        TENSORS,
        "or layout.low + offset < 0",
        "or layout.low > 0",
    ),
    mutant(
        f"{PICKLES}::test_read_only_is_kept",
        "read-only memory is restored as writable",
        PICKLING,
        "return bytes(memory) if readonly else bytearray(memory)",
        "return bytearray(memory)",
    ),
    mutant(
        f"{PICKLES}::test_column_major_stays_so",
        "column-major elements are restored in row-major order",
        PICKLING,
        "strides = None if order == ROW_MAJOR else",
        "strides = None if True else",
    ),
    mutant(
        f"{INTERFACES}::test_sizeof_counts_what_fastdl_allocated",
        "memory of others counts as the object's",
        BLOCK,
        "return block->drop == drop_memory;",
        "return block->drop != NULL;",
    ),
    mutant(
        f"{INTERFACES}::test_masked_elements_are_not_shown",
        "masked elements are shown",
        NUMPY,
        "isinstance(x, ma.MaskedArray) and ma.is_masked(x)",
        "isinstance(x, ma.MaskedArray) and False",
    ),
    mutant(
        f"{INTERFACES}::test_a_type_that_changes_while_the_mask_is_read",
        "the type of an array is read before Python code that can change it",
        NUMPY,
        "        check_mask(<object>candidate)\n    number = PyArray_TYPE(array)\n",
        "        number = PyArray_TYPE(array)\n        check_mask(<object>candidate)\n"
        "    else:\n        number = PyArray_TYPE(array)\n",
    ),
    mutant(
        f"{INTERFACES}::test_missing_values_are_not_shown",
        "the nulls of a table are not counted",
        "src/fastdl/_convert/missing.py",
        'if hasattr(x, "columns"):  # a Table',
        "if False:  # a Table",
    ),
    mutant(
        f"{INTERFACES}::test_missing_values_are_not_shown",
        "missing values are shown as NaN",
        ASARRAY,
        "count = missing.count(x)",
        "count = 0",
    ),
    mutant(
        "tests/test_indexing.py::test_views_of_oneapi_memory_keep_the_start_of_the_allocation",
        "the byte offset of oneAPI memory is lost",
        LAYOUT_H,
        "->addresses && device_type != kDLOneAPI",
        "->addresses",
    ),
]
