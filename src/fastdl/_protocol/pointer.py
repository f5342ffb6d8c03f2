# SPDX-License-Identifier: Apache-2.0
"""from_pointer, from_managed, to_managed: memory and managed tensors at addresses."""

from struct import calcsize

from fastdl._core import tensor as core
from fastdl._core.device import Device
from fastdl._core.dtype import DType
from fastdl._devices import driver
from fastdl._protocol.array_interface import as_int, compact_strides
from fastdl._protocol.streams import consumer_stream

TYPE_CHECKING = False  # instead of typing's: `import fastdl` need not load that
if TYPE_CHECKING:
    from typing import Any


def from_pointer(
    address, shape, dtype, device, strides, owner, deleter, readonly, stream
) -> core.Tensor:
    """See fastdl.from_pointer."""
    number = _address(address)
    if deleter is not None and not callable(deleter):
        raise TypeError(f"expected deleter=None or a function without arguments, got {deleter!r}")
    where, kind = Device(device), DType(dtype)
    sizes = _ints(shape, "shape")
    steps = compact_strides(sizes) if strides is None else _ints(strides, "strides")
    if len(steps) != len(sizes):
        raise BufferError(
            f"expected as many strides as dimensions ({len(sizes)}), got {len(steps)}: {steps}"
        )
    ready_on = consumer_stream(stream, where)
    tensor = driver.on_memory(
        number,
        sizes,
        steps,
        kind.__dlpack_data_type__(),
        where.__dlpack_device__(),
        readonly,
        owner,
        (sizes, steps, kind, where, number),
    )
    if ready_on is not None:
        driver.ready_on(tensor, ready_on, ready_on)
    if owner is not None or deleter is not None:
        core.delete_with(tensor, deleter)  # last: a failure before this must not take the memory
    return tensor


def from_managed(address, versioned) -> core.Tensor:
    """See fastdl.from_managed."""
    number = _address(address)
    if not isinstance(versioned, bool):
        raise TypeError(f"expected versioned=True or False, got {versioned!r}")
    if number == 0 or number % calcsize("P"):
        form = "DLManagedTensorVersioned" if versioned else "DLManagedTensor"
        raise BufferError(f"expected the address of a {form}, got {number:#x}")
    return core.take_managed(number, versioned=versioned)


def to_managed(x: core.Tensor, max_version) -> int:
    """See fastdl.to_managed."""
    return core.give_managed(x.__dlpack__(max_version=max_version))


def _address(x: "Any") -> int:
    number = as_int(x)
    if number is None:
        raise TypeError(
            f"expected an address as an int, got {x!r}: for a ctypes object pass "
            f"ctypes.addressof(x), for a ctypes pointer ctypes.cast(x, ctypes.c_void_p).value, for "
            f"a cffi pointer int(ffi.cast('uintptr_t', x))"
        )
    bits = 8 * calcsize("P")
    if not 0 <= number < 1 << bits:
        raise BufferError(f"expected an address of {bits} bits, got {number}")
    return number


_NO_SEQUENCES = (str, bytes, bytearray, dict)  # of ints, though they can be indexed


def _ints(values: "Any", what: str) -> tuple[int, ...]:
    """An int, or a sequence of them, as a tuple of ints of 64 bits."""
    one = as_int(values)
    sequence = hasattr(values, "__getitem__") and not isinstance(values, _NO_SEQUENCES)
    items = (one,) if one is not None else tuple(values) if sequence else (None,)
    ints = tuple(number for number in map(as_int, items) if number is not None)
    if len(ints) != len(items):
        raise TypeError(f"expected ints as {what}, got {values!r}")
    if any(not -(2**63) <= n < 2**63 for n in ints):
        raise BufferError(f"expected ints of 64 bits as {what}, got {values!r}")
    return ints
