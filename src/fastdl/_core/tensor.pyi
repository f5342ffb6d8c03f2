from collections.abc import Callable, Iterable, Iterator, Sequence
from types import EllipsisType, ModuleType
from typing import Any, ClassVar, Literal, SupportsIndex, TypeAlias, final, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer, CapsuleType

from fastdl._core.device import Device, _DeviceLike
from fastdl._core.dtype import DType, _DTypeLike

_Entry: TypeAlias = SupportsIndex | slice | EllipsisType | None
_Ints: TypeAlias = SupportsIndex | Sequence[SupportsIndex]
_Index: TypeAlias = _Entry | tuple[_Entry, ...]

@final
class Tensor:
    """A tensor that belongs to no framework.

    Made by `fastdl.from_dlpack`, `fastdl.asarray` and `fastdl.empty`, never by calling the type.
    It refers to memory that a library (or fastdl) owns, keeps that memory alive, and can be handed
    to any consumer of DLPack, the buffer protocol, `__array__`, the array interfaces or Arrow.
    Its shape, type and device never change. Host tensors can be pickled, from protocol 5 on out of
    band without a copy.

    A host tensor of exactly one element is a number to int, float, complex, round, math and format;
    an integer without dimensions is also an index. `x in tensor` compares the number x with each
    element of a host tensor as Python compares numbers: 0.1 is in no float32 tensor. A tensor is
    equal to itself only. Comparing it with anything but None raises TypeError; to compare values,
    use numpy.array_equal(tensor.numpy(), x).

    >>> import numpy as np
    >>> array = np.arange(6, dtype="float32").reshape(2, 3)
    >>> tensor = fastdl.from_dlpack(array)
    >>> tensor
    fastdl.Tensor([[0, 1, 2], [3, 4, 5]], shape=(2, 3), dtype=float32, device=cpu:0)
    >>> column = tensor[:, 1]
    >>> column.strides, column.is_contiguous(), column.tolist()
    ((3,), False, [1.0, 4.0])
    >>> tensor.numpy()[1, 1] = 7  # no memory was copied
    >>> float(array[1, 1]), column[1].item(), 7 in column
    (7.0, 7.0, True)
    """

    __dlpack_c_exchange_api__: ClassVar[CapsuleType]
    __c_dlpack_exchange_api__: ClassVar[int]

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the dimensions, in elements: a tuple of ints.

        >>> fastdl.from_dlpack(np.zeros((2, 3))).shape
        (2, 3)
        """
    @property
    def strides(self) -> tuple[int, ...]:
        """Steps between neighbours in each dimension, in elements, as given by the producer.

        Those of dimensions of size 1, and of tensors without elements, may be anything.

        >>> fastdl.from_dlpack(np.zeros((2, 3))[:, ::-1]).strides
        (3, -1)
        """
    @property
    def ndim(self) -> int:
        """Number of dimensions, 0 to 64.

        >>> fastdl.empty((2, 3)).ndim
        2
        """
    @property
    def size(self) -> int:
        """Number of elements.

        >>> fastdl.empty((2, 3)).size
        6
        """
    @property
    def itemsize(self) -> int:
        """Bytes of one element; 1 for packed elements of fewer than 8 bits.

        >>> fastdl.empty(6, "float32x4").itemsize
        16
        """
    @property
    def nbytes(self) -> int:
        """Bytes of all elements laid out without gaps, whatever the strides.

        >>> fastdl.empty(6, "int16").nbytes, fastdl.empty(6, "int4").nbytes
        (12, 3)
        """
    @property
    def dtype(self) -> DType:
        """The element type, a fastdl.DType.

        >>> fastdl.empty(6).dtype
        DType('float32')
        """
    @property
    def device(self) -> Device:
        """Where the memory is, a fastdl.Device.

        >>> fastdl.empty(6).device
        Device('cpu:0')
        """
    @property
    def data_ptr(self) -> int:
        """Address of the first element, as an int.

        On devices without addresses (OpenCL, Vulkan, Metal, WebGPU, unknown ones) the handle of the
        allocation, without any byte offset.

        >>> array = np.zeros(3)
        >>> fastdl.from_dlpack(array).data_ptr == array.ctypes.data
        True
        """
    @property
    def readonly(self) -> bool:
        """Whether the elements must not be written. Views and exports keep it; a copy is writable.

        >>> fastdl.asarray(b"abc").readonly, fastdl.asarray(bytearray(b"abc")).readonly
        (True, False)
        """
    @property
    def is_copied(self) -> bool:
        """Whether the producer or fastdl copied the data for this tensor.

        >>> x = fastdl.empty(3)
        >>> x.is_copied, x.copy().is_copied
        (False, True)
        """
    @property
    def is_shared(self) -> bool:
        """Whether the memory is such that other processes can map: see fastdl.share.

        >>> x = fastdl.empty(3, shared=True)
        >>> x.is_shared, x[1:].is_shared, fastdl.from_dlpack(x.numpy()).is_shared
        (True, True, True)
        """
    def is_contiguous(self, order: Literal["C", "F"] = "C") -> bool:
        """Whether the elements have no gaps: in row-major order ("C") or column-major order ("F").

        Strides of dimensions of size 1 do not matter. A tensor without elements is contiguous.
        ValueError for another order.

        >>> x = fastdl.empty((2, 3))
        >>> x.is_contiguous(), x.T.is_contiguous(), x.T.is_contiguous("F")
        (True, False, True)
        """
    @property
    def T(self) -> Tensor:
        """The transpose of a matrix: a view with rows and columns exchanged.

        ValueError unless there are two dimensions, as in the array API standard; `mT` takes
        more, and `permute` any number.

        >>> fastdl.from_dlpack(np.arange(6).reshape(2, 3)).T.tolist()
        [[0, 3], [1, 4], [2, 5]]
        """
    @property
    def mT(self) -> Tensor:
        """The transpose of each matrix in a stack: a view with the last two dimensions exchanged.

        ValueError if there are fewer than two dimensions, BufferError for elements that share
        bytes.

        >>> fastdl.empty((4, 2, 3)).mT.shape
        (4, 3, 2)
        """
    def permute(self, *axes: _Ints) -> Tensor:
        """A view with the dimensions in another order.

        axes: each dimension once, as ints or as one sequence of ints; negative ones count from the
        last. Dimension i of the view is dimension axes[i] of this tensor. ValueError for other
        axes, BufferError for elements that share bytes.

        >>> fastdl.empty((2, 3, 4)).permute(2, 0, 1).shape
        (4, 2, 3)
        """
    def reshape(self, *shape: _Ints) -> Tensor:
        """A view of the same elements, in row-major order, in another shape. Never copies.

        shape: sizes in elements, as ints or as one sequence of ints; one of them may be -1, for
        what the others leave. ValueError if the shape does not hold as many elements.
        CopyRequiredError, which is a ValueError too, if no strides describe the result: a copy has
        memory of its own.

        >>> x = fastdl.from_dlpack(np.arange(6)).reshape(2, -1)
        >>> x.tolist()
        [[0, 1, 2], [3, 4, 5]]
        >>> x.T.copy().reshape(6).tolist()
        [0, 3, 1, 4, 2, 5]
        >>> x.T.reshape(6)
        Traceback (most recent call last):
        fastdl...CopyRequiredError: an int64 tensor of shape (3, 2) on cpu:0 cannot be ...
        """
    def flatten(self) -> Tensor:
        """A view of all elements in row-major order, in one dimension: reshape(-1). Never copies.

        CopyRequiredError, which is a ValueError too, if no stride describes the result: copy()
        first, as in x.copy().flatten().

        >>> x = fastdl.from_dlpack(np.arange(6).reshape(2, 3))
        >>> x.flatten().tolist(), x.T.copy().flatten().tolist()
        ([0, 1, 2, 3, 4, 5], [0, 3, 1, 4, 2, 5])
        """
    def squeeze(self, axis: _Ints | None = None) -> Tensor:
        """A view without dimensions of size 1.

        axis: which ones, as an int or a sequence of ints, negative ones counted from the last;
        None: all of size 1. ValueError for a dimension of another size, or that does not exist.
        `unsqueeze` is the opposite.

        >>> x = fastdl.empty((1, 3, 1))
        >>> x.squeeze().shape, x.squeeze(-1).shape
        ((3,), (1, 3))
        """
    def unsqueeze(self, axis: SupportsIndex) -> Tensor:
        """A view with a new dimension of size 1.

        axis: which dimension of the view it is, an int from 0 to ndim; negative ones count from the
        last of the view. ValueError for another axis, or if there are 64 dimensions already.

        >>> x = fastdl.empty((2, 3))
        >>> x.unsqueeze(0).shape, x.unsqueeze(-1).shape
        ((1, 2, 3), (2, 3, 1))
        """
    def expand(self, *shape: _Ints) -> Tensor:
        """A read-only view with elements repeated, along dimensions of size 1 and new ones.

        shape: the sizes of the view, as ints or as one sequence of ints; -1 keeps a size. New
        dimensions come before the first. What is repeated has stride 0 and takes no memory. The
        view is read-only, as that of numpy.broadcast_to, even if nothing is repeated: a write to
        one element would show in others, which consumers that write take for separate memory.

        ValueError if a dimension of another size than 1 would change, or if the bytes of all
        elements are more than a 64-bit count can hold. BufferError for elements that share bytes.

        >>> x = fastdl.from_dlpack(np.arange(3)).expand(2, 3)
        >>> x.tolist(), x.strides, x.readonly
        ([[0, 1, 2], [0, 1, 2]], (0, 1), True)
        """
    def view(self, dtype: _DTypeLike) -> Tensor:
        """The same bytes as elements of another type: bits are reinterpreted, not converted.

        dtype: whatever fastdl.DType takes. If its elements have another size, the last dimension
        gets more or fewer of them. ValueError if that is not a whole number, or if there is
        no dimension. CopyRequiredError, which is a ValueError too, if the last dimension has gaps,
        or if a stride or the address does not fit the new elements. BufferError for elements that
        share bytes, before or after.

        >>> x = fastdl.from_dlpack(np.array([1.0, -2.0], np.float32))
        >>> [hex(bits) for bits in x.view("uint32").tolist()]
        ['0x3f800000', '0xc0000000']
        >>> x.view("uint8").shape
        (8,)
        """
    def as_readonly(self) -> Tensor:
        """A read-only view of the same elements. This tensor stays as it is.

        What is made of the view is read-only too, but for copies: views, exports, numpy(). It keeps
        others from writing by mistake; whoever has this tensor or its source may still write, and
        the view shows that.

        >>> x = fastdl.empty(3)
        >>> x.as_readonly().numpy().flags.writeable, x.readonly
        (False, False)
        """
    def __len__(self) -> int: ...
    def __getitem__(self, key: _Index, /) -> Tensor:
        """A view of a part: integers, slices, None and one Ellipsis, as in NumPy's basic indexing.

        Shares memory with this tensor and keeps it alive. Copies nothing. None adds a dimension of
        size 1. IndexError for an index that does not exist, TypeError for arrays and booleans,
        BufferError for elements that share bytes.

        >>> x = fastdl.from_dlpack(np.arange(12).reshape(3, 4))
        >>> x[1:, ::-2].tolist(), x[..., None].shape
        ([[7, 5], [11, 9]], (3, 4, 1))
        """
    def __iter__(self) -> Iterator[Tensor]: ...
    def __contains__(self, x: object, /) -> bool: ...

    # Of exactly one element on the host; __index__: an integer without dimensions.
    def __int__(self) -> int: ...
    def __float__(self) -> float: ...
    def __complex__(self) -> complex: ...
    def __index__(self) -> int: ...
    @overload
    def __round__(self, ndigits: None = None, /) -> int: ...
    @overload
    def __round__(self, ndigits: SupportsIndex, /) -> int | float: ...
    def __floor__(self) -> int: ...
    def __ceil__(self) -> int: ...
    def __trunc__(self) -> int: ...
    def __format__(self, form: str, /) -> str: ...
    def __bytes__(self) -> bytes:
        """The elements in row-major order, without gaps. Host data only (BufferError).

        >>> bytes(fastdl.from_dlpack(np.array([[1, 2], [3, 4]], np.uint8)).T)
        b'\\x01\\x03\\x02\\x04'
        """

    # Numbers, or for vector types tuples of them; which ones only the dtype says.
    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers; without dimensions, the number itself.

        Elements of a vector type are tuples. Host data only (BufferError); TypeError for types that
        Python has no numbers for. For pinned memory the host first waits for known work.

        >>> fastdl.from_dlpack(np.arange(6).reshape(2, 3)).tolist()
        [[0, 1, 2], [3, 4, 5]]
        """
    def item(self) -> Any:
        """The only element, as a Python number.

        ValueError unless size is 1; otherwise as `tolist`.

        >>> fastdl.from_dlpack(np.array([[2.5]])).item()
        2.5
        """
    def numpy(self) -> npt.NDArray[Any]:
        """A NumPy array on the same memory, read-only if the tensor is.

        Host data only (BufferError); for pinned memory the host first waits for known work.
        bfloat16, float8 and narrower types need the package ml_dtypes (TypeError without it).
        Packed types are unpacked into a new array, and so are padded elements whose padding
        ml_dtypes would misread; vector types gain a last dimension of lanes.

        >>> x = fastdl.empty(3)
        >>> x.numpy()[:] = 7
        >>> x.tolist()
        [7.0, 7.0, 7.0]
        """
    def copy(self) -> Tensor:
        """A writable copy on the same device: row-major on the host; on CUDA and ROCm as by `to`.

        BufferError on other devices. Pinned memory on a machine without its driver is copied to
        ordinary memory. MemoryError if there is not enough.

        >>> x = fastdl.asarray(b"abc").copy()
        >>> x.readonly, x.tolist()
        (False, [97, 98, 99])
        """
    def contiguous(self) -> Tensor:
        """The tensor itself if it is contiguous in row-major order, else a row-major copy.

        The copy is writable, and made as by `copy`, with the same errors. On CUDA and ROCm it goes
        by way of the host, which waits: your library's own contiguous() is faster there. To find
        out whether there will be one: `is_contiguous`.

        >>> x = fastdl.from_dlpack(np.arange(6).reshape(2, 3))
        >>> x.contiguous() is x, x.T.contiguous().strides
        (True, (2, 1))
        """
    def to(self, device: _DeviceLike, *, stream: object = None) -> Tensor:
        """The tensor on `device`: itself if it is there already, else a writable copy.

        Pinned memory counts as being on the CPU. stream: a stream of `device`, or of this tensor's
        device if `device` is the host. It makes the copy, after all known work on this tensor, and
        the result is ready on it (so is the tensor itself if no copy is needed). None: the thread's
        work stream makes the copy. -1: the host waits until the copy is done; otherwise it waits
        only for copies from or to ordinary host memory.

        A copy on the host is row-major. One on a device may keep the strides of this tensor if they
        are positive: `is_contiguous` tells. It is one call of the driver, but for sparse, reversed
        and broadcast data on a device, which goes by way of the host. Its memory is from the
        library that this tensor came from, if that has an exchange table, and otherwise from the
        driver, ready on every stream; the driver may free it before work that fastdl was not told
        of has ended, so `record` what other code queues on it (docs/streams.md). BufferError if the
        device has no driver, is neither CUDA's nor ROCm's, or if `stream` is being captured.
        TypeError for a dtype: fastdl converts no values.

        >>> x = fastdl.empty(3)
        >>> x.to("cpu") is x
        True
        """
    def to_device(self, device: _DeviceLike, /, *, stream: object = None) -> Tensor:
        """The same as to(device, stream=stream), under the name in the array API standard.

        >>> x = fastdl.empty(3)
        >>> x.to_device("cpu") is x
        True
        """
    def record(self, stream: object) -> None:
        """Tells fastdl that other code has queued work on this memory on `stream`.

        A consumer on another stream then waits for that work, and memory that fastdl allocated is
        not freed before. BufferError without a driver, or if `stream` is being captured.
        """
    def release(self, stream: object) -> None:
        """Tells fastdl that only work already queued on `stream` still uses the tensor.

        The producer may reuse the memory as soon as the tensor is dropped, and does not know
        `stream`. If its type has an exchange table, its current stream is made to wait for
        `stream`; otherwise this call waits on the host. Drop the tensor and its views afterwards.
        """
    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
        version: int | None = None,
    ) -> CapsuleType:
        """Exports the tensor as a DLPack capsule: the producer's side of the protocol.

        stream: for CUDA and ROCm, the stream the consumer will use; otherwise None or -1.
        max_version: the newest (major, minor) the consumer reads; from (1, 0) on the capsule is
            versioned, else legacy, which read-only data refuses with BufferError.
        dl_device: where the consumer wants the data, as (type, id).
        copy: True forces a copy, False forbids one, None leaves it open.
        version: the form of the 2022 draft, 100 * major + 10 * minor; not with max_version.

        >>> np.from_dlpack(fastdl.asarray(bytearray(b"abc"))).tolist()  # which calls this
        [97, 98, 99]
        """
    def __dlpack_device__(self) -> tuple[int, int]:
        """(device type, device id) as plain ints.

        >>> fastdl.empty(3).__dlpack_device__()
        (1, 0)
        """
    def __dlpack_info__(self) -> int:
        """The newest DLPack version supported here, in the numbering of the 2022 draft.

        >>> fastdl.empty(3).__dlpack_info__()
        130
        """
    @property
    def __numpy_dtype__(self) -> np.dtype[Any]:
        """The numpy.dtype of the elements, for NumPy's functions of types (from 2.4 on)."""
    def __array__(
        self, dtype: npt.DTypeLike | None = None, *, copy: bool | None = None
    ) -> np.ndarray[Any, np.dtype[Any]]: ...
    def __arrow_c_array__(
        self, requested_schema: CapsuleType | None = None
    ) -> tuple[CapsuleType, CapsuleType]:
        """The capsules (schema, array) of the Arrow C data interface, for host data of one
        dimension. They share the memory, but for bools (bits in Arrow) and what has gaps: of those
        they hold a copy.

        requested_schema is ignored, as the interface allows. BufferError for types that Arrow has
        not: integers and floats of other sizes, complex numbers, vectors.
        """
    @property
    def __array_interface__(self) -> dict[str, Any]:
        """Version 3 of the interface that NumPy and Pillow read: host data of NumPy's own types
        (AttributeError elsewhere).
        """
    def tobytes(self) -> bytes:
        """The same as bytes(): the elements in row-major order, without gaps. Host data only
        (BufferError).

        >>> fastdl.from_dlpack(np.array([[1, 2], [3, 4]], "u1").T).tobytes()
        b'\\x01\\x03\\x02\\x04'
        """
    def __dask_tokenize__(self) -> object: ...
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3 of the interface, for CUDA data (AttributeError elsewhere). Reading it makes
        the legacy default stream wait for all known work.
        """
    def __copy__(self) -> Tensor: ...
    def __deepcopy__(self, memo: dict[int, Any], /) -> Tensor: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

def empty(
    shape: SupportsIndex | Iterable[SupportsIndex],
    dtype: _DTypeLike = "float32",
    device: _DeviceLike = "cpu",
    *,
    shared: bool = False,
) -> Tensor:
    """A new row-major tensor of uninitialised memory, aligned to 256 bytes.

    shape: the sizes of the dimensions in elements, an int or a sequence of ints.
    dtype: all that fastdl.DType takes: "float32", numpy.float32, torch.float32, ...
    device: the host, CUDA ("cuda", "cuda_managed", or pinned memory: "cuda_host") or ROCm ("rocm",
        "rocm_host"), in any form that fastdl.Device takes.
    shared: in memory of the host that other processes can map, as by fastdl.share; then all zeros.
    Memory on a device is ready on every stream, and comes from the driver, which may make the host
    wait: in a loop, use the allocator of your library.

    MemoryError if there is not enough memory. BufferError without a driver for the device. Other
    errors as of DType and Device.

    >>> tensor = fastdl.empty((2, 3), "bfloat16")
    >>> tensor.shape, tensor.nbytes, tensor.data_ptr % 256
    ((2, 3), 12, 0)
    """

# What follows is only for fastdl's own Python layer.

def install(module: ModuleType) -> None: ...
def nbytes_of(shape: tuple[int, ...], dtype: tuple[int, int, int]) -> int: ...
def host_empty(shape: tuple[int, ...], dtype: tuple[int, int, int]) -> Tensor: ...
def import_capsule(
    capsule: CapsuleType,
    *,
    facts: int = 0,
    producer: object = None,
    unordered: bool = True,
) -> Tensor: ...
def is_legacy_capsule(capsule: object) -> bool: ...
def from_buffer(
    source: Buffer, parse_format: Callable[[str, int], tuple[int, int, int]]
) -> Tensor: ...
def from_memory(
    source: Buffer,
    shape: tuple[int, ...],
    dtype: tuple[int, int, int],
    strides: tuple[int, ...] | None = None,
    offset: int = 0,
    *,
    padded: bool = False,
) -> Tensor: ...
def map_file(fd: int, nbytes: int) -> Tensor: ...
def install_sharing(find: Callable[[Tensor], object]) -> None: ...
def from_arrow(schema: CapsuleType, array: CapsuleType) -> Tensor: ...
def arrow_nulls(schema: CapsuleType, array: CapsuleType) -> int | None: ...
def arrow_stream_nulls(stream: CapsuleType) -> int | None: ...
def as_bytes(tensor: Tensor) -> Tensor: ...
def span(tensor: Tensor) -> tuple[int, int]: ...
def copy_into(tensor: Tensor, target: Tensor) -> None: ...
def copy_host(tensor: Tensor) -> Tensor: ...
def is_immutable(tensor: Tensor) -> bool: ...
def is_packed(tensor: Tensor) -> bool: ...
def host(tensor: Tensor, what: str) -> Tensor: ...
def has_numbers(tensor: Tensor) -> bool: ...
def only_element(tensor: Tensor, what: str) -> Any: ...
def any_equals(tensor: Tensor, number: object) -> bool: ...
def read_bytes(tensor: Tensor) -> bytes: ...
def export_capsule(tensor: Tensor, *, versioned: bool, copied: bool = False) -> CapsuleType: ...
def describe(tensor: Tensor) -> str: ...
def check_values(x: object, tensor: Tensor, facts: int) -> None: ...
def keep_alive(tensor: Tensor, x: object) -> None: ...
def delete_with(tensor: Tensor, deleter: Callable[[], object] | None) -> None: ...
def mark_copied(tensor: Tensor) -> Tensor: ...
def sole_owner(answers: dict[Any, Any], key: Any) -> Any: ...
def make_from_dlpack(
    doc: bytes,
    complete: Callable[..., Tensor],
    over_protocol: Callable[..., Tensor],
    finish: Callable[..., Tensor],
) -> Callable[..., Tensor]: ...
