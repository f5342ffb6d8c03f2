/* SPDX-License-Identifier: Apache-2.0 */
#include "exchanges.h"

#include "_core/devices.h"

#include "driver.h"
#include "ordering.h"

/* The fdl_work of ordered memory; NULL with MemoryError. */
static fdl_work *work_of(fdl_description *description)
{
    fdl_work *work = fdl_work_of(&description->block->work, description->managed.dl_tensor.device);
    if (work == NULL)
        PyErr_NoMemory();
    return work;
}

static int has_driver(int kind)
{
    fdl_failure ignored;
    return fdl_driver_find(kind, &ignored) != NULL;
}

/* ---- imports ---- */

static int imported_by_table(fdl_description *description, const DLPackExchangeAPI *table,
                             int known, int order)
{
    DLDevice device = description->managed.dl_tensor.device;
    fdl_work *work = work_of(description);
    fdl_failure failure;
    if (work == NULL)
        return -1;
    if (!known)
        fdl_work_from_table(work, table);
    if (order == FDL_CALLER_ORDERS) {
        if (known || fdl_work_ready_for(work, -1, &failure) == 0)
            return 0;
    } else if ((!known || fdl_work_reimported(work, table, &failure) == 0) &&
               (order == FDL_ORDER_LATER ||
                fdl_work_ready_for(work, fdl_work_stream(device), &failure) == 0)) {
        return 0;
    }
    return fdl_raise(&failure);
}

static int ordered_by_caller(fdl_description *description)
{
    fdl_work *work = work_of(description);
    fdl_failure failure;
    return work == NULL ? -1 : fdl_work_ready_on(work, -1, -1, &failure);
}

static int imported_from_c(fdl_description *description)
{
    fdl_work *work;
    fdl_failure failure;
    if (description->block->work != NULL) { /* from fastdl_empty, or a re-import */
        fdl_work_note_lent(description->block->work);
        return 0;
    }
    work = work_of(description);
    if (work == NULL)
        return -1;
    return fdl_work_ready_from_c(work, &failure) == 0 ? 0 : fdl_raise(&failure);
}

static int ready_for(PyObject *tensor, int64_t stream)
{
    fdl_failure failure;
    if (fdl_work_ready_for(fdl_description_in(tensor)->block->work, stream, &failure) == 0)
        return 0;
    return fdl_raise_about(tensor, &failure, "ordered after its producer for stream", stream);
}

/* ---- exports ---- */

static int order_for(PyObject *tensor, int64_t stream)
{
    fdl_failure failure;
    if (fdl_work_order(fdl_description_in(tensor)->block->work, stream, &failure) == 0)
        return 0;
    return fdl_raise_about(tensor, &failure, "ordered for stream", stream);
}

static int order_for_work(PyObject *tensor)
{
    return order_for(tensor, fdl_work_stream(fdl_description_in(tensor)->managed.dl_tensor.device));
}

static int await_for_host(const fdl_description *description)
{
    fdl_failure failure;
    return fdl_work_wait(description->block->work, &failure) == 0 ? 0 : fdl_raise(&failure);
}

static int lend(const fdl_description *description)
{
    fdl_failure failure;
    if (fdl_fact_of(description)->host)
        return await_for_host(description);
    return fdl_work_lend(description->block->work, &failure) == 0 ? 0 : fdl_raise(&failure);
}

/* ---- streams ---- */

static int current_work_stream(DLDeviceType type, int32_t id, void **out)
{
    DLDevice device;
    int64_t stream;
    device.device_type = type;
    device.device_id = id;
    stream = fdl_work_stream(device);
    *out = stream <= 1 ? NULL : fdl_handle(stream); /* 0 and 1: the default stream; -1: none */
    return 0;
}

static int order_streams(DLDevice device, int64_t source, int64_t stream)
{
    fdl_failure failure;
    return fdl_order_streams(device, source, stream, &failure) == 0 ? 0 : fdl_raise(&failure);
}

void fdl_exchanges_at_import(void)
{
    static const fdl_device_calls calls = {
        .has_driver = has_driver,
        .imported_by_table = imported_by_table,
        .ordered_by_caller = ordered_by_caller,
        .imported_from_c = imported_from_c,
        .ready_for = ready_for,
        .order_for = order_for,
        .order_for_work = order_for_work,
        .lend = lend,
        .await_for_host = await_for_host,
        .current_work_stream = current_work_stream,
        .order_streams = order_streams,
    };
    fdl_devices = &calls;
}
