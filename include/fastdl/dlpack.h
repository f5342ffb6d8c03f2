/* SPDX-License-Identifier: Apache-2.0
 *
 * fastdl/dlpack.h: the DLPack 1.3 binary interface, and the element type that followed it.
 *
 * DLPack describes a tensor in memory so that two libraries that know nothing
 * of each other can share it: a pointer, a device, a type, a shape and strides,
 * and a function that releases it. This header declares those structures and
 * the C exchange table of DLPack 1.2 and later. It needs no other file, compiles
 * as C99 and as C++17, and is meant to be vendored.
 *
 * Beside an official <dlpack/dlpack.h>
 * ------------------------------------
 * Both headers declare the same names with the same layout and share one include
 * guard, so either may come first:
 *
 *   - this one first: an official header included later adds nothing;
 *   - an official one first (0.8 or newer): this header adds only what that
 *     release did not have yet, and keeps what it has.
 *
 * The layout is frozen by the DLPack project: fields are only ever added under
 * a new major version. tests/capi/check_abi.c asserts every offset.
 */
#ifndef FASTDL_DLPACK_H_
#define FASTDL_DLPACK_H_

#include <stddef.h>
#include <stdint.h>

/* The release of an official header that came first, as major * 100 + minor * 10;
 * 0 if there was none. Releases before 1.0 had one number, DLPACK_VERSION. */
#if !defined(DLPACK_DLPACK_H_)
#define FASTDL_DLPACK_FOUND 0
#elif defined(DLPACK_MAJOR_VERSION)
#define FASTDL_DLPACK_FOUND (DLPACK_MAJOR_VERSION * 100 + DLPACK_MINOR_VERSION * 10)
#else
#define FASTDL_DLPACK_FOUND 80
#endif

#if FASTDL_DLPACK_FOUND == 0
#define DLPACK_DLPACK_H_

#ifdef __cplusplus
#define DLPACK_EXTERN_C extern "C"
#else
#define DLPACK_EXTERN_C
#endif

/* Accepted for source compatibility; this header declares no exported function. */
#ifndef DLPACK_DLL
#define DLPACK_DLL
#endif
#endif

/* The DLPack version that this header describes, whatever version another header has. Not the
 * version of fastdl, nor that of its C interface: those are elsewhere. */
#define FASTDL_DLPACK_MAJOR 1
#define FASTDL_DLPACK_MINOR 3

#if FASTDL_DLPACK_FOUND == 0
#define DLPACK_MAJOR_VERSION FASTDL_DLPACK_MAJOR
#define DLPACK_MINOR_VERSION FASTDL_DLPACK_MINOR
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------
 * The descriptor: since DLPack 0.2, unchanged
 * --------------------------------------------------------------------- */
#if FASTDL_DLPACK_FOUND == 0

/* The kind of memory `data` lives in. Numbers above the last one here are used by
 * newer releases: treat an unknown number as another device, not as
 * an error.
 * 5 and 6 are retired. */
