/* SPDX-License-Identifier: Apache-2.0
 *
 * What fastdl knows of a type, looked up by its address.
 *
 * A record is immutable once published and lives until the process ends, so a reader needs no
 * lock: it loads one pointer and compares one. A record owns its type, so an address in the
 * cache is never reused. Learning more about a type publishes a new record in the same slot;
 * the old one stays allocated for readers that still hold it. That happens a few times in the
 * life of a type at most.
 *
 * The cache does not grow. Types that find their slots taken are described anew each time.
 */
#ifndef FASTDL_CORE_TYPES_H_
#define FASTDL_CORE_TYPES_H_

#include <Python.h>

#include <fastdl/dlpack.h>

#include "atomics.h"

/* Facts about the instances of a type. */
enum {
    FDL_TYPE_NATIVE = 1,      /* the table is the library's own: `__dlpack__` may know better */
    FDL_TYPE_PROTOCOL = 2,    /* the table is the general bridge over `__dlpack__` */
    FDL_TYPE_LEARNED = 4,     /* `refused` and `version` are known to work */
    FDL_TYPE_IMMUTABLE = 8,   /* a capsule without flags is read-only all the same */
    FDL_TYPE_HAS_DLPACK = 16, /* `__dlpack__` can be asked where a native table refuses */
    FDL_TYPE_KEEP = 64,       /* the object must live as long as what it exported */
    FDL_TYPE_ASK_BITS = 32,   /* may be a lazy conjugate or negative that the table exports raw */
};

/* Keywords of `__dlpack__`. */
enum {
    FDL_KEYWORD_STREAM = 1,
    FDL_KEYWORD_MAX_VERSION = 2,
    FDL_KEYWORD_DL_DEVICE = 4,
    FDL_KEYWORD_COPY = 8,
};

typedef struct fdl_type_record {
    const struct fdl_type_record *replaced; /* what was known before, for leak checkers to find */
    PyTypeObject *type;
    const DLPackExchangeAPI *api;
    uint32_t facts;   /* FDL_TYPE_* */
    uint32_t refused; /* FDL_KEYWORD_* that `__dlpack__` of this type does not take */
    int32_t version;  /* what to pass as `version`; 0: do not pass it */
} fdl_type_record;

#define FDL_TYPE_SLOTS 256u /* a power of two */
#define FDL_TYPE_PROBES 4u

extern fdl_pointer fdl_type_slots[FDL_TYPE_SLOTS];

static inline uint32_t fdl_type_slot(const PyTypeObject *type, uint32_t probe)
{
    /* Type objects are over 400 bytes, so the low bits carry nothing. */
    uintptr_t address = (uintptr_t)type;
    return (uint32_t)((address >> 4) ^ (address >> 12)) + probe;
}

/* The record of `type`, or NULL. Needs no thread state. */
static inline const fdl_type_record *fdl_type_find(const PyTypeObject *type)
{
    for (uint32_t probe = 0; probe < FDL_TYPE_PROBES; probe++) {
        uint32_t slot = fdl_type_slot(type, probe) & (FDL_TYPE_SLOTS - 1);
        const fdl_type_record *record = fdl_pointer_load(&fdl_type_slots[slot]);
        if (record == NULL)
            return NULL;
        if (record->type == type)
            return record;
    }
    return NULL;
}

/* Publishes a copy of *record in place of what was known of its type. Without a free slot or
 * memory nothing happens: the cache is not needed for correctness. Needs a thread state, to
 * own the type. */
void fdl_type_publish(const fdl_type_record *record);

#endif
