"""`__cuda_array_interface__`, in both directions: what CUDA libraries had before DLPack."""

from fastdl._core import tensor as core
from fastdl._core.device import DeviceType
from fastdl._core.dtype import DType, of_typestr
from fastdl._devices import driver
from fastdl._protocol.streams import CUDA, order_export, ordering

_VERSIONS = (2, 3)

# ---- from others ----------------------------------------------------------------------------


def import_cuda_array(x):
    """A tensor on the memory of an object with `__cuda_array_interface__`, version 2 or 3.

    The interface does not name the device, so the driver is asked where the pointer leads. All use
    of the tensor comes after what is queued on the stream that the interface names; without a
    stream the caller orders the work, as the interface defines. BufferError if the interface is
    malformed, describes what DLPack cannot, or has an invalid pointer.
    """
    interface = x.__cuda_array_interface__
    if not isinstance(interface, dict):
        raise malformed(x, "a dict", interface)
    version = interface.get("version")
    if version not in _VERSIONS:
        raise malformed(x, "version 2 or 3", version)
    if interface.get("mask") is not None:
        raise BufferError(f"{type(x).__qualname__!r} has a mask, which DLPack cannot describe")
    dtype = dtype_of(x, interface.get("typestr"))
    shape = int_tuple(x, "shape", interface.get("shape"))
    pointer, readonly = data_of(x, interface.get("data"))
    strides = strides_of(x, shape, interface.get("strides"), dtype.itemsize)
    source = stream_of(x, interface.get("stream") if version >= 3 else None)
    device = device_of(x, pointer, 0 in shape)
    tensor = driver.on_memory(
        pointer, shape, strides, dtype.__dlpack_data_type__(), device, readonly, x
    )
    if source is None:
        driver.ready_on(tensor, -1, -1)
    elif tensor.size:
        driver.ready_on(tensor, source, driver.work_stream(*device))
    return tensor


def malformed(x, expected: str, got) -> BufferError:
    name = type(x).__qualname__
    return BufferError(f"expected {expected} in __cuda_array_interface__ of {name!r}, got {got!r}")


def is_int(value) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)


def int_tuple(x, what: str, values) -> tuple:
    if not isinstance(values, tuple) or not all(map(is_int, values)):
        raise malformed(x, f"{what} as a tuple of ints", values)
    values = tuple(value.__index__() for value in values)
    if any(not -(2**63) <= value < 2**63 for value in values):
        raise malformed(x, f"{what} of 64 bits", values)
    return values


def dtype_of(x, typestr) -> DType:
    dtype = of_typestr(typestr) if isinstance(typestr, str) else None
    if dtype is None:
        raise malformed(x, "the typestr of a little-endian number or bool", typestr)
    return dtype


def data_of(x, data) -> tuple:
    if not isinstance(data, tuple) or len(data) != 2 or not is_int(data[0]):
        raise malformed(x, "data as (address, read-only)", data)
    pointer = data[0].__index__()
    if not 0 <= pointer < 2**64:
        raise malformed(x, "an address of 64 bits", pointer)
    return pointer, bool(data[1])


def strides_of(x, shape: tuple, strides, itemsize: int) -> tuple:
    """In elements; the interface has bytes, or None for compact ones."""
    if strides is None:
        result, step = [], 1
        for size in reversed(shape):
            result.append(step)
            step = min(step * max(size, 1), 2**62)  # a shape that is too large is refused later
        return tuple(reversed(result))
    strides = int_tuple(x, "strides", strides)
    if len(strides) != len(shape):
        raise malformed(x, f"{len(shape)} strides", strides)
    for size, stride in zip(shape, strides, strict=True):
        if size > 1 and stride % itemsize:
            raise malformed(x, f"strides in whole elements of {itemsize} bytes", strides)
    return tuple(stride // itemsize for stride in strides)


def stream_of(x, stream) -> int | None:
    if stream is None:
        return None
    if not is_int(stream) or not 1 <= stream.__index__() < 2**63:
        raise malformed(x, "a stream as None, 1, 2 or a handle", stream)
    return stream.__index__()


def device_of(x, pointer: int, is_empty: bool) -> tuple:
    if is_empty and pointer == 0:
        return DeviceType.CUDA, 0  # nothing is anywhere
    try:
        found = driver.find_pointer(DeviceType.CUDA, pointer)
    except BufferError as error:
        raise BufferError(
            f"{type(x).__qualname__!r} exports __cuda_array_interface__, which does not say on "
            f"which device, and the driver cannot be asked: {error}"
        ) from error
    if found is None and is_empty:
        return DeviceType.CUDA, 0
    if found is None:
        raise malformed(x, "an address that the CUDA driver knows", hex(pointer))
    return found


# ---- to others ------------------------------------------------------------------------------


def export_cuda_array(tensor):
    """The `__cuda_array_interface__` of CUDA data, version 3."""
    if ordering(tensor.device) != CUDA:
        raise AttributeError(
            f"{core.describe(tensor)} has no __cuda_array_interface__: it is not CUDA memory"
        )
    dtype = tensor.dtype
    if dtype.format is None or dtype.lanes != 1:
        raise AttributeError(f"__cuda_array_interface__ has no name for {dtype}: use DLPack")
    try:
        order_export(tensor, None)
    except BufferError as error:
        raise AttributeError(str(error)) from error  # so that hasattr() is an answer
    kind = {"?": "b", "e": "f", "f": "f", "d": "f"}.get(dtype.format)
    if kind is None:
        kind = "c" if dtype.format[0] == "Z" else "i" if dtype.format.islower() else "u"
    size = dtype.itemsize
    return {
        "shape": tensor.shape,
        "typestr": f"{'|' if size == 1 else '<'}{kind}{size}",
        "data": (tensor.data_ptr if tensor.size else 0, tensor.readonly),
        "strides": tuple(stride * size for stride in tensor.strides),
        "version": 3,
        "stream": None if driver.is_callers(tensor) else 1,
    }
