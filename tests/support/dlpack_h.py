# SPDX-License-Identifier: Apache-2.0
"""The numbers of element types and devices in include/fastdl/dlpack.h, which every table has."""

import re

from tests.support.build import ROOT


def enumerators(name: str) -> dict[str, int]:
    """{"kDLCPU": 1, ...} of DLDeviceType or DLDataTypeCode."""
    header = (ROOT / "include" / "fastdl" / "dlpack.h").read_text()
    body = header.rpartition(f"}} {name};")[0].rpartition("typedef enum")[2]
    return {name: int(number) for name, number in re.findall(r"\b(kDL\w+) = (\d+)", body)}
