/* SPDX-License-Identifier: Apache-2.0
 *
 * fastdl/fastdl.h: tensors of any framework as arguments of C, C++ and Cython functions.
 *
 *     static PyObject *total(PyObject *module, PyObject *argument)
 *     {
 *         static const uint32_t types[] = {FASTDL_FLOAT32};
 *         static const fastdl_spec spec = {.dtypes = types, .dtype_count = 1, .ndim = 1};
 *         fastdl_view x;
 *         float sum = 0;
 *         if (fastdl_borrow_as(argument, "x", &spec, &x) < 0)
 *             return NULL;
 *         for (int64_t i = 0; i < x.dl.shape[0]; i++)
 *             sum += ((const float *)x.dl.data)[i * x.dl.strides[0]];
 *         fastdl_release(&x);
 *         return PyFloat_FromDouble(sum);
 *     }
 *
 * `argument` may be any object whose type has a DLPack exchange table (torch) or `__dlpack__`
 * (NumPy, JAX, CuPy, ...). Nothing is copied.
 *
 *
 * Two files
 * ---------
 * This file has the manual, the types and the inline functions. fastdl.c has the rest, and is
 * compiled once per extension module. Either one file of the module contains
 *
 *     #define FASTDL_IMPLEMENTATION
 *     #include <fastdl/fastdl.h>
 *
 * or fastdl.c is one of its sources: through a file with `#include <fastdl/fastdl.c>`, through
 * `python -m fastdl --sources` on a command line, or through the CMake target fastdl::source. A
 * module without it does not link; the name of the missing symbol says what to do.
 *
 * Requires <Python.h>, and dlpack.h and fastdl.c in the same folder, but no library. C99 and C++17;
 * CPython 3.10 or newer; also with Py_LIMITED_API of 3.10 or newer. Vendor the three files, or
 * install the package and compile with the flags that `python -m fastdl --cflags` prints. Names
 * that end in an underscore are private.
 *
 * With the limited API, borrowing costs nearly the same (docs/comparison.md). Without
 * fastdl_import(), such a build cannot detect that a type has changed: it continues to use the
 * exchange table that it found first, even if the type now has another one or none (see "Two
 * tiers").
 *
 * Where FASTDL_NO_PYTHON is defined, only the parts that need no Python are declared: element
 * types, devices, and the geometry of a tensor.
 *
 *
 * Two tiers
 * ---------
 * By itself the header supports every type that has its own exchange table (torch, fastdl.Tensor)
 * and every object with `__dlpack__`. After fastdl_import() it also uses what the installed package
 * knows about other types, above all NumPy arrays:
 *
 *     source                          header only         after fastdl_import()
 *     a type with its own table       one C call          one C call
 *     numpy.ndarray                   by __dlpack__       reads the array struct
 *     fastdl.Tensor                   one C call          one C call, read-only ones too
 *     JAX, TensorFlow, on a CPU       by __dlpack__       by their buffer
 *     other types with __dlpack__     by __dlpack__       by __dlpack__
 *     result as a torch tensor        yes                 yes
 *     result as a NumPy array         TypeError           yes
 *     result as a JAX, MLX, ... one   TypeError           as fastdl.convert makes it
 *     result as any other type        TypeError           a fastdl.Tensor
 *
 * The last row covers types without a table from libraries unknown to fastdl, and types that are
 * not tensors (FASTDL_ASARRAY): any consumer of DLPack can import the fastdl.Tensor.
 *
 * The header caches what it knows about a type until the type is destroyed or changes (with the
 * limited API, a change is seen only after fastdl_import()).
 *
 * A module works in only one interpreter of a process, the first that uses it: in any other, and
 * after Python is initialised again, its functions raise ImportError.
 *
 *
 * Rules that hold for every function
 * ----------------------------------
 *   - An attached thread state (the GIL) is needed, unless the function says otherwise.
 *   - `int` results are 0, or -1 with a Python exception set; truth values are 1 or 0.
 *   - No argument may be NULL unless the function says so.
 *   - Sizes and strides count elements, offsets and alignments bytes.
 *   - Call without a pending exception, as with Python's own functions; fastdl_init, fastdl_release
 *     and fastdl_release_all may be called with one, and preserve it. Any other function may fail
 *     because of a pending exception, or clear it; it leaks nothing and returns -1 only with an
 *     exception set.
 *   - Exceptions: TypeError for an object that is not a tensor, or has another element type;
 *     BufferError for a tensor that cannot be described or accessed as requested; ValueError for
 *     shapes and for arguments that overlap. A producer's exceptions pass unchanged.
 *
 *
 * Three numbers
 * -------------
 * The version of the package (`fastdl.__version__`), the version of DLPack (in dlpack.h), and the
 * version of the interface between this header and an installed package, below. The header and the
 * package may come from different releases: a package works with every header of the same major
 * interface version and of the same or a lower minor one.
 */
#ifndef FASTDL_NO_PYTHON
#include <Python.h>
#endif

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(_MSC_VER)
#include <intrin.h>
#endif

#include "dlpack.h"

/* C code compiled as C++ triggers warnings about C++ style. */
#if defined(__cplusplus) && defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wold-style-cast"
#elif defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast"
#pragma GCC diagnostic ignored "-Wuseless-cast"
#endif

