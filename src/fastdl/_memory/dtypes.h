/* SPDX-License-Identifier: Apache-2.0
 *
 * The element types of DLPack: the name of each, the buffer protocol's format, and the layout of
 * its bits. Cython, Python and the tests use this table; the valid sizes, and the devices, are in
 * the public header.
 */
#ifndef FASTDL_MEMORY_DTYPES_H_
#define FASTDL_MEMORY_DTYPES_H_

#include "layout.h"

/* The layout of a narrow float. A sign bit, where there is one, is the highest. */
typedef struct {
    int8_t exponent, mantissa; /* bits of each; an exponent of 0 bits: not a narrow float */
    int16_t bias;
    enum {
        FDL_IEEE,   /* the highest exponent holds infinities and NaN */
        FDL_FN,     /* no infinities; only all ones are NaN */
        FDL_FNUZ,   /* no infinities; negative zero is NaN */
        FDL_FINITE, /* neither */
        FDL_SCALE   /* 2 ** (bits - bias); all ones are NaN */
    } special;
} fdl_float_form;

/* One element type of one lane. */
typedef struct {
    uint8_t code; /* DLDataTypeCode */
    uint8_t bits;
    const char *name;    /* "float32": NumPy's name, or ml_dtypes' where NumPy has none */
    const char *format;  /* PEP 3118 character(s) in native size, or NULL where there is none */
    fdl_float_form form; /* of a float of up to 16 bits, or of each part of a complex of 32 */
} fdl_dtype_fact;

/* Rows in the order of DLPack's numbers; the last row has a NULL name. */
extern const fdl_dtype_fact fdl_dtypes[];

/* The row of a type of one lane, or NULL if there is none. */
const fdl_dtype_fact *fdl_dtype_find(uint8_t code, uint8_t bits);

/* The row of the type with that name, or NULL if there is none. */
const fdl_dtype_fact *fdl_dtype_named(const char *name);

#endif
