/* SPDX-License-Identifier: Apache-2.0
 *
 * The two tables of facts that everything else reads: element types and devices.
 * C, Cython, Python, the documentation and the tests all draw from here.
 */
#ifndef FASTDL_CORE_FACTS_H_
#define FASTDL_CORE_FACTS_H_

#include <fastdl/dlpack.h>

/* One element type of one lane. */
typedef struct {
    uint8_t code; /* DLDataTypeCode */
    uint8_t bits;
    const char *name;   /* "float32": NumPy's name, or ml_dtypes' where NumPy has none */
    const char *format; /* PEP 3118 character(s), or NULL where there is none */
} fdl_dtype_fact;

/* Which streams a device has: the row of the stream tables that applies. */
typedef enum {
    FDL_STREAM_NONE,   /* plain host memory */
    FDL_STREAM_CUDA,   /* 1 legacy, 2 per thread, above 2 a handle; 0 is ambiguous */
    FDL_STREAM_ROCM,   /* 0 default, above 2 a handle; 1 and 2 do not exist */
    FDL_STREAM_OPAQUE, /* has queues, but not ones that DLPack can name by an integer */
} fdl_stream_kind;

typedef struct {
    int32_t type; /* DLDeviceType */
    const char *name;
    uint8_t host;      /* a CPU may read and write `data` with no device involved */
    uint8_t addresses; /* `data` is an address, so that adding bytes to it makes sense */
    uint8_t stream;    /* fdl_stream_kind */
} fdl_device_fact;

/* Rows in the order of DLPack's numbers; the last row has a NULL name. */
extern const fdl_dtype_fact fdl_dtypes[];
extern const fdl_device_fact fdl_devices[];

/* The number of a row of fdl_dtypes plus one, by code and bits; 0: no such type. One load answers
 * every question about a type. */
#define FDL_DTYPE_CODES (kDLFloat4_e2m1fn + 1)
#define FDL_DTYPE_MAX_BITS 128
extern const uint8_t fdl_dtype_rows[FDL_DTYPE_CODES][FDL_DTYPE_MAX_BITS + 1];

/* The row of a type of one lane, or NULL if there is none. */
static inline const fdl_dtype_fact *fdl_dtype_find(uint8_t code, uint8_t bits)
{
    if (code >= FDL_DTYPE_CODES || bits > FDL_DTYPE_MAX_BITS || fdl_dtype_rows[code][bits] == 0)
        return NULL;
    return &fdl_dtypes[fdl_dtype_rows[code][bits] - 1];
}

/* Whether elements of that type and size are possible: as in the table for a code that is in it;
 * any size but 0 for other codes, which are opaque. */
static inline int fdl_dtype_exists(uint8_t code, uint8_t bits)
{
    if (code >= FDL_DTYPE_CODES || code == kDLOpaqueHandle)
        return bits != 0;
    return bits <= FDL_DTYPE_MAX_BITS && fdl_dtype_rows[code][bits] != 0;
}

/* The row of a device type; a row without name for a number DLPack 1.3 does not know
 * (such a device is carried along as metadata and never touched). */
const fdl_device_fact *fdl_device_find(int32_t type);

#endif
