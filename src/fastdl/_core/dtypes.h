/* SPDX-License-Identifier: Apache-2.0
 *
 * The element types of DLPack by name, and the buffer protocol's format for each. Cython, Python
 * and the tests use this table; the valid sizes, and the devices, are in the public header.
 */
#ifndef FASTDL_CORE_DTYPES_H_
#define FASTDL_CORE_DTYPES_H_

#include "layout.h"

/* One element type of one lane. */
typedef struct {
    uint8_t code; /* DLDataTypeCode */
    uint8_t bits;
    const char *name;   /* "float32": NumPy's name, or ml_dtypes' where NumPy has none */
    const char *format; /* PEP 3118 character(s) in native size, or NULL where there is none */
} fdl_dtype_fact;

/* Rows in the order of DLPack's numbers; the last row has a NULL name. */
extern const fdl_dtype_fact fdl_dtypes[];

/* The row of a type of one lane, or NULL if there is none. */
const fdl_dtype_fact *fdl_dtype_find(uint8_t code, uint8_t bits);

/* The same for a name. */
const fdl_dtype_fact *fdl_dtype_named(const char *name);

#endif
