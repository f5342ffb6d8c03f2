"""Mutants of a Tensor's methods: elements, what is remembered of types and devices, views."""

from tests.mutants.mutant import (
    ACQUIRE,
    EMPTY,
    FACTS,
    NUMPY,
    OUTCOMES,
    READING,
    RESHAPE,
    RESHAPING,
    TENSOR,
    VALUES,
    mutant,
)

ELEMENTS = [
    mutant(VALUES, "narrow integers have no sign", READING, " ^ sign) - sign)", "))"),
    mutant(VALUES, "a pattern ends with its byte", READING, "bit + bits > 8", "bit + bits > 16"),
    mutant(VALUES, "packed elements have a byte each", READING, "+= w->step;", "+= 8;"),
    mutant(VALUES, "only 1 is true", READING, "*at != 0", "*at == 1"),
    mutant(
        VALUES,
        "all lanes are the first",
        READING,
        "bit + (size_t)i * type->bits",
        "bit + 0 * i",
    ),
    mutant(VALUES, "strides are taken for bytes", READING, " * w->itemsize;", ";"),
    mutant(
        VALUES,
        "negative zero of an fnuz type is zero",
        READING,
        "(form->special == FNUZ && pattern == sign_bit)",
        "0",
    ),
    mutant(
        TENSOR,
        "an array does not hold its tensor",
        NUMPY,
        "    Py_INCREF(base)  # likewise\n",
        "",
    ),
    mutant(
        TENSOR,
        "an array of read-only memory is writable",
        NUMPY,
        "0 if readonly else NPY_ARRAY_WRITEABLE",
        "NPY_ARRAY_WRITEABLE",
    ),
]

REMEMBERED = [
    mutant(
        TENSOR,
        "an object is remembered and not held",
        FACTS,
        "added->object = Py_NewRef(object);",
        "added->object = object;",
    ),
    mutant(
        TENSOR,
        "facts in one place are taken for one",
        FACTS,
        "found->number == number)",
        "found->number != number + 1)",
    ),
    mutant(TENSOR, "lanes do not tell types apart", FACTS, " | (uint64_t)dtype.lanes << 16", ""),
    mutant(
        TENSOR,
        "ids do not tell devices apart",
        FACTS,
        " | (uint64_t)(uint32_t)device.device_id << 32",
        "",
    ),
    mutant(
        TENSOR,
        "every device that is known means the host",
        FACTS,
        "known != NULL && known->number == number_of_device(host)",
        "known != NULL",
    ),
    mutant(EMPTY, "a name ends at a NUL", FACTS, "strlen(utf8) == (size_t)size", "size > 0"),
    mutant(
        OUTCOMES,
        "what a table gives is on the host",
        ACQUIRE,
        "(tensor != Py_None &&\n"
        "         fdl_description_in(tensor)->managed.dl_tensor.device.device_type == kDLCPU))",
        "tensor != Py_None)",
    ),
]

WHOLE_VIEWS = [
    mutant(
        RESHAPING, "any strides make a run", RESHAPE, "->strides[i] == next", "->strides[i] > 0"
    ),
    mutant(
        RESHAPING,
        "the stride of a dimension of size 1 begins a run",
        RESHAPE,
        "if (run == 1) /*",
        "if (i + 1 == tensor->ndim) /*",
    ),
    mutant(RESHAPING, "a shape may hold fewer elements", RESHAPE, "count != size", "count > size"),
    mutant(
        RESHAPING,
        "what is left is rounded down",
        RESHAPE,
        "count == 0 || size % count != 0",
        "count == 0",
    ),
    mutant(RESHAPING, "a view is not checked", RESHAPE, "if (fault != FASTDL_OK)", "if (0)"),
    mutant(
        RESHAPING,
        "an expanded tensor is writable",
        RESHAPE,
        "    view.flags |= DLPACK_FLAG_BITMASK_READ_ONLY;\n",
        "",
    ),
    mutant(
        RESHAPING,
        "a repeated dimension keeps its stride",
        RESHAPE,
        "is_new || dim != own ? 0",
        "is_new ? 0",
    ),
    mutant(
        RESHAPING, "any dimension can be expanded", RESHAPE, "(dim != own && own != 1)", "dim > 9"
    ),
    mutant(
        RESHAPING, "any dimension can be lost", RESHAPE, "possible = dim == 1;", "possible = 1;"
    ),
    mutant(RESHAPING, "an axis may come twice", RESHAPE, "if (marked[axes[k]]++)", "if (0)"),
    mutant(RESHAPING, "one axis too many exists", RESHAPE, "axis >= ndim", "axis > ndim"),
    mutant(
        RESHAPING,
        "there may be more sizes than there is room for",
        RESHAPE,
        "n > FASTDL_MAX_NDIM)",
        "n > 2 * FASTDL_MAX_NDIM)",
    ),
    mutant(
        RESHAPING,
        "bytes are called padded elements",
        RESHAPE,
        "    view.flags &= ~(uint64_t)DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED;\n",
        "",
    ),
    mutant(
        RESHAPING,
        "elements of another type may lie anywhere",
        RESHAPE,
        "!is_aligned(view.source, dtype))",
        "0)",
    ),
    mutant(
        RESHAPING,
        "a handle is aligned as an address",
        RESHAPE,
        "(addresses ? fastdl_address_(tensor) : 0)",
        "(addresses + 1 ? fastdl_address_(tensor) : 0)",
    ),
    mutant(
        RESHAPING,
        "strides of larger elements are rounded down",
        RESHAPE,
        "&& bytes % size == 0) {",
        ") {",
    ),
    mutant(
        RESHAPING,
        "elements with gaps are cut and joined",
        RESHAPE,
        "view->strides[last] != 1)",
        "view->strides[last] == 0)",
    ),
]
