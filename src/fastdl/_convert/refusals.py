# SPDX-License-Identifier: Apache-2.0
"""The error messages of convert: why a library does not accept some data, and the remedy."""

from math import nan
from operator import le

from fastdl._bridges import lookup
from fastdl._bridges.bridge import ANYWHERE, DEVICE, HOST, IMMUTABLE
from fastdl._convert import missing
from fastdl._core import tensor as core
from fastdl._core.device import CPU
from fastdl._core.dtype import DType
from fastdl._core.errors import CopyRequiredError, frames, is_own, name_of, type_name
from fastdl._core.foreign import package_of
from fastdl._protocol.streams import DEFAULT


def arguments(count: int, names) -> TypeError:
    """The exception for a call of convert without exactly two positional arguments."""
    got = ", ".join([f"{count} positional", *map(repr, names)])
    return TypeError(
        f"expected convert(x, like), with `x` and `like` (the target) as positional arguments, got "
        f"{got}: write convert(x, 'torch'), for example"
    )


def describe_source(x, tensor) -> str:
    """A description of the object to convert."""
    if tensor is None:
        return f"an object of type {type_name(x)!r}"
    what = core.describe(tensor)
    return what if isinstance(x, core.Tensor) else f"{what}, of type {type_name(x)!r},"


def explain(error, x, tensor, bridge) -> Exception:
    """The exception to raise in place of `error`, its cause: with fastdl's types and messages.

    `tensor` is None if `x` could not be read; otherwise the library of `bridge` refused it.
    """
    if isinstance(error, MemoryError | CopyRequiredError):
        return error
    message = f"{describe_source(x, tensor)} cannot be converted to {bridge.name}"
    if tensor is None:
        reason = missing.reason(error, x)
        kind = TypeError if isinstance(reason, TypeError) and is_own(reason) else BufferError
        explanation = kind(f"{message}: {summary(reason)}")
    else:
        reason = f"{bridge.title} refused it ({summary(error)})"
        explanation = BufferError(f"{message}: {reason}. {remedy(tensor, bridge)}")
    explanation.__cause__ = error
    return explanation


def summary(error) -> str:
    """The type and the message of an exception. For exceptions of other libraries, only the first
    line, shortened; fastdl's own end with a remedy."""
    try:
        lines = str(error).strip().splitlines()
    except Exception:  # its __str__ fails
        lines = []
    text = " ".join(lines) if is_own(error) else "".join(lines[:1])
    if len(text) > 200 and not is_own(error):
        text = f"{text[:200]}..."
    if type(error) in (BufferError, TypeError, ValueError) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def passed_through(error, *functions) -> bool:
    """Whether an exception passed through one of these functions."""
    codes = [function.__code__ for function in functions]
    return any(frame.f_code in codes for frame in frames(error))


def check_device(where, bridge) -> None:
    """BufferError if a library has no objects on the device that the caller requests."""
    if where.is_host and bridge.devices == DEVICE:
        raise BufferError(
            f"{bridge.name} holds device memory only, got device={str(where)!r}: pass a device of "
            f"its own, or leave out `device`"
        )
    if not where.is_host and bridge.devices == HOST:
        raise BufferError(
            f"{bridge.name} holds host memory only, got device={str(where)!r}: pass device='cpu', "
            f"or convert to a library that has that device"
        )


def refuse(x, tensor, bridge) -> BufferError:
    """The exception for data whose device, dimensions or element type the library does not have, or
    for any data if the library is too old."""
    prefix = f"{describe_source(x, tensor)} cannot be converted to {bridge.name}: "
    if bridge.outdated:
        return BufferError(
            f"{prefix}expected {bridge.title} {bridge.since} or newer, got {bridge.outdated}. "
            f"Upgrade it; convert reads arrays of older versions, but makes none"
        )
    host = tensor.device.is_host
    if host and bridge.devices not in (HOST, ANYWHERE):
        return BufferError(
            f"{prefix}{bridge.name} holds device memory only. To copy it there, pass the device to "
            f"convert, such as device='cuda:0'"
        )
    if not host and bridge.devices == HOST:
        return BufferError(
            f"{prefix}{bridge.name} holds host memory only. To copy it there, pass device='cpu' to "
            f"convert"
        )
    least, most = bridge.ndims
    if not least <= tensor.ndim <= most:
        expected = f"{least} dimension{'s' * (least != 1)}"
        if least != most:
            expected = f"{least} to {most} dimensions"
        others = [
            other.name
            for other in lookup.bridges_of(package_of(bridge.name))
            if other.ndims[0] <= tensor.ndim <= other.ndims[1]
        ]
        hint = f"Convert to {others[0]} instead" if others else "Reshape it first"
        return BufferError(f"{prefix}{bridge.name} has {expected}. {hint}")
    return BufferError(
        f"{prefix}{bridge.name} has no {tensor.dtype}. {nearest_dtype(tensor, bridge.dtypes)}"
    )


#: The bits of exponent and mantissa of the floating types whose names do not contain them.
FORMS = {"float16": (5, 10), "bfloat16": (8, 7), "float32": (8, 23), "float64": (11, 52)}


