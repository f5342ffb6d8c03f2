"""Mutants of a Tensor's methods: elements, what is remembered of types and devices, views."""

from tests.mutants.mutant import (
    EMPTY,
    OUTCOMES,
    RESHAPING,
    TENSOR,
    VALUES,
    mutant,
)

ELEMENTS = [
    mutant(VALUES, "narrow integers have no sign", "read_narrow_int", " ^ sign) - sign)", "))"),
    mutant(
        VALUES, "a pattern ends with its byte", "pattern_at", "bit + bits > 8", "bit + bits > 16"
    ),
    mutant(VALUES, "packed elements have a byte each", "next_element", "+= w->step;", "+= 8;"),
    mutant(VALUES, "only 1 is true", "read_bool", "*at != 0", "*at == 1"),
    mutant(
        VALUES,
        "all lanes are the first",
        "read_lanes",
        "bit + (size_t)i * type->bits",
        "bit + 0 * i",
    ),
    mutant(VALUES, "strides are taken for bytes", "along", " * w->itemsize;", ";"),
    mutant(
        VALUES,
        "negative zero of an fnuz type is zero",
        "decode",
        "(form->special == FDL_FNUZ && pattern == sign_bit)",
        "0",
    ),
    mutant(
        TENSOR,
        "an array does not hold its tensor",
        "array_on",
        "    Py_INCREF(base)  # likewise\n",
        "",
    ),
    mutant(
        TENSOR,
        "an array of read-only memory is writable",
        "array_on",
        "0 if readonly else NPY_ARRAY_WRITEABLE",
        "NPY_ARRAY_WRITEABLE",
    ),
]

REMEMBERED = [
    mutant(
        TENSOR,
        "an object is remembered and not held",
        "remember",
        "added->object = Py_NewRef(object);",
        "added->object = object;",
    ),
    mutant(
        TENSOR,
        "facts in one place are taken for one",
        "find_number",
        "found->number == number)",
        "found->number != number + 1)",
    ),
    mutant(
        TENSOR,
        "lanes do not tell types apart",
        "fdl_dtype_object",
        " | (uint64_t)dtype.lanes << 16",
        "",
    ),
    mutant(
        TENSOR,
        "ids do not tell devices apart",
        "number_of_device",
        " | (uint64_t)(uint32_t)device.device_id << 32",
        "",
    ),
    mutant(
        TENSOR,
        "every device that is known means the host",
        "fdl_means_host",
        "known != NULL && known->number == number_of_device(host)",
        "known != NULL",
    ),
    mutant(EMPTY, "a name ends at a NUL", "utf8_of", "strlen(utf8) == (size_t)size", "size > 0"),
    mutant(
        OUTCOMES,
        "what a table gives is on the host",
        "acquire_on_host",
        "(tensor != Py_None &&\n"
        "         fdl_description_in(tensor)->managed.dl_tensor.device.device_type == kDLCPU))",
        "tensor != Py_None)",
    ),
]

WHOLE_VIEWS = [
    mutant(
        RESHAPING, "any strides make a run", "continues", "->strides[i] == next", "->strides[i] > 0"
    ),
    mutant(
        RESHAPING,
        "the stride of a dimension of size 1 begins a run",
        "find_strides",
        "if (run == 1) /*",
        "if (i + 1 == tensor->ndim) /*",
    ),
    mutant(
        RESHAPING,
        "a shape may hold fewer elements",
        "complete_shape",
        "count != size",
        "count > size",
    ),
    mutant(
        RESHAPING,
        "what is left is rounded down",
        "complete_shape",
        "count == 0 || size % count != 0",
        "count == 0",
    ),
    mutant(RESHAPING, "a view is not checked", "finish", "if (fault != FASTDL_OK)", "if (0)"),
    mutant(
        RESHAPING,
        "an expanded tensor is writable",
        "fdl_expand",
        "    view.flags |= DLPACK_FLAG_BITMASK_READ_ONLY;\n",
        "",
    ),
    mutant(
        RESHAPING,
        "a repeated dimension keeps its stride",
        "fdl_expand",
        "is_new || dim != own ? 0",
        "is_new ? 0",
    ),
    mutant(
        RESHAPING,
        "any dimension can be expanded",
        "fdl_expand",
        "(dim != own && own != 1)",
        "dim > 9",
    ),
    mutant(
        RESHAPING,
        "any dimension can be lost",
        "fdl_squeeze",
        "possible = dim == 1;",
        "possible = 1;",
    ),
    mutant(RESHAPING, "an axis may come twice", "read_axes", "if (marked[axes[k]]++)", "if (0)"),
    mutant(RESHAPING, "one axis too many exists", "read_axes", "axis >= ndim", "axis > ndim"),
    mutant(
        RESHAPING,
        "there may be more sizes than there is room for",
        "read_asked",
        "n > FASTDL_MAX_NDIM)",
        "n > 2 * FASTDL_MAX_NDIM)",
    ),
    mutant(
        RESHAPING,
        "bytes are called padded elements",
        "fdl_view_as",
        "    view.flags &= ~(uint64_t)DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED;\n",
        "",
    ),
    mutant(
        RESHAPING,
        "elements of another type may lie anywhere",
        "fdl_view_as",
        "!is_aligned(view.source, dtype))",
        "0)",
    ),
    mutant(
        RESHAPING,
        "a handle is aligned as an address",
        "is_aligned",
        "(addresses ? fastdl_address_(tensor) : 0)",
        "(addresses + 1 ? fastdl_address_(tensor) : 0)",
    ),
    mutant(
        RESHAPING,
        "strides of larger elements are rounded down",
        "resize_elements",
        "&& bytes % size == 0) {",
        ") {",
    ),
    mutant(
        RESHAPING,
        "elements with gaps are cut and joined",
        "resize_elements",
        "view->strides[last] != 1)",
        "view->strides[last] == 0)",
    ),
]
