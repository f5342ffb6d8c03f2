# SPDX-License-Identifier: Apache-2.0
"""What a user writes, for mypy --strict and pyright: every public name, and the mistakes that they
must catch.

Never run. A line whose error is expected ends in `type: ignore[code]`, and both are told to
complain of one that is not needed.
"""

import array
import ctypes
import math
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from typing_extensions import CapsuleType, assert_type

import fastdl


class Producer:
    """The newest generation of the protocol."""

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> CapsuleType:
        raise BufferError

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class OldProducer:
    """The oldest."""

    def __dlpack__(self, stream: int | None = None) -> CapsuleType:
        raise BufferError


def importing(values: npt.NDArray[np.float32], capsule: CapsuleType) -> None:
    assert_type(fastdl.from_dlpack(values), fastdl.Tensor)
    fastdl.from_dlpack(Producer(), device="cpu", copy=True, stream=None)
    fastdl.from_dlpack(OldProducer(), device=(2, 0), stream=-1)
    fastdl.from_dlpack(capsule, device=fastdl.DeviceType.CUDA)
    fastdl.from_dlpack([1, 2])  # type: ignore[arg-type]
    fastdl.from_dlpack(values, copy=1)  # type: ignore[arg-type]
    fastdl.from_dlpack(x=values)  # type: ignore[call-arg]

    fastdl.asarray(b"bytes")
    fastdl.asarray(array.array("d", [1.0]))
    fastdl.asarray((ctypes.c_int * 3)())
    fastdl.asarray(values)
    fastdl.asarray(b"bytes", device="cpu", copy=False)
    fastdl.asarray(3)  # type: ignore[arg-type]
    fastdl.asarray(values, copy=1)  # type: ignore[arg-type]
    fastdl.asarray(values, stream=1)  # type: ignore[call-arg]

    assert_type(fastdl.from_pointer(64, 3, "int8"), fastdl.Tensor)
    fastdl.from_pointer(64, [3], np.int8, strides=(1,), owner=values, deleter=print, stream=7)
    fastdl.from_pointer(64, 3, "int8", deleter=7)  # type: ignore[arg-type]
    fastdl.from_pointer("64", 3, "int8")  # type: ignore[arg-type]

    assert_type(fastdl.encode(values), tuple[bytes, memoryview])
    assert_type(fastdl.decode(*fastdl.encode(b"bytes")), fastdl.Tensor)

    fastdl.empty(3)
    fastdl.empty((2, 3), "bfloat16", "cpu:0")
    fastdl.empty([2, 3], fastdl.DType("int8"), fastdl.Device("cpu"))
    fastdl.empty((2, 3), (2, 32, 1))
    fastdl.empty("3")  # type: ignore[arg-type]


class SupportsDLPack(Protocol):
    """As in docs/recipes.md."""

    def __dlpack__(self, *, stream: Any = None) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...


def of_my_own(x: SupportsDLPack, values: npt.NDArray[np.float32]) -> None:
    assert_type(fastdl.from_dlpack(x), fastdl.Tensor)
    of_my_own(Producer(), values)
    of_my_own(values, values)
    of_my_own(fastdl.from_dlpack(values), values)
    of_my_own([1, 2], values)  # type: ignore[arg-type]


def converting(values: npt.NDArray[np.float32]) -> None:
    fastdl.convert(values, fastdl.Tensor, device="cpu", copy=False, stream=-1)
    assert_type(fastdl.convert(b"ab", fastdl.Tensor, device=fastdl.Device("cpu")), fastdl.Tensor)
    assert_type(fastdl.convert(b"ab", fastdl.empty(1), stream=None), fastdl.Tensor)
    assert_type(fastdl.convert(b"ab", fastdl), fastdl.Tensor)
    # An array of some kind: mypy and pyright write its parameters differently.
    assert_type(fastdl.convert(b"ab", np).ndim, int)
    assert_type(fastdl.convert(b"ab", np.ndarray).ndim, int)
    assert_type(fastdl.convert(b"ab", values), npt.NDArray[np.float32])
    assert_type(fastdl.convert(b"ab", math), Any)
    assert_type(fastdl.convert(b"ab", "numpy"), npt.NDArray[Any])
    assert_type(fastdl.convert(b"ab", "fastdl.Tensor"), fastdl.Tensor)
    assert_type(fastdl.convert(b"ab", "torch.Tensor"), Any)
    assert_type(fastdl.convert(b"ab", str(values.dtype)), Any)
    fastdl.convert(values, fastdl.Tensor, copy=1)  # type: ignore[call-overload]
    fastdl.convert(values, fastdl.Tensor, dtype="int8")  # type: ignore[call-overload]


