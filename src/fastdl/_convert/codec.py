# SPDX-License-Identifier: Apache-2.0
"""A host tensor as a header and its bytes, for sending tensors without pickle.

The header, in little-endian order:

    bytes       what
    0 to 2      "fdl"
    3           the version of the header, 1
    4, 5        code and bits of the element type, as in DLDataType
    6, 7        its lanes
    8           1 for column-major order, 2 for elements that are padded to whole bytes, or both
    9           the number of dimensions
    10 on       each dimension, in eight bytes

The bytes are the elements without gaps, in the byte order of memory.
"""

from fastdl._convert.asarray import asarray
from fastdl._convert.pickling import COLUMN_MAJOR, ROW_MAJOR, compact, unpickle
from fastdl._core import tensor as core
from fastdl._core.errors import type_name

MAGIC, VERSION = b"fdl", 1
IN_COLUMNS, PADDED = 1, 2  # flags
FIXED = 10  # bytes before the dimensions


def encode(x) -> tuple[bytes, memoryview]:
    """See fastdl.encode."""
    tensor = x if type(x) is core.Tensor else asarray(x)
    if not tensor.device.is_host:
        raise BufferError(
            f"expected a tensor on the host, got {core.describe(tensor)}: encode a copy on the "
            f"host, made with {core.copier(tensor)}"
        )
    memory, (code, bits, lanes), shape, order, padded = compact(tensor)
    flags = (order == COLUMN_MAJOR) * IN_COLUMNS | padded * PADDED
    fixed = (*MAGIC, VERSION, code, bits, lanes & 0xFF, lanes >> 8, flags, len(shape))
    return b"".join([bytes(fixed), *(n.to_bytes(8, "little") for n in shape)]), memoryview(memory)


def decode(header, buffer) -> core.Tensor:
    """See fastdl.decode."""
    try:
        view = memoryview(header)
        # Only the head of a long buffer. One without dimensions has few bytes, and cannot be
        # sliced.
        head = bytes(view[: FIXED + 8 * 255 + 1] if view.ndim else view)
    except ValueError as error:
        raise BufferError(f"cannot get the buffer of {type_name(header)!r}: {error}") from error
    if head[:3] != MAGIC or len(head) < FIXED:
        raise ValueError(
            f"expected a header of fastdl.encode, got {len(head)} bytes, first {head[:8]!r}"
        )
    if head[3] != VERSION:
        raise ValueError(
            f"expected version {VERSION} of the header, got {head[3]}: upgrade fastdlpack here"
        )
    flags, ndim = head[8], head[9]
    if flags > IN_COLUMNS | PADDED or len(head) != FIXED + 8 * ndim:
        raise ValueError(
            f"expected a header of {FIXED + 8 * ndim} bytes for {ndim} dimensions, and flags from "
            f"0 to 3, got {len(head)} bytes and flags {flags}"
        )
    dtype = (head[4], head[5], head[6] | head[7] << 8)
    ends = range(FIXED, len(head), 8)
    shape = tuple(int.from_bytes(head[i : i + 8], "little", signed=True) for i in ends)
    order = COLUMN_MAJOR if flags & IN_COLUMNS else ROW_MAJOR
    return unpickle(buffer, dtype, shape, order, bool(flags & PADDED))
