"""DType, Device and empty."""

import types

import numpy as np

import fastdl
from tests.errors.row import Group, Row


def stub(module, name, **fields):
    """An object of a library that need not be installed."""
    kind = type(name, (types.SimpleNamespace,), {"__module__": module, "__qualname__": name})
    return kind(**fields)


def tpu():
    client = types.SimpleNamespace(platform_version="TFRT TPU v4")
    return stub("jaxlib._jax", "Device", platform="tpu", client=client)


GROUP = Group(
    "Dtypes, devices and new memory",
    "`fastdl.DType`, `fastdl.Device`, and `dtype` and `device` wherever they are arguments; "
    "`fastdl.empty`. See [the Python guide](python-guide.md#element-types-and-devices).",
    [
        Row(
            lambda: fastdl.DType("flaot32"),
            ValueError,
            "expected the name of a dtype, such as 'float32', got 'flaot32': did you mean "
            "'float32'?",
            "The names are NumPy's and ml_dtypes'; `float32x4` has four lanes.",
        ),
        Row(
            lambda: fastdl.DType(">f4"),
            ValueError,
            "expected a little-endian dtype, got '>f4', which DLPack cannot describe: convert the "
            "values first",
            "`x.astype(x.dtype.newbyteorder('='))`.",
        ),
        Row(
            lambda: fastdl.DType(np.dtype("M8[s]")),
            ValueError,
            "expected a dtype of native numbers or bools, got …, which DLPack cannot describe",
            "Text, dates, records and Python objects are not in DLPack.",
        ),
        Row(
            lambda: fastdl.DType(5),
            TypeError,
            'expected a dtype as "float32", (code, bits, lanes), a DType, or a dtype of NumPy, '
            "torch "
            "or JAX, got 5 of type 'int'",
            "Pass the array's own `dtype`.",
        ),
        Row(
            lambda: fastdl.DType(("float", 32, 1)),
            TypeError,
            "expected an int as code of a dtype, got 'float'",
            "The codes are DLPack's: 0 int, 1 uint, 2 float, 4 bfloat, 5 complex, 6 bool.",
        ),
        Row(
            lambda: fastdl.DType((2, 256, 1)),
            ValueError,
            "expected bits of a dtype from 1 to 255, got 256",
            "A DLDataType has 8 bits for its code, 8 for its bits, and 16 for its lanes.",
        ),
        Row(
            lambda: setattr(fastdl.DType("int8"), "bits", 16),
            AttributeError,
            "a DType is immutable: 'bits' cannot be set",
            "Make another.",
        ),
        Row(
            lambda: delattr(fastdl.DType("int8"), "bits"),
            AttributeError,
            "a DType is immutable: 'bits' cannot be deleted",
            "Make another.",
        ),
        Row(
            lambda: fastdl.Device("gpu:0"),
            ValueError,
            "expected a device such as 'cpu' or 'cuda:0', got 'gpu:0': did you mean 'cuda' or "
            "'rocm'?",
            "`fastdl.DeviceType` has all types.",
        ),
        Row(
            lambda: fastdl.Device(5),
            TypeError,
            'expected a device as "cpu", "cuda:0", (type, id), a Device, or a device of torch, JAX '
            "or "
            "CuPy, got 5 of type 'int'",
            "Pass the array's own `device`.",
        ),
        Row(
            lambda: fastdl.Device("cpu:1"),
            ValueError,
            "expected the one CPU, 'cpu' or (1, 0), got CPU 1",
            "DLPack has one CPU, whatever a library makes of it.",
        ),
        Row(
            lambda: fastdl.Device(("cuda", 0)),
            TypeError,
            "expected an int as device type, got 'cuda'",
            "`fastdl.Device('cuda:0')`, or `(2, 0)`.",
        ),
        Row(
            lambda: fastdl.Device((2, 2**40)),
            ValueError,
            "expected a device id of 32 bits, got 1099511627776",
            "The pair is (type, id), in this order.",
        ),
        Row(
            lambda: fastdl.Device(stub("torch", "device", type="meta", index=None)),
            ValueError,
            "expected a device that DLPack has, got torch's 'meta'",
            "Memory on `meta` does not exist, and that of some devices has no number in DLPack.",
        ),
        Row(
            lambda: fastdl.Device(tpu()),
            ValueError,
            "expected a device that DLPack has, got JAX's …",
            "`jax.device_get(x)` copies to the host.",
        ),
        Row(
            lambda: setattr(fastdl.Device("cpu"), "id", 1),
            AttributeError,
            "a Device is immutable: 'id' cannot be set",
            "Make another.",
        ),
        Row(
            lambda: delattr(fastdl.Device("cpu"), "id"),
            AttributeError,
            "a Device is immutable: 'id' cannot be deleted",
            "Make another.",
        ),
        Row(
            lambda: fastdl.empty("3"),
            TypeError,
            "expected ints as shape, got '3'",
            "An int, or a sequence of ints.",
        ),
        Row(
            lambda: fastdl.empty(-1),
            ValueError,
            "expected sizes from 0 to 2**63 - 1 as shape, got -1",
            "`empty` computes no sizes.",
        ),
        Row(
            lambda: fastdl.empty((1,) * 65),
            ValueError,
            "expected at most 64 dimensions, got 65",
            "DLPack's limit in fastdl is 64 dimensions.",
        ),
        Row(
            lambda: fastdl.empty(3, (2, 24, 1)),
            ValueError,
            "cannot allocate a tensor with an element size that its type code does not have",
            "A float has 16, 32 or 64 bits, for example.",
        ),
        Row(
            lambda: fastdl.empty((2**40, 2**40)),
            MemoryError,
            "cannot allocate more bytes than there are addresses",
            "Look for a size that is too large.",
        ),
        Row(
            lambda: fastdl.empty(2**60),
            MemoryError,
            "cannot allocate 4611686018427387904 bytes on the host",
            "Look for a size that is too large. *MemoryError* without a message: a small internal "
            "allocation failed.",
        ),
        Row(
            lambda: fastdl.empty(3, device="opencl:0"),
            BufferError,
            "expected a device on which fastdl allocates (the host, CUDA, ROCm), got opencl:0: "
            "allocate with its own library, and import the result",
            "`fastdl.DeviceType` has all types; [streams](streams.md#copies) says what fastdl "
            "copies.",
        ),
    ],
)
