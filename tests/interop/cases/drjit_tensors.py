# SPDX-License-Identifier: Apache-2.0
"""What is particular to DrJit: arrays of several variables, which it copies into one when asked."""

import drjit.llvm
import drjit.scalar
import pytest

import fastdl


@pytest.mark.parametrize("source", [drjit.llvm.Array3f(1, 2, 3), drjit.llvm.ArrayXf([1, 2])])
def test_copies_are_refused(source):
    before = fastdl.from_dlpack(source)
    source[0] = 5
    assert before.tolist()[0] == [1]  # so it is a copy
    with pytest.raises(fastdl.CopyRequiredError, match="copied in spite of"):
        fastdl.from_dlpack(source, copy=False)
    with pytest.raises(fastdl.CopyRequiredError, match="copied in spite of"):
        fastdl.convert(source, fastdl.Tensor, copy=False)


@pytest.mark.parametrize(
    "source", [drjit.llvm.Float(1, 2), drjit.scalar.Array3f(1, 2, 3), drjit.scalar.ArrayXf([1, 2])]
)
def test_shared_memory_is_taken(source):
    tensor = fastdl.from_dlpack(source, copy=False)
    source[0] = 5
    assert tensor.tolist()[0] == 5
