# SPDX-License-Identifier: Apache-2.0
from fastdl._core.native cimport fastdl_record


# The record of a type, made now if there is none.
cdef const fastdl_record *record_of(cls) except NULL
