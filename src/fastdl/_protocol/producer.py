# SPDX-License-Identifier: Apache-2.0
"""`Tensor.__dlpack__` in Python: fastdl as a producer.

`export` handles every call; the compiled method in front of it reads the arguments, and handles the
plain call.
"""

from fastdl._core import tensor as core
from fastdl._core.device import CPU, Device, DeviceType
from fastdl._core.errors import CopyRequiredError
from fastdl._devices import driver
from fastdl._protocol.placement import make_copy, satisfies
from fastdl._protocol.streams import DEFAULT, order_export, validate_stream


def export(tensor, stream, max_version, target: Device | None, copy, version):
    """A capsule for a consumer that passed these arguments, all checked except `version`. See
    Tensor.__dlpack__."""
    versioned = wants_versioned(max_version, version)
    if core.is_packed(tensor) and not knows_packed(max_version, version):
        raise BufferError(
            f"{core.describe(tensor)} has packed elements, which need DLPack 1.1 or newer, and "
            f"the consumer requested {max_version or version}: pass it the bytes, "
            f"fastdl.encode(x)[1]"
        )
    here = tensor.device

    # A CPU can read managed memory in place; the capsule still names its real device.
    alias = target == CPU and here.type == DeviceType.CUDA_MANAGED and not copy
    if (alias or satisfies(here, target)) and not copy:
        if target == CPU != here:  # the standard requires None; the host waits in any case
            driver.wait(tensor)
        else:
            order_export(tensor, stream)
        return core.export_capsule(tensor, versioned=versioned)
    if copy is False:
        raise CopyRequiredError(
            f"{core.describe(tensor)} needs a copy to be on {target}, and copy=False"
        )
    result = copy_for(tensor, target or here, None if target == CPU else stream)
    return core.export_capsule(result, versioned=versioned, copied=True)


def copy_for(tensor, target: Device, stream):
    """A copy on `target`, ready for a consumer that passed `stream`."""
    number = validate_stream(stream, target)
    if target.is_host:
        number = -1
    elif number is None:
        number = DEFAULT.get(target.stream_kind)
    return make_copy(tensor, target, number)


def wants_versioned(max_version, version) -> bool:
    """Whether to return a versioned capsule; BufferError if there is no common version."""
    if max_version is not None and version is not None:
        raise TypeError("expected max_version or version, got both")
    if version is not None:
        if isinstance(version, bool) or not hasattr(version, "__index__"):
            raise TypeError(f"expected an int in version, got {version!r}")
        version = version.__index__()
        if version < 70:
            return False
        if 100 <= version <= 130:
            return True
        raise BufferError(
            f"expected version up to 69, or 100 to 130, got {version}: 70 to 99 is a layout that "
            f"never shipped, and DLPack 1.3 is the newest that fastdl supports"
        )
    return max_version is not None and max_version[0] >= 1


def knows_packed(max_version, version) -> bool:
    """Whether a consumer that requests this version supports elements that share bytes. Others,
    such as mpi4py, read one byte for each element, past the end of the memory. A consumer that
    names no version is assumed to support them: in a legacy capsule narrow elements were always
    packed."""
    if version is not None:
        return version < 70 or version >= 110
    return max_version is None or max_version >= (1, 1)
