# SPDX-License-Identifier: Apache-2.0
# The C of the devices. Each declaration is documented in the header it comes from.
from libc.stdint cimport int32_t, int64_t

from fastdl._core.native cimport DLDevice, fdl_description, fdl_failure, fdl_work


cdef extern from "_devices/driver.h" nogil:
    ctypedef struct fdl_driver:
        const char *name
        int version
        int devices

    ctypedef struct fdl_scope:
        pass

    ctypedef struct fdl_capture:
        pass

    fdl_driver *fdl_driver_find(int kind, fdl_failure *failure)
    int fdl_driver_is_loaded()
    void fdl_driver_replace(int kind, const char *path)
    int fdl_enter(fdl_driver *, int32_t ordinal, fdl_scope *, fdl_failure *)
    void fdl_leave(const fdl_scope *)
    int fdl_capture_of(fdl_driver *, int64_t stream, fdl_capture *, fdl_failure *)


cdef extern from "_devices/put_off.h" nogil:
    void fdl_put_off_at_import()
    void fdl_put_off_at_exit()
    void fdl_end_put_off()
    void fdl_put_off_count(int64_t *so_far, int64_t *waiting)


cdef extern from "_devices/event.h" nogil:
    void fdl_event_forget(fdl_driver *)


cdef extern from "_devices/exchanges.h" nogil:
    void fdl_exchanges_at_import()


# Functions that may call a producer's table need a thread state.
cdef extern from "_devices/ordering.h":
    ctypedef struct fdl_stream_scope:
        DLDevice device
        int64_t stream

    fdl_work *fdl_work_of(fdl_work **, DLDevice)
    int fdl_work_record_on(fdl_work *, int32_t ordinal, int64_t stream, fdl_failure *)
    int fdl_work_ready_on(fdl_work *, int64_t source, int64_t stream, fdl_failure *)
    int fdl_work_record(fdl_work *, int64_t stream, fdl_failure *)
    int fdl_work_wait(fdl_work *, fdl_failure *)
    int fdl_work_release(fdl_work *, int64_t stream, fdl_failure *)
    bint fdl_work_is_callers(const fdl_work *)
    int fdl_work_edges(fdl_work *)
    void fdl_work_forget(int kind)
    int64_t fdl_work_stream(DLDevice)
    void fdl_stream_scope_begin(fdl_stream_scope *)
    int fdl_stream_scope_end(fdl_stream_scope *, fdl_failure *)


cdef extern from "_devices/pointer_attributes.h":
    int fdl_pointer_find(fdl_driver *, const void *, DLDevice *, fdl_failure *)


cdef extern from "_devices/transfer.h":
    int fdl_to_host(
        const fdl_description *, int64_t stream, fdl_description **result, fdl_failure *)
