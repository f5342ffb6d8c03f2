# SPDX-License-Identifier: Apache-2.0
"""PaddlePaddle."""

import paddle

from dlpack_conformance.adapters.numpy import write as write
from dlpack_conformance.elements import all_but

title = "PaddlePaddle"
distribution = "paddlepaddle"
forks = False  # its threads do not survive a fork
from_dlpack = paddle.from_dlpack
from_capsule = paddle.from_dlpack

views = {
    "transposed": lambda x: x.T,
    "strided": lambda x: x[:, ::2],
    "offset": lambda x: x[1:, 1:],
    "broadcast": lambda x: paddle.as_strided(x, [2, 4], [4, 0]),
}
dtypes = all_but("uint16", "uint32", "uint64")

deviations = dict.fromkeys(
    ("readonly.is-kept", "readonly.passes-through", "readonly.views"),
    "Paddle has no read-only tensors: the array API standard prefers that it ignores the flag",
)


def make(values, dtype):
    return paddle.to_tensor(values, dtype=dtype)


def values(array):
    return (array.astype("float32") if array.dtype == paddle.bfloat16 else array).tolist()


def address(array):
    return array.data_ptr()
