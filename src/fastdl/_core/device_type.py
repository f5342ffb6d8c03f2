# SPDX-License-Identifier: Apache-2.0
"""DeviceType, in a module that is loaded when it is first used: `enum` takes as long to import as
all the rest of fastdl."""

import sys
from enum import IntEnum


class DeviceType(IntEnum):
    """The device types of DLPack 1.3, numbered as DLDeviceType.

    >>> fastdl.empty(3).device.type is fastdl.DeviceType.CPU
    True
    """

    # The rows of _native.device_facts, repeated for type checkers.
    CPU = 1
    CUDA = 2
    CUDA_HOST = 3
    OPENCL = 4
    VULKAN = 7
    METAL = 8
    VPI = 9
    ROCM = 10
    ROCM_HOST = 11
    EXT_DEV = 12
    CUDA_MANAGED = 13
    ONEAPI = 14
    WEBGPU = 15
    HEXAGON = 16
    MAIA = 17
    TRN = 18


DeviceType.__module__ = "fastdl"  # where pickles look for it
# In the modules that wait for it.
vars(sys.modules["fastdl"])["DeviceType"] = DeviceType
vars(sys.modules["fastdl._core.device"])["_members"].update({int(m): m for m in DeviceType})
