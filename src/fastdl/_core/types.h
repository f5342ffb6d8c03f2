/* SPDX-License-Identifier: Apache-2.0
 *
 * What fastdl knows about a type: the cache that the public header describes, for this process.
 */
#ifndef FASTDL_CORE_TYPES_H_
#define FASTDL_CORE_TYPES_H_

#include "interface.h"

/* Where a type has its version tag, in bytes from its start. */
#define FDL_TAG_OFFSET offsetof(PyTypeObject, tp_version_tag)

extern fastdl_cache fdl_types;

/* The record of `type`, or NULL. Needs no thread state. */
static inline const fastdl_record *fdl_type_find(const PyTypeObject *type)
{
    const fastdl_record *record;
    uint32_t tag = fastdl_tag_(type);
    if (FASTDL_LIKELY_(
            fastdl_match_(&fdl_types.tables[0][tag & (FASTDL_SETS - 1)], type, tag, &record)) ||
        fastdl_match_(&fdl_types.others[0][tag & (FASTDL_SETS - 1)], type, tag, &record))
        return record;
    return fastdl_find_record(&fdl_types, type, tag);
}

#endif
