# SPDX-License-Identifier: Apache-2.0
"""convert for every call and any object; convert.pyx has the fast path for most of them."""

from types import ModuleType

from fastdl._bridges.bridge import DEVICE, HOST
from fastdl._convert import convert as front
from fastdl._convert.asarray import acquire, check_copy
from fastdl._convert.refusals import check_device, explain, gradient, passed_through
from fastdl._convert.targets import bridge_for, named_library, target_bridge, target_of
from fastdl._core import exchange
from fastdl._core import tensor as core
from fastdl._core.device import CPU, Device, DeviceType
from fastdl._devices import driver
from fastdl._protocol import placement, streams
from fastdl._protocol.consumer import Capsule


def complete(x, like, device, copy, stream):
    """fastdl.convert: the calls that the compiled entry does not handle."""
    check_copy(copy)
    where = None if device is None else Device(device)
    if isinstance(like, str):
        bridge, target = named_library(like)
    else:
        target = target_of(like)
        bridge = target_bridge(target, like)
    if where is not None:
        check_device(where, bridge)
        if isinstance(x, Capsule) and stream is None:
            x = exchange.from_dlpack(x)  # so that it can be read twice
    own = bridge_for(type(x))
    is_one = own is bridge
    if own is None:  # the library is unknown to fastdl
        is_one = not isinstance(target, ModuleType) and issubclass(type(x), target)
    elif (
        own.gradient
        and getattr(x, own.gradient)
        and not (is_one and not copy and is_there(x, own, where))
    ):
        raise exchange.explained(x, gradient(x, bridge))
    try:
        if is_one and not copy and is_there(x, own, where):
            if stream is not None and not is_unordered(stream):
                imported(x, own, None, None, stream)  # orders the work on it
            return x
        # A requested copy on the host is made later, in a form that the library accepts.
        on_device = where is not None and not where.is_host
        tensor = imported(x, own, where, copy if on_device or copy is False else None, stream)
    except Exception as error:
        readers = streams.stream_number, streams.validate_stream, streams.consumer_stream
        if stream is not None and passed_through(error, *readers):
            raise  # about an argument of the caller, not about `x`
        if isinstance(error, BufferError) and copy is not False and moves_to(bridge, where):
            tensor = imported(x, own)
            if tensor.device != where:
                return moved(tensor, x, bridge, target, where, stream)
        raise explain(error, x, None, bridge)  # noqa: B904  # which is its cause
    return front.make(tensor, bridge, x, target, copy, stream)


def is_there(x, own, where) -> bool:
    """Whether `x` is on the device that the caller wants. False for a capsule, which can be read
    only once."""
    if where is None or (where == CPU and own is not None and own.devices == HOST):
        return True
    if isinstance(x, Capsule):
        return False
    over_dlpack = (own is None or own.read is None) and exchange.is_producer(x)
    if over_dlpack and exchange.special(x, "__dlpack_device__") is not None:
        return placement.satisfies(exchange.announced_device(x), where)  # without ordering anything
    return placement.satisfies(imported(x, own).device, where)


def is_unordered(stream) -> bool:
    """Whether the stream is -1: the caller orders all work."""
    return isinstance(stream, int) and stream == -1


def imported(x, own, where=None, copy=None, stream=None):
    """A new Tensor on the memory of `x`, or on a copy if only a copy can be described, by the
    keywords of from_dlpack."""
    tensor = acquire(x, where, copy, stream)
    return exchange.from_dlpack(x) if tensor is x else tensor  # not shared


def copy(tensor, x, stream):
    """A writable copy of `tensor`, the data of `x`, on the same device, ready on `stream`. On the
    host it is compact; elsewhere the library of `x` makes it."""
    if tensor.device.is_host or isinstance(x, Capsule):
        return placement.make_copy(tensor, tensor.device)
    return acquire(x, tensor.device, True, stream)


def moves_to(bridge, where) -> bool:
    """Whether the library of `bridge` copies data to the device `where`."""
    on_device = where is not None and where.type in (DeviceType.CUDA, DeviceType.ROCM)
    return on_device and bridge.move is not None


def moved(tensor, x, bridge, target, where, stream):
    """An object of `bridge` on `where`, to which its own library copies `tensor`, the data of `x`.
    It is ready on `stream`.

    BufferError if the library changes the element type (JAX may narrow it) or ignores the device.
    """
    through = bridge
    if bridge.devices == DEVICE and tensor.device.is_host:
        through, target = named_library("numpy.ndarray")
    here = front.make(tensor, through, x, target, None, None)
    try:
        there = bridge.move(here, where)
    except Exception as error:
        raise explain(error, x, tensor, bridge)  # noqa: B904  # which is its cause
    waits = is_unordered(stream)  # the caller does not know on which stream the library works
    result = imported(there, bridge, stream=None if waits else stream)
    if result.dtype != tensor.dtype or result.device != where:
        raise BufferError(
            f"{core.describe(tensor)} cannot be converted to {bridge.name} on {where}: "
            f"{bridge.title} turns it into {result.dtype} on {result.device}"
        )
    if waits:
        driver.wait(result)
    return there
