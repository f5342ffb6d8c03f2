"""Mutants of convert, and of the quick imports."""

from tests.mutants.mutant import ACQUIRE, BUFFER, CONVERT, CONVERTING, EXCHANGE, QUICK, mutant

CONVERSIONS = [
    mutant(
        CONVERTING,
        "negative strides reach a library that aborts at them",
        CONVERT,
        "            if tensor.strides[i] < 0 and tensor.shape[i] > 1:\n",
        "            if tensor.strides[i] < -9 and tensor.shape[i] > 1:\n",
    ),
    mutant(
        CONVERTING,
        "gaps count as dense",
        CONVERT,
        "        if tensor.shape[i] > 1 and not used >> i & 1:\n            return False\n",
        "        if tensor.shape[i] > 9 and not used >> i & 1:\n            return False\n",
    ),
    mutant(
        CONVERTING,
        "a broadcast dimension counts as dense",
        CONVERT,
        "tensor.strides[i] == step and not used",
        "tensor.strides[i] <= step and not used",
    ),
    mutant(
        CONVERTING,
        "read-only memory reaches a library that writes",
        CONVERT,
        "            and bridge.readonly != KEPT_ and not",
        "            and bridge.readonly == IMMUTABLE_ and not",
    ),
    mutant(
        CONVERTING,
        "data that never changes is shared with a library that writes",
        CONVERT,
        "not (immutable and bridge.readonly == IMMUTABLE_)",
        "not immutable",
    ),
    mutant(
        CONVERTING,
        "the alignment is not looked at",
        CONVERT,
        "    if (bridge.alignment > 1\n",
        "    if (bridge.alignment > 999\n",
    ),
    mutant(
        CONVERTING,
        "strides of size 1 keep their signs",
        CONVERT,
        "        if memory.shape[i] == 1:\n",
        "        if memory.shape[i] == 0:\n",
    ),
    mutant(
        CONVERTING,
        "an immutable library is handed the flag",
        CONVERT,
        "    if bridge.readonly == IMMUTABLE_:\n        # What",
        "    if bridge.readonly == KEPT_:\n        # What",
    ),
    mutant(
        CONVERTING,
        "the table gets what does not fit",
        CONVERT,
        "            or obstacle(bridge, description, record.facts & FASTDL_TYPE_IMMUTABLE)):",
        "            or False):",
    ),
    mutant(
        CONVERTING,
        "what does not fit the table is leaked",
        CONVERT,
        "        fdl_description_release(description, 1)\n        return None\n",
        "        return None\n",
    ),
    mutant(
        CONVERTING,
        "a copy of a copy",
        CONVERT,
        "        elif reason == 0 and not copies and not (",
        "        elif reason == 0 and not copies or not (",
    ),
    mutant(
        CONVERTING,
        "copy=False copies",
        CONVERT,
        "            if reason != 0 or copies or was_copied:",
        "            if copies or was_copied:",
    ),
    mutant(
        CONVERTING,
        "more dimensions than the library has",
        CONVERT,
        "            or not bridge.least_ndim <= memory.ndim <= bridge.most_ndim\n"
        "            or (bridge.dtypes",
        "            or (bridge.dtypes",
    ),
]

QUICK_IMPORTS = [
    mutant(
        QUICK,
        "a buffer is not locked",
        BUFFER,
        "    fdl_own_buffer(description->block, buffer);\n",
        "    PyBuffer_Release(buffer);\n    PyMem_RawFree(buffer);\n",
    ),
    mutant(
        QUICK,
        "a buffer of strings is asked for a capsule",
        BUFFER,
        "buffer->format[0] == 'O' &&",
        "buffer->format[0] == 'P' &&",
    ),
    mutant(
        QUICK,
        "foreign byte order is read as native",
        BUFFER,
        "*format == '<')",
        "*format == '>')",
    ),
    mutant(
        QUICK,
        "a buffer that does not serve stays locked",
        BUFFER,
        "    if (description == NULL) {\n        PyBuffer_Release(buffer);\n",
        "    if (description == NULL) {\n",
    ),
    mutant(
        QUICK,
        "what never changes is writable",
        ACQUIRE,
        "facts & FASTDL_TYPE_IMMUTABLE ? DLPACK_FLAG_BITMASK_READ_ONLY : 0);\n"
        "    return facts & FASTDL_TYPE_ASK_LATER",
        "facts & FASTDL_TYPE_KEEP ? DLPACK_FLAG_BITMASK_READ_ONLY : 0);\n"
        "    return facts & FASTDL_TYPE_ASK_LATER",
    ),
    mutant(
        QUICK,
        "a device's capsule is taken without its stream",
        ACQUIRE,
        "        return NULL; /* it has to be asked for the right stream */\n",
        "        ; /* it has to be asked for the right stream */\n",
    ),
    mutant(
        QUICK,
        "a derived class is read through its buffer",
        EXCHANGE,
        "        record.facts &= ~<uint32_t>FASTDL_TYPE_BUFFER",
        "        record.facts &= ~<uint32_t>FASTDL_TYPE_KEEP",
    ),
    mutant(
        QUICK,
        "a producer is asked twice",
        ACQUIRE,
        "        if (PyErr_ExceptionMatches(PyExc_TypeError))\n",
        "        if (PyErr_ExceptionMatches(PyExc_Exception))\n",
    ),
]
