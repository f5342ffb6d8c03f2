# SPDX-License-Identifier: Apache-2.0
# The interface of compiled bridges.
from fastdl._core.native cimport DLTensor
from fastdl._core.tensor cimport Tensor


# In a capsule "fastdl_maker" that stays valid until the process ends.
ctypedef struct fastdl_maker:
    # An object on a tensor of host memory that fits, which it may keep: no other code refers to it.
    object (*make)(Tensor tensor)
    # An object on writable host memory that fits and that `owner` keeps alive; None if this is for
    # `make`. May be NULL.
    object (*make_on)(const DLTensor *memory, object owner)
