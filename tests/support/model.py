# SPDX-License-Identifier: Apache-2.0
"""Which descriptors a consumer may accept: by the DLPack specification, in integers that do not
overflow."""

import numpy as np

from tests.support.ctypes_dlpack import INT64_MAX, INT64_MIN, SUBBYTE_PADDED

MAX_BYTES = INT64_MAX


class Model:
    """What the specification says of a descriptor."""

    def __init__(
        self, shape, dtype, strides=None, data=0x10000, byte_offset=0, flags=0, has_addresses=True
    ):
        self.shape, self.strides = shape, strides
        _, bits, lanes = dtype
        self.empty = 0 in shape
        self.size = int(np.prod([int(n) for n in shape], dtype=object)) if shape else 1
        self.packed = bits * lanes % 8 != 0 and not flags & SUBBYTE_PADDED
        self.itemsize = -(-bits * lanes // 8)
        self.nbytes = (
            -(-self.size * bits * lanes // 8) if self.packed else self.size * self.itemsize
        )
        self.start = (data or 0 if has_addresses else 0) + byte_offset
        self.data = data

    def contiguous(self, order):
        if self.empty:
            return True
        expected = 1
        axes = range(len(self.shape))
        for i in axes if order == "F" else reversed(axes):
            if self.shape[i] != 1 and self.strides is not None and self.strides[i] != expected:
                return False
            if self.strides is None and order == "F":
                return sum(n != 1 for n in self.shape) <= 1
            expected *= self.shape[i]
        return True

    def representable(self):
        if any(n < 0 for n in self.shape):
            return False
        if self.empty:
            return True
        bits_fit = not self.packed or self.nbytes * 8 <= INT64_MAX
        if self.size > INT64_MAX or self.nbytes > MAX_BYTES or not bits_fit:
            return False
        if self.packed and not self.contiguous("C"):
            return False
        low, high = 0, self.nbytes
        if self.strides is not None and not self.packed:
            ends = [(n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)]
            low = sum(end for end in ends if end < 0) * self.itemsize
            high = sum(end for end in ends if end > 0) * self.itemsize + self.itemsize
            if low < INT64_MIN or high > INT64_MAX:
                return False
        if self.start >= 2**64 or self.start + low < 0 or self.start + high >= 2**64:
            return False
        return bool(self.data)
