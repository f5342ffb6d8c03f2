# SPDX-License-Identifier: Apache-2.0
"""What a launcher of kernels needs of an array on a GPU, by two protocols."""

import fastdl


# [before]
def argument_before(array, stream):
    view = array.__cuda_array_interface__
    if view["typestr"] != "<f4" or view.get("strides") is not None:
        raise TypeError("expected a row-major array of float32")
    if view.get("stream") not in (None, stream):
        raise NotImplementedError("an event, recorded there and waited for on `stream`")
    address, readonly = view["data"]
    if readonly:
        raise ValueError("expected a writable array")
    return address, view["shape"]  # for as long as somebody keeps the array


# [/before]


# [after]
def argument(array, stream):
    tensor = fastdl.asarray(array)
    if tensor.dtype != "float32" or tensor.readonly or not tensor.is_contiguous():
        raise TypeError(f"expected a writable row-major array of float32, got {tensor!r}")
    return fastdl.from_dlpack(tensor, stream=stream)  # which waits for what fills the array


def launch(kernel, array, stream):
    tensor = argument(array, stream)
    kernel(tensor.data_ptr, tensor.shape, stream)
    tensor.record(stream)  # whoever takes the tensor next waits for the kernel


# [/after]
