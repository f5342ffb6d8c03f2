/* SPDX-License-Identifier: Apache-2.0 */
#include "facts.h"

/* X(row, code, bits, name, format).
 * 1-bit integers and 8- and 128-bit floats have no name in NumPy; they exist in the field
 * (packed masks, TVM's long double) and are carried along. */
#define FDL_DTYPES(X)                                                                              \
    X(INT1, kDLInt, 1, "int1", NULL)                                                               \
    X(INT2, kDLInt, 2, "int2", NULL)                                                               \
    X(INT4, kDLInt, 4, "int4", NULL)                                                               \
    X(INT8, kDLInt, 8, "int8", "b")                                                                \
    X(INT16, kDLInt, 16, "int16", "h")                                                             \
    X(INT32, kDLInt, 32, "int32", "i")                                                             \
    X(INT64, kDLInt, 64, "int64", "q")                                                             \
    X(INT128, kDLInt, 128, "int128", NULL)                                                         \
    X(UINT1, kDLUInt, 1, "uint1", NULL)                                                            \
    X(UINT2, kDLUInt, 2, "uint2", NULL)                                                            \
    X(UINT4, kDLUInt, 4, "uint4", NULL)                                                            \
    X(UINT8, kDLUInt, 8, "uint8", "B")                                                             \
    X(UINT16, kDLUInt, 16, "uint16", "H")                                                          \
    X(UINT32, kDLUInt, 32, "uint32", "I")                                                          \
    X(UINT64, kDLUInt, 64, "uint64", "Q")                                                          \
    X(UINT128, kDLUInt, 128, "uint128", NULL)                                                      \
    X(FLOAT16, kDLFloat, 16, "float16", "e")                                                       \
    X(FLOAT32, kDLFloat, 32, "float32", "f")                                                       \
    X(FLOAT64, kDLFloat, 64, "float64", "d")                                                       \
    X(FLOAT128, kDLFloat, 128, "float128", NULL)                                                   \
    X(BFLOAT16, kDLBfloat, 16, "bfloat16", NULL)                                                   \
    X(COMPLEX32, kDLComplex, 32, "complex32", NULL)                                                \
    X(COMPLEX64, kDLComplex, 64, "complex64", "Zf")                                                \
    X(COMPLEX128, kDLComplex, 128, "complex128", "Zd")                                             \
    X(BOOL, kDLBool, 8, "bool", "?")                                                               \
    X(FLOAT8_E3M4, kDLFloat8_e3m4, 8, "float8_e3m4", NULL)                                         \
    X(FLOAT8_E4M3, kDLFloat8_e4m3, 8, "float8_e4m3", NULL)                                         \
    X(FLOAT8_E4M3B11FNUZ, kDLFloat8_e4m3b11fnuz, 8, "float8_e4m3b11fnuz", NULL)                    \
    X(FLOAT8_E4M3FN, kDLFloat8_e4m3fn, 8, "float8_e4m3fn", NULL)                                   \
    X(FLOAT8_E4M3FNUZ, kDLFloat8_e4m3fnuz, 8, "float8_e4m3fnuz", NULL)                             \
    X(FLOAT8_E5M2, kDLFloat8_e5m2, 8, "float8_e5m2", NULL)                                         \
    X(FLOAT8_E5M2FNUZ, kDLFloat8_e5m2fnuz, 8, "float8_e5m2fnuz", NULL)                             \
    X(FLOAT8_E8M0FNU, kDLFloat8_e8m0fnu, 8, "float8_e8m0fnu", NULL)                                \
    X(FLOAT6_E2M3FN, kDLFloat6_e2m3fn, 6, "float6_e2m3fn", NULL)                                   \
    X(FLOAT6_E3M2FN, kDLFloat6_e3m2fn, 6, "float6_e3m2fn", NULL)                                   \
    X(FLOAT4_E2M1FN, kDLFloat4_e2m1fn, 4, "float4_e2m1fn", NULL)

enum {
    NO_ROW,
#define X(row, code, bits, name, format) ROW_##row,
    FDL_DTYPES(X)
#undef X
};

const fdl_dtype_fact fdl_dtypes[] = {
#define X(row, code, bits, name, format) {code, bits, name, format},
    FDL_DTYPES(X)
#undef X
        {0, 0, NULL, NULL},
};

const uint8_t fdl_dtype_rows[FDL_DTYPE_CODES][FDL_DTYPE_MAX_BITS + 1] = {
#define X(row, code, bits, name, format) [code][bits] = ROW_##row,
    FDL_DTYPES(X)
#undef X
};

const fdl_device_fact fdl_devices[] = {
    {kDLCPU, "cpu", 1, 1, FDL_STREAM_NONE},
    {kDLCUDA, "cuda", 0, 1, FDL_STREAM_CUDA},
    {kDLCUDAHost, "cuda_host", 1, 1, FDL_STREAM_CUDA},
    {kDLOpenCL, "opencl", 0, 0, FDL_STREAM_OPAQUE},
    {kDLVulkan, "vulkan", 0, 0, FDL_STREAM_OPAQUE},
    {kDLMetal, "metal", 0, 0, FDL_STREAM_OPAQUE},
    {kDLVPI, "vpi", 0, 0, FDL_STREAM_OPAQUE},
    {kDLROCM, "rocm", 0, 1, FDL_STREAM_ROCM},
    {kDLROCMHost, "rocm_host", 1, 1, FDL_STREAM_ROCM},
    {kDLExtDev, "ext_dev", 0, 0, FDL_STREAM_OPAQUE},
    {kDLCUDAManaged, "cuda_managed", 0, 1, FDL_STREAM_CUDA},
    {kDLOneAPI, "oneapi", 0, 1, FDL_STREAM_OPAQUE},
    {kDLWebGPU, "webgpu", 0, 0, FDL_STREAM_OPAQUE},
    {kDLHexagon, "hexagon", 0, 0, FDL_STREAM_OPAQUE},
    {kDLMAIA, "maia", 0, 0, FDL_STREAM_OPAQUE},
    {kDLTrn, "trn", 0, 0, FDL_STREAM_OPAQUE},
    {0, NULL, 0, 0, FDL_STREAM_OPAQUE}, /* the row of every unknown device */
};

const fdl_device_fact *fdl_device_find(int32_t type)
{
    const fdl_device_fact *row = fdl_devices;
    while (row->name != NULL && row->type != type)
        row++;
    return row;
}
