from collections.abc import Iterable
from types import ModuleType
from typing import Any, Protocol, TypeAlias

from typing_extensions import Buffer, CapsuleType

from fastdl._core.device import _DeviceLike
from fastdl._core.launch import _Signer
from fastdl._core.tensor import Tensor

# The generations of the protocol differ in their keywords, and all of them will do.
class _SupportsDLPack(Protocol):
    def __dlpack__(self, *args: Any, **kwargs: Any) -> CapsuleType: ...

_DLPackLike: TypeAlias = _SupportsDLPack | CapsuleType

def from_dlpack(
    x: _DLPackLike,
    /,
    *,
    device: _DeviceLike | None = None,
    copy: bool | None = None,
    stream: object = None,
) -> Tensor:
    """A fastdl.Tensor on the memory of any DLPack producer or capsule.

    x: an object with `__dlpack__` (any of its three generations) or with an exchange table, or a raw
        capsule "dltensor" or "dltensor_versioned", which is consumed.
    device: where the result must be, in any form that fastdl.Device takes: "cpu", "cuda:0", a
        torch.device, ...; None: where x is.
    copy: True always copies, False never does (CopyRequiredError), None copies if it must.
    stream: CUDA and ROCm only: the stream of the result's device on which it will be used, as an
        integer, an object with `__cuda_stream__`, or a stream of torch, CuPy or Numba; copies that
        fastdl makes run on it. None: the thread's work stream, which is the default stream unless
        `use_stream` says otherwise. -1: the caller orders all work. Not with a capsule.

    The result keeps the memory alive. It is read-only if the producer says so, or if x is of a type
    whose values are immutable (jax.Array, mlx.core.array, TensorFlow's EagerTensor, pyarrow.Array). A
    torch tensor that requires grad is imported as if detached. docs/hazards.md lists what to watch for.

    TypeError: x is not a producer or an argument has the wrong type. ValueError: a consumed capsule,
    or a stream that the device does not have. BufferError: the data cannot be described, reached or
    ordered. MemoryError: there is not enough for a copy. Exceptions of the producer pass unchanged.

    >>> import numpy as np
    >>> array = np.arange(3)
    >>> tensor = fastdl.from_dlpack(array)
    >>> array[0] = 7
    >>> tensor.tolist()
    [7, 1, 2]
    >>> fastdl.from_dlpack(array, copy=True).data_ptr == tensor.data_ptr
    False
    """

def exchange_api(producer: type | _SupportsDLPack, /) -> CapsuleType:
    """The exchange table of a type, or of an object's type, as a capsule "dlpack_exchange_api".

    The library's own table if it has one, otherwise a bridge of fastdl's. Any C consumer can call
    its functions; the borrowing one may be NULL. TypeError if the type has no `__dlpack__` either.
    The table stays valid until the process ends.

    >>> import numpy as np
    >>> fastdl.exchange_api(np.ndarray)
    <capsule object "dlpack_exchange_api" at 0x...>
    """

def register_exchange_api(cls: type, table: CapsuleType | int, /) -> None:
    """Makes `table` the exchange table of the type `cls`, and of its subclasses that do not
    define `__dlpack__` themselves.

    cls: a type, whatever it publishes itself.
    table: a capsule "dlpack_exchange_api", or the address of a DLPackExchangeAPI as an int. The
        address cannot be verified: an int that is not one crashes the process. The table must
        stay valid until the process ends.

    Registering again replaces the table. ValueError if no table of the chain has major version
    1 and all its mandatory functions.

    >>> class My:  # its library's table would know what to do with it
    ...     pass
    >>> fastdl.register_exchange_api(My, fastdl.exchange_api(fastdl.Tensor))
    >>> fastdl.from_dlpack(My())
    Traceback (most recent call last):
    TypeError: expected a fastdl.Tensor, got '__main__.My': this is fastdl.Tensor's exchange table
    """

def signature(*tensors: object, into: Buffer | None = None) -> bytes:
    """The key of a launch, as bytes: equal if a kernel that was compiled for one call serves the other.

    tensors: anything that fastdl.from_dlpack takes, except capsules. The key contains the element type,
        the number of dimensions, the sizes, the strides, the device, the alignment of the first element
        up to 16 bytes, and whether the tensor is read-only; `fastdl.signer` makes a function that
        leaves some of it out.
    into: a writable buffer that receives the address, the sizes and the strides of each tensor, as
        64-bit integers one after the other, for kernels that take them so; `fastdl.signer` has other
        layouts.

    Nothing is synchronised and nothing is kept: addresses are valid as long as the tensors are. Keys
    are of this process: do not store them. Costs little more than to borrow each tensor.

    TypeError, BufferError: as from_dlpack, with the number of the argument. ValueError: `into` is too
    small. BufferError: it is not writable.

    >>> compiled = {fastdl.signature(np.ones((2, 3), np.float32))}
    >>> fastdl.signature(np.zeros((2, 3), np.float32)) in compiled
    True
    """

# What follows is only for fastdl's own Python layer.

MAX_VERSION: tuple[int, int]
TYPE_NATIVE: int
TYPE_PROTOCOL: int
TYPE_HAS_DLPACK: int
TYPE_BUFFER: int
TYPE_ASK_VALUES: int
TYPE_KEEP: int
TYPE_STREAM_NONE_SYNCS: int
TYPE_UNORDERED: int
TYPE_NO_STREAM: int
TYPE_CHECKED: int
KEYWORDS: dict[str, int]

def install(module: ModuleType) -> None: ...

runtime: CapsuleType  # what fastdl_import finds

def facts_of(cls: type) -> int: ...
def special(instance: object, name: str) -> Any: ...
def refused_by(cls: type) -> int: ...
def producer(x: object) -> Any: ...
def refusal(error: TypeError, asked: Iterable[str], frames: int) -> int: ...
def acquire(x: object, *, order: int = 1) -> Tensor | None: ...
def is_producer(x: object) -> bool: ...
def has_native_table(x: object) -> bool: ...
def ask(x: object) -> Tensor: ...
def finish(x: object, tensor: Tensor | None, device: object, stream: object) -> Tensor: ...
def make_signer(
    dtype: bool,
    device: bool,
    readonly: bool,
    sizes: int,
    strides: int,
    alignment: int,
    layout: str,
) -> _Signer: ...
