/* SPDX-License-Identifier: Apache-2.0 */
#include "types.h"

fdl_pointer fdl_type_slots[FDL_TYPE_SLOTS];

static int is_same(const fdl_type_record *a, const fdl_type_record *b)
{
    return a->api == b->api && a->facts == b->facts && a->refused == b->refused &&
           a->version == b->version;
}

void fdl_type_publish(const fdl_type_record *record)
{
    fdl_type_record *copy = PyMem_RawMalloc(sizeof(fdl_type_record));
    if (copy == NULL)
        return;
    *copy = *record;
    for (uint32_t probe = 0; probe < FDL_TYPE_PROBES; probe++) {
        fdl_pointer *slot =
            &fdl_type_slots[fdl_type_slot(record->type, probe) & (FDL_TYPE_SLOTS - 1)];
        for (;;) {
            fdl_type_record *found = fdl_pointer_load(slot);
            if (found != NULL && found->type != record->type)
                break; /* somebody else's for good: try the next slot */
            if (found != NULL && is_same(found, record)) {
                PyMem_RawFree(copy);
                return;
            }
            copy->replaced = found;
            if (fdl_pointer_swap(slot, found, copy)) {
                if (found == NULL)
                    Py_INCREF((PyObject *)record->type);
                return;
            }
        }
    }
    PyMem_RawFree(copy);
}
