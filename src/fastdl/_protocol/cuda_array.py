# SPDX-License-Identifier: Apache-2.0
"""`__cuda_array_interface__`, in both directions: the predecessor of DLPack for CUDA."""

from fastdl._core import tensor as core
from fastdl._core.device import DeviceType
from fastdl._core.dtype import typestr_of
from fastdl._core.errors import refusal, type_name
from fastdl._devices import driver
from fastdl._protocol.array_interface import Interface, as_int, compact_strides
from fastdl._protocol.streams import CUDA, order_export, ordering

# ---- import ---------------------------------------------------------------------------------


def import_cuda_array(x):
    """A tensor on the memory of an object with `__cuda_array_interface__`, version 2 or 3.

    The interface does not name the device, so it is taken from the driver's pointer attributes. All
    use of the tensor is ordered after the work on the stream that the interface names; without a
    stream the caller orders the work, as the interface defines. BufferError if the interface is
    malformed, describes data that DLPack cannot, or has an invalid pointer.
    """
    interface = Interface(x, "__cuda_array_interface__", (2, 3))
    dtype, shape = interface.dtype(), interface.shape()
    pointer, readonly = interface.pointer(interface.get("data"))
    strides = interface.strides(shape, dtype.itemsize)
    strides = compact_strides(shape) if strides is None else strides
    source = stream_of(interface)
    device = device_of(x, interface, pointer, 0 in shape)
    tensor = driver.on_memory(
        pointer, shape, strides, dtype.__dlpack_data_type__(), device, readonly, x
    )
    if source is None:
        driver.ready_on(tensor, -1, -1)
    elif tensor.size:
        driver.ready_on(tensor, source, driver.work_stream(*device))
    return tensor


def stream_of(interface: Interface) -> int | None:
    stream = interface.get("stream") if interface.version >= 3 else None
    if stream is None:
        return None
    number = as_int(stream)
    if number is None or not 1 <= number < 2**63:
        raise interface.malformed("a stream as None, 1, 2 or a handle", stream)
    return number


def device_of(x, interface: Interface, pointer: int, is_empty: bool) -> tuple:
    if is_empty and pointer == 0:
        return DeviceType.CUDA, 0  # without elements, any device will do
    try:
        found = driver.find_pointer(DeviceType.CUDA, pointer)
    except BufferError as error:
        raise refusal(
            BufferError,
            f"{type_name(x)!r} exports __cuda_array_interface__, which does not name the device, "
            f"and the driver cannot be queried: {error}",
        ) from error
    if found is None and is_empty:
        return DeviceType.CUDA, 0
    if found is None:
        raise interface.malformed("an address known to the CUDA driver", hex(pointer))
    return found


# ---- export ---------------------------------------------------------------------------------


def export_cuda_array(tensor):
    """The `__cuda_array_interface__` of CUDA data, version 3."""
    if ordering(tensor.device) != CUDA:
        raise AttributeError(
            f"{core.describe(tensor)} has no __cuda_array_interface__: it is not CUDA memory"
        )
    typestr = typestr_of(tensor.dtype)
    if typestr is None:
        raise AttributeError(f"__cuda_array_interface__ has no name for {tensor.dtype}: use DLPack")
    try:
        order_export(tensor, None)
    except BufferError as error:
        raise AttributeError(str(error)) from error  # for hasattr()
    return {
        "shape": tensor.shape,
        "typestr": typestr,
        "data": (tensor.data_ptr if tensor.size else 0, tensor.readonly),
        "strides": tuple(stride * tensor.itemsize for stride in tensor.strides),
        "version": 3,
        "stream": None if driver.is_callers(tensor) else 1,
    }
