# SPDX-License-Identifier: Apache-2.0
"""The dtypes and devices of the libraries themselves, wherever fastdl takes one."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import torch
import tvm_ffi

import fastdl

TORCH = sorted({x for x in vars(torch).values() if isinstance(x, torch.dtype)}, key=str)
#: torch's quantised types, and bits without a meaning.
NO_DLPACK = ("torch.q", "torch.quint", "torch.bits")
#: DLPack could, and fastdl has no name for them.
NO_NAME = {f"torch.{sign}int{bits}" for sign in ("", "u") for bits in (3, 5, 6, 7)}


@pytest.mark.parametrize("dtype", TORCH, ids=str)
def test_torchs_dtypes(dtype):
    if str(dtype).startswith(NO_DLPACK) or str(dtype) in NO_NAME:
        with pytest.raises(ValueError, match="expected a dtype of native numbers"):
            fastdl.DType(dtype)
        return
    ours = fastdl.DType(dtype)
    assert ours == dtype and dtype == ours
    assert ours.name == str(dtype).removeprefix("torch.").replace("_x2", "x2")
    if dtype.itemsize * 8 == ours.bits * ours.lanes and dtype != torch.complex32:
        assert fastdl.from_dlpack(torch.empty(2, dtype=dtype)).dtype is ours


@pytest.mark.parametrize(
    "name",
    "bool_ int2 int4 int8 int16 int32 int64 uint2 uint4 uint8 uint16 uint32 uint64 float16 float32 "
    "float64 bfloat16 float8_e4m3fn float8_e5m2 float8_e8m0fnu float4_e2m1fn complex64 "
    "complex128".split(),
)
def test_jaxs_dtypes(name):
    theirs = getattr(jnp, name)
    ours = fastdl.DType(theirs)
    assert ours.name == name.removesuffix("_")
    assert ours == theirs and theirs == ours
    assert ours == theirs.dtype and jnp.dtype(ours) == theirs.dtype
    if ours.itemsize < 8:
        assert jnp.zeros(2, ours).dtype == theirs.dtype


def test_dtypes_between_libraries():
    tensor = fastdl.from_dlpack(torch.zeros(3, dtype=torch.bfloat16))
    assert tensor.dtype == torch.bfloat16 and tensor.dtype == ml_dtypes.bfloat16
    assert tensor.dtype == jnp.bfloat16 and tensor.dtype == "bfloat16"
    assert tensor.dtype == tvm_ffi.dtype("bfloat16")
    assert np.zeros(3, tensor.dtype).dtype == ml_dtypes.bfloat16
    assert fastdl.empty(3, tvm_ffi.dtype("float32x4")).dtype == "float32x4"


def test_torchs_devices():
    tensor = fastdl.from_dlpack(torch.zeros(3))
    for device in (torch.device("cpu"), torch.zeros(3).device):
        assert tensor.device == device and device == tensor.device
        assert fastdl.from_dlpack(np.ones(2), device=device).device == "cpu"
        assert tensor.to(device) is tensor
    assert fastdl.Device(torch.device("cuda:1")) == "cuda:1"
    assert fastdl.Device(torch.device("cuda")) == "cuda:0"
    assert fastdl.Device(torch.device("mps")) == "metal"
    with pytest.raises(ValueError, match="expected a device known to DLPack, got torch's 'meta'"):
        fastdl.Device(torch.device("meta"))


def test_jaxs_devices():
    array = jnp.zeros(3)
    tensor = fastdl.from_dlpack(array)
    for device in (jax.devices("cpu")[0], array.device):
        assert tensor.device == device and device == tensor.device
        assert fastdl.empty(3, device=device).device == "cpu"


def test_tvms_devices():
    assert fastdl.Device(tvm_ffi.device("cuda:3")) == "cuda:3"
    assert fastdl.empty(2, device=tvm_ffi.device("cpu")).device == tvm_ffi.device("cpu")


def test_tvm_takes_ours():
    """By the protocol of the two methods, which tvm-ffi reads."""
    echo = tvm_ffi.get_global_func("testing.echo")
    assert str(echo(fastdl.DType("float8_e4m3fn"))) == "float8_e4m3fn"
    assert echo(fastdl.Device("cuda:3")) == tvm_ffi.device("cuda:3")
