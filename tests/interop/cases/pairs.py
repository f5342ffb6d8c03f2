# SPDX-License-Identifier: Apache-2.0
"""Memory through several libraries, with a fastdl.Tensor between each two, in one process.

What becomes of each pair by itself is measured by matrix/grid.py.
"""

import pytest

import fastdl

from ..peers import BY_NAME, PEERS, require


@pytest.mark.parametrize("start", [peer.name for peer in PEERS])
def test_a_round_through_all_libraries(start):
    """One memory through every library that shares it, there and back, in the table's order."""
    peer = BY_NAME[start]
    require(peer.module)
    values = [0.0, 1.0, 2.0, 3.0]
    tensor = fastdl.from_dlpack(peer.make(values, "float32"))
    for name in ("numpy", "torch", "pyarrow.Tensor", "tvm_ffi", "strict", "drjit"):
        require(BY_NAME[name].module)
        passed = fastdl.from_dlpack(BY_NAME[name].take(tensor))
        assert passed.data_ptr == tensor.data_ptr
        assert passed.tolist() == values
        tensor = passed
