# SPDX-License-Identifier: Apache-2.0
"""Invalid descriptions, which are best refused, or else harmless. The standard does not require a
consumer to check, so they have a severity of their own, whatever happens."""

from functools import partial
from typing import Any, NamedTuple

from dlpack_conformance.checks.consumers import compact, taken_and_released
from dlpack_conformance.outcomes import INVALID
from dlpack_conformance.suite import Library, NotApplicable, check, expect

HEADER = "DLPack 1.3, dlpack.h"


class Fault(NamedTuple):
    title: str
    fields: dict[str, Any]
    clause: str
    must_refuse: bool = True  # there is no array that such a description could mean


FAULTS = {
    "ndim-negative": Fault("A negative ndim", {"ndim": -1}, ": DLTensor.ndim"),
    "ndim-huge": Fault("ndim 1,000,000", {"ndim": 1_000_000}, ": DLTensor.ndim"),
    "shape-null": Fault(
        "ndim 2 without a shape", {"shape": None, "strides": None, "ndim": 2}, ": DLTensor.shape"
    ),
    "dimension-negative": Fault(
        "A negative dimension",
        {"shape": (-3, 2), "strides": (2, 1)},
        ": DLTensor.shape; tensorflow/tensorflow#116201",
    ),
    "dimension-beside-zero": Fault(
        "A negative dimension beside one of 0",
        {"shape": (0, -1), "strides": (1, 1)},
        ": DLTensor.shape",
    ),
    "size-overflows": Fault(
        "A size of 2^68 elements",
        {"shape": (1 << 32, 1 << 32, 16), "strides": (1 << 36, 16, 1)},
        ": DLTensor.shape; tensorflow/tensorflow#116201",
    ),
    "size-is-huge": Fault(
        "A size of 2^64 bytes", {"shape": (1 << 62,), "strides": (1,)}, ": DLTensor.shape"
    ),
    "stride-overflows": Fault(
        "A stride that leads out of the address space",
        {"shape": (2, 3), "strides": (1 << 62, 1)},
        ": DLTensor.strides; cupy/cupy#10172",
    ),
    "address-below-zero": Fault(
        "A stride that leads below address 0",
        {"data": 4096, "shape": (2, 3), "strides": (-5000, 1)},
        ": DLTensor.strides",
    ),
    "data-null": Fault("NULL data with elements", {"data": 0}, ": DLTensor.data; jax-ml/jax#37303"),
    "offset-overflows": Fault(
        "A byte_offset that leads out of the address space",
        {"byte_offset": (1 << 64) - 8},
        ": DLTensor.byte_offset",
    ),
    "code-unknown": Fault("The unknown type code 200", {"dtype": (200, 32, 1)}, ": DLDataType"),
    "bits-zero": Fault("An element type of 0 bits", {"dtype": (2, 0, 1)}, ": DLDataType.bits"),
    "lanes-four": Fault(
        "An 8-bit float of four lanes", {"dtype": (2, 8, 4)}, ": DLDataType.lanes", False
    ),
    "device-unknown": Fault(
        "A device of type 999", {"device": (999, 0)}, ": DLDevice.device_type", False
    ),
}


def survives(lib: Library, fault: Fault) -> str:
    if lib.max_ndim == 1 and len(fault.fields.get("shape") or ()) > 1:
        raise NotApplicable("one dimension only")
    refused = taken_and_released(lib, compact(lib, **fault.fields))
    expect(refused or not fault.must_refuse, "it was accepted")
    return refused or "accepted"


for _name, _fault in FAULTS.items():
    _end = "refused" if _fault.must_refuse else "refused, or harmless"
    check(
        f"hostile.{_name}",
        INVALID,
        HEADER + _fault.clause,
        sentence=f"{_fault.title} is {_end}; the tensor is released once.",
    )(partial(survives, fault=_fault))