#ifdef __cplusplus
typedef enum : int32_t {
#else
typedef enum {
#endif
    kDLCPU = 1,          /* host memory */
    kDLCUDA = 2,         /* CUDA device memory */
    kDLCUDAHost = 3,     /* host memory pinned by cudaMallocHost: readable by the CPU */
    kDLOpenCL = 4,       /* `data` is a cl_mem handle, not an address */
    kDLVulkan = 7,       /* `data` is a handle */
    kDLMetal = 8,        /* `data` is an id<MTLBuffer> */
    kDLVPI = 9,          /* Verilog simulator */
    kDLROCM = 10,        /* ROCm device memory */
    kDLROCMHost = 11,    /* host memory pinned by hipMallocHost */
    kDLExtDev = 12,      /* reserved: for a device under test */
    kDLCUDAManaged = 13, /* cudaMallocManaged: host and device may touch it */
    kDLOneAPI = 14,      /* SYCL unified shared memory */
    kDLWebGPU = 15,      /* `data` is a handle */
    kDLHexagon = 16,     /* Qualcomm Hexagon DSP */
    kDLMAIA = 17,        /* Microsoft MAIA */
    kDLTrn = 18          /* AWS Trainium */
} DLDeviceType;

/* A device: its kind and its ordinal. The ordinal is 0 for host memory of any
 * kind and, by convention, for managed memory. */
typedef struct {
    DLDeviceType device_type;
    int32_t device_id;
} DLDevice;

/* The family of an element type. `bits` and `lanes` of DLDataType complete it. */
typedef enum {
    kDLInt = 0U,
    kDLUInt = 1U,
    kDLFloat = 2U,        /* IEEE 754 */
    kDLOpaqueHandle = 3U, /* nothing is known but the size */
    kDLBfloat = 4U,
    kDLComplex = 5U, /* `bits` counts both parts: complex64 has 64 */
    kDLBool = 6U,    /* `bits` is 8 */
    kDLFloat8_e3m4 = 7U,
    kDLFloat8_e4m3 = 8U,
    kDLFloat8_e4m3b11fnuz = 9U,
    kDLFloat8_e4m3fn = 10U,
    kDLFloat8_e4m3fnuz = 11U,
    kDLFloat8_e5m2 = 12U,
    kDLFloat8_e5m2fnuz = 13U,
    kDLFloat8_e8m0fnu = 14U,
    kDLFloat6_e2m3fn = 15U,
    kDLFloat6_e3m2fn = 16U,
    kDLFloat4_e2m1fn = 17U,
    kDLBcomplex = 18U /* two of kDLBfloat; after 1.3 */
} DLDataTypeCode;

/* An element type: `lanes` values of `bits` bits each. Types below 8 bits are
 * packed, low bits first, unless DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED is
 * set on the managed tensor. Byte order is the machine's. */
typedef struct {
    uint8_t code; /* a DLDataTypeCode, kept as a byte so that new ones fit */
    uint8_t bits;
    uint16_t lanes;
} DLDataType;

/* A tensor, without ownership.
 *
 * data         the first byte of the allocation, or a handle on devices without
 *              addresses. May be anything when the tensor has no elements.
 * shape        `ndim` sizes in elements. May be NULL only when ndim is 0.
 * strides      `ndim` steps in elements, possibly zero or negative. Up to DLPack
 *              1.1 NULL means compact row-major; from 1.2 on a producer sets it
 *              whenever ndim is not 0, and a consumer still accepts NULL.
 * byte_offset  bytes from `data` to the first element. Add it. Do not fold it
 *              into `data` where `data` is a handle. */
typedef struct {
    void *data;
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape;
    int64_t *strides;
    uint64_t byte_offset;
} DLTensor;

/* A tensor owned by the holder of the pointer, in the form before 1.0. Travels in a capsule named
 * "dltensor". The owner calls `deleter(self)` exactly once, from any thread; a NULL deleter means
 * that there is nothing to free. */
typedef struct DLManagedTensor {
    DLTensor dl_tensor;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensor *self);
} DLManagedTensor;

#endif /* the descriptor */

/* ------------------------------------------------------------------------
 * The versioned managed tensor: since DLPack 1.0
 * --------------------------------------------------------------------- */
#if FASTDL_DLPACK_FOUND < 100

/* A changed `major` is a changed layout: a reader of another major version may
 * call the deleter and must touch nothing else. A changed `minor` only adds
 * enumerators and flags. */
typedef struct {
    uint32_t major;
    uint32_t minor;
} DLPackVersion;

/* A tensor owned by the holder of the pointer, as of 1.0. Travels in a capsule named
 * "dltensor_versioned". The order of the fields up to `flags` is fixed for every future major
 * version. */
typedef struct DLManagedTensorVersioned {
    DLPackVersion version;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags; /* DLPACK_FLAG_BITMASK_*; unknown bits are ignored */
    DLTensor dl_tensor;
} DLManagedTensorVersioned;

#elif FASTDL_DLPACK_FOUND < 120 && !defined(__cplusplus)

/* Official headers of 1.0 and 1.1 give the struct a tag but no typedef. Modified copies of them
 * that have the typedef compile as C11, which allows it to be repeated. */
typedef struct DLManagedTensorVersioned DLManagedTensorVersioned;

#endif /* the versioned managed tensor */

/* The memory must not be written through this tensor. */
#ifndef DLPACK_FLAG_BITMASK_READ_ONLY
#define DLPACK_FLAG_BITMASK_READ_ONLY (UINT64_C(1) << 0)
#endif

/* The producer made a copy for this exchange; no other code sees the memory. */
#ifndef DLPACK_FLAG_BITMASK_IS_COPIED
#define DLPACK_FLAG_BITMASK_IS_COPIED (UINT64_C(1) << 1)
#endif

/* Elements of fewer than 8 bits take a whole byte each. Since 1.1. */
#ifndef DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED
#define DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED (UINT64_C(1) << 2)
#endif

