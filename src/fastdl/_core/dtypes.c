/* SPDX-License-Identifier: Apache-2.0 */
#include "dtypes.h"

#include <limits.h>
#include <string.h>

/* C has two names for 64 bits where a long has so many, and consumers that compare letters, such as
 * MPI's datatypes, take them for two types. NumPy writes the long. */
#if LONG_MAX > 0x7fffffff
#define INT64_FORMAT "l"
#define UINT64_FORMAT "L"
#else
#define INT64_FORMAT "q"
#define UINT64_FORMAT "Q"
#endif

/* 1-bit integers and 8- and 128-bit floats have no name in NumPy; they exist in the field
 * (packed masks, TVM's long double) and are carried along. */
const fdl_dtype_fact fdl_dtypes[] = {
    {kDLInt, 1, "int1", NULL},
    {kDLInt, 2, "int2", NULL},
    {kDLInt, 4, "int4", NULL},
    {kDLInt, 8, "int8", "b"},
    {kDLInt, 16, "int16", "h"},
    {kDLInt, 32, "int32", "i"},
    {kDLInt, 64, "int64", INT64_FORMAT},
    {kDLInt, 128, "int128", NULL},
    {kDLUInt, 1, "uint1", NULL},
    {kDLUInt, 2, "uint2", NULL},
    {kDLUInt, 4, "uint4", NULL},
    {kDLUInt, 8, "uint8", "B"},
    {kDLUInt, 16, "uint16", "H"},
    {kDLUInt, 32, "uint32", "I"},
    {kDLUInt, 64, "uint64", UINT64_FORMAT},
    {kDLUInt, 128, "uint128", NULL},
    {kDLFloat, 16, "float16", "e"},
    {kDLFloat, 32, "float32", "f"},
    {kDLFloat, 64, "float64", "d"},
    {kDLFloat, 128, "float128", NULL},
    {kDLBfloat, 16, "bfloat16", NULL},
    {kDLComplex, 32, "complex32", NULL},
    {kDLComplex, 64, "complex64", "Zf"},
    {kDLComplex, 128, "complex128", "Zd"},
    {kDLBool, 8, "bool", "?"},
    {kDLFloat8_e3m4, 8, "float8_e3m4", NULL},
    {kDLFloat8_e4m3, 8, "float8_e4m3", NULL},
    {kDLFloat8_e4m3b11fnuz, 8, "float8_e4m3b11fnuz", NULL},
    {kDLFloat8_e4m3fn, 8, "float8_e4m3fn", NULL},
    {kDLFloat8_e4m3fnuz, 8, "float8_e4m3fnuz", NULL},
    {kDLFloat8_e5m2, 8, "float8_e5m2", NULL},
    {kDLFloat8_e5m2fnuz, 8, "float8_e5m2fnuz", NULL},
    {kDLFloat8_e8m0fnu, 8, "float8_e8m0fnu", NULL},
    {kDLFloat6_e2m3fn, 6, "float6_e2m3fn", NULL},
    {kDLFloat6_e3m2fn, 6, "float6_e3m2fn", NULL},
    {kDLFloat4_e2m1fn, 4, "float4_e2m1fn", NULL},
    {0, 0, NULL, NULL},
};

const fdl_dtype_fact *fdl_dtype_find(uint8_t code, uint8_t bits)
{
    const fdl_dtype_fact *row = fdl_dtypes;
    while (row->name != NULL && (row->code != code || row->bits != bits))
        row++;
    return row->name != NULL ? row : NULL;
}

const fdl_dtype_fact *fdl_dtype_named(const char *name)
{
    const fdl_dtype_fact *row = fdl_dtypes;
    while (row->name != NULL && strcmp(row->name, name) != 0)
        row++;
    return row->name != NULL ? row : NULL;
}
