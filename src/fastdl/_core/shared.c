/* SPDX-License-Identifier: Apache-2.0 */
#include "shared.h"

const fdl_shared_calls fdl_shared = {
    .driver_find = fdl_driver_find,
    .driver_replace = fdl_driver_replace,
    .enter = fdl_enter,
    .leave = fdl_leave,
    .capture_of = fdl_capture_of,
    .event_forget = fdl_event_forget,
    .work_of = fdl_work_of,
    .work_ready_on = fdl_work_ready_on,
    .work_ready_for = fdl_work_ready_for,
    .work_ready_from_c = fdl_work_ready_from_c,
    .work_record = fdl_work_record,
    .work_order = fdl_work_order,
    .work_wait = fdl_work_wait,
    .work_release = fdl_work_release,
    .work_is_callers = fdl_work_is_callers,
    .work_edges = fdl_work_edges,
    .stream_scope_begin = fdl_stream_scope_begin,
    .stream_scope_end = fdl_stream_scope_end,
    .stream_scope_settle = fdl_stream_scope_settle,
    .work_forget = fdl_work_forget,
    .work_stream = fdl_work_stream,
};
