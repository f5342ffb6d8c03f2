# SPDX-License-Identifier: Apache-2.0
# The interface of compiled bridges.
from fastdl._core.native cimport DLTensor
from fastdl._core.tensor cimport Tensor


# In a capsule "fastdl_maker" that stays valid until the process ends.
ctypedef struct fastdl_maker:
    # Makes an object on a host tensor that the library accepts. It may keep the Tensor, to which no
    # other code refers.
    object (*make)(Tensor tensor)
    # Makes an object on writable host memory that the library accepts and `owner` keeps alive; None
    # if only `make` can do it. The pointer may be NULL.
    object (*make_on)(const DLTensor *memory, object owner)
