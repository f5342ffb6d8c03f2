/* SPDX-License-Identifier: Apache-2.0 */
#include "dtypes.h"

#include <limits.h>
#include <string.h>

/* C has two types of a long's size, and consumers that compare format letters, such as MPI's
 * datatypes, distinguish them. NumPy uses the letter of long. */
#if LONG_MAX > 0x7fffffff
#define INT32_FORMAT "i"
#define UINT32_FORMAT "I"
#define INT64_FORMAT "l"
#define UINT64_FORMAT "L"
#else
#define INT32_FORMAT "l"
#define UINT32_FORMAT "L"
#define INT64_FORMAT "q"
#define UINT64_FORMAT "Q"
#endif

#define NO_FORM {0, 0, 0, FDL_IEEE}

/* 1-bit integers and 8- and 128-bit floats have no name in NumPy; they are used (packed masks,
 * TVM's long double), so they are passed through. */
const fdl_dtype_fact fdl_dtypes[] = {
    {kDLInt, 1, "int1", NULL, NO_FORM},
    {kDLInt, 2, "int2", NULL, NO_FORM},
    {kDLInt, 4, "int4", NULL, NO_FORM},
    {kDLInt, 8, "int8", "b", NO_FORM},
    {kDLInt, 16, "int16", "h", NO_FORM},
    {kDLInt, 32, "int32", INT32_FORMAT, NO_FORM},
    {kDLInt, 64, "int64", INT64_FORMAT, NO_FORM},
    {kDLInt, 128, "int128", NULL, NO_FORM},
    {kDLUInt, 1, "uint1", NULL, NO_FORM},
    {kDLUInt, 2, "uint2", NULL, NO_FORM},
    {kDLUInt, 4, "uint4", NULL, NO_FORM},
    {kDLUInt, 8, "uint8", "B", NO_FORM},
    {kDLUInt, 16, "uint16", "H", NO_FORM},
    {kDLUInt, 32, "uint32", UINT32_FORMAT, NO_FORM},
    {kDLUInt, 64, "uint64", UINT64_FORMAT, NO_FORM},
    {kDLUInt, 128, "uint128", NULL, NO_FORM},
    {kDLFloat, 16, "float16", "e", {5, 10, 15, FDL_IEEE}},
    {kDLFloat, 32, "float32", "f", NO_FORM},
    {kDLFloat, 64, "float64", "d", NO_FORM},
    {kDLFloat, 128, "float128", NULL, NO_FORM},
    {kDLBfloat, 16, "bfloat16", NULL, {8, 7, 127, FDL_IEEE}},
    {kDLComplex, 32, "complex32", NULL, {5, 10, 15, FDL_IEEE}},
    {kDLComplex, 64, "complex64", "Zf", NO_FORM},
    {kDLComplex, 128, "complex128", "Zd", NO_FORM},
    {kDLBool, 8, "bool", "?", NO_FORM},
    {kDLFloat8_e3m4, 8, "float8_e3m4", NULL, {3, 4, 3, FDL_IEEE}},
    {kDLFloat8_e4m3, 8, "float8_e4m3", NULL, {4, 3, 7, FDL_IEEE}},
    {kDLFloat8_e4m3b11fnuz, 8, "float8_e4m3b11fnuz", NULL, {4, 3, 11, FDL_FNUZ}},
    {kDLFloat8_e4m3fn, 8, "float8_e4m3fn", NULL, {4, 3, 7, FDL_FN}},
    {kDLFloat8_e4m3fnuz, 8, "float8_e4m3fnuz", NULL, {4, 3, 8, FDL_FNUZ}},
    {kDLFloat8_e5m2, 8, "float8_e5m2", NULL, {5, 2, 15, FDL_IEEE}},
    {kDLFloat8_e5m2fnuz, 8, "float8_e5m2fnuz", NULL, {5, 2, 16, FDL_FNUZ}},
    {kDLFloat8_e8m0fnu, 8, "float8_e8m0fnu", NULL, {8, 0, 127, FDL_SCALE}},
    {kDLFloat6_e2m3fn, 6, "float6_e2m3fn", NULL, {2, 3, 1, FDL_FINITE}},
    {kDLFloat6_e3m2fn, 6, "float6_e3m2fn", NULL, {3, 2, 3, FDL_FINITE}},
    {kDLFloat4_e2m1fn, 4, "float4_e2m1fn", NULL, {2, 1, 1, FDL_FINITE}},
    /* [newest] */
    {kDLBcomplex, 32, "bcomplex32", NULL, {8, 7, 127, FDL_IEEE}},
    /* [/newest] */
    {0, 0, NULL, NULL, NO_FORM},
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
