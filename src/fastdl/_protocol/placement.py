"""The copies that fastdl makes, and whether it can make them."""

from fastdl._core import tensor as core
from fastdl._core.device import CPU, Device
from fastdl._core.dtype import DType
from fastdl._devices import driver
from fastdl._protocol.streams import DEFAULT, stream_number, validate_stream


def satisfies(device: Device, target: Device | None) -> bool:
    """Whether memory on `device` satisfies a request for `target`: for the CPU, host memory of any
    kind."""
    return target is None or device == target or (target == CPU and device.is_host)


def mark_unless_shared(tensor, read):
    """`tensor`, a result of read(), marked as a copy unless another result has the same address:
    both are alive, so they share the memory of the source. If it can be read only once, it stays
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
    """A copy of `tensor` on `target`: on the host compact; on a device in one call of the driver if
    possible, with the strides of `tensor` or compact, and otherwise through the host.

    `stream`: the number of a stream of the target's device or, if that is the host, of the
    tensor's; None: the thread's work stream; -1: the same, and the copy is done on return, since
    the caller does not order by streams. `compact`: compact on devices as well, even if that is
    slower."""
    here = tensor.device
    if target == here and target.is_host and copy_obstacle(target, target):
        target = CPU  # for pinned memory on a machine without its driver
    if target == CPU and here.is_host:
        return core.copy_host(tensor)
    obstacle = copy_obstacle(here, target)
    if obstacle is not None:
        raise BufferError(f"{core.describe(tensor)} cannot be copied to {target}: {obstacle}")
    how = *target.__dlpack_device__(), -1 if stream is None else stream, stream == -1
    # Drivers cannot gather.
    gathered = compact and not target.is_host and not tensor.is_contiguous()
    copy = None if gathered else driver.transfer(tensor, *how)
    if copy is None:
        tensor = make_copy(tensor, CPU, stream if here == target else None)
        copy = driver.transfer(tensor, *how)
    if target.is_host and not copy.is_contiguous():
        copy = core.copy_host(copy)
        if target != CPU:
            copy = driver.transfer(copy, *how)
    return copy


def _dtype(x) -> DType | None:
    try:
        return DType(x)
    except (TypeError, ValueError):
        return None


def _target(device) -> Device:
    """The Device that `device` stands for. With advice for callers that pass a dtype, as to torch's
    `to`."""
    try:
        return Device(device)
    except (TypeError, ValueError):
        dtype = None if isinstance(device, tuple) else _dtype(device)
        if dtype is None:
            raise
    raise TypeError(
        f"expected a device such as 'cpu' or 'cuda:0', got the dtype {dtype}: fastdl moves tensors "
        f"and converts no values; do that in the tensor's own library, or on the host with "
        f"numpy.from_dlpack(tensor).astype(...)"
    )


def to_device(tensor, device, *, copy=None, stream=None, compact=False):
    """`tensor` on `device`, for those methods of Tensor that copy."""
    target, here = _target(device), tensor.device
    streams = here if target == CPU or (target.is_host and not here.is_host) else target
    number = validate_stream(stream_number(stream, streams), streams)
    if not satisfies(here, target) or copy:
        return make_copy(tensor, target, number, compact=compact)
    if number is not None and number != -1:
        driver.order(tensor, number)
    return tensor
