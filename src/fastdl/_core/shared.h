/* SPDX-License-Identifier: Apache-2.0
 *
 * What the C floors offer to device.pyx. They are linked into the extension module `tensor` alone,
 * which hands this struct over; each member is the function of the same name.
 */
#ifndef FASTDL_CORE_SHARED_H_
#define FASTDL_CORE_SHARED_H_

#include "acquire.h"
#include "event.h"
#include "export.h"
#include "memory.h"
#include "pointer.h"
#include "transfer.h"
#include "work.h"

typedef struct {
    /* driver.h */
    fdl_driver *(*driver_find)(int kind, fdl_failure *failure);
    void (*driver_replace)(int kind, const char *path);
    int (*enter)(fdl_driver *driver, int32_t ordinal, fdl_scope *scope, fdl_failure *failure);
    void (*leave)(const fdl_scope *scope);
    int (*capture_of)(fdl_driver *driver, int64_t stream, fdl_capture *capture,
                      fdl_failure *failure);
    /* acquire.h */
    int (*ready_for)(PyObject *tensor, int64_t stream);
    /* export.h */
    int (*order_for)(PyObject *tensor, int64_t stream);
    /* event.h */
    void (*event_forget)(fdl_driver *driver);
    /* work.h */
    fdl_work *(*work_of)(fdl_work **work, DLDevice device);
    int (*work_record_on)(fdl_work *work, int32_t ordinal, int64_t stream, fdl_failure *failure);
    int (*work_ready_on)(fdl_work *work, int64_t source, int64_t stream, fdl_failure *failure);
    int (*work_ready_from_c)(fdl_work *work, fdl_failure *failure);
    int (*work_record)(fdl_work *work, int64_t stream, fdl_failure *failure);
    int (*work_wait)(fdl_work *work, fdl_failure *failure);
    int (*work_release)(fdl_work *work, int64_t stream, fdl_failure *failure);
    int (*work_is_callers)(const fdl_work *work);
    int (*work_edges)(fdl_work *work);
    void (*stream_scope_begin)(fdl_stream_scope *scope, DLDevice device, int64_t stream);
    int (*stream_scope_end)(fdl_stream_scope *scope);
    int (*stream_scope_settle)(const fdl_stream_scope *scope, fdl_failure *failure);
    void (*work_forget)(int kind);
    int64_t (*work_stream)(DLDevice device);
    /* memory.h */
    fdl_description *(*memory_on_device)(const DLTensor *prototype, uint64_t flags, int64_t nbytes,
                                         int64_t stream, fdl_failure *failure);
    void (*memory_forget)(fdl_driver *driver);
    /* pointer.h */
    int (*pointer_find)(fdl_driver *driver, const void *pointer, DLDevice *found,
                        fdl_failure *failure);
    /* transfer.h */
    fdl_description *(*transfer)(const fdl_description *source, DLDevice target, int64_t stream,
                                 int how, fdl_failure *failure);
} fdl_shared_calls;

extern const fdl_shared_calls fdl_shared;

#endif