/* Enumerators cannot be added to an enum of another header, and the preprocessor cannot see whether
 * it has them: macros of the same value work in both cases. */
#if FASTDL_DLPACK_FOUND > 0 && FASTDL_DLPACK_FOUND < 120
#define kDLMAIA ((DLDeviceType)17)
#define kDLTrn ((DLDeviceType)18)
#endif
#if FASTDL_DLPACK_FOUND > 0 && FASTDL_DLPACK_FOUND < 110
#define kDLFloat8_e3m4 7U
#define kDLFloat8_e4m3 8U
#define kDLFloat8_e4m3b11fnuz 9U
#define kDLFloat8_e4m3fn 10U
#define kDLFloat8_e4m3fnuz 11U
#define kDLFloat8_e5m2 12U
#define kDLFloat8_e5m2fnuz 13U
#define kDLFloat8_e8m0fnu 14U
#define kDLFloat6_e2m3fn 15U
#define kDLFloat6_e3m2fn 16U
#define kDLFloat4_e2m1fn 17U
#endif
#if FASTDL_DLPACK_FOUND > 0 && FASTDL_DLPACK_FOUND < 140
#define kDLBcomplex 18U
#endif

/* ------------------------------------------------------------------------
 * The exchange table: since DLPack 1.2
 *
 * A tensor type may publish one static table of C functions, as the attribute
 * `__dlpack_c_exchange_api__` of the *type*: a capsule named
 * "dlpack_exchange_api" (1.3). Every function returns 0 on success and -1 on
 * failure. None of them synchronises with a device. Those that take or make a
 * Python object need an attached thread state (the GIL) and set a Python
 * exception when they fail.
 * --------------------------------------------------------------------- */
#if FASTDL_DLPACK_FOUND < 120

/* Allocates an uninitialised tensor with the type, shape and device of
 * `prototype`; its other fields are not read. On success *out is owned by the
 * caller. On failure *out is untouched and `SetError(error_ctx, kind, message)`
 * has been called once, `kind` being the name of a Python exception. Needs no
 * thread state. */
typedef int (*DLPackManagedTensorAllocator)(DLTensor *prototype, DLManagedTensorVersioned **out,
                                            void *error_ctx,
                                            void (*SetError)(void *error_ctx, const char *kind,
                                                             const char *message));

/* Makes an owning descriptor of `py_object`, which must be an instance of the type
 * that the table was found on. On success *out is owned by the caller and keeps the
 * memory alive by itself; BufferError where the data cannot be described. */
typedef int (*DLPackManagedTensorFromPyObjectNoSync)(void *py_object,
                                                     DLManagedTensorVersioned **out);

/* Makes an object of the table's type; *out_py_object is a new reference. `tensor` is
 * consumed on success. The specification does not say who owns it on failure, and libraries differ:
 * the safe choice is to free nothing then. */
typedef int (*DLPackManagedTensorToPyObjectNoSync)(DLManagedTensorVersioned *tensor,
                                                   void **out_py_object);

/* Fills *out for use during the current C call: nothing is owned, `shape` and `strides` belong to
 * the object, flags (read-only) cannot be expressed. This entry of the table may be NULL. */
typedef int (*DLPackDLTensorFromPyObjectNoSync)(void *py_object, DLTensor *out);

/* The stream on which the library of the table queues its work on that device: a
 * native handle such as cudaStream_t. NULL on devices without streams, and for the
 * legacy default stream of CUDA. */
typedef int (*DLPackCurrentWorkStream)(DLDeviceType device_type, int32_t device_id,
                                       void **out_current_stream);

/* The part of a table that never changes. `prev_api` leads to a table of an older
 * major version, or is NULL. */
typedef struct DLPackExchangeAPIHeader {
    DLPackVersion version;
    struct DLPackExchangeAPIHeader *prev_api;
} DLPackExchangeAPIHeader;

/* The table. It lives until the process ends, so a pointer to it may be kept. */
typedef struct DLPackExchangeAPI {
    DLPackExchangeAPIHeader header;
    DLPackManagedTensorAllocator managed_tensor_allocator;
    DLPackManagedTensorFromPyObjectNoSync managed_tensor_from_py_object_no_sync;
    DLPackManagedTensorToPyObjectNoSync managed_tensor_to_py_object_no_sync;
    DLPackDLTensorFromPyObjectNoSync dltensor_from_py_object_no_sync; /* may be NULL */
    DLPackCurrentWorkStream current_work_stream;
} DLPackExchangeAPI;

#endif /* the exchange table */

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* FASTDL_DLPACK_H_ */
