# SPDX-License-Identifier: Apache-2.0
"""asarray: tensors from buffers and other interfaces."""

import sys
from functools import partial

from fastdl._convert import convert as front
from fastdl._convert import missing
from fastdl._convert.targets import bridge_for
from fastdl._core import exchange
from fastdl._core import tensor as core
from fastdl._core.device import Device
from fastdl._core.errors import is_own, refusal, type_name
from fastdl._core.tensor import Tensor
from fastdl._protocol import arrow
from fastdl._protocol.array_interface import import_array
from fastdl._protocol.consumer import OF_NUMBERS, Capsule, place
from fastdl._protocol.cuda_array import import_cuda_array
from fastdl._protocol.placement import mark_unless_shared

TYPE_CHECKING = False  # instead of typing's: `import fastdl` need not load that
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol, TypeAlias

    from typing_extensions import Buffer

    from fastdl._core.exchange import _DLPackLike

    class _SupportsArray(Protocol):
        def __array__(self) -> Any: ...

    class _SupportsArrayInterface(Protocol):
        @property
        def __array_interface__(self) -> dict[str, Any]: ...

    class _SupportsArrow(Protocol):
        def __arrow_c_array__(self) -> tuple[object, object]: ...

    class _SupportsCudaArray(Protocol):
        @property
        def __cuda_array_interface__(self) -> dict[str, Any]: ...

    _ArrayLike: TypeAlias = (
        _DLPackLike
        | _SupportsCudaArray
        | Buffer
        | _SupportsArrayInterface
        | _SupportsArrow
        | _SupportsArray
    )


def asarray(x, device: "Device | None" = None, copy=None) -> Tensor:
    """See fastdl.asarray."""
    if device is not None or copy is not None:
        return acquire(x, None if device is None else Device(device), copy)
    array_of = missing.array_of.get(id(type(x)))
    array = None if array_of is None else array_of(x)
    if array is not None:
        try:
            return exchange.from_dlpack(array)
        except BufferError:  # in another byte order
            return asarray(array)
    tensor = None if isinstance(x, Capsule) else _read_known(x)
    if tensor is not None:
        return tensor
    _, read = interface(x)
    if read is not None:
        tensor = read(x)
        missing.remember(type(x))
        return tensor
    raise refusal(
        TypeError,
        f"expected a tensor, an array or a buffer, got {type_name(x)!r}, which has none of "
        f"these: __dlpack__, __cuda_array_interface__, a buffer, __array_interface__, __array__, "
        f"__arrow_c_array__, __arrow_c_stream__{_remedy(x)}",
    )


def _read_known(x):
    """The tensor of an object of a library that fastdl knows, by its reader or DLPack; otherwise
    None."""
    own = bridge_for(type(x))
    if own is None:
        return None
    try:
        return front.read(x, own)
    except Exception as error:
        return _otherwise(x, own, error)


def _otherwise(x, own, error) -> Tensor:
    """The tensor of `x`, of the library `own` (None: unknown), after DLPack failed with `error`,
    which is being handled. Re-raises `error`, or raises one about missing values in its place."""
    tensor, reason = None, error
    try:
        if own is not None and own.read_otherwise is not None:
            tensor = own.read_otherwise(x)
    except MemoryError:
        raise
    except Exception as other:
        reason = other if is_own(other) else error
    try:
        if tensor is not None:
            return tensor
        reason = missing.reason(reason, x)
        if reason is error:
            raise error
        raise reason from error
    finally:
        del reason, error  # whose tracebacks refer to this frame


def check_copy(copy) -> None:
    """TypeError unless the argument `copy` is None or a bool."""
    if copy is not None and not isinstance(copy, bool):
        raise TypeError(f"expected copy=None, True or False, got {copy!r}")


def acquire(x, device: "Device | None" = None, copy=None, stream=None) -> Tensor:
    """asarray(x, device=device, copy=copy), ready on `stream`, as in from_dlpack."""
    check_copy(copy)
    if not _is_exporter(x):
        return place(asarray(x), device, copy, stream)
    if device is None and copy is None and stream is None:
        return asarray(x)
    try:
        return exchange.from_dlpack(x, device=device, copy=copy, stream=stream)
    except Exception as error:
        return place(_otherwise(x, bridge_for(type(x)), error), device, copy, stream)


def _is_exporter(x) -> bool:
    """Whether asarray imports `x` over DLPack, where the exchange handles the keywords itself."""
    if isinstance(x, Capsule):
        return True
    own = bridge_for(type(x))
    return exchange.is_producer(x) and (own is None or own.read is None)


