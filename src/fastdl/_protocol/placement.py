"""The copies that fastdl makes, and whether it can make them."""

from fastdl._core import tensor as core
from fastdl._core.device import CPU, Device
from fastdl._devices import driver
from fastdl._protocol.streams import DEFAULT, stream_number, validate_stream


def satisfies(device: Device, target: Device | None) -> bool:
    """Whether memory on `device` will do for a caller that asked for `target`: for the CPU, host
    memory of any kind."""
    return target is None or device == target or (target == CPU and device.is_host)


def copy_obstacle(source: Device, target: Device) -> str | None:
    """Why fastdl cannot copy from `source` to `target`; None if it can."""
    kinds = {device.stream_kind for device in (source, target) if not device.is_host}
    if len(kinds) > 1 or not kinds <= DEFAULT.keys():
        return f"fastdl copies from or to the host, and on CUDA or ROCm, not {source} to {target}"
    for device in (source, target):
        if not device.is_host or device == target != CPU:
            try:
                driver.driver_facts(device.type)
            except BufferError as error:
                return str(error)
    return None


def make_copy(tensor, target: Device, stream: int | None = None, *, compact=False):
    """A copy of `tensor` on `target`: on the host compact; on a device as the driver can make it in
    one call, with the strides of `tensor` or compact, and otherwise by way of the host.

    `stream`: the number of a stream of the target's device or, if that is the host, of the
    tensor's; None: the thread's work stream; -1: the same, and the copy is done on return, since
    the caller does not order by streams. `compact`: on devices as well, whatever it takes."""
    here = tensor.device
    if target == here and target.is_host and copy_obstacle(target, target):
        target = CPU  # for pinned memory on a machine without its driver
    if target == CPU and here.is_host:
        return core.copy_host(tensor)
    obstacle = copy_obstacle(here, target)
    if obstacle is not None:
        raise BufferError(f"{core.describe(tensor)} cannot be copied to {target}: {obstacle}")
    how = *target.__dlpack_device__(), -1 if stream is None else stream, stream == -1
    copy = driver.transfer(tensor, *how)
    if copy is None or (compact and not target.is_host and not copy.is_contiguous()):
        tensor = make_copy(tensor, CPU, stream if here == target else None)
        copy = driver.transfer(tensor, *how)
    if target.is_host and not copy.is_contiguous():
        copy = core.copy_host(copy)
        if target != CPU:
            copy = driver.transfer(copy, *how)
    return copy


def to_device(tensor, device, *, copy=None, stream=None):
    """`tensor` on `device`, for Tensor.to and Tensor.copy."""
    target, here = Device(device), tensor.device
    streams = here if target == CPU or (target.is_host and not here.is_host) else target
    number = validate_stream(stream_number(stream, streams), streams)
    if not satisfies(here, target) or copy:
        return make_copy(tensor, target, number)
    if number is not None and number != -1:
        driver.order(tensor, number)
    return tensor
