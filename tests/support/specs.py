# SPDX-License-Identifier: Apache-2.0
"""What a fastdl_spec of the header says, in numbers."""

C, F, INNER = 1, 2, 4
WRITABLE, TRAILING, IN_PLACE = 1, 2, 4
COPY, CONVERT = 16, 32
ASARRAY = 64
SCALAR, ANY_DEVICE = -1, -1


def dtype(code, bits, lanes=1):
    return code | bits << 8 | lanes << 16


FLOAT32, FLOAT64 = dtype(2, 32), dtype(2, 64)
