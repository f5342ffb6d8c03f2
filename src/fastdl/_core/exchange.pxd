from fastdl._core.native cimport fastdl_record


# What is known about a type; found out now if nothing is.
cdef const fastdl_record *record_of(cls) except NULL