#ifdef __cplusplus
extern "C" {
#endif

#ifndef FASTDL_FASTDL_H_
#define FASTDL_FASTDL_H_

#define FASTDL_ABI_MAJOR 1
#define FASTDL_ABI_MINOR 0

/* The most dimensions of a tensor, as in NumPy 2. */
#define FASTDL_MAX_NDIM 64

#if defined(__GNUC__) || defined(__clang__)
#define FASTDL_LIKELY_(condition) __builtin_expect(!!(condition), 1)
#define FASTDL_UNLIKELY_(condition) __builtin_expect(!!(condition), 0)
#define FASTDL_HOT_ __attribute__((always_inline)) static inline
#elif defined(_MSC_VER)
#define FASTDL_LIKELY_(condition) (condition)
#define FASTDL_UNLIKELY_(condition) (condition)
#define FASTDL_HOT_ static __forceinline
#else
#define FASTDL_LIKELY_(condition) (condition)
#define FASTDL_UNLIKELY_(condition) (condition)
#define FASTDL_HOT_ static inline
#endif

/* A name that ends in the release of this header, so that libraries with headers of two releases
 * can be linked into one module. */
#define FASTDL_NAME_(name) name##0_1_0

/* For macros, whose expansions get the warnings of the including code. (The functions of this
 * header use C casts.) */
#ifdef __cplusplus
#define FASTDL_CAST_(type, value) static_cast<type>(value)
#else
#define FASTDL_CAST_(type, value) ((type)(value))
#endif

/* ========================================================================
 * Element types
 * ===================================================================== */

/* An element type as one number, for `switch` and for fastdl_spec. */
#define FASTDL_DTYPE(code, bits, lanes)                                                            \
    (FASTDL_CAST_(uint32_t, code) | FASTDL_CAST_(uint32_t, bits) << 8 |                            \
     FASTDL_CAST_(uint32_t, lanes) << 16)

#define FASTDL_BOOL FASTDL_DTYPE(kDLBool, 8, 1)
#define FASTDL_INT8 FASTDL_DTYPE(kDLInt, 8, 1)
#define FASTDL_INT16 FASTDL_DTYPE(kDLInt, 16, 1)
#define FASTDL_INT32 FASTDL_DTYPE(kDLInt, 32, 1)
#define FASTDL_INT64 FASTDL_DTYPE(kDLInt, 64, 1)
#define FASTDL_UINT8 FASTDL_DTYPE(kDLUInt, 8, 1)
#define FASTDL_UINT16 FASTDL_DTYPE(kDLUInt, 16, 1)
#define FASTDL_UINT32 FASTDL_DTYPE(kDLUInt, 32, 1)
#define FASTDL_UINT64 FASTDL_DTYPE(kDLUInt, 64, 1)
#define FASTDL_FLOAT16 FASTDL_DTYPE(kDLFloat, 16, 1)
#define FASTDL_BFLOAT16 FASTDL_DTYPE(kDLBfloat, 16, 1)
#define FASTDL_FLOAT32 FASTDL_DTYPE(kDLFloat, 32, 1)
#define FASTDL_FLOAT64 FASTDL_DTYPE(kDLFloat, 64, 1)
#define FASTDL_COMPLEX64 FASTDL_DTYPE(kDLComplex, 64, 1)
#define FASTDL_COMPLEX128 FASTDL_DTYPE(kDLComplex, 128, 1)
#define FASTDL_FLOAT8_E4M3FN FASTDL_DTYPE(kDLFloat8_e4m3fn, 8, 1)
#define FASTDL_FLOAT8_E5M2 FASTDL_DTYPE(kDLFloat8_e5m2, 8, 1)

/* The number of an element type, as in the macros above. Needs no thread state. */
static inline uint32_t fastdl_dtype(DLDataType dtype)
{
    return FASTDL_DTYPE(dtype.code, dtype.bits, dtype.lanes);
}

/* The element type with such a number: `prototype.dtype = fastdl_data_type(FASTDL_FLOAT64)`. Needs
 * no thread state. */
static inline DLDataType fastdl_data_type(uint32_t dtype)
{
    DLDataType result;
    result.code = (uint8_t)dtype;
    result.bits = (uint8_t)(dtype >> 8);
    result.lanes = (uint16_t)(dtype >> 16);
    return result;
}

/* A family of element types: its sizes are the powers of two between two bounds, or the one size in
 * its name. */
typedef struct {
    const char *name;
    uint8_t min_bits, max_bits;
} fastdl_dtype_family;

static const fastdl_dtype_family fastdl_dtype_families_[] = {
    {"int", 1, 128},          {"uint", 1, 128},
    {"float", 16, 128},       {NULL, 0, 0},
    {"bfloat16", 16, 16},     {"complex", 32, 128},
    {"bool", 8, 8},           {"float8_e3m4", 8, 8},
    {"float8_e4m3", 8, 8},    {"float8_e4m3b11fnuz", 8, 8},
    {"float8_e4m3fn", 8, 8},  {"float8_e4m3fnuz", 8, 8},
    {"float8_e5m2", 8, 8},    {"float8_e5m2fnuz", 8, 8},
    {"float8_e8m0fnu", 8, 8}, {"float6_e2m3fn", 6, 6},
    {"float6_e3m2fn", 6, 6},  {"float4_e2m1fn", 4, 4},
    {"bcomplex32", 32, 32},
};

/* The family of a DLDataTypeCode; NULL for an unknown code and for opaque handles, which may have
 * any size. Needs no thread state. */
static inline const fastdl_dtype_family *fastdl_find_dtype(uint8_t code)
{
    size_t known = sizeof(fastdl_dtype_families_) / sizeof(fastdl_dtype_families_[0]);
    return code >= known || code == kDLOpaqueHandle ? NULL : &fastdl_dtype_families_[code];
}

/* Whether elements of that code and size are possible. Needs no thread state. */
static inline int fastdl_dtype_exists(uint8_t code, uint8_t bits)
{
    const fastdl_dtype_family *family = fastdl_find_dtype(code);
    if (family == NULL)
        return bits != 0;
    return bits >= family->min_bits && bits <= family->max_bits &&
           ((bits & (bits - 1)) == 0 || family->min_bits == family->max_bits);
}

/* The bytes that one element takes by itself: the unit of strides. A packed element of fewer than 8
 * bits counts as one byte. Needs no thread state. */
static inline int64_t fastdl_itemsize(DLDataType dtype)
{
    return ((int64_t)dtype.bits * dtype.lanes + 7) / 8;
}

/* Whether elements are complex numbers. */
static inline int fastdl_is_complex_(DLDataType dtype)
{
    return dtype.code == kDLComplex || dtype.code == kDLBcomplex;
}

/* The alignment that a compiler assumes of an element, in bytes: the alignment of one lane, or of
 * one part of a complex number. */
static inline uint64_t fastdl_alignment_(DLDataType dtype)
{
    uint64_t bytes = dtype.bits / (fastdl_is_complex_(dtype) ? 16u : 8u);
    return bytes == 0 ? 1 : bytes & (0 - bytes);
}

/* Whether elements share bytes: lanes * bits is not a whole number of bytes, and `flags` do not
 * say that elements are padded. Such a tensor has no meaningful strides. Needs no thread state. */
static inline int fastdl_is_packed(DLDataType dtype, uint64_t flags)
{
    return ((unsigned)dtype.bits * dtype.lanes) % 8 != 0 &&
           !(flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED);
}

/* ---- one piece of code for several element types ----
 *
 *     FASTDL_DISPATCH_REAL(fastdl_dtype(x.dl.dtype), T, {
 *         const T *from = (const T *)x.dl.data;
 *         T *to = (T *)y.dl.data;
 *         for (int64_t i = 0; i < n; i++)
 *             to[i] = 2 * from[i];
 *     })
 *
 * A `switch` over element types: the block is compiled once for each type of the family, where `T`
 * is the C type and `T_DTYPE` its number (FASTDL_FLOAT32, ...); `T` is a name of your choice. Let a
 * specification require the family first:
 *
 *     static const uint32_t real[] = {FASTDL_LIST_REAL};
 *     spec.dtypes = real, spec.dtype_count = sizeof(real) / sizeof(real[0]);
 *
 * Otherwise follow the dispatch by `if (PyErr_Occurred())`: for an element type outside the family
 * the block does not run, and TypeError is set. The thread need not hold the GIL, but must be one
 * of Python's: in others, and under FASTDL_NO_PYTHON, nothing is set.
 *
 * `break` leaves the block. Dispatches over two arguments may be nested.
 *
 *     INTEGER    int8 to int64, uint8 to uint64
 *     REAL       float32, float64
 *     NUMBER     INTEGER and REAL
 *     FLOATING   REAL, float16 and bfloat16
 *
 * C has no arithmetic for float16 and bfloat16: there `T` is a struct of the 16 bits, which rules
 * out arithmetic by mistake; fastdl_load and fastdl_store convert to and from double:
 *
 *     FASTDL_DISPATCH_FLOATING(fastdl_dtype(x.dl.dtype), T, {
 *         for (int64_t i = 0; i < n; i++)
 *             fastdl_store(T_DTYPE, (T *)y.dl.data + i,
 *                          2 * fastdl_load(T_DTYPE, (const T *)x.dl.data + i));
 *     })
 *
 * If your compiler has types for them (_Float16, __half, __nv_bfloat16), define FASTDL_FLOAT16_TYPE
 * and FASTDL_BFLOAT16_TYPE as those types before you first include this file.
 *
 * FASTDL_EACH_REAL(X, ...) and the other FASTDL_EACH_* macros are the lists themselves: they expand
 * to X(number, type, ...) for each type, with the arguments that follow X, at least one. To declare
 * a function for each:
 *
 *     #define DECLARE(number, type, name) void name##_##type(type *data, int64_t n);
 *     FASTDL_EACH_REAL(DECLARE, scale)
 */
typedef struct {
    uint16_t bits;
} fastdl_float16;

typedef struct {
    uint16_t bits;
} fastdl_bfloat16;

#ifndef FASTDL_FLOAT16_TYPE
#define FASTDL_FLOAT16_TYPE fastdl_float16
#endif
#ifndef FASTDL_BFLOAT16_TYPE
#define FASTDL_BFLOAT16_TYPE fastdl_bfloat16
#endif

#define FASTDL_EXPAND_(...) __VA_ARGS__ /* else MSVC passes one argument */

/* clang-format off */
#define FASTDL_EACH_INTEGER(X, ...)                                                                \
    FASTDL_EXPAND_(X(FASTDL_INT8, int8_t, __VA_ARGS__))                                            \
    FASTDL_EXPAND_(X(FASTDL_INT16, int16_t, __VA_ARGS__))                                          \
    FASTDL_EXPAND_(X(FASTDL_INT32, int32_t, __VA_ARGS__))                                          \
    FASTDL_EXPAND_(X(FASTDL_INT64, int64_t, __VA_ARGS__))                                          \
    FASTDL_EXPAND_(X(FASTDL_UINT8, uint8_t, __VA_ARGS__))                                          \
    FASTDL_EXPAND_(X(FASTDL_UINT16, uint16_t, __VA_ARGS__))                                        \
    FASTDL_EXPAND_(X(FASTDL_UINT32, uint32_t, __VA_ARGS__))                                        \
    FASTDL_EXPAND_(X(FASTDL_UINT64, uint64_t, __VA_ARGS__))
#define FASTDL_EACH_REAL(X, ...)                                                                   \
    FASTDL_EXPAND_(X(FASTDL_FLOAT32, float, __VA_ARGS__))                                          \
    FASTDL_EXPAND_(X(FASTDL_FLOAT64, double, __VA_ARGS__))
#define FASTDL_EACH_NUMBER(X, ...)                                                                 \
    FASTDL_EXPAND_(FASTDL_EACH_INTEGER(X, __VA_ARGS__))                                            \
    FASTDL_EXPAND_(FASTDL_EACH_REAL(X, __VA_ARGS__))
#define FASTDL_EACH_FLOATING(X, ...)                                                               \
    FASTDL_EXPAND_(FASTDL_EACH_REAL(X, __VA_ARGS__))                                               \
    FASTDL_EXPAND_(X(FASTDL_FLOAT16, FASTDL_FLOAT16_TYPE, __VA_ARGS__))                            \
    FASTDL_EXPAND_(X(FASTDL_BFLOAT16, FASTDL_BFLOAT16_TYPE, __VA_ARGS__))
/* clang-format on */

#define FASTDL_ENTRY_(number, type, unused) number,
#define FASTDL_LIST_INTEGER FASTDL_EACH_INTEGER(FASTDL_ENTRY_, 0)
#define FASTDL_LIST_REAL FASTDL_EACH_REAL(FASTDL_ENTRY_, 0)
#define FASTDL_LIST_NUMBER FASTDL_EACH_NUMBER(FASTDL_ENTRY_, 0)
#define FASTDL_LIST_FLOATING FASTDL_EACH_FLOATING(FASTDL_ENTRY_, 0)

#define FASTDL_CASE_(number, type, T, ...)                                                         \
    case number: {                                                                                 \
        typedef type T;                                                                            \
        enum {                                                                                     \
            T##_DTYPE = number                                                                     \
        };                                                                                         \
        (void)sizeof(T); /* a block need not use it */                                             \
        __VA_ARGS__                                                                                \
    } break;
#define FASTDL_DISPATCH_(dtype, EACH, family, T, ...)                                              \
    {                                                                                              \
        const uint32_t T##_NUMBER_ = (dtype);                                                      \
        switch (T##_NUMBER_) {                                                                     \
            EACH(FASTDL_CASE_, T, __VA_ARGS__)                                                     \
        default:                                                                                   \
            FASTDL_UNLISTED_(T##_NUMBER_, family);                                                 \
        }                                                                                          \
    }
#define FASTDL_DISPATCH_INTEGER(dtype, T, ...)                                                     \
    FASTDL_DISPATCH_(dtype, FASTDL_EACH_INTEGER, "INTEGER", T, __VA_ARGS__)
#define FASTDL_DISPATCH_REAL(dtype, T, ...)                                                        \
    FASTDL_DISPATCH_(dtype, FASTDL_EACH_REAL, "REAL", T, __VA_ARGS__)
#define FASTDL_DISPATCH_NUMBER(dtype, T, ...)                                                      \
    FASTDL_DISPATCH_(dtype, FASTDL_EACH_NUMBER, "NUMBER", T, __VA_ARGS__)
#define FASTDL_DISPATCH_FLOATING(dtype, T, ...)                                                    \
    FASTDL_DISPATCH_(dtype, FASTDL_EACH_FLOATING, "FLOATING", T, __VA_ARGS__)
#ifdef FASTDL_NO_PYTHON
#define FASTDL_UNLISTED_(dtype, family) (void)0
#endif

/* The value of a 16-bit float with a fraction of `fraction` bits, as a double. */
FASTDL_HOT_ double fastdl_widen_(uint16_t bits, int fraction)
{
    int top = (1 << (15 - fraction)) - 1, bias = top / 2; /* of the exponent */
    int exponent = (bits & 0x7fff) >> fraction;
    uint64_t part = bits & ((1u << fraction) - 1u), image;
    double value;
    if (exponent == 0) {
        image = (uint64_t)(1 - bias - fraction + 1023) << 52; /* one unit in the last place */
        memcpy(&value, &image, sizeof(value));
        value *= (double)part;
    } else {
        exponent = exponent == top ? 0x7ff : exponent - bias + 1023;
        image = (uint64_t)exponent << 52 | part << (52 - fraction);
        memcpy(&value, &image, sizeof(value));
    }
    return bits & 0x8000 ? -value : value;
}

/* The 16-bit float nearest to `value`, ties to even, rounded once; infinity beyond the largest one.
 */
FASTDL_HOT_ uint16_t fastdl_narrow_(double value, int fraction)
{
    int top = (1 << (15 - fraction)) - 1, bias = top / 2;
    uint64_t image, part, rest, half, result;
    int exponent, shift = 52 - fraction;
    uint16_t sign;
    memcpy(&image, &value, sizeof(image));
    sign = (uint16_t)(image >> 48 & 0x8000);
    part = image & (((uint64_t)1 << 52) - 1);
    exponent = (int)(image >> 52 & 0x7ff) - 1023 + bias;
    if ((image >> 52 & 0x7ff) == 0x7ff && part != 0) /* NaN, kept quiet */
        return (uint16_t)(sign | top << fraction | 1 << (fraction - 1) |
                          (int)(part >> (52 - fraction)));
    if (exponent >= top)
        return (uint16_t)(sign | top << fraction);
    if (exponent <= 0) {
        shift += 1 - exponent;
        exponent = 1;
        if (shift > 53)
            return sign;
    }
    part |= (uint64_t)1 << 52;
    rest = part & (((uint64_t)1 << shift) - 1);
    half = (uint64_t)1 << (shift - 1);
    result = part >> shift;
    result += rest > half || (rest == half && (result & 1));
    /* The leading 1 of `result`, if it has one, adds one to the exponent, and so does a carry. */
    return (uint16_t)(sign | (((uint64_t)(exponent - 1) << fraction) + result));
}

/* The value of an element of float16, bfloat16, float32 or float64; 0 for other types. The element
 * need not be aligned. With a type number that the compiler knows, such as T_DTYPE, it costs only
 * the conversion. Needs no thread state. */
static inline double fastdl_load(uint32_t dtype, const void *element)
{
    uint16_t bits;
    float single;
    double value = 0;
    switch (dtype) {
    case FASTDL_FLOAT16:
        memcpy(&bits, element, sizeof(bits));
        return fastdl_widen_(bits, 10);
    case FASTDL_BFLOAT16:
        memcpy(&bits, element, sizeof(bits));
        return fastdl_widen_(bits, 7);
    case FASTDL_FLOAT32:
        memcpy(&single, element, sizeof(single));
        return (double)single;
    case FASTDL_FLOAT64:
        memcpy(&value, element, sizeof(value));
        return value;
    default:
        return 0;
    }
}

/* Sets an element of float16, bfloat16, float32 or float64 to the number nearest to `value`; does
 * nothing for other types. The element need not be aligned. Needs no thread state. */
static inline void fastdl_store(uint32_t dtype, void *element, double value)
{
    uint16_t bits;
    float single;
    switch (dtype) {
    case FASTDL_FLOAT16:
        bits = fastdl_narrow_(value, 10);
        memcpy(element, &bits, sizeof(bits));
        break;
    case FASTDL_BFLOAT16:
        bits = fastdl_narrow_(value, 7);
        memcpy(element, &bits, sizeof(bits));
        break;
    case FASTDL_FLOAT32:
        single = (float)value;
        memcpy(element, &single, sizeof(single));
        break;
    case FASTDL_FLOAT64:
        memcpy(element, &value, sizeof(value));
        break;
    default:
        break;
    }
}

/* ========================================================================
 * Devices
 * ===================================================================== */

/* Which streams a device has: the row of DLPack's stream tables that applies. */
typedef enum {
    FASTDL_STREAM_NONE,   /* plain host memory */
    FASTDL_STREAM_CUDA,   /* 1 legacy, 2 per thread, above 2 a handle; 0 is ambiguous */
    FASTDL_STREAM_ROCM,   /* 0 default, above 2 a handle; 1 and 2 do not exist */
    FASTDL_STREAM_OPAQUE, /* has queues, but DLPack cannot name them by integers */
} fastdl_stream_kind;

/* The facts about a device type. */
typedef struct {
    int32_t type; /* DLDeviceType */
    const char *name;
    uint8_t host;      /* a CPU may read and write `data` without a driver */
    uint8_t addresses; /* `data` is an address, so that adding bytes to it makes sense */
    uint8_t stream;    /* fastdl_stream_kind */
} fastdl_device_fact;

static const fastdl_device_fact fastdl_device_facts_[] = {
    {kDLCPU, "cpu", 1, 1, FASTDL_STREAM_NONE},
    {kDLCUDA, "cuda", 0, 1, FASTDL_STREAM_CUDA},
    {kDLCUDAHost, "cuda_host", 1, 1, FASTDL_STREAM_CUDA},
    {kDLOpenCL, "opencl", 0, 0, FASTDL_STREAM_OPAQUE},
    {kDLVulkan, "vulkan", 0, 0, FASTDL_STREAM_OPAQUE},
    {kDLMetal, "metal", 0, 0, FASTDL_STREAM_OPAQUE},
    {kDLVPI, "vpi", 0, 0, FASTDL_STREAM_OPAQUE},
    {kDLROCM, "rocm", 0, 1, FASTDL_STREAM_ROCM},
    {kDLROCMHost, "rocm_host", 1, 1, FASTDL_STREAM_ROCM},
    {kDLExtDev, "ext_dev", 0, 0, FASTDL_STREAM_OPAQUE},
    {kDLCUDAManaged, "cuda_managed", 0, 1, FASTDL_STREAM_CUDA},
    {kDLOneAPI, "oneapi", 0, 1, FASTDL_STREAM_OPAQUE},
    {kDLWebGPU, "webgpu", 0, 0, FASTDL_STREAM_OPAQUE},
    {kDLHexagon, "hexagon", 0, 0, FASTDL_STREAM_OPAQUE},
    {kDLMAIA, "maia", 0, 0, FASTDL_STREAM_OPAQUE},
    {kDLTrn, "trn", 0, 0, FASTDL_STREAM_OPAQUE},
    {0, NULL, 0, 0, FASTDL_STREAM_OPAQUE}, /* the row of every unknown device */
};

/* All devices of DLPack 1.3 in the order of their numbers, then a row with a NULL name. Needs no
 * thread state. */
static inline const fastdl_device_fact *fastdl_devices(void)
{
    return fastdl_device_facts_;
}

/* The row of a device type; the row with a NULL name for a number unknown to DLPack 1.3. Needs no
 * thread state. */
static inline const fastdl_device_fact *fastdl_find_device(int32_t type)
{
    const fastdl_device_fact *row = fastdl_devices();
    while (row->name != NULL && row->type != type)
        row++;
    return row;
}

/* ========================================================================
 * Geometry: how many elements, how many bytes, and which bytes strides reach
 *
 * Nothing in this section needs a thread state.
 * ===================================================================== */

/* What can be wrong with a descriptor. */
typedef enum {
    FASTDL_OK = 0,
    FASTDL_BAD_DEVICE,
    FASTDL_BAD_NDIM,
    FASTDL_BAD_BITS,
    FASTDL_BAD_LANES,
    FASTDL_NULL_SHAPE,
    FASTDL_NEGATIVE_DIM,
    FASTDL_SIZE_OVERFLOW,
    FASTDL_REACH_OVERFLOW,
    FASTDL_PACKED_STRIDES,
    FASTDL_OFFSET_OVERFLOW,
    FASTDL_NULL_DATA,
} fastdl_fault;

/* In the order of fastdl_fault. */
static const char *const fastdl_fault_texts_[] = {
    "no fault",
    "a device type that is not positive",
    "a number of dimensions outside 0 to 64",
    "an element size that its type code does not have",
    "0 lanes",
    "dimensions but a NULL shape",
    "a negative dimension",
    "more bytes than a 64-bit count can hold",
    "strides that reach outside the address space",
    "strides over elements that share bytes (only row-major order is defined)",
    "an address or byte_offset that leads outside the address space",
    "elements but a NULL data pointer",
};

/* The fault as a phrase that completes "the tensor has ...". */
static inline const char *fastdl_fault_text(fastdl_fault fault)
{
    size_t known = sizeof(fastdl_fault_texts_) / sizeof(fastdl_fault_texts_[0]);
    return (size_t)fault < known ? fastdl_fault_texts_[fault] : "an unknown fault";
}

/* How much memory a tensor needs, and which bytes around its first element it reaches. */
typedef struct {
    int64_t size;   /* elements */
    int64_t nbytes; /* bytes of those elements laid out without gaps */
    int64_t low;    /* bytes reached below the first element: 0 or negative */
    int64_t high;   /* bytes reached from the first element upwards: one past the last */
} fastdl_layout;

/* r = a * b and r = a + b; nonzero when the result does not fit. */
#if defined(__GNUC__) || defined(__clang__)

static inline int fastdl_mul_(int64_t a, int64_t b, int64_t *r)
{
    return __builtin_mul_overflow(a, b, r);
}

static inline int fastdl_add_(int64_t a, int64_t b, int64_t *r)
{
    return __builtin_add_overflow(a, b, r);
}

#else

static inline int fastdl_mul_(int64_t a, int64_t b, int64_t *r)
{
    if (a != 0 && b != 0) {
        /* INT64_MIN / -1 overflows, so that pair is refused before dividing. */
        if ((a == -1 && b == INT64_MIN) || (b == -1 && a == INT64_MIN))
            return 1;
        if (a > 0 ? (b > 0 ? a > INT64_MAX / b : b < INT64_MIN / a)
                  : (b > 0 ? a < INT64_MIN / b : a < INT64_MAX / b))
            return 1;
    }
    *r = a * b;
    return 0;
}

static inline int fastdl_add_(int64_t a, int64_t b, int64_t *r)
{
    if (b > 0 ? a > INT64_MAX - b : a < INT64_MIN - b)
        return 1;
    *r = a + b;
    return 0;
}

#endif

/* The number of elements of a tensor that has passed fastdl_check, such as that of a view. */
static inline int64_t fastdl_size(const DLTensor *tensor)
{
    int64_t size = 1;
    for (int32_t i = 0; i < tensor->ndim; i++) {
        if (tensor->shape[i] == 0)
            return 0; /* whatever the other sizes are */
        if (fastdl_mul_(size, tensor->shape[i], &size))
            size = 1; /* a 0 follows */
    }
    return size;
}

/* Writes the strides, in elements, of a compact row-major tensor. Dimensions of size 0 count as 1.
 * If a product overflows, the remaining strides are 1: such a tensor has no elements. */
static inline void fastdl_compact_strides(int32_t ndim, const int64_t *shape, int64_t *strides)
{
    int64_t step = 1;
    for (int32_t i = ndim; i-- > 0;) {
        strides[i] = step;
        if (fastdl_mul_(step, shape[i] > 0 ? shape[i] : 1, &step))
            step = 1;
    }
}

/* Whether the elements lie without gaps in the given order, 'C' (last dimension fastest) or 'F'
 * (first). Dimensions of size 1 may have any stride; a tensor without elements is contiguous in
 * every order. NULL strides are compact row-major ones. */
static inline int fastdl_is_contiguous(const DLTensor *tensor, char order)
{
    int32_t ndim = tensor->ndim;
    int compact = 1, long_dims = 0;
    int64_t step = 1;
    for (int32_t k = 0; k < ndim; k++) {
        int32_t i = order == 'F' ? k : ndim - 1 - k;
        if (tensor->shape[i] == 0)
            return 1;
        if (tensor->shape[i] != 1) {
            long_dims++;
            if (tensor->strides == NULL ? order == 'F' && long_dims > 1
                                        : tensor->strides[i] != step)
                compact = 0; /* go on: a later dimension may be 0 */
            if (fastdl_mul_(step, tensor->shape[i], &step))
                compact = 0;
        }
    }
    return compact;
}

/* The number of elements, and how far the strides reach on both sides of the first one, in
 * elements. This is the per-dimension cost of an exchange. An overflow is reported only after the
 * last dimension: if any size is 0, *size is 0 and no overflow is reported. */
static inline fastdl_fault fastdl_measure_(const DLTensor *tensor, int64_t *size, int64_t *low,
                                           int64_t *high)
{
    const int64_t *shape = tensor->shape, *strides = tensor->strides;
    int64_t count = 1, below = 0, above = 0;
    fastdl_fault fault = FASTDL_OK;
    int empty = 0;
    for (int32_t i = 0; i < tensor->ndim; i++) {
        int64_t dim = shape[i], last;
        if (FASTDL_UNLIKELY_(dim <= 0)) {
            if (dim < 0)
                return FASTDL_NEGATIVE_DIM;
            empty = 1;
            continue;
        }
        if (FASTDL_UNLIKELY_(fastdl_mul_(count, dim, &count)))
            fault = FASTDL_SIZE_OVERFLOW;
        if (strides == NULL)
            continue;
        /* Plain branches: each becomes one jump on the overflow flag. A joined condition, or a
         * hint, would first turn the flag into a number. */
        if (fastdl_mul_(dim - 1, strides[i], &last))
            goto out_of_reach;
        if (last < 0) {
            if (fastdl_add_(below, last, &below))
                goto out_of_reach;
        } else if (fastdl_add_(above, last, &above)) {
            goto out_of_reach;
        }
        continue;
    out_of_reach:
        fault = fault == FASTDL_OK ? FASTDL_REACH_OVERFLOW : fault;
    }
    *size = empty ? 0 : count;
    *low = below;
    *high = strides == NULL ? (int64_t)((uint64_t)count - 1) : above; /* after a fault: any value */
    return empty ? FASTDL_OK : fault;
}

/* `data` as a number. */
static inline uint64_t fastdl_address_(const DLTensor *tensor)
{
    uintptr_t address = (uintptr_t)tensor->data;
    return address;
}

/* The address that byte_offset is added to: `data` as a number, or 0 if `data` is a handle. */
static inline uint64_t fastdl_base_(const DLTensor *tensor)
{
    int addresses = fastdl_find_device((int32_t)tensor->device.device_type)->addresses;
    return addresses ? fastdl_address_(tensor) : 0;
}

/* Whether `base` + byte_offset, and everything reached from there, are possible addresses, and data
 * is not NULL if there are elements. 0 - low is at most 2**63, so no side of a comparison can
 * wrap. */
static inline fastdl_fault fastdl_check_addresses_(const DLTensor *tensor,
                                                   const fastdl_layout *layout, uint64_t base)
{
    uint64_t first = base + tensor->byte_offset;
    if (FASTDL_UNLIKELY_(first < base || first > UINTPTR_MAX ||
                         first < (uint64_t)0 - (uint64_t)layout->low ||
                         (uint64_t)layout->high > UINTPTR_MAX - first))
        return FASTDL_OFFSET_OVERFLOW;
    return FASTDL_UNLIKELY_(tensor->data == NULL) ? FASTDL_NULL_DATA : FASTDL_OK;
}

/* Slow path of fastdl_check, for packed elements and for devices other than the CPU. */
static inline fastdl_fault fastdl_check_elsewhere_(const DLTensor *tensor,
                                                   const fastdl_layout *layout)
{
    return fastdl_check_addresses_(tensor, layout, fastdl_base_(tensor));
}

/* Sizes of packed elements are in bits, and only a compact layout is possible. */
static inline fastdl_fault fastdl_check_packed_(const DLTensor *tensor, fastdl_layout *layout)
{
    int64_t bits;
    if (!fastdl_is_contiguous(tensor, 'C'))
        return FASTDL_PACKED_STRIDES;
    if (fastdl_mul_(layout->size, (int64_t)tensor->dtype.bits * tensor->dtype.lanes, &bits) ||
        fastdl_add_(bits, 7, &bits))
        return FASTDL_SIZE_OVERFLOW;
    layout->nbytes = layout->high = bits / 8;
    return fastdl_check_elsewhere_(tensor, layout);
}

/* Checks everything about `tensor` that can be checked without reading its data, and fills *layout.
 * Returns FASTDL_OK or the first fault. Reads `shape` and `strides` only once ndim is known to be 0
 * to 64. `flags` are DLPACK_FLAG_BITMASK_* bits: SUBBYTE_TYPE_PADDED changes sizes. Dimensions of a
 * tensor without elements are not multiplied: (0, 2**62, 2**62) is fine. */
static inline fastdl_fault fastdl_check(const DLTensor *tensor, uint64_t flags,
                                        fastdl_layout *layout)
{
    DLDataType dtype = tensor->dtype;
    int64_t itemsize, size, low, high;
    fastdl_fault fault;

    layout->size = layout->nbytes = layout->low = layout->high = 0;
    if (FASTDL_UNLIKELY_((int32_t)tensor->device.device_type <= 0))
        return FASTDL_BAD_DEVICE;
    if (FASTDL_UNLIKELY_((uint32_t)tensor->ndim > FASTDL_MAX_NDIM))
        return FASTDL_BAD_NDIM;
    if (FASTDL_UNLIKELY_(!fastdl_dtype_exists(dtype.code, dtype.bits)))
        return FASTDL_BAD_BITS;
    if (FASTDL_UNLIKELY_(dtype.lanes == 0))
        return FASTDL_BAD_LANES;
    if (FASTDL_UNLIKELY_(tensor->ndim > 0 && tensor->shape == NULL))
        return FASTDL_NULL_SHAPE;

    fault = fastdl_measure_(tensor, &size, &low, &high);
    if (FASTDL_UNLIKELY_(fault != FASTDL_OK))
        return fault;
    if (FASTDL_UNLIKELY_(size == 0))
        return FASTDL_OK; /* no elements: any data, strides and byte_offset are valid */
    layout->size = size;
    if (FASTDL_UNLIKELY_(fastdl_is_packed(dtype, flags)))
        return fastdl_check_packed_(tensor, layout);

    itemsize = fastdl_itemsize(dtype);
    if (FASTDL_UNLIKELY_(fastdl_mul_(size, itemsize, &layout->nbytes)))
        return FASTDL_SIZE_OVERFLOW;
    if (FASTDL_UNLIKELY_(fastdl_mul_(low, itemsize, &low) || fastdl_mul_(high, itemsize, &high) ||
                         fastdl_add_(high, itemsize, &high)))
        return FASTDL_REACH_OVERFLOW;
    layout->low = low;
    layout->high = high;
    if (FASTDL_UNLIKELY_(tensor->device.device_type != kDLCPU))
        return fastdl_check_elsewhere_(tensor, layout);
    return fastdl_check_addresses_(tensor, layout, fastdl_address_(tensor));
}

#endif /* FASTDL_FASTDL_H_ */

#if !defined(FASTDL_NO_PYTHON) && !defined(FASTDL_WITH_PYTHON_)
#define FASTDL_WITH_PYTHON_

#undef FASTDL_UNLISTED_
#define FASTDL_UNLISTED_(dtype, family) fastdl_state_.cold->unlisted(dtype, family)

/* ========================================================================
 * The interface
 * ===================================================================== */

/* A borrowed tensor. `dl` and `flags` are read-only; the rest is private. Put it on the stack:
 * it is large, but most of it is room for strides, which is rarely used. Do not copy it, since
 * `dl.strides` may point into it.
 *
 * After a successful fastdl_borrow, `dl` has:
 *   data         the first element; on devices without addresses (OpenCL, Vulkan, Metal, WebGPU)
 *                a handle, to which dl.byte_offset applies. May be NULL if there are no elements.
 *   byte_offset  0 where `data` is an address
 *   ndim         0 to 64
 *   shape        not NULL when ndim > 0
 *   strides      not NULL when ndim > 0; may be negative or zero
 * and the tensor has passed fastdl_check, or comes from a library whose table is trusted to
 * describe its own tensors (torch). `flags` are DLPACK_FLAG_BITMASK_* bits; writing to a READ_ONLY
 * tensor corrupts its owner's data. */
typedef struct fastdl_view {
    DLTensor dl;
    uint64_t flags;
    uint64_t size_;                 /* of this struct, in the caller's version of the header */
    const DLPackExchangeAPI *api_;  /* the library on whose stream the tensor is ready */
    DLManagedTensorVersioned *own_; /* keeps the memory alive, if the object does not */
    /* Room for strides (on 32-bit machines sizes too) that the object does not store as int64_t. */
    int64_t room_[FASTDL_MAX_NDIM * 8 / sizeof(void *)];
} fastdl_view;

/* Finds the installed package and uses what it knows: NumPy's arrays are then read directly, JAX's
 * and TensorFlow's on a CPU through their buffer, and results can be of any library that fastdl
 * knows. Call it once, when your module is initialised:
 *
 *     if (fastdl_import() < 0) {
 *         if (!PyErr_ExceptionMatches(PyExc_ImportError))
 *             return NULL;             // an interrupt, for example
 *         PyErr_Clear();               // or fail, if your module needs the package
 *     }
 *
 * It may be called again, by several threads at once, and while others use the module.
 *
 * ImportError if fastdl is not installed, if its interface has another major version or is older
 * than this header, and in an interpreter other than the main one. Everything then works as before
 * the call. Other exceptions are those of importing fastdl. Costs that import, the first time. One
 * call serves all files of an extension module. */
static inline int fastdl_import(void);

/* Fills *view with the tensor of `obj`, for the duration of a C call. Nothing is owned: the view is
 * valid until `obj` is released or mutated, and only as long as no Python code runs that could do
 * so. Keep `obj` alive yourself (arguments of your function are). The `__torch_function__` of a
 * subclass of torch.Tensor may run during this call, and must not mutate the tensor either.
 *
 * Nothing is synchronised: on a device, work on the tensor belongs on the stream that
 * fastdl_work_stream gives. Objects with only `__dlpack__` are exported for the device's default
 * stream or, after fastdl_import(), for the thread's work stream; a fastdl.Tensor is ready there
 * too. Before fastdl_import() the object's device must be the current one, if there are several.
 * The GIL may be released during the calls to the driver.
 *
 * On success call fastdl_release when you are done. On failure the view holds nothing, and calling
 * fastdl_release is allowed.
 * TypeError: `obj` is not a tensor. BufferError: it cannot be described (a sparse or lazy tensor, a
 * fault in its descriptor), or its elements are more than numbers (a mask, a unit). Other
 * exceptions are the producer's.
 *
 * Read-only data is reported in `flags` if the source can express it. A table's borrowing slot
 * cannot, so a correct one refuses such data; fastdl then calls `__dlpack__`. Legacy capsules
 * cannot either: they count as writable, except from libraries that share values among arrays (JAX,
 * TensorFlow, MLX, PyArrow).
 *
 * Cost after fastdl_import(): the call of the library's own table plus 2 ns (before the import,
 * also a check of all sizes); NumPy's arrays 4 ns and fastdl.Tensor 2 ns; for other types one call
 * of `__dlpack__` or of the buffer protocol: see fastdl_import(). The first tensor of a type costs
 * a few microseconds. */
static inline int fastdl_borrow(PyObject *obj, fastdl_view *view);

/* Makes a view that has not been borrowed yet safe to release, for functions with one exit that
 * releases several. Costs two stores; fastdl_borrow does it itself. Needs no thread state. */
static inline void fastdl_init(fastdl_view *view);

/* Releases what a view holds: nothing, or a managed tensor, by one call of its deleter. May be
 * called again, and after a failed fastdl_borrow; a pending exception is kept. The view must have
 * been passed to fastdl_borrow or fastdl_init before. */
static inline void fastdl_release(fastdl_view *view);

/* Exports the tensor of `obj` for use beyond the call. On success **out is yours: it keeps the
 * memory alive by itself, and you call its deleter once, from any thread (fastdl_drop does); a NULL
 * deleter means that there is nothing to call. `strides` is never NULL if there are dimensions. On
 * failure *out is NULL. Exceptions, streams and read-only data as in fastdl_borrow. Unlike in a
 * view, `byte_offset` may be nonzero, and shape and strides are the producer's memory, as DLPack
 * defines: copy them if the producer may change them. Costs one allocation by the library that owns
 * the data. */
static inline int fastdl_own(PyObject *obj, DLManagedTensorVersioned **out);

/* Sets *out to a new reference to an object of type `like` that shares the memory of `managed`.
 * `like` is the type of one of your arguments, Py_TYPE(x), or NULL for fastdl.Tensor. The object is
 * made as by fastdl.convert, which copies what the library cannot share (read-only data, negative
 * strides) and raises BufferError for what the library does not support (an element type, a
 * device). Its class is the one that the type's table makes (for a subclass of torch.Tensor:
 * torch.Tensor itself). It is a fastdl.Tensor if `like` has no table and its library is unknown to
 * fastdl, or if `like` is not a tensor type (bytes, whose objects FASTDL_ASARRAY accepts). Before
 * fastdl_import() nothing is copied, and a library's table gets everything but negative strides
 * (BufferError), which would make PyTorch abort the process. Costs what the library needs to make
 * the object.
 *
 * `managed` is consumed in every case, so the caller has nothing to clean up. If this function or
 * one of fastdl's own tables raises (TypeError: `like` needs fastdl_import(); BufferError: see
 * above), the deleter of `managed` has been called. Device memory that becomes a fastdl.Tensor
 * counts as in use on the thread's work stream; memory that fastdl tracks (of a fastdl.Tensor) is
 * ordered for the current stream of the library of `like`. Memory that it does not track is passed
 * to the table of `like` without ordering. If another library's table fails, it is unknown whether
 * it freed `managed`, which is then leaked: a leak is better than a double free. (Before
 * fastdl_import() the table of fastdl.Tensor counts as another library's.) On failure *out is NULL.
 */
static inline int fastdl_wrap(DLManagedTensorVersioned *managed, PyTypeObject *like,
                              PyObject **out);

/* Allocates an uninitialised tensor with the element type, shape and device of `prototype` (whose
 * other fields are not read), with the allocator of the library of `like`, a type as in
 * fastdl_wrap. On success **out is yours, compact and row-major, with `byte_offset` 0 where `data`
 * is an address: fill it, on the work stream, and pass it to fastdl_wrap. On failure *out is NULL,
 * and the exception is of the type that the library names. For types without their own table,
 * fastdl allocates host memory, aligned to 256 bytes. Device memory for CuPy's arrays comes from
 * CuPy; other such types, and fastdl.Tensor, raise BufferError on a device. TypeError if `like`
 * needs fastdl_import(). Costs the library's allocation. */
static inline int fastdl_empty(const DLTensor *prototype, PyTypeObject *like,
                               DLManagedTensorVersioned **out);

/* As fastdl_empty, with all bytes 0; host memory only. BufferError on other devices: call
 * fastdl_empty there, then cudaMemsetAsync on your stream. */
static inline int fastdl_zeros(const DLTensor *prototype, PyTypeObject *like,
                               DLManagedTensorVersioned **out);

/* Releases a managed tensor that came from fastdl_own, fastdl_own_as, fastdl_empty or fastdl_zeros,
 * unless fastdl_wrap has consumed it. NULL, and a NULL deleter, are allowed. Costs one call of the
 * deleter. Needs no thread state. */
static inline void fastdl_drop(DLManagedTensorVersioned *managed);

/* Sets *stream to the stream on which to queue work on the tensor of a view: a cudaStream_t or
 * hipStream_t. For a type with its own table: the stream on which its library works now. For a
 * fastdl.Tensor, and for objects accepted by FASTDL_ASARRAY: the thread's work stream, which is the
 * default stream unless fastdl.use_stream changed it. For types with only `__dlpack__`: the same,
 * but before fastdl_import() always the default stream. NULL for host memory, and for the legacy
 * default stream. Call it after fastdl_borrow, with the device of the tensor current:
 *
 *     fastdl_borrow_as; device guard (view.dl.device.device_id); fastdl_work_stream; launch
 *
 * The tensor is ready there. A library with a table works there too, so its later work comes after
 * yours; fastdl ensures the same order for a fastdl.Tensor. Libraries without a table (CuPy, JAX)
 * may work on another stream: call within `fastdl.use_stream(device, that stream)`, or synchronise
 * before they continue. BufferError if the library does not report its stream. Costs one call of
 * the table; on the host, nothing. */
static inline int fastdl_work_stream(const fastdl_view *view, void **stream);

/* For code that works on a stream of its own, a cudaStream_t or hipStream_t of the tensor's device
 * (NULL: the legacy default stream), rather than on the one from fastdl_work_stream:
 *
 *     fastdl_order(&x, stream);                the stream waits for the tensor
 *     kernel<<<blocks, threads, 0, stream>>>(x.dl.data);
 *     fastdl_order_back(&x, stream);           the tensor's work stream waits for the kernel
 *
 * Makes work queued on `stream` from now on wait for what is queued on the work stream of the view
 * now. Each tensor of a call needs both functions, even if it is only read: its memory may be
 * written, or freed, next. If a kernel was queued and the call fails later, call fastdl_order_back
 * all the same.
 *
 * Nothing happens for host memory, pinned memory included (wait for your stream before the host
 * reads it), nor if the two streams are the same. Otherwise this costs an event, which is recorded
 * and waited for on the device; the host does not wait. By the driver's rules, a stream that waits
 * for one in a graph capture joins the capture, as a branch that fastdl_order_back joins again.
 * The GIL is released during the calls to the driver. BufferError before fastdl_import(), on
 * devices whose streams are not CUDA's or ROCm's, if there is no driver or it fails, and if a
 * stream in a capture would wait for work outside of it. The view is then unchanged. */
static inline int fastdl_order(const fastdl_view *view, void *stream);

/* Makes work queued on the work stream of the view from now on wait for what is queued on `stream`
 * now: call it after your launch. Cost and errors as for fastdl_order. */
static inline int fastdl_order_back(const fastdl_view *view, void *stream);

/* fastdl_empty for a result that you fill on your own stream and return with fastdl_wrap_on:
 *
 *     fastdl_empty_on(&x.dl, Py_TYPE(argument), stream, &y);
 *     kernel<<<blocks, threads, 0, stream>>>(x.dl.data, y->dl_tensor.data);
 *     fastdl_wrap_on(y, Py_TYPE(argument), stream, &result);
 *
 * `stream` waits for earlier work on the current stream of `like`'s library, which may still use
 * the memory. Costs and errors are those of fastdl_empty and fastdl_order; *out is yours, or NULL
 * on failure. Once a kernel is queued, wrap the tensor even if you no longer need it: fastdl_drop
 * frees it without waiting. */
static inline int fastdl_empty_on(const DLTensor *prototype, PyTypeObject *like, void *stream,
                                  DLManagedTensorVersioned **out);

/* fastdl_wrap after a kernel on `stream`: the current stream of the library of `like` waits for
 * `stream`. Always consumes `managed`; on failure *out is NULL. If the streams of a device cannot
 * be ordered (errors as for fastdl_order), or `like` has no table to order them by, the memory may
 * still be in use, so it is leaked; host memory is released. */
static inline int fastdl_wrap_on(DLManagedTensorVersioned *managed, PyTypeObject *like,
                                 void *stream, PyObject **out);

/* The exchange table of a type, valid until the process ends: the type's own, or one of fastdl's.
 * NULL with TypeError if the type has neither a table nor `__dlpack__`. Before fastdl_import(),
 * only the slot managed_tensor_from_py_object_no_sync works in the table of a type that has only
 * `__dlpack__`. Costs a lookup in the cache of types; the first of a type, a few microseconds. */
static inline const DLPackExchangeAPI *fastdl_exchange_api(PyTypeObject *type);

/* ---- what a function expects of an argument ---- */

/* One dimension of an expected shape: a size, or a name that stands for one. A name takes its size
 * from the first argument it is compared with; later ones must have the same size:
 *
 *     fastdl_dim n = FASTDL_DIM("n"), three = FASTDL_SIZE(3);
 *     fastdl_dim *const points[] = {&n, &three}, *const weights[] = {&n};
 *
 * Names are valid for one call: put them on the stack. Exact sizes may be static. */
typedef struct {
    const char *name; /* not copied */
    int64_t size;     /* -1: not known yet */
    char from[32];    /* the argument that `size` was taken from, perhaps cut off; "": none */
} fastdl_dim;

#define FASTDL_DIM(name) {name, -1, {0}}
#define FASTDL_SIZE(size) {NULL, size, {0}}

/* An argument and its name, for messages. */
typedef struct {
    const fastdl_view *view;
    const char *name;
} fastdl_argument;

enum {
    FASTDL_SCALAR = -1, /* fastdl_spec.ndim: no dimensions */

    /* fastdl_spec.layout; none of them: any strides */
    FASTDL_C = 1,     /* row-major contiguous */
    FASTDL_F = 2,     /* column-major contiguous; FASTDL_C | FASTDL_F: either */
    FASTDL_INNER = 4, /* the last dimension contiguous: rows may be padded */

    /* fastdl_spec.rules */
    FASTDL_WRITABLE = 1, /* the memory may be written, and no two elements overlap */
    FASTDL_TRAILING = 2, /* `ndim` and `shape` are of the last dimensions; more may come before,
                          * up to `max_ndim` in all */
    FASTDL_IN_PLACE = 4, /* an argument of `no_alias` may also be this very tensor */
    FASTDL_DETACHED =
        8,            /* with WRITABLE: even if autograd would miss the write (fastdl_borrow_as) */
    FASTDL_COPY = 16, /* a contiguous copy replaces a tensor of another layout */
    FASTDL_CONVERT = 32, /* also a tensor of a type not in `dtypes`, or not that of `like` */
    FASTDL_ASARRAY = 64, /* also objects that are not tensors but that fastdl.asarray accepts */

    /* fastdl_spec.device, in addition to the numbers of DLDeviceType */
    FASTDL_HOST = 0, /* any memory that the CPU may touch */
    FASTDL_ANY_DEVICE = -1,
};

/* What a function expects. A member that is 0 requires nothing, with two exceptions, without which
 * C code would crash: `device` 0 means host memory, and `alignment` 0 the alignment of the element
 * type (of one lane, or one part of a complex number), as in NumPy. The most used members come
 * first. */
typedef struct {
    const uint32_t *dtypes; /* any of these: FASTDL_FLOAT32, ... */
    size_t dtype_count;
    int32_t ndim; /* or FASTDL_SCALAR; 0: any */
    fastdl_dim *const
        *shape;        /* one for each of `ndim` dimensions (needs `ndim`); a NULL: any size */
    int32_t layout;    /* FASTDL_C, FASTDL_F, FASTDL_INNER */
    int32_t rules;     /* FASTDL_WRITABLE and those that follow it above */
    int32_t device;    /* DLDeviceType, FASTDL_HOST or FASTDL_ANY_DEVICE */
    int32_t alignment; /* of the first element, in bytes; 1: any address */
    const fastdl_argument *like;     /* must have the same element type and device as this one */
    const fastdl_argument *no_alias; /* must share no memory with this one */
    size_t no_alias_count;
    int32_t max_ndim; /* with FASTDL_TRAILING, or ndim 0: the limit, unless that is 0 */
} fastdl_spec;

/* Compares a borrowed tensor with what a function expects, in the order of the members. On failure
 * the message names the argument, what was expected and what was passed, and usually what to do.
 *
 *     element type                        TypeError
 *     dimensions, sizes, shared memory    ValueError
 *     layout, device, alignment, writing  BufferError
 *
 * FASTDL_DETACHED, FASTDL_COPY, FASTDL_CONVERT and FASTDL_ASARRAY are rules of fastdl_borrow_as and
 * fastdl_own_as; this function ignores them, since it does not have the object and cannot replace a
 * view. For the same reason it accepts an output that requires grad: use fastdl_borrow_as for
 * outputs.
 *
 * A name in `shape` that has no size yet takes that of this tensor, even if the call fails. Two
 * tensors share memory if some byte is in an element of both; if the strides are too complex to
 * decide quickly, overlapping address ranges count as shared memory. Costs up to 2 ns; a message is
 * built only on failure. Needs a thread state only on failure. */
static inline int fastdl_expect(const fastdl_view *view, const char *name, const fastdl_spec *spec);

/* Borrows one argument of a function: fastdl_borrow and fastdl_expect in one call, at no extra
 * cost. Every failure names the argument: `name` precedes a message of fastdl's about it ("x:
 * expected a tensor, got 'list', ..."); another exception (a producer's, or one about a driver)
 * passes unchanged, with the name in a note from Python 3.11 on. On success call fastdl_release
 * when you are done; on failure the view holds nothing, and calling fastdl_release is allowed.
 *
 * A torch tensor that requires grad is borrowed as if detached: autograd does not record operations
 * on it. To write it (FASTDL_WRITABLE) while gradients are recorded would make them silently wrong,
 * so that raises BufferError: call within torch.no_grad(), as optimizers do, or pass x.detach().
 * FASTDL_DETACHED accepts the tensor anyway. The check reads one attribute of a torch tensor; other
 * tensors are not checked.
 *
 * FASTDL_COPY: if layout, alignment or `no_alias` is not met, the view is of a copy that is aligned
 * and contiguous in the order that `layout` requires. FASTDL_CONVERT: also if the element type is
 * not that of `like`, or not in `dtypes`; the copy has the first of `dtypes` that it can be
 * converted to:
 *
 *     bool                                    to integers and floating types
 *     int8 to int64, uint8 to uint64          to each other and to floating types
 *     float16, bfloat16, float32, float64     to each other
 *
 * A floating result is rounded to nearest; an integer that the result cannot hold raises
 * ValueError. Other types can be copied but not converted. The copy lasts until fastdl_release;
 * `flags` contain IS_COPIED. Only host memory is copied: a device tensor must be converted by its
 * own library, and is refused as without the rule. So is an argument that is to be written
 * (FASTDL_WRITABLE), since the caller would not see the result. A copy of more than 64 KiB releases
 * the GIL and keeps its source alive meanwhile; not if the source is borrowed through the table of
 * another library, since that library may replace the memory. While the GIL is released, other
 * threads may run Python and change the objects of views that were borrowed before.
 *
 * FASTDL_ASARRAY: an object without `__dlpack__` and without an exchange table is passed to
 * fastdl.asarray, and the view shows the resulting tensor until fastdl_release. This covers buffers
 * (bytes, array.array, mmap, ...), `__array_interface__`, `__cuda_array_interface__`, `__array__`
 * and `__arrow_c_array__`. Costs microseconds, plus a copy where asarray copies; raises what
 * asarray raises. Imports the package if necessary; where it is not installed, such objects raise
 * the same error as without the rule. */
static inline int fastdl_borrow_as(PyObject *obj, const char *name, const fastdl_spec *spec,
                                   fastdl_view *view);

/* Exports the tensor of an argument for use beyond the call: fastdl_own with a name and a
 * specification, as in fastdl_borrow_as. On success **out is yours. With FASTDL_COPY or
 * FASTDL_CONVERT *out may be a copy, whose deleter may be called from any thread. On failure *out
 * is NULL. Costs as for fastdl_own, plus the check and any copy. */
static inline int fastdl_own_as(PyObject *obj, const char *name, const fastdl_spec *spec,
                                DLManagedTensorVersioned **out);

/* What a function expects of one of its arguments. */
typedef struct {
    const char *name;
    const fastdl_spec *spec;
} fastdl_parameter;

/* Borrows the arguments of a function, `count` of them, each as by fastdl_borrow_as, in order:
 *
 *     PyObject *const objects[] = {x_object, y_object};
 *     fastdl_view views[2];
 *     const fastdl_argument x = {&views[0], "x"};
 *     const fastdl_spec of_x = {.ndim = 1}, of_y = {.ndim = 1, .like = &x};
 *     const fastdl_parameter parameters[] = {{"x", &of_x}, {"y", &of_y}};
 *     if (fastdl_borrow_all(objects, parameters, 2, views) < 0)
 *         return NULL;
 *     ...
 *     fastdl_release_all(views, 2);
 *
 * `like` and `no_alias` of a specification may refer to views that come before its own (ValueError
 * for one that comes later), and a name in `shape` takes the size of the first argument that uses
 * it. Costs and errors are those of fastdl_borrow_as. On failure, reported for the first argument
 * that fails, everything borrowed has been released; calling fastdl_release_all is allowed. */
static inline int fastdl_borrow_all(PyObject *const *objects, const fastdl_parameter *parameters,
                                    size_t count, fastdl_view *views);

/* Calls fastdl_release for each of `count` views: those of fastdl_borrow_all, whether it succeeded
 * or not, or others that have been borrowed or initialised. A pending exception is kept. */
static inline void fastdl_release_all(fastdl_view *views, size_t count);

/* ---- producers: exporting a type of your own ---- */

/* A producer's description of one object. */
typedef struct {
    DLTensor dl;
    uint64_t flags;  /* DLPACK_FLAG_BITMASK_READ_ONLY, DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED */
    PyObject *owner; /* keeps the memory alive; borrowed. NULL: memory that is never freed */
    /* Room for a shape and strides that the object does not store as int64_t. */
    int64_t room[2 * FASTDL_MAX_NDIM];
} fastdl_description;

/* A function of yours that describes the tensor of `self` in *out: 0, or -1 with an exception.
 *
 *     static int describe_image(PyObject *self, fastdl_description *out)
 *     {
 *         Image *image = (Image *)self;
 *         out->dl.data = image->pixels;
 *         out->dl.ndim = 2;
 *         out->dl.shape = image->shape; // int64_t[2]
 *         out->dl.dtype = fastdl_data_type(FASTDL_UINT8);
 *         return 0;
 *     }
 *
 * On entry *out is on the host (kDLCPU, 0), without dimensions or flags, and `owner` is `self`; set
 * what differs. `strides` may stay NULL: row-major without gaps. The memory must not move or be
 * freed while the owner lives: if your type can do either, keep the memory in a separate object (a
 * capsule, a bytes object), and set `owner` to that object. Shape and strides are copied after the
 * call, except with FASTDL_LENDS. An invalid description (a negative size, 65 dimensions, a NULL
 * address, strides out of reach) raises BufferError in the consumer.
 *
 * It is called for each export, with a thread state; without a GIL, possibly by several threads at
 * once. It may run Python, and borrow other tensors; borrowing its own object raises
 * RecursionError. */
typedef int (*fastdl_describer)(PyObject *self, fastdl_description *out);

enum {
    /* A promise: the shape that the producer's function sets, and with two or more dimensions the
     * strides, stay in the object for as long as it lives. Consumers then read them in place during
     * a call (fastdl_borrow, tvm-ffi) and nothing is allocated. Tensors with flags (read-only,
     * padded) cannot be lent, and are exported instead. */
    FASTDL_LENDS = 1,
};

/* A producer, defined by FASTDL_PRODUCER. */
typedef struct {
    DLPackExchangeAPI api; /* the exchange table that consumers see */
    PyMethodDef methods[2];
} fastdl_producer;

/* FASTDL_PRODUCER(name, describe, stream, rules) defines `static fastdl_producer name`, with a
 * table whose functions call `describe` directly:
 *
 *     FASTDL_PRODUCER(image_producer, describe_image, fastdl_default_stream, FASTDL_LENDS);
 *
 * stream: a function of type DLPackCurrentWorkStream for the stream on which the memory is ready,
 *     as a native handle; fastdl_default_stream is one. It is not called for host memory.
 * rules: FASTDL_LENDS or 0.
 *
 * Use it at file scope. */
#define FASTDL_PRODUCER(name, describe, stream, rules)                                             \
    FASTDL_PRODUCER_FUNCTIONS_(name, describe, stream)                                             \
    static fastdl_producer name = FASTDL_PRODUCER_TABLE_(name, rules)

#define FASTDL_PRODUCER_FUNCTIONS_(name, describe, stream)                                         \
    static int name##_export_(void *self, DLManagedTensorVersioned **out)                          \
    {                                                                                              \
        return fastdl_state_.cold->produce(fastdl_as_object_(self), describe, out);                \
    }                                                                                              \
    static int name##_lend_(void *self, DLTensor *out)                                             \
    {                                                                                              \
        return fastdl_lend_(fastdl_as_object_(self), describe, out);                               \
    }                                                                                              \
    static int name##_stream_(DLDeviceType type, int32_t id, void **out)                           \
    {                                                                                              \
        return fastdl_stream_of_(type, id, stream, out);                                           \
    }                                                                                              \
    static PyObject *name##_dlpack_(PyObject *self, PyObject *const *values, Py_ssize_t count,     \
                                    PyObject *names)                                               \
    {                                                                                              \
        return fastdl_state_.cold->dlpack(self, describe, name##_stream_, values, count, names);   \
    }                                                                                              \
    static PyObject *name##_device_(PyObject *self, PyObject *unused)                              \
    {                                                                                              \
        (void)unused;                                                                              \
        return fastdl_state_.cold->dlpack_device(self, describe);                                  \
    }

#define FASTDL_PRODUCER_TABLE_(name, rules)                                                        \
    {                                                                                              \
        {{{FASTDL_DLPACK_MAJOR, FASTDL_DLPACK_MINOR}, NULL},                                       \
         fastdl_produced_allocate_,                                                                \
         name##_export_,                                                                           \
         fastdl_produced_wrap_,                                                                    \
         (rules) & FASTDL_LENDS ? name##_lend_ : NULL,                                             \
         name##_stream_},                                                                          \
        {                                                                                          \
            {"__dlpack__", FASTDL_FUNCTION_(name##_dlpack_), METH_FASTCALL | METH_KEYWORDS,        \
             fastdl_dlpack_doc_},                                                                  \
            {                                                                                      \
                "__dlpack_device__", name##_device_, METH_NOARGS, fastdl_device_doc_               \
            }                                                                                      \
        }                                                                                          \
    }

/* Makes `type` a producer: adds `__dlpack__` with every keyword of the standard's protocol,
 * `__dlpack_device__`, and the exchange table, as `__dlpack_c_exchange_api__` (a capsule) and
 * `__c_dlpack_exchange_api__` (an integer). Call it once, where the module makes its types: before
 * the type has instances. Subclasses inherit it. The type may be static or made by PyType_FromSpec;
 * with the limited API, it must not be immutable. The type must be your own, with a `producer` of
 * its own, since the table calls the producer's function with every instance.
 *
 * Exports keep the owner alive, and their deleters may run on any thread, with an exception
 * pending, and after Python has ended; then, and on a thread that is attached to another
 * interpreter, the owner is leaked. Once the package is imported, it orders streams and copies
 * from devices to the host; without it, consumers get device memory only on the stream where it is
 * ready, or with stream=-1, and otherwise BufferError. Copies of host memory need no package.
 * Results "of the same type" (fastdl_wrap, fastdl_empty, tvm-ffi) are fastdl.Tensors after
 * fastdl_import(), and a TypeError before.
 *
 * TypeError, without any change, if the type already has one of these attributes, or is immutable
 * as above; does nothing if they are from the same producer. MemoryError if memory runs out. Costs
 * one PyType_Modified. */
static inline int fastdl_publish(PyTypeObject *type, fastdl_producer *producer);

/* Sets *out to NULL, the legacy default stream of any device; never fails. For FASTDL_PRODUCER. */
static inline int fastdl_default_stream(DLDeviceType type, int32_t id, void **out);

/* ========================================================================
 * What is known about types
 *
 * Shared by all users of this interface in the interpreter that has imported fastdl, so its layout
 * is part of the interface version.
 * ===================================================================== */

/* Facts about the instances of a type. */
enum {
    FASTDL_TYPE_NATIVE = 1,      /* the library's own table: `__dlpack__` may work if it fails */
    FASTDL_TYPE_PROTOCOL = 2,    /* the table calls `__dlpack__`, the only path */
    FASTDL_TYPE_CHECKED = 4,     /* its table checks the sizes that it lends: FASTDL_PRODUCER's */
    FASTDL_TYPE_READ_ONLY = 8,   /* a capsule without flags counts as read-only */
    FASTDL_TYPE_HAS_DLPACK = 16, /* `__dlpack__` is on the type; a proxy may have it on instances */
    FASTDL_TYPE_ASK_BITS = 32, /* a lazy conjugate or negative, or int4: the table exports it raw */
    FASTDL_TYPE_KEEP = 64,     /* the object must outlive its exports */
    FASTDL_TYPE_TRACED = 128,  /* a tracer: has no memory */
    FASTDL_TYPE_UNORDERED = 256,    /* accepts `stream` but ignores it: data may not be ready */
    FASTDL_TYPE_NO_STREAM = 512,    /* NULL from its table means no stream, not the default */
    FASTDL_TYPE_ASK_DELETED = 1024, /* may have released its memory without an error */
    FASTDL_TYPE_STORAGE = 2048,     /* with FASTDL_TYPE_KEEP: its storage, not the object */
    FASTDL_TYPE_ASK_MEANING = 4096, /* may have a mask or a unit, which its `__dlpack__` drops */
    FASTDL_TYPE_ARITHMETIC = 8192   /* defines `__array_ufunc__`, without mask or unit */
    /* The package has more, from 1 << 16 on, for itself. */
};

/* Keywords of `__dlpack__`. */
enum {
    FASTDL_KEYWORD_STREAM = 1,
    FASTDL_KEYWORD_MAX_VERSION = 2,
    FASTDL_KEYWORD_DL_DEVICE = 4,
    FASTDL_KEYWORD_COPY = 8,
    FASTDL_KEYWORD_VERSION = 16 /* of the draft of 2022 */
};

typedef struct {
    uint32_t keyword; /* FASTDL_KEYWORD_* */
    const char *name;
} fastdl_keyword_fact;

/* The validated arguments of a call of `__dlpack__`. */
typedef struct {
    int64_t max_version[2]; /* -1, -1: none, so a legacy capsule */
    int64_t stream;         /* at least -1, if `has_stream` */
    DLDevice device;        /* type 0: the tensor's own */
    int has_stream;
    int copy; /* whether to copy; -1: if necessary */
} fastdl_request_;

/* fastdl_borrow for one type. On entry the view has `flags` 0, `own_` NULL, its `size_`, and as
 * `api_` the table in the type's record. */
typedef int (*fastdl_borrower)(PyObject *obj, fastdl_view *view);

/* What is known about a type. Immutable, and never freed, so a reader may hold it across any call.
 * Types with equal facts share one record: there are as many as there are tables, times the few
 * signatures of `__dlpack__`. */
typedef struct fastdl_record {
    const void *next;                      /* the record that was made before this one, or NULL */
    const DLPackExchangeAPI *api;          /* never NULL */
    DLPackDLTensorFromPyObjectNoSync lend; /* the borrowing slot of a native table, or NULL */
    int (*borrow)(PyObject *,
                  fastdl_view *); /* fastdl_borrow for a type that fastdl reads, or NULL */
    uint32_t facts;               /* FASTDL_TYPE_* */
    uint32_t refused; /* FASTDL_KEYWORD_* that the signature of `__dlpack__` does not have */
} fastdl_record;

/* A slot in the cache of types. It does not own the type, which may be dead: the version tag
 * identifies it. CPython numbers types, never reuses a number in an interpreter, and removes the
 * number when the type or one of its bases changes. So an equal tag means the same type, unchanged
 * since it was described. CPython's own method cache relies on the same tags, so both miss the same
 * changes. (CPython 3.13 and newer give a type at most a thousand tags; a type that changes more
 * often is described on each use. CPython 3.10 restarts the numbers after sys._clear_type_cache(),
 * an internal function for tests.) Neither sees an assignment to the `__code__` of a function. */
typedef struct {
    uint32_t tag;       /* 0: empty, or being written */
    uint32_t writes;    /* how often it was written */
    const void *type;   /* compared, never dereferenced */
    const void *record; /* a fastdl_record */
    PyObject *watch;    /* reports the type's death where tags cannot be read, otherwise NULL */
} fastdl_slot;

/* The cache: sets of a few slots each, the most recently used first. It does not grow. A new type
 * evicts the least recently used one of its set, dead or alive, which is described again on its
 * next use. Types with a table and types with only `__dlpack__` have separate slots, so that
 * neither group evicts the other. Types that are not tensors take no slot. */
#define FASTDL_SETS 64u /* a power of two */
#define FASTDL_WAYS 4u

typedef struct {
    fastdl_slot tables[FASTDL_WAYS][FASTDL_SETS]; /* the first way is searched first */
    fastdl_slot others[FASTDL_WAYS][FASTDL_SETS];
    const void *records; /* all records, the latest first */
    const void *writer;  /* not NULL while a thread moves slots */
} fastdl_cache;

/* ---- atomic operations ---- */

/* Stores `desired` if *place is still `expected`, and returns 1; otherwise 0. Atomic under a GIL
 * too, since interpreters may have one each. */
static inline int fastdl_atomic_compare_exchange_(const void **place, const void *expected,
                                                  const void *desired)
{
#if defined(__GNUC__) || defined(__clang__)
    return __atomic_compare_exchange_n(place, &expected, desired, 0, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
#elif defined(_MSC_VER)
    return _InterlockedCompareExchangePointer((void *volatile *)place, (void *)desired,
                                              (void *)expected) == (void *)expected;
#elif defined(Py_GIL_DISABLED)
#error "without a GIL fastdl needs the atomic operations of gcc, clang or MSVC"
#else
    if (*place != expected)
        return 0;
    *place = desired;
    return 1;
#endif
}

static inline const void *fastdl_atomic_load_(const void *const *place)
{
#if defined(__GNUC__) || defined(__clang__)
    return __atomic_load_n(place, __ATOMIC_ACQUIRE);
#elif defined(_MSC_VER)
    return _InterlockedCompareExchangePointer((void *volatile *)place, NULL, NULL);
#else
    return *(const void *const volatile *)place;
#endif
}

static inline void fastdl_atomic_store_(const void **place, const void *value)
{
#if defined(__GNUC__) || defined(__clang__)
    __atomic_store_n(place, value, __ATOMIC_RELEASE);
#elif defined(_MSC_VER)
    (void)_InterlockedExchangePointer((void *volatile *)place, (void *)value);
#else
    *(const void *volatile *)place = value;
#endif
}

static inline void fastdl_atomic_store_tag_(uint32_t *place, uint32_t tag)
{
#if !defined(Py_GIL_DISABLED)
    *place = tag;
#elif defined(_MSC_VER) && !defined(__clang__)
    (void)_InterlockedExchange((volatile long *)place, (long)tag);
#else
    __atomic_store_n(place, tag, __ATOMIC_RELEASE);
#endif
}

static inline uint32_t fastdl_atomic_load_tag_(const unsigned int *place)
{
#if !defined(Py_GIL_DISABLED)
    return *place;
#elif defined(_MSC_VER) && !defined(__clang__)
    return (uint32_t)_InterlockedCompareExchange((volatile long *)place, 0, 0);
#else
    return __atomic_load_n(place, __ATOMIC_ACQUIRE);
#endif
}

/* ---- slots of the cache ---- */

/* Does this slot hold the type with that tag? Then sets *record. Without a GIL another thread may
 * rewrite the slot meanwhile, even twice: the values read are consistent only if the number of
 * writes is the same before and after. */
FASTDL_HOT_ int fastdl_match_(const fastdl_slot *slot, const PyTypeObject *type, uint32_t tag,
                              const fastdl_record **record)
{
#ifdef Py_GIL_DISABLED
    uint32_t writes = fastdl_atomic_load_tag_(&slot->writes);
    if (tag == 0 || fastdl_atomic_load_tag_(&slot->tag) != tag ||
        fastdl_atomic_load_(&slot->type) != (const void *)type)
        return 0;
    *record = (const fastdl_record *)fastdl_atomic_load_(&slot->record);
    return fastdl_atomic_load_tag_(&slot->writes) == writes;
#else
    *record = (const fastdl_record *)slot->record;
    return FASTDL_LIKELY_(slot->tag == tag) && FASTDL_LIKELY_(slot->type == (const void *)type);
#endif
}

/* The functions of the installed package, in a capsule named FASTDL_RUNTIME. `size` is that of the
 * struct in the package's version: members beyond it do not exist. */
#define FASTDL_RUNTIME "fastdl._core.exchange.runtime"

typedef struct {
    uint32_t major, minor; /* FASTDL_ABI_* of the package */
    uint64_t size;
    fastdl_cache *types;
    const DLPackExchangeAPI *tensor;   /* the table of fastdl.Tensor */
    const DLPackExchangeAPI *protocol; /* the table that calls `__dlpack__`, for any object */
    /* Determines the facts about a type, even if there are none, and caches them. NULL with
     * MemoryError, or with what a descriptor in the type raised. */
    const fastdl_record *(*describe)(PyTypeObject *type);
    uint64_t tag_offset; /* offset of the version tag in a type object of the running CPython */
    /* Makes *out as fastdl_wrap does, for a type whose table is not fastdl's own: 0, or -1 with an
     * exception. `managed` is consumed in every case. */
    int (*wrap)(DLManagedTensorVersioned *managed, PyTypeObject *like, PyObject **out);
    /* Copies the elements of a host tensor, with any strides, to row-major memory at `target`.
     * `source` has passed fastdl_check with these flags, and has strides. */
    void (*copy)(const DLTensor *source, uint64_t flags, void *target);
    /* Makes work queued on `stream` from now on wait for what is queued on `source` now, two native
     * handles of streams of `device`: 0, or -1 with an exception. */
    int (*order)(DLDevice device, void *source, void *stream);
    /* fastdl_empty on a device, for a type without a table of its own. */
    int (*empty)(const DLTensor *prototype, PyTypeObject *like, DLManagedTensorVersioned **out);
} fastdl_runtime;

/* ========================================================================
 * Implementation: the code that is compiled where it is called
 *
 * Everything off the common path is in fastdl.c, which has one copy in a module.
 * ===================================================================== */

typedef enum {
    FASTDL_MATCHES_,
    FASTDL_WRONG_DTYPE_,
    FASTDL_WRONG_NDIM_,
    FASTDL_WRONG_SPEC_,
    FASTDL_WRONG_SIZE_,
    FASTDL_WRONG_LAYOUT_,
    FASTDL_READ_ONLY_,
    FASTDL_SHARES_ITSELF_,
    FASTDL_WRONG_DEVICE_,
    FASTDL_UNALIGNED_,
    FASTDL_OTHER_DTYPE_,
    FASTDL_OTHER_DEVICE_,
    FASTDL_ALIASED_,
} fastdl_mismatch_;

/* The functions of fastdl.c. The public ones are documented above. */
typedef struct {
    int (*import)(void);
    const DLPackExchangeAPI *(*exchange_api)(PyTypeObject *type);
    int (*own)(PyObject *obj, DLManagedTensorVersioned **out);
    int (*own_as)(PyObject *obj, const char *name, const fastdl_spec *spec,
                  DLManagedTensorVersioned **out);
    int (*wrap)(DLManagedTensorVersioned *managed, PyTypeObject *like, PyObject **out);
    int (*empty)(const DLTensor *prototype, PyTypeObject *like, DLManagedTensorVersioned **out);
    int (*zeros)(const DLTensor *prototype, PyTypeObject *like, DLManagedTensorVersioned **out);
    int (*work_stream)(const fastdl_view *view, void **stream);
    int (*order)(const fastdl_view *view, void *stream, int back);
    int (*empty_on)(const DLTensor *prototype, PyTypeObject *like, void *stream,
                    DLManagedTensorVersioned **out);
    int (*wrap_on)(DLManagedTensorVersioned *managed, PyTypeObject *like, void *stream,
                   PyObject **out);
    /* The record of a type that is not in the first way of the cache; NULL with an exception. */
    const fastdl_record *(*look_up)(PyTypeObject *type);
    /* Borrowing where there is no fast path, or where the fast path refused. */
    int (*borrow_owned)(PyObject *obj, fastdl_view *view, const fastdl_record *record);
    int (*borrow_refused)(PyObject *obj, fastdl_view *view, uint32_t facts);
    int (*complete_view)(PyObject *obj, fastdl_view *view, uint32_t facts);
    int (*check_view)(fastdl_view *view);
    int (*check_bits)(PyObject *obj, const DLTensor *tensor);
    int (*check_grad)(PyObject *obj, const char *name);
    int (*shares_itself)(const DLTensor *dl);
    fastdl_mismatch_ (*compare_place)(const DLTensor *dl, int32_t device, int32_t alignment);
    size_t (*aliased)(const fastdl_view *view, const fastdl_argument *no_alias, size_t count,
                      int32_t rules);
    int (*substitute_copy)(PyObject *obj, fastdl_view *view, const char *name,
                           const fastdl_spec *spec, fastdl_mismatch_ *mismatch);
    int (*raise_mismatch)(const fastdl_view *view, const char *name, const fastdl_spec *spec,
                          fastdl_mismatch_ mismatch);
    void (*unlisted)(uint32_t dtype, const char *family);
    int (*argument_failed)(PyObject *obj, const char *name, int32_t rules, fastdl_view *view);
    /* Runs a deleter, with the pending exception set aside. */
    void (*discard)(DLManagedTensorVersioned *versioned, DLManagedTensor *legacy);
    /* For the casters of C++. */
    int (*settle_argument)(PyObject *obj, const char *name, const fastdl_spec *spec, int meant,
                           int borrowed, fastdl_view *view);
    const DLPackExchangeAPI *(*target)(PyTypeObject *like, int *native);
    int (*enter_home)(PyGILState_STATE *state);
    /* For producers. */
    int (*publish)(PyTypeObject *type, fastdl_producer *producer);
    int (*describe_deep)(PyObject *self, fastdl_describer describe, fastdl_description *out);
    int (*produce)(PyObject *self, fastdl_describer describe, DLManagedTensorVersioned **out);
    PyObject *(*dlpack)(PyObject *self, fastdl_describer describe, DLPackCurrentWorkStream stream,
                        PyObject *const *values, Py_ssize_t count, PyObject *names);
    PyObject *(*dlpack_device)(PyObject *self, fastdl_describer describe);
    int (*refuse_to_lend)(PyObject *self, fastdl_description *description, int failed);
    DLPackManagedTensorAllocator allocate;
    DLPackManagedTensorToPyObjectNoSync produced_wrap;
} fastdl_functions_;

/* The state of an extension module. For the rest of the process it belongs to one interpreter, its
 * home: the first that needs more than a cache hit. Hits do not check the calling interpreter.
 * Everything else does, and fails in any other; that also disables hits until the next
 * fastdl_import(), so that each call checks. (Before, another interpreter can hit only with a
 * static type, or with one that has the address and the tag of a dead type of the home.) */
typedef struct {
    const void *hits; /* the cache's first way, or slots that are always empty: fastdl_slot[] */
    const void *home; /* its fastdl_names_, or NULL: none yet */
    /* The package's fastdl_runtime for the home; NULL before fastdl_import(), which publishes all
     * of it at once: other threads may be using the module. */
    const void *runtime;
    size_t tag_offset; /* of the version tag in a type; 0: not known yet */
    const fastdl_functions_ *cold;
    /* Calls of producers' functions that have not returned, or more: interpreters share it without
     * a lock. It only decides whether the depth is checked. */
    unsigned describing;
} fastdl_state_t_;

/* The one symbol that fastdl.c defines. Its name turns a linker error into an instruction. */
#define fastdl_state_                                                                              \
    FASTDL_NAME_(fastdl_c_is_missing__compile_it_or_define_FASTDL_IMPLEMENTATION_in_one_file__)
#if (defined(__GNUC__) || defined(__clang__)) && !defined(_WIN32)
__attribute__((visibility("hidden")))
#endif
extern fastdl_state_t_ fastdl_state_;

#ifdef Py_LIMITED_API

/* ---- types under the limited API ----
 *
 * The limited API has no access to version tags. If fastdl.c is compiled with the full API, or
 * fastdl_import() has been called, `tag_offset` locates them, and everything works as in a build
 * with the full API. Otherwise a type is identified by its address, and a weak reference reports
 * its death. Dead types are removed; changes of a type go unnoticed: a table that was withdrawn,
 * replaced or overridden after the first use of the type continues to be used. (It is valid until
 * the process ends. `__dlpack__` itself is looked up in each call.) */

static inline uint32_t fastdl_tag_(const PyTypeObject *type)
{
    uintptr_t address = (uintptr_t)type;
    if (fastdl_state_.tag_offset != 0)
        return *(const unsigned int *)(address + fastdl_state_.tag_offset);
    /* 2^32 over the golden ratio: spreads types that lie at regular distances over the sets. */
    return (uint32_t)(address >> 4) * 0x9E3779B1u >> 26 | (uint32_t)1 << 31;
}

#else

static inline uint32_t fastdl_tag_(const PyTypeObject *type)
{
    return fastdl_atomic_load_tag_(&type->tp_version_tag);
}

#endif

/* Whether every instance of a type is a tensor (of a proxy type, only some are). */
static inline int fastdl_is_tensor_type(const fastdl_record *record)
{
    return !(record->facts & FASTDL_TYPE_PROTOCOL) || record->facts & FASTDL_TYPE_HAS_DLPACK;
}

/* The record of `type`, made now if there is none. NULL with an exception. */
FASTDL_HOT_ const fastdl_record *fastdl_known_(PyTypeObject *type)
{
    const fastdl_record *record;
    uint32_t tag = fastdl_tag_(type);
    const fastdl_slot *hits =
        FASTDL_CAST_(const fastdl_slot *, fastdl_atomic_load_(&fastdl_state_.hits));
    if (FASTDL_LIKELY_(fastdl_match_(&hits[tag & (FASTDL_SETS - 1)], type, tag, &record)))
        return record;
    return fastdl_state_.cold->look_up(type);
}

static inline int fastdl_import(void)
{
    return fastdl_state_.cold->import();
}

static inline const DLPackExchangeAPI *fastdl_exchange_api(PyTypeObject *type)
{
    return fastdl_state_.cold->exchange_api(type);
}

/* ---- exceptions ---- */

/* Clears the pending exception if it is of class `kind` (Exception or narrower); returns whether
 * none is pending now. Nothing else in fastdl.h and fastdl.c clears one, so an exception that is
 * not an Exception, such as KeyboardInterrupt, always reaches the caller of fastdl. */
static inline int fastdl_clear_if_(PyObject *kind)
{
    if (PyErr_Occurred() == NULL)
        return 1;
    if (!PyErr_ExceptionMatches(kind))
        return 0;
    PyErr_Clear();
    return 1;
}

/* Whether a call into a table that returned success really succeeded: a stray Exception is cleared;
 * any other pending exception is a failure. */
static inline int fastdl_has_succeeded_(void)
{
    return FASTDL_LIKELY_(PyErr_Occurred() == NULL) || fastdl_clear_if_(PyExc_Exception);
}

/* Copies of more bytes on the host release the GIL. */
#define FASTDL_LARGE_COPY_ 65536

/* ---- owning and results ---- */

static inline int fastdl_own(PyObject *obj, DLManagedTensorVersioned **out)
{
    return fastdl_state_.cold->own(obj, out);
}

static inline int fastdl_own_as(PyObject *obj, const char *name, const fastdl_spec *spec,
                                DLManagedTensorVersioned **out)
{
    return fastdl_state_.cold->own_as(obj, name, spec, out);
}

static inline int fastdl_wrap(DLManagedTensorVersioned *managed, PyTypeObject *like, PyObject **out)
{
    return fastdl_state_.cold->wrap(managed, like, out);
}

static inline int fastdl_empty(const DLTensor *prototype, PyTypeObject *like,
                               DLManagedTensorVersioned **out)
{
    return fastdl_state_.cold->empty(prototype, like, out);
}

static inline int fastdl_zeros(const DLTensor *prototype, PyTypeObject *like,
                               DLManagedTensorVersioned **out)
{
    return fastdl_state_.cold->zeros(prototype, like, out);
}

static inline void fastdl_drop(DLManagedTensorVersioned *managed)
{
    if (managed != NULL && managed->deleter != NULL)
        managed->deleter(managed);
}

static inline int fastdl_work_stream(const fastdl_view *view, void **stream)
{
    return fastdl_state_.cold->work_stream(view, stream);
}

static inline int fastdl_order(const fastdl_view *view, void *stream)
{
    return fastdl_state_.cold->order(view, stream, 0);
}

static inline int fastdl_order_back(const fastdl_view *view, void *stream)
{
    return fastdl_state_.cold->order(view, stream, 1);
}

static inline int fastdl_empty_on(const DLTensor *prototype, PyTypeObject *like, void *stream,
                                  DLManagedTensorVersioned **out)
{
    return fastdl_state_.cold->empty_on(prototype, like, stream, out);
}

static inline int fastdl_wrap_on(DLManagedTensorVersioned *managed, PyTypeObject *like,
                                 void *stream, PyObject **out)
{
    return fastdl_state_.cold->wrap_on(managed, like, stream, out);
}

/* ---- borrowing ---- */

/* Refuses a torch tensor that is a lazy conjugate or negative, whose memory does not hold its
 * values: 0, or -1 with BufferError or what the object raised. `tensor` describes its memory.
 * Complex tensors are queried. A real tensor with the negative bit is the imaginary part of a
 * conjugate, so it has even strides in every dimension longer than 1: one odd stride (usually the
 * last) rules it out without a call. */
FASTDL_HOT_ int fastdl_check_bits(PyObject *obj, const DLTensor *tensor)
{
    int32_t last = tensor->ndim - 1;
    if (tensor->dtype.code == kDLFloat) {
        if (FASTDL_LIKELY_(last >= 0 && tensor->strides[last] & 1 && tensor->shape[last] > 1))
            return 0;
    } else if (!fastdl_is_complex_(tensor->dtype)) {
        return 0;
    }
    return fastdl_state_.cold->check_bits(obj, tensor);
}

/* Adds the offset to `data` where that is an address. */
static inline void fastdl_fold_offset_(DLTensor *dl)
{
    if (FASTDL_UNLIKELY_(dl->byte_offset != 0) &&
        fastdl_find_device((int32_t)dl->device.device_type)->addresses) {
        dl->data = (void *)((uintptr_t)dl->data + (uintptr_t)dl->byte_offset);
        dl->byte_offset = 0;
    }
}

/* Brings a description into the form that fastdl_borrow promises: no byte_offset, and CPU number 0,
 * whatever number its library uses. */
static inline void fastdl_normalise_(DLTensor *dl)
{
    fastdl_fold_offset_(dl);
    if (dl->device.device_type == kDLCPU)
        dl->device.device_id = 0;
}

/* Whether a torch tensor may have no memory: its data is then NULL, or NULL plus the offset of a
 * view, far below its shape, which is on the heap, like host memory. Device memory is above 4 GiB.
 * fastdl_check_values_ decides. */
FASTDL_HOT_ int fastdl_may_lack_memory_(const DLTensor *dl)
{
    uintptr_t data = (uintptr_t)dl->data;
    return data >> 16 >> 16 == 0 && data <= (uintptr_t)dl->shape >> 1;
}

/* Completes a view that the borrowing slot of a table filled in. Sizes that the table has checked
 * are not checked again: that would take a third of the slot's time. */
FASTDL_HOT_ int fastdl_complete_view_(PyObject *obj, fastdl_view *view, uint32_t facts)
{
    const DLTensor *dl = &view->dl;
    uint32_t last = (uint32_t)dl->ndim - 1; /* wraps for no dimensions: the slow path */
    if (FASTDL_LIKELY_(facts & FASTDL_TYPE_CHECKED && last < FASTDL_MAX_NDIM &&
                       dl->strides != NULL && !fastdl_may_lack_memory_(dl) &&
                       dl->byte_offset == 0) &&
        /* The quick part of fastdl_check_bits */
        FASTDL_LIKELY_(FASTDL_LIKELY_(dl->dtype.code == kDLFloat)
                           ? dl->strides[last] & 1 && dl->shape[last] > 1
                           : !fastdl_is_complex_(dl->dtype)))
        return 0;
    return fastdl_state_.cold->complete_view(obj, view, facts);
}

/* fastdl_borrow of an object whose type has that record. */
FASTDL_HOT_ int fastdl_borrow_by_(PyObject *obj, const fastdl_record *record, fastdl_view *view)
{
    view->flags = 0;
    view->own_ = NULL;
    view->api_ = record->api;
    if (record->lend != NULL) {
        view->dl.ndim = -1; /* detects a slot that fills in nothing */
        if (FASTDL_UNLIKELY_(record->lend(obj, &view->dl) != 0))
            return fastdl_state_.cold->borrow_refused(obj, view, record->facts);
        return fastdl_complete_view_(obj, view, record->facts);
    }
    if (FASTDL_UNLIKELY_(record->borrow == NULL))
        return fastdl_state_.cold->borrow_owned(obj, view, record);
    view->size_ = sizeof(fastdl_view);
    return record->borrow(obj, view);
}

FASTDL_HOT_ int fastdl_borrow(PyObject *obj, fastdl_view *view)
{
    const fastdl_record *record = fastdl_known_(Py_TYPE(obj));
    if (FASTDL_LIKELY_(record != NULL))
        return fastdl_borrow_by_(obj, record, view);
    fastdl_init(view);
    return -1;
}

static inline void fastdl_init(fastdl_view *view)
{
    view->own_ = NULL;
    view->dl.ndim = -1; /* no tensor: see fastdl_refers_ahead_ */
}

FASTDL_HOT_ void fastdl_release(fastdl_view *view)
{
    DLManagedTensorVersioned *own = view->own_;
    if (FASTDL_UNLIKELY_(own != NULL)) {
        view->own_ = NULL;
        fastdl_state_.cold->discard(own, NULL);
    }
}

/* ---- checking a specification ---- */

static inline uint64_t fastdl_distance_(int64_t stride)
{
    return stride < 0 ? (uint64_t)0 - (uint64_t)stride : (uint64_t)stride;
}

static inline int fastdl_is_empty_(const DLTensor *dl)
{
    for (int32_t i = 0; i < dl->ndim; i++)
        if (dl->shape[i] == 0)
            return 1;
    return 0;
}

/* Whether two elements of a tensor may be the same memory: false if each stride exceeds everything
 * that those before it reach, from the last dimension to the first or the other way, as in every
 * slice of a compact array. fastdl.c decides about others. (Without elements the reach may wrap,
 * but then the answer is false in any case.) */
static inline int fastdl_shares_itself_(const DLTensor *dl)
{
    int32_t ndim = dl->ndim;
    int forward =
        ndim > 1 && fastdl_distance_(dl->strides[0]) < fastdl_distance_(dl->strides[ndim - 1]);
    uint64_t reach = 0; /* a tensor with elements reaches less than 2**64 bytes */
    for (int32_t k = 0; k < ndim; k++) {
        int32_t i = forward ? k : ndim - 1 - k;
        uint64_t distance = fastdl_distance_(dl->strides[i]);
        if (dl->shape[i] == 1)
            continue;
        if (distance <= reach)
            return fastdl_state_.cold->shares_itself(dl);
        reach += (uint64_t)(dl->shape[i] - 1) * distance;
    }
    return 0;
}

static inline int32_t fastdl_wanted_ndim_(const fastdl_spec *spec)
{
    return spec->ndim == FASTDL_SCALAR ? 0 : spec->ndim;
}

/* Sets the size of a dimension from an argument. */
FASTDL_HOT_ void fastdl_set_size_(fastdl_dim *dim, int64_t size, const char *name)
{
    size_t most = sizeof(dim->from) - 1, length = strlen(name);
    dim->size = size;
    dim->from[most] = '\0';
    memcpy(dim->from, name, length < most ? length + 1 : most);
}

/* The index of the first entry of spec->shape that a tensor does not match, or -1. */
FASTDL_HOT_ int32_t fastdl_wrong_size_(const DLTensor *dl, const char *name,
                                       const fastdl_spec *spec)
{
    int32_t wanted = fastdl_wanted_ndim_(spec);
    for (int32_t i = 0; i < wanted; i++) {
        fastdl_dim *dim = spec->shape[i];
        int64_t size = dl->shape[dl->ndim - wanted + i];
        if (dim == NULL)
            continue;
        if (dim->size < 0)
            fastdl_set_size_(dim, size, name);
        else if (dim->size != size)
            return i;
    }
    return -1;
}

static inline int fastdl_has_layout_(const DLTensor *dl, int32_t layout)
{
    int32_t last = dl->ndim - 1;
    return (layout & FASTDL_C && fastdl_is_contiguous(dl, 'C')) ||
           (layout & FASTDL_F && fastdl_is_contiguous(dl, 'F')) ||
           (layout & FASTDL_INNER &&
            (last < 0 || dl->shape[last] <= 1 || dl->strides[last] == 1 || fastdl_is_empty_(dl)));
}

/* Whether fastdl.c must check device and alignment: false for an aligned address on exactly the
 * required device (the CPU, for FASTDL_HOST). */
FASTDL_HOT_ int fastdl_is_elsewhere_(const DLTensor *dl, const fastdl_spec *spec)
{
    int32_t type = (int32_t)dl->device.device_type;
    uint64_t address = fastdl_address_(dl);
    /* The size of an element in bytes, less 1, has all bits that its alignment less 1 has. */
    return (spec->device != FASTDL_ANY_DEVICE &&
            type != (spec->device == FASTDL_HOST ? (int32_t)kDLCPU : spec->device)) ||
           (spec->alignment > 0
                ? dl->byte_offset != 0 || address % (uint64_t)spec->alignment != 0
                : ((address | dl->byte_offset) & ((uint64_t)(dl->dtype.bits / 8) - 1)) != 0);
}

/* Whether a specification refers to an argument that has not been borrowed yet. */
FASTDL_HOT_ int fastdl_refers_ahead_(const fastdl_spec *spec)
{
    int is_ahead = spec->like != NULL && spec->like->view->dl.ndim < 0;
    for (size_t i = 0; i < spec->no_alias_count; i++)
        is_ahead |= spec->no_alias[i].view->dl.ndim < 0;
    return is_ahead;
}

/* Whether a number of dimensions other than exactly `ndim` is accepted. */
static inline int fastdl_may_have_ndim_(const DLTensor *dl, const fastdl_spec *spec)
{
    if (spec->ndim != 0 && !(spec->rules & FASTDL_TRAILING && dl->ndim > fastdl_wanted_ndim_(spec)))
        return 0;
    return spec->max_ndim == 0 || dl->ndim <= spec->max_ndim;
}

FASTDL_HOT_ fastdl_mismatch_ fastdl_compare_(const fastdl_view *view, const char *name,
                                             const fastdl_spec *spec)
{
    const DLTensor *dl = &view->dl;
    int32_t wanted = fastdl_wanted_ndim_(spec);
    if (FASTDL_UNLIKELY_(fastdl_refers_ahead_(spec)))
        return FASTDL_WRONG_SPEC_;
    if (spec->dtype_count > 0) {
        uint32_t dtype = fastdl_dtype(dl->dtype);
        size_t i = 0;
        while (dtype != spec->dtypes[i])
            if (++i == spec->dtype_count)
                return FASTDL_WRONG_DTYPE_;
    }
    if ((spec->ndim == 0 || dl->ndim != wanted) && !fastdl_may_have_ndim_(dl, spec))
        return FASTDL_WRONG_NDIM_;
    if (spec->shape != NULL && spec->ndim == 0)
        return FASTDL_WRONG_SPEC_;
    if (spec->shape != NULL && fastdl_wrong_size_(dl, name, spec) >= 0)
        return FASTDL_WRONG_SIZE_;
    if (spec->layout != 0 && !fastdl_has_layout_(dl, spec->layout))
        return FASTDL_WRONG_LAYOUT_;
    if (spec->rules & FASTDL_WRITABLE) {
        if (view->flags & DLPACK_FLAG_BITMASK_READ_ONLY)
            return FASTDL_READ_ONLY_;
        if (fastdl_shares_itself_(dl))
            return FASTDL_SHARES_ITSELF_;
    }
    if (FASTDL_UNLIKELY_(fastdl_is_elsewhere_(dl, spec))) {
        fastdl_mismatch_ mismatch =
            fastdl_state_.cold->compare_place(dl, spec->device, spec->alignment);
        if (mismatch != FASTDL_MATCHES_)
            return mismatch;
    }
    if (spec->like != NULL) {
        const DLTensor *like = &spec->like->view->dl;
        if (fastdl_dtype(dl->dtype) != fastdl_dtype(like->dtype))
            return FASTDL_OTHER_DTYPE_;
        if (dl->device.device_type != like->device.device_type ||
            dl->device.device_id != like->device.device_id)
            return FASTDL_OTHER_DEVICE_;
    }
    if (spec->no_alias_count > 0 &&
        fastdl_state_.cold->aliased(view, spec->no_alias, spec->no_alias_count, spec->rules) <
            spec->no_alias_count)
        return FASTDL_ALIASED_;
    return FASTDL_MATCHES_;
}

FASTDL_HOT_ int fastdl_expect(const fastdl_view *view, const char *name, const fastdl_spec *spec)
{
    fastdl_mismatch_ mismatch = fastdl_compare_(view, name, spec);
    if (FASTDL_LIKELY_(mismatch == FASTDL_MATCHES_))
        return 0;
    /* A copy, so that the address of the spec does not escape: its members are then constants to
     * the compiler, and requirements that the spec does not have cost nothing. */
    {
        fastdl_spec seen = *spec;
        return fastdl_state_.cold->raise_mismatch(view, name, &seen, mismatch);
    }
}

/* ---- arguments ---- */

/* Refuses a torch tensor whose gradient would be wrong after a write: 0, or -1 with an exception.
 * `view` has its tensor; `obj` may be any object. */
FASTDL_HOT_ int fastdl_check_grad_(PyObject *obj, const char *name, const fastdl_view *view)
{
    const fastdl_record *record;
    uint8_t code = view->dl.dtype.code;
    if (code == kDLInt || code == kDLUInt || code == kDLBool)
        return 0; /* these have no gradient */
    record = fastdl_known_(Py_TYPE(obj));
    if (record == NULL)
        return -1;
    return record->facts & FASTDL_TYPE_ASK_BITS ? fastdl_state_.cold->check_grad(obj, name) : 0;
}

/* fastdl_expect for a view of `obj`, whose tensor a copy may replace. */
FASTDL_HOT_ int fastdl_check_spec_(PyObject *obj, const char *name, const fastdl_spec *spec,
                                   fastdl_view *view)
{
    fastdl_mismatch_ mismatch = fastdl_compare_(view, name, spec);
    if (FASTDL_LIKELY_(mismatch == FASTDL_MATCHES_)) {
        if ((spec->rules & (FASTDL_WRITABLE | FASTDL_DETACHED)) == FASTDL_WRITABLE)
            return fastdl_check_grad_(obj, name, view);
        return 0;
    }
    {
        fastdl_spec seen = *spec; /* as in fastdl_expect */
        int result = 1;
        if (spec->rules & (FASTDL_COPY | FASTDL_CONVERT))
            result = fastdl_state_.cold->substitute_copy(obj, view, name, &seen, &mismatch);
        return result > 0 ? fastdl_state_.cold->raise_mismatch(view, name, &seen, mismatch)
                          : result;
    }
}

FASTDL_HOT_ int fastdl_borrow_as(PyObject *obj, const char *name, const fastdl_spec *spec,
                                 fastdl_view *view)
{
    if (FASTDL_UNLIKELY_(fastdl_borrow(obj, view) < 0) &&
        fastdl_state_.cold->argument_failed(obj, name, spec->rules, view) < 0)
        return -1;
    if (FASTDL_LIKELY_(fastdl_check_spec_(obj, name, spec, view) == 0))
        return 0;
    fastdl_release(view);
    return -1;
}

static inline int fastdl_borrow_all(PyObject *const *objects, const fastdl_parameter *parameters,
                                    size_t count, fastdl_view *views)
{
    for (size_t i = 0; i < count; i++)
        fastdl_init(&views[i]);
    for (size_t i = 0; i < count; i++)
        if (FASTDL_UNLIKELY_(fastdl_borrow_as(objects[i], parameters[i].name, parameters[i].spec,
                                              &views[i]) < 0)) {
            fastdl_release_all(views, i);
            return -1;
        }
    return 0;
}

static inline void fastdl_release_all(fastdl_view *views, size_t count)
{
    while (count-- > 0)
        fastdl_release(&views[count]);
}

/* ---- producers ---- */

static inline int fastdl_publish(PyTypeObject *type, fastdl_producer *producer)
{
    return fastdl_state_.cold->publish(type, producer);
}

static inline int fastdl_default_stream(DLDeviceType type, int32_t id, void **out)
{
    (void)type;
    (void)id;
    *out = NULL;
    return 0;
}

/* The stream of a producer; NULL for host memory, without a call. */
FASTDL_HOT_ int fastdl_stream_of_(DLDeviceType type, int32_t id, DLPackCurrentWorkStream stream,
                                  void **out)
{
    if (type == kDLCPU)
        return fastdl_default_stream(type, id, out);
    return stream(type, id, out);
}

static inline PyObject *fastdl_as_object_(void *self)
{
    return (PyObject *)self;
}

static inline void fastdl_start_description_(PyObject *self, fastdl_description *description)
{
    memset(description, 0, offsetof(fastdl_description, room));
    description->dl.device.device_type = kDLCPU;
    description->owner = self;
}

static int64_t fastdl_step_of_one_[1] = {1};

/* Whether the description can be lent without a copy: its shape and strides are stored in the
 * object. */
FASTDL_HOT_ int fastdl_can_lend_(fastdl_description *description)
{
    DLTensor *dl = &description->dl;
    uintptr_t room = (uintptr_t)description->room, size = sizeof(description->room);
    if (dl->strides == NULL && dl->ndim == 1)
        dl->strides = fastdl_step_of_one_;
    return description->flags == 0 &&
           (dl->ndim == 0 || (dl->strides != NULL && (uintptr_t)dl->shape - room >= size &&
                              (uintptr_t)dl->strides - room >= size));
}

/* Calls a producer's function: 0, or -1 with an exception, or without one if it set none. */
FASTDL_HOT_ int fastdl_call_describer_(PyObject *self, fastdl_describer describe,
                                       fastdl_description *description)
{
    int result;
    fastdl_start_description_(self, description);
#ifndef Py_GIL_DISABLED
    if (FASTDL_LIKELY_(fastdl_state_.describing < 32)) {
        fastdl_state_.describing++;
        result = describe(self, description);
        fastdl_state_.describing--;
    } else
#endif
        result = fastdl_state_.cold->describe_deep(self, describe, description);
    return result < 0 || PyErr_Occurred() != NULL ? -1 : 0;
}

/* The borrowing slot of a producer. */
FASTDL_HOT_ int fastdl_lend_(PyObject *self, fastdl_describer describe, DLTensor *out)
{
    fastdl_description description;
    fastdl_layout layout;
    int failed = fastdl_call_describer_(self, describe, &description);
    if (FASTDL_UNLIKELY_(failed || !fastdl_can_lend_(&description) ||
                         fastdl_check(&description.dl, 0, &layout) != FASTDL_OK))
        return fastdl_state_.cold->refuse_to_lend(self, &description, failed);
    *out = description.dl;
    fastdl_normalise_(out); /* not before: the copy would wait for what was just stored */
    return 0;
}

static inline int fastdl_produced_allocate_(DLTensor *prototype, DLManagedTensorVersioned **out,
                                            void *context,
                                            void (*SetError)(void *, const char *, const char *))
{
    return fastdl_state_.cold->allocate(prototype, out, context, SetError);
}

static inline int fastdl_produced_wrap_(DLManagedTensorVersioned *managed, void **out)
{
    return fastdl_state_.cold->produced_wrap(managed, out);
}

static const char fastdl_dlpack_doc_[] =
    "__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
    "Exports the tensor as a DLPack capsule: the producer's side of the protocol.";
static const char fastdl_device_doc_[] = "__dlpack_device__($self, /)\n--\n\n"
                                         "(device type, device id) as plain ints.";

/* PyMethodDef has one type for functions of all signatures. */
#ifdef __cplusplus
#define FASTDL_FUNCTION_(function)                                                                 \
    reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)(void)>(function))
#else
#define FASTDL_FUNCTION_(function) ((PyCFunction)(void (*)(void))(function))
#endif

#endif /* FASTDL_WITH_PYTHON_ */

#ifdef __cplusplus
} /* extern "C" */
#endif

#if defined(__cplusplus) && defined(__clang__)
#pragma clang diagnostic pop
#elif defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#if defined(FASTDL_IMPLEMENTATION) && !defined(FASTDL_NO_PYTHON) && !defined(FASTDL_C_)
#include "fastdl.c"
#endif
