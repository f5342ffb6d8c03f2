# SPDX-License-Identifier: Apache-2.0
"""The copies that fastdl makes, and whether it can make them."""

from fastdl._core import tensor as core
from fastdl._core.device import CPU, Device, DeviceType
from fastdl._core.dtype import DType
from fastdl._devices import driver
from fastdl._protocol.streams import DEFAULT, stream_number, validate_stream


def satisfies(device: Device, target: Device | None) -> bool:
    """Whether memory on `device` satisfies a request for `target`: for the CPU, host memory of any
    kind."""
    return target is None or device == target or (target == CPU and device.is_host)


def mark_unless_shared(tensor, read):
    """`tensor`, a result of read(), marked as a copy unless another result has the same address:
    both are alive, so they share the memory of the source. If a second read() fails, `tensor` stays
    unmarked."""
    if tensor.size and not tensor.is_copied:
        try:
            is_shared = read().data_ptr == tensor.data_ptr
        except Exception:
            return tensor
        if not is_shared:
            core.mark_copied(tensor)
    return tensor


def copy_obstacle(source: Device, target: Device) -> str | None:
    """The reason why fastdl cannot copy from `source` to `target`; None if it can."""
    if target != CPU:
        line = "copy it with its own library"
        if source != target and target.type in (DeviceType.CUDA, DeviceType.ROCM):
            line = f"a library can do this: fastdl.convert(x, torch.Tensor, device={str(target)!r})"
        return f"fastdl copies to ordinary host memory only; {line}"
    if source.is_host:
        return None
    if source.stream_kind not in DEFAULT:
        return f"fastdl copies from CUDA and ROCm, not from {source}"
    try:
        driver.driver_facts(source.type)
    except BufferError as error:
        return str(error)
    return None


def make_copy(tensor, target: Device, stream: int | None = None):
    """A compact copy of `tensor` in ordinary host memory, the only `target` that fastdl copies to
    (a pinned tensor's own device also means that). A copy from a device is made on `stream`, the
    number of a stream of that device; None or -1: on the thread's work stream."""
    here = tensor.device
    if target == here and here.is_host:
        target = CPU
    obstacle = copy_obstacle(here, target)
    if obstacle is not None:
        raise BufferError(f"{core.describe(tensor)} cannot be copied to {target}: {obstacle}")
    validate_stream(stream, here)
    if here.is_host:
        return core.copy_host(tensor)
    copy = driver.to_host(tensor, -1 if stream is None else stream)
    return copy if copy.is_contiguous() else core.copy_host(copy)


def _target(device) -> Device:
    """The Device for `device`. TypeError with advice for a dtype, as passed to torch's `to`."""
    try:
        return Device(device)
    except (TypeError, ValueError) as error:
        if isinstance(device, tuple):
            raise
        try:
            dtype = DType(device)
        except (TypeError, ValueError):
            raise error from None
    raise TypeError(
        f"expected a device such as 'cpu' or 'cuda:0', got the dtype {dtype}: fastdl moves tensors "
        f"but does not convert values; do that in the tensor's own library, or on the host with "
        f"numpy.from_dlpack(tensor).astype(...)"
    )


def to_device(tensor, device, *, copy=None, stream=None):
    """`tensor` on `device`, for the methods of Tensor that may copy."""
    target, here = _target(device), tensor.device
    number = stream_number(stream, here)
    if copy or not satisfies(here, target):
        return make_copy(tensor, target, number)
    if validate_stream(number, here) is not None and number != -1:
        driver.order(tensor, number)
    return tensor