def describing(tensor: fastdl.Tensor) -> None:
    assert_type(tensor.shape, tuple[int, ...])
    assert_type(tensor.strides, tuple[int, ...])
    assert_type(tensor.ndim + tensor.size + tensor.itemsize + tensor.nbytes, int)
    assert_type(tensor.data_ptr, int)
    assert_type(tensor.readonly or tensor.is_copied or tensor.is_contiguous("F"), bool)
    assert_type(tensor.dtype, fastdl.DType)
    assert_type(tensor.device, fastdl.Device)
    assert_type(len(tensor), int)
    tensor.is_contiguous("A")  # type: ignore[arg-type]
    tensor.shape = (1,)  # type: ignore[misc]
    fastdl.Tensor.fill  # type: ignore[attr-defined]  # noqa: B018

    device: fastdl.Device = tensor.device
    assert_type(device.type, fastdl.DeviceType | int)
    assert_type(device.id, int)
    assert_type(device.is_host, bool)
    assert_type(device.__dlpack_device__(), tuple[int, int])
    assert_type(fastdl.Device(2, 0) == fastdl.Device("cuda:0"), bool)
    fastdl.Device(2.5)  # type: ignore[call-overload]

    dtype: fastdl.DType = fastdl.DType(2, 32)
    assert_type(fastdl.DType((2, 32, 1)) == fastdl.DType("float32"), bool)
    fastdl.DType(2)  # type: ignore[call-overload]
    fastdl.DType(np.float32)
    fastdl.DType(np.dtype("f4"))
    assert_type(dtype.code + dtype.bits + dtype.lanes, int)
    assert_type(np.dtype(dtype), np.dtype[Any])
    assert_type(dtype.__dlpack_data_type__(), tuple[int, int, int])
    dtype.code = 3  # type: ignore[misc]
    assert_type(dtype.name, str)
    assert_type(dtype.lane, fastdl.DType)
    assert_type(dtype.format, str | None)


def using(tensor: fastdl.Tensor) -> None:
    assert_type(tensor[0], fastdl.Tensor)
    assert_type(tensor[1:, ::-2, ..., None], fastdl.Tensor)
    tensor["name"]  # type: ignore[index]
    tensor[[0, 1]]  # type: ignore[index]
    for row in tensor:
        assert_type(row, fastdl.Tensor)

    assert_type(tensor.reshape(2, -1).reshape((3, 2)).reshape([6]), fastdl.Tensor)
    assert_type(tensor.permute(1, 0).squeeze().squeeze(0).squeeze((0, 1)), fastdl.Tensor)
    assert_type(tensor.T.expand(2, -1).expand(tensor.shape), fastdl.Tensor)
    assert_type(tensor.view("int32").view(np.float32).view(tensor.dtype), fastdl.Tensor)
    tensor.reshape(1.5)  # type: ignore[arg-type]
    tensor.squeeze("0")  # type: ignore[arg-type]
    assert_type(tensor.mT.flatten().unsqueeze(-1).as_readonly().contiguous(), fastdl.Tensor)
    tensor.unsqueeze((0, 1))  # type: ignore[arg-type]
    tensor + 1  # type: ignore[operator]
    tensor[0] = 1  # type: ignore[index]
    tensor.view()  # type: ignore[call-arg]

    assert_type(tensor.copy(), fastdl.Tensor)
    assert_type(tensor.to("cuda:1", stream=7), fastdl.Tensor)
    assert_type(tensor.to_device("cuda:1", stream=7), fastdl.Tensor)
    tensor.to_device(device="cuda:1")  # type: ignore[call-arg]
    assert_type(tensor.numpy(), npt.NDArray[Any])
    _ = tensor.tolist(), tensor.item(), memoryview(tensor), np.asarray(tensor)
    np.from_dlpack(tensor)
    assert_type(1.5 in tensor, bool)
    assert_type(int(tensor), int)
    assert_type(float(tensor), float)
    assert_type(complex(tensor), complex)
    assert_type(round(tensor), int)
    assert_type(math.floor(tensor), int)
    assert_type(bytes(tensor), bytes)
    assert_type([1, 2][tensor], int)
    assert_type(hash(tensor), int)
    assert_type(tensor.__dlpack__(max_version=(1, 0)), CapsuleType)
    assert_type(tensor.__dlpack_device__(), tuple[int, int])


def tables(capsule: CapsuleType) -> None:
    assert_type(fastdl.exchange_api(np.ndarray), CapsuleType)
    assert_type(fastdl.exchange_api(Producer()), CapsuleType)
    fastdl.register_exchange_api(Producer, capsule)
    fastdl.register_exchange_api(Producer, 4096)
    fastdl.register_exchange_api(Producer(), capsule)  # type: ignore[arg-type]
    assert_type(fastdl.Tensor.__dlpack_c_exchange_api__, CapsuleType)


def the_rest() -> None:
    with fastdl.use_stream("cuda:0", 7) as scope:
        assert_type(scope, fastdl.use_stream)
    assert_type(fastdl.dlpack_version, tuple[int, int])
    assert_type(fastdl.__version__, str)
    assert_type(fastdl.get_include(), str)
    try:
        fastdl.from_dlpack(Producer(), copy=False)
    except fastdl.CopyRequiredError as error:
        both: tuple[BufferError, ValueError] = error, error
        print(both)
