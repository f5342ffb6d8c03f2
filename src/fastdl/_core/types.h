/* SPDX-License-Identifier: Apache-2.0
 *
 * What fastdl knows of a type: the cache that the public header describes, for this process.
 */
#ifndef FASTDL_CORE_TYPES_H_
#define FASTDL_CORE_TYPES_H_

#include <fastdl/fastdl.h>

extern fastdl_slot fdl_type_slots[FASTDL_SLOTS];

/* The record of `type`, or NULL. Needs no thread state. */
static inline const fastdl_record *fdl_type_find(const PyTypeObject *type)
{
    return fastdl_find_record(fdl_type_slots, type);
}

#endif
