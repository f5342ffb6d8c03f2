"""Keys of launches: fastdl.signature and fastdl.signer."""

import numpy as np

import fastdl
from tests.errors.row import Group, Row

X = np.ones((2, 3), "float32")
LONG = np.broadcast_to(np.int8(0), (2**31,))

GROUP = Group(
    "Keys of launches",
    "What `fastdl.signature`, and a function of `fastdl.signer`, raise besides what importing the "
    "tensor would raise, which begins with the number of the argument.",
    [
        Row(
            lambda: fastdl.signature(X, out=bytearray(99)),
            TypeError,
            "expected tensors and into=buffer, got the keywords …",
            "Rules are arguments of `fastdl.signer`, which makes a function that follows them.",
        ),
        Row(
            lambda: fastdl.signature(X, into=bytearray(9)),
            ValueError,
            "into: … bytes end before argument … in the layout '…': pass a larger buffer",
            "With `pNS`, a tensor takes 8 bytes, and 16 for each dimension.",
        ),
        Row(
            lambda: fastdl.signer(layout="n")(LONG, into=bytearray(9)),
            OverflowError,
            "argument … has a size or a stride beyond a 32-bit integer: use a signer with N and "
            "S for n and s in its layout '…'",
            "The kernel has to take 64-bit integers, too.",
        ),
        Row(
            (lambda: fastdl.signer(sizes="classes"), lambda: fastdl.signer(strides=1)),
            ValueError,
            "expected …='exact', 'coarse' or None, got …",
            "What the three mean is in the [reference](python-reference.md#signer).",
        ),
        Row(
            lambda: fastdl.signer(alignment=3),
            ValueError,
            "expected alignment as a power of two, 1 to 2**31 bytes, got …",
            "1 leaves the alignment out of the key.",
        ),
        Row(
            lambda: fastdl.signer(layout="data"),
            ValueError,
            "expected a layout of at most … letters of …, got …",
            "What the letters mean is in the [reference](python-reference.md#signer).",
        ),
    ],
)
