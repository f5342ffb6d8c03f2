# SPDX-License-Identifier: Apache-2.0
"""Names of parameters."""

import re


def without_address(value):
    """The repr of a value, the same in each process: workers of pytest-xdist compare names."""
    return re.sub(r" at 0x\w+", "", repr(value))