def extent(dtype) -> tuple[float, ...]:
    """The numbers of a type: kind, sign, digits, and range, as exponents of 2. A type can hold all
    values of another if none of its entries is less."""
    import re  # not needed by `import fastdl`

    name = dtype.name
    prefix, is_complex, bits = name.partition("complex")
    if is_complex:
        return 2, *extent(DType(f"{prefix}float{int(bits) // 2}"))[1:]
    if name.startswith(("int", "uint")):
        signed = name.startswith("int")
        return 0, signed, dtype.bits - signed, 0, dtype.bits
    if name == "bool":
        return 0, 0, 1, 0, 1
    found = re.match(r"float\d+_e(\d+)m(\d+)", name)
    form = FORMS.get(name) or (found and found.groups())
    if form is None:
        return (nan,)  # compares with no other
    exponent, mantissa = map(int, form)
    half = 1 << exponent - 1
    return 1, 1, mantissa + 1, half - 2 + mantissa + ("fnu" in name), half + name.endswith("fn")


def casting(*dtypes, device=CPU) -> str:
    """The code that converts elements on `device` to the last of `dtypes`, in a library that has
    all of them; "" if neither NumPy nor torch does."""
    name = dtypes[-1].name
    if device.is_host and all(map(has_numpy, dtypes)):
        return f"fastdl.convert(x, numpy.ndarray).astype({name!r})"
    theirs = lookup.bridges_of("torch")[0].dtypes or ()
    orders = device.is_host or device.stream_kind in DEFAULT
    if orders and all(dtype.lanes == 1 and dtype.name in theirs for dtype in dtypes):
        return f"fastdl.convert(x, torch.Tensor).to(torch.{name})"
    return ""


def has_numpy(dtype) -> bool:
    """Whether NumPy has a type for `dtype` in this process, by its name: ml_dtypes adds some."""
    try:
        return dtype.lanes == 1 and lookup.load("numpy").descriptor(dtype) is not None
    except (ImportError, TypeError):
        return False


def nearest_dtype(tensor, dtypes) -> str:
    """The remedy for an element type that a library does not have."""
    dtype, device = tensor.dtype, tensor.device
    if dtype.lanes > 1:
        return lanes_of(tensor)
    least = extent(dtype)
    # Others cannot be computed with.
    numbers = [DType(name) for name in dtypes if name != "bool" and "_" not in name]
    wider = [other for other in numbers if all(map(le, least, extent(other)))]
    if not wider:
        return f"None of its types holds every {dtype}: it has {', '.join(sorted(dtypes))}"
    found = min(wider, key=lambda other: (extent(other)[0], other.bits, -extent(other)[2]))
    line = casting(dtype, found, device=device)
    how = f": {line}" if line else ", in the library that made them"
    return f"Convert the elements to {found} first{how}"


def lanes_of(tensor) -> str:
    """The code that reads the lanes of a vector type as elements."""
    lane = tensor.dtype.lane
    try:
        tensor.view(lane)
    except (BufferError, ValueError):  # no last dimension, gaps in it, sub-byte lanes
        to = "" if tensor.device.is_host else ", device='cpu'"
        return f"fastdl.convert(x, numpy.ndarray{to}) has its lanes in a further dimension"
    return f"fastdl.asarray(x).view({lane.name!r}) has its lanes as elements"


#: The requirements of a type, by the entries of REASONS.
NEEDS = {
    "read-only": "it is read-only, and arrays of {title} are always writable",
    "layout": "its strides are {strides}, and {name} takes {takes}",
    "alignment": "its address {address:#x} is not a multiple of {alignment}, as {name} needs",
}
TAKES = ("any", "no negative ones", "no gaps or negative strides", "row-major data without gaps")


def need(tensor, bridge, reason) -> str:
    """Why a library needs a copy of a tensor."""
    if reason == "read-only" and bridge.readonly == IMMUTABLE:
        return f"it is read-only, but may change, and values of {bridge.title} never do"
    return NEEDS[reason].format(
        name=bridge.name,
        title=bridge.title,
        strides=tensor.strides,
        takes=TAKES[bridge.strides],
        address=tensor.data_ptr,
        alignment=bridge.alignment,
    )


def unfit(x, tensor, bridge, reason) -> BufferError:
    """The exception where a copy is needed on a device, and the producer's copy, `tensor`, does not
    fit either."""
    return BufferError(
        f"{describe_source(x, tensor)} cannot be converted to {bridge.name}: "
        f"{need(tensor, bridge, reason)}, even in the copy that its own library made. To copy it "
        f"through the host, pass device='cpu' to convert"
    )


def gradient(x, bridge) -> BufferError:
    """The exception for an object whose gradient its library records."""
    return BufferError(
        f"expected data without a gradient, got an object of type {type_name(x)!r} that requires "
        f"grad, which {bridge.name} would not record: pass x.detach()"
    )


def no_memory(like, device) -> BufferError:
    """The exception for a result of C code on a device, for a type whose library allocates none."""
    return BufferError(
        f"expected a type whose library allocates on {device} for fastdl (torch.Tensor, "
        f"paddle.Tensor, cupy.ndarray), got {name_of(like)!r}: allocate with the library itself"
    )


def forbid(x, tensor, bridge, reason, copies) -> CopyRequiredError:
    """The exception where a copy is needed and copy=False."""
    if reason is not None:
        why = need(tensor, bridge, reason)
    else:
        why = f"{bridge.name} {'always copies' if copies else 'may copy'} such data"
    return CopyRequiredError(
        f"{describe_source(x, tensor)} cannot be converted to {bridge.name} without a copy, and "
        f"copy=False: {why}; copy=None allows one"
    )


def remedy(tensor, bridge) -> str:
    """An alternative that works, for data that a library refused."""
    if bridge.name == "numpy.ndarray" or tensor.dtype.format is None or not tensor.device.is_host:
        return "fastdl.from_dlpack(x) makes a fastdl.Tensor of it"
    return "fastdl.convert(x, numpy.ndarray) makes an array of it"