def _remedy(x) -> str:
    """The end of a message about an object that exposes no array: the remedy."""
    if isinstance(x, type):
        return ": pass an object of this type, not the type itself"
    few = x[:8] if isinstance(x, list | tuple) else ()
    if isinstance(x, dict) or any(map(exchange.is_producer, few)):
        return ": fastdl.convert_tree(x, fastdl.Tensor) converts each tensor in it"
    if isinstance(x, OF_NUMBERS):
        return ": pass numpy.asarray(x)"
    if hasattr(type(x), "get_obj"):
        return ": pass x.get_obj()"
    module = type(x).__module__
    if module == "_cffi_backend":
        return (
            ": fastdl.from_pointer(int(ffi.cast('uintptr_t', x)), shape, dtype, owner=x) has the "
            "memory that x points to"
        )
    if module == "builtins":
        return ""
    return ": make an array of it first, with a function of its own library"


def interface(x: object) -> "tuple[str, Callable[[Any], Tensor]] | tuple[None, None]":
    """The interface by which asarray reads `x`, and the function that reads it; (None, None) if
    there is none."""
    if isinstance(x, Capsule) or exchange.is_producer(x):
        return "__dlpack__", exchange.from_dlpack
    if isinstance(x, type):  # a class has the attributes of its instances
        return None, None
    if _is_scalar(x):
        return "__array__", _from_array_method
    for has in (_defines, hasattr):  # attributes of the type before those from `__getattr__`
        if has(x, "__cuda_array_interface__"):
            return "__cuda_array_interface__", import_cuda_array
        if _has_buffer(x):
            return "buffer", core.from_buffer
        for name, read in _READERS.items():
            if has(x, name):
                return name, read
    return None, None


def _defines(x, name: str) -> bool:
    """Whether both `x` and its type have an attribute, such as a property that does not raise. A
    negative result is cheap, unlike the `__getattr__` of pandas, polars and xarray."""
    return hasattr(type(x), name) and hasattr(x, name)


def _has_buffer(x) -> bool:
    try:
        memoryview(x).release()
    except TypeError:
        return False
    except (BufferError, ValueError):  # not available, such as a released memoryview
        pass
    return True


def _is_scalar(x) -> bool:
    """Whether x is a NumPy scalar. Only `__array__` preserves the type of every scalar: the buffer
    of a date consists of bytes."""
    np = sys.modules.get("numpy")
    return np is not None and isinstance(x, np.generic)


def _from_column(x):
    """The tensor of data with Arrow's interfaces or `__array__`, by the first that describes it.
    Arrow may fail where `__array__` works, as for columns of several types; where `__array__`
    yields Python objects, Arrow's error is more specific."""
    failed: list[Exception] = []
    try:
        for name, read in _OF_COLUMNS:
            if hasattr(x, name):
                try:
                    tensor = read(x)
                    if tensor is not None:
                        return tensor
                except MemoryError:
                    raise
                except Exception as error:
                    if not failed and not isinstance(error, BufferError):
                        raise
                    if failed and hasattr(failed[0], "_of_objects"):
                        failed.clear()
                    failed.append(error)
        raise failed[0]
    finally:
        failed.clear()  # their tracebacks refer to this frame


def _from_arrow(x):
    """The tensor of an Arrow array, which its library may create anew for each export."""
    return mark_unless_shared(arrow.from_array(x), partial(arrow.from_array, x))


def _from_stream(x):
    """The tensor of an Arrow stream; None if the stream does not have the memory of `x`."""
    source = missing.in_arrow(x)
    if source is None:
        return None
    return mark_unless_shared(arrow.from_stream(source), partial(arrow.from_stream, source))


def _from_array_method(x):
    """The tensor of the NumPy array that `__array__` returns, or of the data that `x` holds."""
    holder = missing.holder(x)
    dtypes = missing.dtypes_of(x)
    countable = holder is not None or missing.check(x, dtypes)
    call = holder or missing.numbers(x, dtypes) or x.__array__
    read = partial(_of_result, x, call, _of_array if holder is None else _of_held)
    tensor = mark_unless_shared(read(), read)
    if not countable:
        raise refusal(
            BufferError,
            f"missing values in {type_name(x)!r} cannot be counted: fill or drop them, and convert "
            f"it to plain numbers first",
        )
    return tensor


def _of_result(x, call, read):
    """The tensor that `read` makes of the result of call(): marked as a copy if no other code
    refers to the result, which saves a second call to compare."""
    answer = {"array": call()}
    owner = core.sole_owner(answer, "array")
    owns = getattr(getattr(owner, "flags", None), "owndata", False)
    array = answer.pop("array")
    tensor = read(x, array)
    return core.mark_copied(tensor) if owns else tensor


def _of_held(x, held):
    return asarray(held)


def _of_array(x, array):
    if not exchange.is_producer(array):
        raise refusal(
            TypeError, f"expected an array from __array__ of {type_name(x)!r}, got {array!r}"
        )
    try:
        return asarray(array)
    except BufferError as error:
        if getattr(getattr(array, "dtype", None), "kind", "") == "O":
            vars(error)["_of_objects"] = True
        raise


_OF_COLUMNS = (
    ("__arrow_c_array__", _from_arrow),
    ("__array__", _from_array_method),
    ("__arrow_c_stream__", _from_stream),
)
_READERS = {
    "__array_interface__": import_array,
    **{name: _from_column for name, _ in _OF_COLUMNS},
}
