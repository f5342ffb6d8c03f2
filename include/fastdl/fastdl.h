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
 * This file
 * ---------
 * Needs <Python.h> and dlpack.h, which must be in the same folder; there is nothing to link with.
 * C99 and C++17; CPython 3.10 or newer; also with Py_LIMITED_API of 3.10 or newer. Vendor the two
 * files, or install the package and compile with the flags that `python -m fastdl --cflags` prints.
 * Names that end in an underscore are private.
 *
 * With the limited API, borrowing costs nearly the same (docs/benchmarks.md). Without
 * fastdl_import() such a build cannot see that a type has changed: it continues to use the exchange
 * table that it found first, even if the type has another one now, or none (see "Two tiers").
 *
 * Where FASTDL_NO_PYTHON is defined, only the parts that need no Python are declared: element
 * types, devices, and the geometry of a tensor.
 *
 *
 * Two tiers
 * ---------
 * The header alone serves every type that has its own exchange table (torch, fastdl.Tensor) and
 * every object with `__dlpack__`. After a call of fastdl_import() it also uses what the installed
 * package knows about other types, above all NumPy arrays:
 *
 *     source                          alone               after fastdl_import()
 *     a type with its own table       one C call          one C call
 *     numpy.ndarray                   by __dlpack__       reads the array struct
 *     fastdl.Tensor                   one C call          one C call, read-only ones too
 *     JAX, MLX, TensorFlow, on a CPU  by __dlpack__       by their buffer
 *     other types with __dlpack__     by __dlpack__       by __dlpack__
 *     result as a torch tensor        yes                 yes
 *     result as a NumPy array         TypeError           yes
 *     result as a JAX, MLX, ... one   TypeError           as fastdl.convert makes it
 *     result as any other type        TypeError           a fastdl.Tensor
 *
 * The last row is about types that have no table and are of no library that fastdl knows: any
 * consumer of DLPack can import the fastdl.Tensor.
 *
 * The header remembers what it knows about a type until the type changes or is destroyed. It does
 * so in one interpreter of a process: the one that called fastdl_import(), which only the main
 * interpreter can do, otherwise the first to use the module. In other interpreters the header works
 * alone, and each call takes a few microseconds.
 *
 *
 * Rules that hold for every function
 * ----------------------------------
 *   - An attached thread state (the GIL) is needed, unless the function says otherwise.
 *   - `int` results are 0, or -1 with a Python exception set.
 *   - No argument may be NULL unless the function says so.
 *   - Sizes and strides count elements, offsets and alignments bytes.
 *   - Call without a pending exception, as with Python's own functions; fastdl_init,
 *     fastdl_release and fastdl_release_all may be called with one, and keep it. Any other function
 *     may fail because of one, or clear it; it leaks nothing and returns -1 only with an exception
 *     set.
 *   - Exceptions: TypeError for an object that is not a tensor, or has another element type;
 *     BufferError for a tensor that cannot be described or reached as asked; ValueError for shapes
 *     and overlap. A producer's exceptions pass unchanged.
 *
 *
 * Three numbers
 * -------------
 * The version of the package (`fastdl.__version__`), the version of DLPack (in dlpack.h), and the
 * version of the interface between this header and an installed package, below. The header and the
 * package may come from different releases: a package works with every header of the same major
 * version and of a minor version up to its own.
 */
#ifndef FASTDL_NO_PYTHON
#include <Python.h>
#endif

#ifndef FASTDL_FASTDL_H_
#define FASTDL_FASTDL_H_

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(_MSC_VER)
#include <intrin.h>
#endif

#include "dlpack.h"

#define FASTDL_ABI_MAJOR 1
#define FASTDL_ABI_MINOR 0

/* The most dimensions of a tensor. NumPy and torch have the same limit. */
#define FASTDL_MAX_NDIM 64

#if defined(__GNUC__) || defined(__clang__)
#define FASTDL_LIKELY_(condition) __builtin_expect(!!(condition), 1)
#define FASTDL_UNLIKELY_(condition) __builtin_expect(!!(condition), 0)
#define FASTDL_HOT_ __attribute__((always_inline)) static inline
#define FASTDL_RARE_ __attribute__((cold, noinline, unused)) static
#elif defined(_MSC_VER)
#define FASTDL_LIKELY_(condition) (condition)
#define FASTDL_UNLIKELY_(condition) (condition)
#define FASTDL_HOT_ static __forceinline
#define FASTDL_RARE_ __declspec(noinline) static inline
#else
#define FASTDL_LIKELY_(condition) (condition)
#define FASTDL_UNLIKELY_(condition) (condition)
#define FASTDL_HOT_ static inline
#define FASTDL_RARE_ static inline
#endif

/* ---- one copy for all files of a module ----
 *
 * FASTDL_ONE_ defines a variable that all files of a module share and no other module sees,
 * FASTDL_TABLE_ one that is constant, and FASTDL_COLD_ a function off the common path. C++ has
 * `inline` for that. In C on ELF systems they are weak, hidden, and in named sections of which the
 * linker (GNU ld, gold) keeps the first copy; other linkers keep all copies and use the first. The
 * functions share a section, so:
 *   - a file defines all of them or none (those that need no Python are FASTDL_RARE_);
 *   - none has a `switch` with more than three cases: its jump table would stay where the section
 *     goes, and the linker refuses that.
 * In C on other systems each file has its own functions; MSVC's linker folds equal ones.
 *
 * The names end in the release of this header, so that libraries with headers of two releases can
 * be linked into one module.
 *
 * Define FASTDL_STATIC in a file that needs its own copy of everything, including its own call of
 * fastdl_import(): one compiled for a different CPU than the rest of the module, which may be
 * unable to run its functions; and one compiled without -flto but linked with files compiled with
 * it. */
#define FASTDL_RELEASE_ "0_1_0"
#define FASTDL_NAME_(name) name##0_1_0

#define fastdl_add_type_ FASTDL_NAME_(fastdl_add_type_)
#define fastdl_adopt_ FASTDL_NAME_(fastdl_adopt_)
#define fastdl_aliased_ FASTDL_NAME_(fastdl_aliased_)
#define fastdl_ask_ FASTDL_NAME_(fastdl_ask_)
#define fastdl_ask_bits_ FASTDL_NAME_(fastdl_ask_bits_)
#define fastdl_ask_draft_ FASTDL_NAME_(fastdl_ask_draft_)
#define fastdl_ask_grad_ FASTDL_NAME_(fastdl_ask_grad_)
#define fastdl_ask_on_ FASTDL_NAME_(fastdl_ask_on_)
#define fastdl_attribute_ FASTDL_NAME_(fastdl_attribute_)
#define fastdl_bind_method_ FASTDL_NAME_(fastdl_bind_method_)
#define fastdl_borrow_owned_ FASTDL_NAME_(fastdl_borrow_owned_)
#define fastdl_borrow_refused_ FASTDL_NAME_(fastdl_borrow_refused_)
#define fastdl_call_ FASTDL_NAME_(fastdl_call_)
#define fastdl_call_with_ FASTDL_NAME_(fastdl_call_with_)
#define fastdl_check_version FASTDL_NAME_(fastdl_check_version)
#define fastdl_choose_dtype_ FASTDL_NAME_(fastdl_choose_dtype_)
#define fastdl_class_attribute_ FASTDL_NAME_(fastdl_class_attribute_)
#define fastdl_class_item_ FASTDL_NAME_(fastdl_class_item_)
#define fastdl_converts_ FASTDL_NAME_(fastdl_converts_)
#define fastdl_copy_row_ FASTDL_NAME_(fastdl_copy_row_)
#define fastdl_delete_copy_ FASTDL_NAME_(fastdl_delete_copy_)
#define fastdl_delete_wrapper_ FASTDL_NAME_(fastdl_delete_wrapper_)
#define fastdl_describe_alone_ FASTDL_NAME_(fastdl_describe_alone_)
#define fastdl_describe_type FASTDL_NAME_(fastdl_describe_type)
#define fastdl_device_facts_ FASTDL_NAME_(fastdl_device_facts_)
#define fastdl_discard_ FASTDL_NAME_(fastdl_discard_)
#define fastdl_discover FASTDL_NAME_(fastdl_discover)
#define fastdl_drop_names_ FASTDL_NAME_(fastdl_drop_names_)
#define fastdl_dtype_families_ FASTDL_NAME_(fastdl_dtype_families_)
#define fastdl_fault_texts_ FASTDL_NAME_(fastdl_fault_texts_)
#define fastdl_fill_copy_ FASTDL_NAME_(fastdl_fill_copy_)
#define fastdl_find_in_ FASTDL_NAME_(fastdl_find_in_)
#define fastdl_find_method_ FASTDL_NAME_(fastdl_find_method_)
#define fastdl_find_peer_ FASTDL_NAME_(fastdl_find_peer_)
#define fastdl_find_record FASTDL_NAME_(fastdl_find_record)
#define fastdl_float_run_ FASTDL_NAME_(fastdl_float_run_)
#define fastdl_forget_ FASTDL_NAME_(fastdl_forget_)
#define fastdl_getter_ FASTDL_NAME_(fastdl_getter_)
#define fastdl_grad_is_enabled_ FASTDL_NAME_(fastdl_grad_is_enabled_)
#define fastdl_has_died_ FASTDL_NAME_(fastdl_has_died_)
#define fastdl_has_names_ FASTDL_NAME_(fastdl_has_names_)
#define fastdl_import_ FASTDL_NAME_(fastdl_import_)
#define fastdl_interpreter_is_gone_ FASTDL_NAME_(fastdl_interpreter_is_gone_)
#define fastdl_is_home_ FASTDL_NAME_(fastdl_is_home_)
#define fastdl_is_in_package_ FASTDL_NAME_(fastdl_is_in_package_)
#define fastdl_is_really_legacy FASTDL_NAME_(fastdl_is_really_legacy)
#define fastdl_is_really_versioned FASTDL_NAME_(fastdl_is_really_versioned)
#define fastdl_keep_names_ FASTDL_NAME_(fastdl_keep_names_)
#define fastdl_keep_record_ FASTDL_NAME_(fastdl_keep_record_)
#define fastdl_kept_names_ FASTDL_NAME_(fastdl_kept_names_)
#define fastdl_keyword_facts_ FASTDL_NAME_(fastdl_keyword_facts_)
#define fastdl_kind_ FASTDL_NAME_(fastdl_kind_)
#define fastdl_leave_home_ FASTDL_NAME_(fastdl_leave_home_)
#define fastdl_look_up_ FASTDL_NAME_(fastdl_look_up_)
#define fastdl_make_names_ FASTDL_NAME_(fastdl_make_names_)
#define fastdl_make_tag_ FASTDL_NAME_(fastdl_make_tag_)
#define fastdl_mend_ FASTDL_NAME_(fastdl_mend_)
#define fastdl_mro_ FASTDL_NAME_(fastdl_mro_)
#define fastdl_name_argument_ FASTDL_NAME_(fastdl_name_argument_)
#define fastdl_new_copy_ FASTDL_NAME_(fastdl_new_copy_)
#define fastdl_new_wrapper_ FASTDL_NAME_(fastdl_new_wrapper_)
#define fastdl_no_types_ FASTDL_NAME_(fastdl_no_types_)
#define fastdl_of_type_ FASTDL_NAME_(fastdl_of_type_)
#define fastdl_optional_attribute_ FASTDL_NAME_(fastdl_optional_attribute_)
#define fastdl_own_types_ FASTDL_NAME_(fastdl_own_types_)
#define fastdl_peer_facts_ FASTDL_NAME_(fastdl_peer_facts_)
#define fastdl_peer_of_ FASTDL_NAME_(fastdl_peer_of_)
#define fastdl_protocol_allocate_ FASTDL_NAME_(fastdl_protocol_allocate_)
#define fastdl_protocol_own_ FASTDL_NAME_(fastdl_protocol_own_)
#define fastdl_protocol_stream_ FASTDL_NAME_(fastdl_protocol_stream_)
#define fastdl_protocol_table_ FASTDL_NAME_(fastdl_protocol_table_)
#define fastdl_protocol_wrap_ FASTDL_NAME_(fastdl_protocol_wrap_)
#define fastdl_published_here_ FASTDL_NAME_(fastdl_published_here_)
#define fastdl_published_table_ FASTDL_NAME_(fastdl_published_table_)
#define fastdl_put_ FASTDL_NAME_(fastdl_put_)
#define fastdl_put_aliased_ FASTDL_NAME_(fastdl_put_aliased_)
#define fastdl_put_device_ FASTDL_NAME_(fastdl_put_device_)
#define fastdl_put_dtype_ FASTDL_NAME_(fastdl_put_dtype_)
#define fastdl_put_in_front_ FASTDL_NAME_(fastdl_put_in_front_)
#define fastdl_put_int_ FASTDL_NAME_(fastdl_put_int_)
#define fastdl_put_no_ndim_ FASTDL_NAME_(fastdl_put_no_ndim_)
#define fastdl_put_other_ FASTDL_NAME_(fastdl_put_other_)
#define fastdl_put_other_device_ FASTDL_NAME_(fastdl_put_other_device_)
#define fastdl_put_other_dtype_ FASTDL_NAME_(fastdl_put_other_dtype_)
#define fastdl_put_read_only_ FASTDL_NAME_(fastdl_put_read_only_)
#define fastdl_put_shape_ FASTDL_NAME_(fastdl_put_shape_)
#define fastdl_put_shares_itself_ FASTDL_NAME_(fastdl_put_shares_itself_)
#define fastdl_put_tensor_ FASTDL_NAME_(fastdl_put_tensor_)
#define fastdl_put_tuple_ FASTDL_NAME_(fastdl_put_tuple_)
#define fastdl_put_unaligned_ FASTDL_NAME_(fastdl_put_unaligned_)
#define fastdl_put_wrong_device_ FASTDL_NAME_(fastdl_put_wrong_device_)
#define fastdl_put_wrong_dtype_ FASTDL_NAME_(fastdl_put_wrong_dtype_)
#define fastdl_put_wrong_layout_ FASTDL_NAME_(fastdl_put_wrong_layout_)
#define fastdl_put_wrong_ndim_ FASTDL_NAME_(fastdl_put_wrong_ndim_)
#define fastdl_put_wrong_size_ FASTDL_NAME_(fastdl_put_wrong_size_)
#define fastdl_raise_ FASTDL_NAME_(fastdl_raise_)
#define fastdl_raise_about_ FASTDL_NAME_(fastdl_raise_about_)
#define fastdl_raise_answer_ FASTDL_NAME_(fastdl_raise_answer_)
#define fastdl_raise_fault FASTDL_NAME_(fastdl_raise_fault)
#define fastdl_raise_mismatch_ FASTDL_NAME_(fastdl_raise_mismatch_)
#define fastdl_raise_no_tensor FASTDL_NAME_(fastdl_raise_no_tensor)
#define fastdl_read_any_device_ FASTDL_NAME_(fastdl_read_any_device_)
#define fastdl_read_code_ FASTDL_NAME_(fastdl_read_code_)
#define fastdl_read_run_ FASTDL_NAME_(fastdl_read_run_)
#define fastdl_read_signature_ FASTDL_NAME_(fastdl_read_signature_)
#define fastdl_refusals_ FASTDL_NAME_(fastdl_refusals_)
#define fastdl_refused_keyword FASTDL_NAME_(fastdl_refused_keyword)
#define fastdl_set_error_ FASTDL_NAME_(fastdl_set_error_)
#define fastdl_settle_ FASTDL_NAME_(fastdl_settle_)
#define fastdl_special_ FASTDL_NAME_(fastdl_special_)
#define fastdl_state_ FASTDL_NAME_(fastdl_state_)
#define fastdl_take_ FASTDL_NAME_(fastdl_take_)
#define fastdl_take_refusal_ FASTDL_NAME_(fastdl_take_refusal_)
#define fastdl_traced_allocate_ FASTDL_NAME_(fastdl_traced_allocate_)
#define fastdl_traced_own_ FASTDL_NAME_(fastdl_traced_own_)
#define fastdl_traced_stream_ FASTDL_NAME_(fastdl_traced_stream_)
#define fastdl_traced_table_ FASTDL_NAME_(fastdl_traced_table_)
#define fastdl_traced_wrap_ FASTDL_NAME_(fastdl_traced_wrap_)
#define fastdl_type_lookup_ FASTDL_NAME_(fastdl_type_lookup_)
#define fastdl_type_name_ FASTDL_NAME_(fastdl_type_name_)
#define fastdl_usable_table FASTDL_NAME_(fastdl_usable_table)
#define fastdl_watch_ FASTDL_NAME_(fastdl_watch_)
#define fastdl_write_run_ FASTDL_NAME_(fastdl_write_run_)
#define fastdl_writers_ FASTDL_NAME_(fastdl_writers_)

#if defined(FASTDL_STATIC)
#define FASTDL_ONE_(section_) static
#define FASTDL_COLD_ FASTDL_RARE_
#elif defined(__cplusplus) && defined(_MSC_VER)
#define FASTDL_ONE_(section_) inline
#define FASTDL_COLD_ __declspec(noinline) inline
#elif defined(__cplusplus) && (defined(__GNUC__) || defined(__clang__))
#define FASTDL_ONE_(section_) __attribute__((visibility("hidden"))) inline
#define FASTDL_COLD_ __attribute__((visibility("hidden"), cold)) inline
#elif defined(__cplusplus)
#define FASTDL_ONE_(section_) inline
#define FASTDL_COLD_ inline
#elif (defined(__GNUC__) || defined(__clang__)) && defined(__ELF__)
#define FASTDL_ONE_(section_)                                                                      \
    __attribute__((weak, visibility("hidden"), section(".gnu.linkonce." section_ FASTDL_RELEASE_)))
#define FASTDL_COLD_ FASTDL_ONE_("t.fastdl_") __attribute__((cold, noinline))
#elif defined(_WIN32)
#define FASTDL_ONE_(section_) __declspec(selectany)
#define FASTDL_COLD_ FASTDL_RARE_
#elif defined(__GNUC__) || defined(__clang__)
#define FASTDL_ONE_(section_) __attribute__((weak, visibility("hidden")))
#define FASTDL_COLD_ FASTDL_RARE_
#else
#define FASTDL_ONE_(section_) static
#define FASTDL_COLD_ FASTDL_RARE_
#endif
/* Declares a FASTDL_COLD_ function ahead of its definition. */
#if defined(__cplusplus) && !defined(FASTDL_STATIC)
#define FASTDL_COLD_LATER_ inline
#elif (defined(__GNUC__) || defined(__clang__)) && defined(__ELF__) && !defined(FASTDL_STATIC)
#define FASTDL_COLD_LATER_ __attribute__((visibility("hidden")))
#else
#define FASTDL_COLD_LATER_ static
#endif
#define FASTDL_TABLE_(section_) FASTDL_ONE_("d.rel.ro." section_) const

/* For macros, which the compiler judges where they are used. (In `extern "C"` a cast is C's.) */
#ifdef __cplusplus
#define FASTDL_CAST_(type, value) static_cast<type>(value)
#else
#define FASTDL_CAST_(type, value) ((type)(value))
#endif

/* Disabled within this header: warnings about C read as C++, and about functions that all files
 * share and so are not static. */
#if defined(__clang__)
#define FASTDL_BEGIN_                                                                              \
    _Pragma("clang diagnostic push") _Pragma("clang diagnostic ignored \"-Wold-style-cast\"")      \
        _Pragma("clang diagnostic ignored \"-Wmissing-prototypes\"")                               \
            _Pragma("clang diagnostic ignored \"-Wmissing-variable-declarations\"")
#define FASTDL_END_ _Pragma("clang diagnostic pop")
#elif defined(__GNUC__)
#ifdef __cplusplus
#define FASTDL_BEGIN_                                                                              \
    _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wmissing-declarations\"")    \
        _Pragma("GCC diagnostic ignored \"-Wuseless-cast\"")
#else
#define FASTDL_BEGIN_                                                                              \
    _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wmissing-prototypes\"")      \
        _Pragma("GCC diagnostic ignored \"-Wmissing-declarations\"")
#endif
#define FASTDL_END_ _Pragma("GCC diagnostic pop")
#else
#define FASTDL_BEGIN_
#define FASTDL_END_
#endif

FASTDL_BEGIN_
#ifdef __cplusplus
extern "C" {
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

/* The number of an element type, as the macros above. Needs no thread state. */
static inline uint32_t fastdl_dtype(DLDataType dtype)
{
    return FASTDL_DTYPE(dtype.code, dtype.bits, dtype.lanes);
}

/* A family of element types: its sizes are the powers of two between two bounds, or the one size in
 * its name. */
typedef struct {
    const char *name;
    uint8_t min_bits, max_bits;
} fastdl_dtype_family;

FASTDL_TABLE_("fastdl_families_")
fastdl_dtype_family fastdl_dtype_families_[] = {
    {"int", 1, 128},          {"uint", 1, 128},
    {"float", 16, 128},       {NULL, 0, 0},
    {"bfloat16", 16, 16},     {"complex", 32, 128},
    {"bool", 8, 8},           {"float8_e3m4", 8, 8},
    {"float8_e4m3", 8, 8},    {"float8_e4m3b11fnuz", 8, 8},
    {"float8_e4m3fn", 8, 8},  {"float8_e4m3fnuz", 8, 8},
    {"float8_e5m2", 8, 8},    {"float8_e5m2fnuz", 8, 8},
    {"float8_e8m0fnu", 8, 8}, {"float6_e2m3fn", 6, 6},
    {"float6_e3m2fn", 6, 6},  {"float4_e2m1fn", 4, 4},
};

/* The family of a DLDataTypeCode; NULL for a code that DLPack 1.3 does not know, and for opaque
 * handles: those may have any size. Needs no thread state. */
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
 * A `switch` over element types: the block is compiled once for each type of the family, with `T`
 * that type in C, and `T_DTYPE` its number (FASTDL_FLOAT32, ...); `T` is a name of your choice. For
 * an element type outside the family nothing runs, so have a specification ask for the family
 * first:
 *
 *     static const uint32_t real[] = {FASTDL_LIST_REAL};
 *     spec.dtypes = real, spec.dtype_count = sizeof(real) / sizeof(real[0]);
 *
 * `break` leaves the block. Dispatches over two arguments may be nested.
 *
 *     INTEGER    int8 to int64, uint8 to uint64
 *     REAL       float32, float64
 *     NUMBER     INTEGER and REAL
 *     FLOATING   REAL, float16 and bfloat16
 *
 * C has no arithmetic for float16 and bfloat16: `T` is a struct of their 16 bits there, so that
 * none is done by mistake, and fastdl_load and fastdl_store compute with double in place of it:
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
 * FASTDL_EACH_REAL(X, ...) and its like are the lists themselves: X(number, type, ...) for each
 * type, with whatever follows X, which must be something. To declare a function for each:
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

#define FASTDL_EXPAND_(...) __VA_ARGS__ /* MSVC passes __VA_ARGS__ on as one argument without */

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
#define FASTDL_DISPATCH_(dtype, EACH, T, ...)                                                      \
    switch (dtype) {                                                                               \
        EACH(FASTDL_CASE_, T, __VA_ARGS__)                                                         \
    default:                                                                                       \
        break;                                                                                     \
    }
#define FASTDL_DISPATCH_INTEGER(dtype, T, ...)                                                     \
    FASTDL_DISPATCH_(dtype, FASTDL_EACH_INTEGER, T, __VA_ARGS__)
#define FASTDL_DISPATCH_REAL(dtype, T, ...)                                                        \
    FASTDL_DISPATCH_(dtype, FASTDL_EACH_REAL, T, __VA_ARGS__)
#define FASTDL_DISPATCH_NUMBER(dtype, T, ...)                                                      \
    FASTDL_DISPATCH_(dtype, FASTDL_EACH_NUMBER, T, __VA_ARGS__)
#define FASTDL_DISPATCH_FLOATING(dtype, T, ...)                                                    \
    FASTDL_DISPATCH_(dtype, FASTDL_EACH_FLOATING, T, __VA_ARGS__)

/* The value of a 16-bit float, `fraction` bits of which are its fraction, as a double. */
FASTDL_HOT_ double fastdl_widen_(uint16_t bits, int fraction)
{
    int top = (1 << (15 - fraction)) - 1, bias = top / 2; /* of the exponent */
    int exponent = (bits & 0x7fff) >> fraction, shown = exponent == 0 ? 1 : exponent;
    uint64_t part = bits & ((1u << fraction) - 1u), image;
    double value;
    if (exponent == top) {
        image = (uint64_t)0x7ff << 52 | part << (52 - fraction);
        memcpy(&value, &image, sizeof(value));
    } else {
        image = (uint64_t)(shown - bias - fraction + 1023) << 52; /* one unit in the last place */
        memcpy(&value, &image, sizeof(value));
        value *= (double)(exponent == 0 ? part : part | (uint64_t)1 << fraction);
    }
    return bits & 0x8000 ? -value : value;
}

/* The reverse: rounded to nearest, ties to even, in one step, and to infinity beyond the largest.
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

/* Sets an element of these types to the number nearest to `value`; does nothing for other types. */
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

/* What is known of a type of device. */
typedef struct {
    int32_t type; /* DLDeviceType */
    const char *name;
    uint8_t host;      /* a CPU may read and write `data` with no device involved */
    uint8_t addresses; /* `data` is an address, so that adding bytes to it makes sense */
    uint8_t stream;    /* fastdl_stream_kind */
} fastdl_device_fact;

FASTDL_TABLE_("fastdl_devices_")
fastdl_device_fact fastdl_device_facts_[] = {
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

/* The row of a device type; the one without a name for a number that DLPack 1.3 does not know.
 * Needs no thread state. */
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
FASTDL_TABLE_("fastdl_faults_")
char *const fastdl_fault_texts_[] = {
    "no fault",
    "a device type that is not positive",
    "a number of dimensions outside 0 to 64",
    "an element size that its type code does not have",
    "0 lanes",
    "dimensions but a NULL shape",
    "a negative dimension",
    "more bytes than a 64-bit count can hold",
    "strides that reach outside the address space",
    "strides over elements that share bytes: only row-major order has a meaning",
    "a byte_offset that leads outside the address space",
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

/* Writes the strides, in elements, of a compact row-major tensor. Dimensions of size 0 count as
 * 1, and products that do not fit end the row at 1: no element is reached then. */
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
 * (first). Dimensions of size 1 may have any stride; no elements lie in any order. NULL strides
 * are compact row-major ones. */
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
 * last dimension: if one of them is 0, then *size is 0, nothing is reached and nothing has
 * overflowed. */
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
        /* Plain branches: each becomes one jump on the overflow flag, which a condition that joins
         * them, or a hint, would first turn into a number. */
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
    *high = strides == NULL ? count - 1 : above;
    return empty ? FASTDL_OK : fault;
}

/* `data` as a number. */
static inline uint64_t fastdl_address_(const DLTensor *tensor)
{
    uintptr_t address = (uintptr_t)tensor->data;
    return address;
}

/* Whether `base` + byte_offset, and everything reached from there, are possible addresses, and
 * elements have memory at all. 0 - low is at most 2**63, so no side of a comparison can wrap. */
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

/* The rest of fastdl_check, for rare tensors; separate so that the common path makes no call. */
FASTDL_RARE_ fastdl_fault fastdl_check_elsewhere_(const DLTensor *tensor,
                                                  const fastdl_layout *layout)
{
    /* For a handle only the offset counts. */
    int addresses = fastdl_find_device((int32_t)tensor->device.device_type)->addresses;
    return fastdl_check_addresses_(tensor, layout, addresses ? fastdl_address_(tensor) : 0);
}

/* Sizes of packed elements are in bits, and only a compact layout is possible. */
FASTDL_RARE_ fastdl_fault fastdl_check_packed_(const DLTensor *tensor, fastdl_layout *layout)
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

/* Checks everything about `tensor` that can be checked without reading its data, and fills
 * *layout. Reads `shape` and `strides` only once ndim is known to be 0 to 64. `flags` are
 * DLPACK_FLAG_BITMASK_* bits: SUBBYTE_TYPE_PADDED changes sizes. Dimensions of a tensor without
 * elements are not multiplied: (0, 2**62, 2**62) is fine. */
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
        return FASTDL_OK; /* reaches nothing: data, strides and byte_offset are all right */
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

#ifdef __cplusplus
} /* extern "C" */
#endif
FASTDL_END_

#endif /* FASTDL_FASTDL_H_ */

#if !defined(FASTDL_NO_PYTHON) && !defined(FASTDL_WITH_PYTHON_)
#define FASTDL_WITH_PYTHON_

FASTDL_BEGIN_
#ifdef __cplusplus
extern "C" {
#endif

/* ========================================================================
 * The interface
 * ===================================================================== */

/* A borrowed tensor. `dl` and `flags` are for reading; the rest is private. Make it on the
 * stack: most of its size is room for strides, which is never touched. Do not copy it, since
 * `dl.strides` may point into it.
 *
 * What is true of `dl` after a successful fastdl_borrow:
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
    uint64_t size_;                 /* of this struct, as the caller was compiled with it */
    const DLPackExchangeAPI *api_;  /* of the library whose stream the tensor is ready on */
    DLManagedTensorVersioned *own_; /* what keeps the memory, where the object does not */
    /* For strides, and on 32-bit machines sizes, that the object does not store in this form. */
    int64_t room_[FASTDL_MAX_NDIM * 8 / sizeof(void *)];
} fastdl_view;

/* Finds the installed package, so that its tables are used (see "Two tiers"). Call it once, when
 * your module is initialised:
 *
 *     if (fastdl_import() < 0)
 *         PyErr_Clear();               // or fail, if your module cannot do without
 *
 * Call it before other threads use the module.
 *
 * ImportError if fastdl is not installed, if its interface has another major version or is older
 * than this header, and in an interpreter other than the main one: everything then works as before
 * the call. Serves all files of an extension module, except with compilers other than gcc, clang,
 * MSVC and those of C++17, where each file has to call it. */
static inline int fastdl_import(void);

/* Fills *view with the tensor of `obj`, for the duration of a C call. Nothing is owned: the view is
 * valid until `obj` is released or mutated, and only as long as no Python code runs that could do
 * so. Keep `obj` alive yourself (arguments of your function are).
 *
 * Nothing is synchronised: on a device, work on the tensor belongs on the stream that
 * fastdl_work_stream gives. Objects that have only `__dlpack__` are asked to be ready on the
 * device's default stream or, after fastdl_import(), on the thread's work stream; a fastdl.Tensor
 * is ready there too. Before fastdl_import() their device must be current, if there are several.
 * The GIL may be released during the calls to the driver.
 *
 * On success call fastdl_release when you are done. On failure the view holds nothing, and calling
 * fastdl_release is allowed.
 * TypeError: `obj` is not a tensor. BufferError: it cannot be described (a sparse or lazy tensor, a
 * fault in its descriptor). Other exceptions are the producer's.
 *
 * Read-only data is reported in `flags` if the source can say so. A table's borrowing slot cannot,
 * so a correct one refuses such data; fastdl then asks `__dlpack__`. Legacy capsules cannot either:
 * they count as writable, except from libraries that share values among arrays (JAX, TensorFlow,
 * MLX, PyArrow).
 *
 * Cost: the call of the library's own table plus 2 ns; NumPy's arrays 5 ns and fastdl.Tensor 3 ns
 * after fastdl_import(); for other types one call of `__dlpack__`, or of their buffer: see the
 * table at the top. The first tensor of a type costs a few microseconds. */
static inline int fastdl_borrow(PyObject *obj, fastdl_view *view);

/* Makes a view that has not been borrowed yet safe to release, for functions with one exit that
 * releases several. Costs one store; fastdl_borrow does it itself. Needs no thread state. */
static inline void fastdl_init(fastdl_view *view);

/* Releases what a view holds. May be called again, and after a failed fastdl_borrow; a pending
 * exception is kept. The view must have been passed to fastdl_borrow or fastdl_init before.
 */
static inline void fastdl_release(fastdl_view *view);

/* The tensor of `obj`, to be kept beyond the call. On success **out is yours: it keeps the memory
 * alive by itself, and you call its deleter once, from any thread; if the deleter is NULL there is
 * nothing to call. `strides` is never NULL if there are dimensions. On failure *out is NULL.
 * Exceptions, streams and read-only data as in fastdl_borrow. Unlike there, `byte_offset` may be
 * nonzero, and shape and strides are the producer's memory, as DLPack defines: copy them if the
 * producer may change them. Costs one allocation by the library that owns the data. */
static inline int fastdl_own(PyObject *obj, DLManagedTensorVersioned **out);

/* Makes *out, a new object of type `like` on `managed`. `like` is the type of one of your
 * arguments, Py_TYPE(x), or NULL for fastdl.Tensor. The object is made as by fastdl.convert, which
 * copies what the library cannot have as it is (read-only data, negative strides), and refuses
 * what it does not have (BufferError: an element type, a device). It is of the class that the
 * type's table makes (for a subclass of torch.Tensor: torch.Tensor itself); for a type of a library
 * that fastdl does not know, and that publishes no table, it is a fastdl.Tensor. Before
 * fastdl_import() nothing is copied, and a library's table gets everything but negative strides,
 * at which PyTorch would end the process.
 *
 * `managed` is consumed in every case, so the caller has nothing to clean up. If this function
 * itself refuses (TypeError: `like` is not a tensor type, or needs fastdl_import(); BufferError:
 * see above) or a table of fastdl's does, its deleter has been called. Device memory that becomes a
 * fastdl.Tensor counts as in use on the thread's work stream, and memory of fastdl's is ordered for
 * the current stream of the library of `like`. Memory that one library made and fastdl does not
 * know is not ordered for another one, whose table gets it as it is. If another library's table
 * fails, it is unknown whether it freed `managed`, which is left alone: a leak is better than a
 * double free. (Before fastdl_import() the table of fastdl.Tensor counts as another library's.) On
 * failure *out is NULL.
 */
static inline int fastdl_wrap(DLManagedTensorVersioned *managed, PyTypeObject *like,
                              PyObject **out);

/* Allocates an uninitialised tensor with the element type, shape and device of `prototype` (whose
 * other fields are not read), by the allocator of the library of `like`, as in fastdl_wrap. On
 * success **out is yours, compact and row-major, with `byte_offset` 0 where `data` is an address:
 * fill it, on the work stream, and pass it to fastdl_wrap. On failure *out is NULL, and the
 * exception is of the type that the library names. For types without a table of their own the
 * memory is fastdl's: of the host (aligned to 256 bytes), of CUDA and ROCm devices, managed or
 * pinned; it is ready on every stream. BufferError on other devices, and without a driver.
 * TypeError where fastdl_import() would be needed. */
static inline int fastdl_empty(const DLTensor *prototype, PyTypeObject *like,
                               DLManagedTensorVersioned **out);

/* fastdl_empty with all bytes 0, for host memory. BufferError for other devices, where you must
 * fill the memory on your stream: fastdl_empty, then cudaMemsetAsync. */
static inline int fastdl_zeros(const DLTensor *prototype, PyTypeObject *like,
                               DLManagedTensorVersioned **out);

/* Releases a managed tensor that came from fastdl_own, fastdl_own_as, fastdl_empty or fastdl_zeros,
 * unless fastdl_wrap has consumed it. NULL, and a NULL deleter, are allowed. Needs no thread state.
 */
static inline void fastdl_drop(DLManagedTensorVersioned *managed);

/* The stream on which work on the tensor of a view must be queued: a cudaStream_t or hipStream_t.
 * If the type has its own table, it is the stream on which its library works now; for a
 * fastdl.Tensor and for types with only `__dlpack__` it is the thread's work stream, which is the
 * default one unless Python says otherwise (fastdl.use_stream; before fastdl_import() the default
 * one in every case). NULL for host memory, and for the legacy default stream. Call it after
 * fastdl_borrow, with the device of the tensor current:
 *
 *     fastdl_borrow, fastdl_expect; device guard (view.dl.device.device_id); fastdl_work_stream;
 *     launch
 *
 * The tensor is ready there. A library with a table works there too, so its later work comes after
 * yours, and fastdl keeps that order for a fastdl.Tensor. Libraries without one (CuPy, JAX) may
 * work on another stream of their own: call within `fastdl.use_stream(device, that stream)`, or
 * synchronise before they continue. BufferError if the library cannot tell. */
static inline int fastdl_work_stream(const fastdl_view *view, void **stream);

/* The exchange table of a type, valid until the process ends: its own, or one of fastdl's. NULL
 * with TypeError if the type has none (and no `__dlpack__`). Before fastdl_import(), only the slot
 * managed_tensor_from_py_object_no_sync works in the table of a type that has only `__dlpack__`. */
static inline const DLPackExchangeAPI *fastdl_exchange_api(PyTypeObject *type);

/* ---- what a function expects of an argument ---- */

/* One dimension of an expected shape: a size, or a name that stands for one. A name takes the size
 * of the first argument it is compared with, and the others must agree:
 *
 *     fastdl_dim n = FASTDL_DIM("n"), three = FASTDL_SIZE(3);
 *     fastdl_dim *const points[] = {&n, &three}, *const weights[] = {&n};
 *
 * Names are valid for one call: put them on the stack. Exact sizes may be static. */
typedef struct {
    const char *name;
    int64_t size;     /* -1: not known yet */
    const char *from; /* the argument that `size` was taken from */
} fastdl_dim;

#define FASTDL_DIM(name) {name, -1, NULL}
#define FASTDL_SIZE(size) {NULL, size, NULL}

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
    FASTDL_TRAILING = 2, /* `ndim` and `shape` are of the last dimensions; more may come before */
    FASTDL_IN_PLACE = 4, /* an argument of `no_alias` may also be this very tensor */
    FASTDL_DETACHED =
        8,            /* with WRITABLE: also where autograd would not see it (fastdl_borrow_as) */
    FASTDL_COPY = 16, /* a contiguous copy replaces a tensor of another layout */
    FASTDL_CONVERT = 32, /* and a tensor of a type not in `dtypes`, or not that of `like` */

    /* fastdl_spec.device, besides the numbers of DLDeviceType */
    FASTDL_HOST = 0, /* any memory that the CPU may touch */
    FASTDL_ANY_DEVICE = -1,
};

/* What a function expects. A member that is 0 asks for nothing, except `device`: 0 there means host
 * memory, since the CPU would crash on anything else. The most used members come first. */
typedef struct {
    const uint32_t *dtypes; /* any of these: FASTDL_FLOAT32, ... */
    size_t dtype_count;
    int32_t ndim; /* or FASTDL_SCALAR; 0: any */
    fastdl_dim *const
        *shape;        /* one for each of `ndim` dimensions, which it needs; a NULL: any size */
    int32_t layout;    /* FASTDL_C, FASTDL_F, FASTDL_INNER */
    int32_t rules;     /* FASTDL_WRITABLE and what follows it above */
    int32_t device;    /* DLDeviceType, FASTDL_HOST or FASTDL_ANY_DEVICE */
    int32_t alignment; /* of the first element, in bytes */
    const fastdl_argument *like;     /* has the element type and device that this one must have */
    const fastdl_argument *no_alias; /* must share no memory with this one */
    size_t no_alias_count;
} fastdl_spec;

/* Compares a borrowed tensor with what a function expects, in the order of the members. On failure
 * the message names the argument, what was expected and what came, and what to do.
 *
 *     element type                        TypeError
 *     dimensions, sizes, overlap          ValueError
 *     layout, device, alignment, writing  BufferError
 *
 * FASTDL_DETACHED, FASTDL_COPY and FASTDL_CONVERT are rules of fastdl_borrow_as and fastdl_own_as;
 * this function ignores them, since it has no object and cannot replace a view.
 *
 * A name in `shape` that has no size yet takes that of this tensor, even if the call fails. Two
 * tensors share memory if some byte is in an element of both; if the strides are too complex to
 * decide that quickly, memory counts as shared if they span a common range. Costs up to 3 ns; a
 * message is built only on failure. Needs a thread state only on failure. */
static inline int fastdl_expect(const fastdl_view *view, const char *name, const fastdl_spec *spec);

/* Borrows one argument of a function: fastdl_borrow and fastdl_expect in one call, at no extra
 * cost. Every failure names the argument: `name` precedes fastdl's own message ("x: expected a
 * tensor, got 'list', ..."); another library's exception passes unchanged, with the name in a note
 * from Python 3.11 on. On success call fastdl_release when you are done; on failure the view holds
 * nothing, and calling fastdl_release is allowed.
 *
 * A torch tensor that requires grad is borrowed as if detached: autograd does not record what is
 * done with it. If it is to be written (FASTDL_WRITABLE) while gradients are recorded, they would
 * be silently wrong, so it is refused with BufferError: call within torch.no_grad(), as optimizers
 * do, or pass x.detach(). FASTDL_DETACHED accepts it anyway. The check reads one attribute of a
 * torch tensor; other tensors are not checked.
 *
 * FASTDL_COPY: if layout, alignment or `no_alias` is not met, the view is of a copy, aligned, and
 * contiguous in the order that `layout` asks for. FASTDL_CONVERT: also if the element type is not
 * that of `like`, or not in `dtypes`; the copy has the first of `dtypes` that it can be converted
 * to:
 *
 *     bool                                    to integers and floating types
 *     int8 to int64, uint8 to uint64          to each other and to floating types
 *     float16, bfloat16, float32, float64     to each other
 *
 * A floating result is rounded to nearest; an integer that the result cannot hold raises
 * ValueError. Other types can be copied but not converted. The copy lasts until fastdl_release;
 * `flags` say IS_COPIED. Only host memory is copied: a device tensor must be converted by its own
 * library, and is refused as without the rule. So is an argument that is to be written
 * (FASTDL_WRITABLE), since the caller would not see the result. The GIL is kept while copying.
 *
 * Buffers (bytes, array.array, mmap, ...) are not tensors, and the message says how to make one:
 * fastdl.asarray(x). */
static inline int fastdl_borrow_as(PyObject *obj, const char *name, const fastdl_spec *spec,
                                   fastdl_view *view);

/* fastdl_own with a name and a specification, as fastdl_borrow_as: the tensor of an argument, to be
 * kept beyond the call. With FASTDL_COPY or FASTDL_CONVERT *out may be a copy, whose deleter may be
 * called from any thread. On failure *out is NULL. */
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
 * `like` and `no_alias` of a specification may refer to views that come before its own, and a name
 * in `shape` takes the size of the first argument that uses it. On failure, reported for the first
 * argument that fails, everything borrowed has been released; calling fastdl_release_all is
 * allowed. */
static inline int fastdl_borrow_all(PyObject *const *objects, const fastdl_parameter *parameters,
                                    size_t count, fastdl_view *views);

/* fastdl_release of each of `count` views: those of fastdl_borrow_all, whether it succeeded or not,
 * or others that have been borrowed or initialised. A pending exception is kept. */
static inline void fastdl_release_all(fastdl_view *views, size_t count);

/* ========================================================================
 * What is known about types
 *
 * Shared by all who use this interface in the interpreter that has imported fastdl: the layout is
 * part of its version.
 * ===================================================================== */

/* Facts about the instances of a type. */
enum {
    FASTDL_TYPE_NATIVE = 1,      /* the table is the library's own: `__dlpack__` may do better */
    FASTDL_TYPE_PROTOCOL = 2,    /* the table is over `__dlpack__`: there is no better one */
    FASTDL_TYPE_IMMUTABLE = 8,   /* a capsule without flags is read-only all the same */
    FASTDL_TYPE_HAS_DLPACK = 16, /* has `__dlpack__` on the type; a proxy may on the instance */
    FASTDL_TYPE_ASK_BITS = 32, /* may be a lazy conjugate or negative that the table exports raw */
    FASTDL_TYPE_KEEP = 64,     /* the object must live as long as what it exported */
    FASTDL_TYPE_NONE_WAITS = 128, /* passes stream=-1 to its driver; waits by itself on None */
    FASTDL_TYPE_TRUSTED = 256,    /* its table describes real tensors: sizes need no check */
    FASTDL_TYPE_TRACED = 512,     /* stands for a tensor while a function is traced: no memory */
    FASTDL_TYPE_UNORDERED = 1024, /* takes `stream` and ignores it: its data may not be there yet */
    FASTDL_TYPE_BUFFER = 2048,    /* its buffer describes host data, quicker than `__dlpack__` */
    FASTDL_TYPE_ASK_LATER = 4096  /* asking for a capsule waits for nothing: it says where it is */
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

FASTDL_TABLE_("fastdl_keywords_")
fastdl_keyword_fact fastdl_keyword_facts_[] = {
    {FASTDL_KEYWORD_COPY, "copy"},
    {FASTDL_KEYWORD_DL_DEVICE, "dl_device"},
    {FASTDL_KEYWORD_MAX_VERSION, "max_version"},
    {FASTDL_KEYWORD_VERSION, "version"},
    {FASTDL_KEYWORD_STREAM, "stream"},
    {0, NULL},
};

/* All keywords, in the order in which they are dropped for a producer that does not say which one
 * it rejects; then a row with a NULL name. Needs no thread state. */
static inline const fastdl_keyword_fact *fastdl_keywords(void)
{
    return fastdl_keyword_facts_;
}

/* fastdl_borrow of one type. Of the view `flags` has been set to 0, `own_` to NULL, `size_`, and
 * `api_` to the table in the type's record. */
typedef int (*fastdl_borrower)(PyObject *obj, fastdl_view *view);

/* What is known about a type. Immutable, and kept until the process ends, so a reader may hold it
 * across any call. Types with equal facts share one record: there are as many as there are tables,
 * times the few signatures of `__dlpack__`. */
typedef struct fastdl_record {
    const void *next;                      /* the record that was made before this one, or NULL */
    const DLPackExchangeAPI *api;          /* never NULL */
    DLPackDLTensorFromPyObjectNoSync lend; /* the borrowing slot of a native table, or NULL */
    int (*borrow)(PyObject *,
                  fastdl_view *); /* fastdl_borrow of a type that fastdl reads, or NULL */
    uint32_t facts;               /* FASTDL_TYPE_* */
    uint32_t refused; /* FASTDL_KEYWORD_* that the signature of `__dlpack__` does not have */
} fastdl_record;

/* A place in the cache of types. It does not own the type, which may be dead: the version tag
 * counts. CPython numbers types, never uses a number twice in an interpreter, and takes the number
 * away when the type or one of its bases changes. So an equal tag means the same type, unchanged
 * since it was described. CPython's own method cache relies on the same tags, so both miss the same
 * changes. (CPython 3.13 and newer give one type a thousand tags; after as many changes it is
 * described each time. CPython 3.10 counts from the start again after sys._clear_type_cache(), an
 * internal function for tests.) Neither sees code put into a function in place
 * (`f.__code__ = g.__code__`). */
typedef struct {
    uint32_t tag;       /* 0: empty, or being written */
    const void *type;   /* to be compared with, never to be followed */
    const void *record; /* a fastdl_record */
    PyObject *watch;    /* reports the type's death where tags cannot be read, otherwise NULL */
} fastdl_slot;

/* The cache: sets of a few places each, the most recently used first. It does not grow. A new type
 * evicts the least recently used one of its set, dead or alive, which is described again if it
 * returns. Types with a table and types with only `__dlpack__` have separate places, so that
 * neither evict the others. Types that are not tensors take no place. */
#define FASTDL_SETS 64u /* a power of two */
#define FASTDL_WAYS 4u

typedef struct {
    fastdl_slot tables[FASTDL_WAYS][FASTDL_SETS]; /* those in front come first */
    fastdl_slot others[FASTDL_WAYS][FASTDL_SETS];
    const void *records; /* all that were made, the latest first */
    const void *writer;  /* not NULL while a thread moves places */
} fastdl_cache;

/* ---- memory that several threads write ---- */

/* Stores `desired` if *place is still `expected`; 1 when it did. Also under a GIL: interpreters may
 * have one each. */
static inline int fastdl_swap_(const void **place, const void *expected, const void *desired)
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

static inline const void *fastdl_load_(const void *const *place)
{
#if defined(__GNUC__) || defined(__clang__)
    return __atomic_load_n(place, __ATOMIC_ACQUIRE);
#elif defined(_MSC_VER)
    return _InterlockedCompareExchangePointer((void *volatile *)place, NULL, NULL);
#else
    return *(const void *const volatile *)place;
#endif
}

static inline void fastdl_store_(const void **place, const void *value)
{
#if defined(__GNUC__) || defined(__clang__)
    __atomic_store_n(place, value, __ATOMIC_RELEASE);
#elif defined(_MSC_VER)
    (void)_InterlockedExchangePointer((void *volatile *)place, (void *)value);
#else
    *(const void *volatile *)place = value;
#endif
}

static inline void fastdl_store_tag_(uint32_t *place, uint32_t tag)
{
#if !defined(Py_GIL_DISABLED)
    *place = tag;
#elif defined(_MSC_VER) && !defined(__clang__)
    (void)_InterlockedExchange((volatile long *)place, (long)tag);
#else
    __atomic_store_n(place, tag, __ATOMIC_RELEASE);
#endif
}

static inline uint32_t fastdl_load_tag_(const unsigned int *place)
{
#if !defined(Py_GIL_DISABLED)
    return *place;
#elif defined(_MSC_VER) && !defined(__clang__)
    return (uint32_t)_InterlockedCompareExchange((volatile long *)place, 0, 0);
#else
    return __atomic_load_n(place, __ATOMIC_ACQUIRE);
#endif
}

/* ---- the places ---- */

/* Whether a place holds the type with that tag, and then *record. Without a GIL it may be written
 * meanwhile: a tag is never used twice, so one that is the same before and after vouches for what
 * was read in between. */
FASTDL_HOT_ int fastdl_match_(const fastdl_slot *slot, const PyTypeObject *type, uint32_t tag,
                              const fastdl_record **record)
{
#ifdef Py_GIL_DISABLED
    if (tag == 0 || fastdl_load_tag_(&slot->tag) != tag ||
        fastdl_load_(&slot->type) != (const void *)type)
        return 0;
    *record = (const fastdl_record *)fastdl_load_(&slot->record);
    return fastdl_load_tag_(&slot->tag) == tag;
#else
    *record = (const fastdl_record *)slot->record;
    return slot->tag == tag && slot->type == (const void *)type;
#endif
}

static inline void fastdl_fill_(fastdl_slot *slot, const void *type, uint32_t tag,
                                const void *record, PyObject *watch)
{
    fastdl_store_tag_(&slot->tag, 0);
    fastdl_store_(&slot->type, type);
    fastdl_store_(&slot->record, record);
    slot->watch = watch;
    fastdl_store_tag_(&slot->tag, tag);
}

/* Puts a type in front of its set, replacing the one `way` back, and returns what watched that. */
FASTDL_COLD_ PyObject *fastdl_put_in_front_(fastdl_slot (*places)[FASTDL_SETS], uint32_t way,
                                            const void *type, uint32_t tag, const void *record,
                                            PyObject *watch)
{
    uint32_t set = tag & (FASTDL_SETS - 1);
    PyObject *out = places[way][set].watch;
    for (; way > 0; way--) {
        const fastdl_slot *before = &places[way - 1][set];
        fastdl_fill_(&places[way][set], before->type, before->tag, before->record, before->watch);
    }
    fastdl_fill_(&places[0][set], type, tag, record, watch);
    return out;
}

/* The record of the type with that tag in some places, or NULL; puts it in front. */
FASTDL_COLD_ const fastdl_record *fastdl_find_in_(fastdl_cache *cache,
                                                  fastdl_slot (*places)[FASTDL_SETS],
                                                  const PyTypeObject *type, uint32_t tag)
{
    const fastdl_record *record;
    for (uint32_t way = 0; way < FASTDL_WAYS; way++) {
        const fastdl_slot *slot = &places[way][tag & (FASTDL_SETS - 1)];
        if (!fastdl_match_(slot, type, tag, &record))
            continue;
        if (way > 0 && fastdl_swap_(&cache->writer, NULL, cache)) {
            if (fastdl_match_(slot, type, tag, &record))
                (void)fastdl_put_in_front_(places, way, type, tag, record, slot->watch);
            fastdl_store_(&cache->writer, NULL);
        }
        return record;
    }
    return NULL;
}

/* The record of the type with that tag in a cache, or NULL. */
FASTDL_COLD_ const fastdl_record *fastdl_find_record(fastdl_cache *cache, const PyTypeObject *type,
                                                     uint32_t tag)
{
    const fastdl_record *record;
    if (tag == 0)
        return NULL;
    record = fastdl_find_in_(cache, cache->tables, type, tag);
    return record != NULL ? record : fastdl_find_in_(cache, cache->others, type, tag);
}

/* Adds a type to a cache, or replaces what it has of it; `watch` is taken. Does nothing if another
 * thread is writing: the cache is not needed for correctness. */
FASTDL_COLD_ void fastdl_add_type_(fastdl_cache *cache, const PyTypeObject *type, uint32_t tag,
                                   const fastdl_record *record, PyObject *watch)
{
    fastdl_slot(*places)[FASTDL_SETS] =
        record->facts & FASTDL_TYPE_PROTOCOL ? cache->others : cache->tables;
    uint32_t way = 0;
    if (fastdl_swap_(&cache->writer, NULL, cache)) {
        while (way < FASTDL_WAYS - 1 &&
               places[way][tag & (FASTDL_SETS - 1)].type != (const void *)type)
            way++;
        watch = fastdl_put_in_front_(places, way, type, tag, record, watch);
        fastdl_store_(&cache->writer, NULL);
    }
    Py_XDECREF(watch);
}

/* Empties the places of a type; for NULL, those of all. */
FASTDL_COLD_ void fastdl_forget_(fastdl_cache *cache, const void *type)
{
    for (uint32_t i = 0; i < 2 * FASTDL_WAYS * FASTDL_SETS; i++) {
        uint32_t way = i / FASTDL_SETS % FASTDL_WAYS, set = i % FASTDL_SETS;
        fastdl_slot *slot =
            i < FASTDL_WAYS * FASTDL_SETS ? &cache->tables[way][set] : &cache->others[way][set];
        if (type == NULL || slot->type == type) {
            PyObject *watch = slot->watch;
            fastdl_fill_(slot, NULL, 0, NULL, NULL);
            Py_XDECREF(watch);
        }
    }
}

/* The lasting copy of a record. NULL with MemoryError. */
FASTDL_COLD_ const fastdl_record *fastdl_keep_record_(fastdl_cache *cache,
                                                      const fastdl_record *record)
{
    const void *latest = fastdl_load_(&cache->records);
    fastdl_record *copy;
    for (const void *next = latest; next != NULL;) {
        const fastdl_record *kept = (const fastdl_record *)next;
        if (kept->api == record->api && kept->lend == record->lend &&
            kept->borrow == record->borrow && kept->facts == record->facts &&
            kept->refused == record->refused)
            return kept;
        next = kept->next;
    }
    copy = (fastdl_record *)malloc(sizeof(fastdl_record));
    if (copy == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    *copy = *record;
    do {
        copy->next = fastdl_load_(&cache->records);
    } while (!fastdl_swap_(&cache->records, copy->next, copy));
    return copy;
}

/* What the installed package offers, in a capsule named FASTDL_RUNTIME. `size` is that of the
 * struct as the package knows it: members behind it do not exist. */
#define FASTDL_RUNTIME "fastdl._core.exchange.runtime"

typedef struct {
    uint32_t major, minor; /* FASTDL_ABI_* of the package */
    uint64_t size;
    fastdl_cache *types;
    const DLPackExchangeAPI *tensor;   /* the table of fastdl.Tensor */
    const DLPackExchangeAPI *protocol; /* the table over `__dlpack__`, for any object */
    /* Finds out what there is to know about a type, even if that is nothing, and remembers it. NULL
     * with MemoryError, or with what a descriptor in the type raised. */
    const fastdl_record *(*describe)(PyTypeObject *type);
    uint64_t tag_offset; /* where a type object of the running CPython has its version tag */
    /* Makes *out as fastdl_wrap does, for a type whose table is not fastdl's own: 0, or -1 with an
     * exception. `managed` is consumed in every case. */
    int (*wrap)(DLManagedTensorVersioned *managed, PyTypeObject *like, PyObject **out);
} fastdl_runtime;

/* ========================================================================
 * Implementation
 * ===================================================================== */

/* ---- errors ---- */

/* A message built from parts, in memory of fixed size. */
typedef struct {
    size_t length;
    char text[1024];
} fastdl_text_;

FASTDL_COLD_ void fastdl_put_(fastdl_text_ *text, const char *part)
{
    size_t room = sizeof(text->text) - 1 - text->length, length = strlen(part);
    if (length > room)
        length = room;
    memcpy(text->text + text->length, part, length);
    text->length += length;
    text->text[text->length] = '\0';
}

FASTDL_COLD_ void fastdl_put_int_(fastdl_text_ *text, int64_t value)
{
    char digits[24], *at = digits + sizeof(digits) - 1;
    uint64_t rest = value < 0 ? (uint64_t)0 - (uint64_t)value : (uint64_t)value;
    *at = '\0';
    do {
        *--at = (char)('0' + (int)(rest % 10));
        rest /= 10;
    } while (rest != 0);
    if (value < 0)
        *--at = '-';
    fastdl_put_(text, at);
}

FASTDL_COLD_ void fastdl_put_tuple_(fastdl_text_ *text, const int64_t *values, int32_t n)
{
    fastdl_put_(text, "(");
    for (int32_t i = 0; i < n; i++) {
        fastdl_put_int_(text, values[i]);
        fastdl_put_(text, i + 1 < n ? ", " : n == 1 ? "," : "");
    }
    fastdl_put_(text, ")");
}

FASTDL_COLD_ void fastdl_put_dtype_(fastdl_text_ *text, uint32_t dtype)
{
    uint8_t code = (uint8_t)dtype, bits = (uint8_t)(dtype >> 8);
    const fastdl_dtype_family *family = fastdl_find_dtype(code);
    if (family != NULL) {
        fastdl_put_(text, family->name);
        if (family->min_bits != family->max_bits)
            fastdl_put_int_(text, bits);
    } else {
        fastdl_put_(text, "type ");
        fastdl_put_int_(text, code);
        fastdl_put_(text, " of ");
        fastdl_put_int_(text, bits);
        fastdl_put_(text, " bits");
    }
    if (dtype >> 16 != 1) {
        fastdl_put_(text, "x");
        fastdl_put_int_(text, dtype >> 16);
    }
}

FASTDL_COLD_ void fastdl_put_device_(fastdl_text_ *text, DLDevice device)
{
    const char *name = fastdl_find_device((int32_t)device.device_type)->name;
    if (name != NULL) {
        fastdl_put_(text, name);
    } else {
        fastdl_put_(text, "device ");
        fastdl_put_int_(text, (int32_t)device.device_type);
    }
    fastdl_put_(text, ":");
    fastdl_put_int_(text, device.device_id);
}

/* Appends "a float32 tensor of shape (2, 3) and strides (3, 1) on cpu:0, read-only". */
FASTDL_COLD_ void fastdl_put_tensor_(fastdl_text_ *text, const DLTensor *tensor, uint64_t flags)
{
    fastdl_put_(text, tensor->dtype.code == kDLInt ? "an " : "a ");
    fastdl_put_dtype_(text, fastdl_dtype(tensor->dtype));
    fastdl_put_(text, " tensor of shape ");
    fastdl_put_tuple_(text, tensor->shape, tensor->ndim);
    fastdl_put_(text, " and strides ");
    fastdl_put_tuple_(text, tensor->strides, tensor->ndim);
    fastdl_put_(text, " on ");
    fastdl_put_device_(text, tensor->device);
    if (flags & DLPACK_FLAG_BITMASK_READ_ONLY)
        fastdl_put_(text, ", read-only");
}

/* Sets an exception with fastdl's own message, and marks it as such: fastdl_borrow_as puts the name
 * of the argument before such a message, never before a producer's. */
FASTDL_COLD_ void fastdl_raise_(PyObject *exception, const char *format, ...)
{
    PyObject *type, *value, *traceback;
    va_list values;
    va_start(values, format);
    PyErr_FormatV(exception, format, values);
    va_end(values);
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (value != NULL && PyObject_SetAttrString(value, "_fastdl", Py_True) < 0)
        PyErr_Clear(); /* without the mark the message is left as it is */
    PyErr_Restore(type, value, traceback);
}

/* Sets the exception for what fastdl_check found wrong with `tensor`: BufferError. Reads no more
 * of it than the fault allows: `shape` only where ndim is believable. */
FASTDL_COLD_ void fastdl_raise_fault(fastdl_fault fault, const DLTensor *tensor)
{
    fastdl_text_ shape, strides;
    int readable = tensor->ndim >= 0 && tensor->ndim <= FASTDL_MAX_NDIM &&
                   (tensor->ndim == 0 || tensor->shape != NULL);
    shape.length = strides.length = 0;
    if (readable) {
        fastdl_put_tuple_(&shape, tensor->shape, tensor->ndim);
    } else {
        fastdl_put_(&shape, "of ");
        fastdl_put_int_(&shape, tensor->ndim);
        fastdl_put_(&shape, " dimensions");
    }
    if (readable && tensor->strides != NULL)
        fastdl_put_tuple_(&strides, tensor->strides, tensor->ndim);
    else
        fastdl_put_(&strides, "NULL");
    fastdl_raise_(
        PyExc_BufferError,
        "the tensor has %s: got shape %s, strides %s, byte_offset %llu, dtype (code %d, "
        "bits %d, lanes %d), device (%d, %d). Its producer is at fault; a copy made there "
        "may help",
        fastdl_fault_text(fault), shape.text, strides.text, (unsigned long long)tensor->byte_offset,
        (int)tensor->dtype.code, (int)tensor->dtype.bits, (int)tensor->dtype.lanes,
        (int)tensor->device.device_type, (int)tensor->device.device_id);
}

/* An attribute, a new reference; NULL with an exception. The name is interned because CPython's
 * cache of attributes keeps each string that it was asked for. */
FASTDL_COLD_ PyObject *fastdl_attribute_(PyObject *obj, const char *name)
{
    PyObject *interned = PyUnicode_InternFromString(name);
    PyObject *value = interned == NULL ? NULL : PyObject_GetAttr(obj, interned);
    Py_XDECREF(interned);
    return value;
}

/* The same; NULL without an exception if there is no such attribute. */
FASTDL_COLD_ PyObject *fastdl_optional_attribute_(PyObject *obj, const char *name)
{
    PyObject *value = fastdl_attribute_(obj, name);
    if (value == NULL && PyErr_ExceptionMatches(PyExc_AttributeError))
        PyErr_Clear();
    return value;
}

/* The name of a type with its module, as Python shows it in a traceback ("torch.Tensor", "int"): a
 * new reference, or NULL with an exception. */
FASTDL_COLD_ PyObject *fastdl_type_name_(PyTypeObject *type)
{
    PyObject *full, *module, *name = fastdl_attribute_((PyObject *)type, "__qualname__");
    if (name == NULL)
        return NULL;
    if (!PyUnicode_Check(name)) {
        Py_DECREF(name);
        PyErr_SetString(PyExc_TypeError, "expected a type whose __qualname__ is a str");
        return NULL;
    }
    module = fastdl_attribute_((PyObject *)type, "__module__");
    if (module == NULL)
        PyErr_Clear(); /* the name alone will do */
    if (module == NULL || !PyUnicode_Check(module) ||
        PyUnicode_CompareWithASCIIString(module, "builtins") == 0) {
        Py_XDECREF(module);
        return name;
    }
    full = PyUnicode_FromFormat("%U.%U", module, name);
    Py_DECREF(module);
    Py_DECREF(name);
    return full;
}

/* Sets an exception whose format has a %U, for the name of a type, and then a %R, for what an
 * object of that type answered. */
FASTDL_COLD_ void fastdl_raise_answer_(PyObject *exception, const char *format, PyTypeObject *type,
                                       PyObject *answer)
{
    PyObject *name = fastdl_type_name_(type);
    if (name != NULL)
        fastdl_raise_(exception, format, name, answer);
    Py_XDECREF(name);
}

/* The same for a format with only the %U. */
FASTDL_COLD_ void fastdl_raise_about_(PyObject *exception, const char *format, PyTypeObject *type)
{
    fastdl_raise_answer_(exception, format, type, NULL);
}

/* Sets the TypeError for an object that is not a tensor. An object with a buffer is one call away
 * from being one: this interface takes none itself, since the format strings of buffers describe
 * what DLPack cannot, and 3.10's limited API has no access to them. */
FASTDL_COLD_ void fastdl_raise_no_tensor(PyObject *obj)
{
    PyObject *buffer = PyMemoryView_FromObject(obj);
    PyErr_Clear();
    fastdl_raise_about_(
        PyExc_TypeError,
        buffer == NULL ? "expected a tensor, got '%U', which has neither a DLPack exchange "
                         "table nor __dlpack__"
                       : "expected a tensor, got '%U', which has a buffer but neither a DLPack "
                         "exchange table nor __dlpack__: pass fastdl.asarray(...) of it, "
                         "which shares its memory",
        Py_TYPE(obj));
    Py_XDECREF(buffer);
}

/* Puts the name of an argument into the pending exception: before the message if it is fastdl's
 * own, otherwise as a note, from Python 3.11 on. An interrupt is left alone. */
FASTDL_COLD_ void fastdl_name_argument_(const char *name)
{
    PyObject *type, *value, *traceback, *mark, *text = NULL, *result = NULL;
    if (!PyErr_ExceptionMatches(PyExc_Exception))
        return;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    mark = PyObject_GetAttrString(value, "_fastdl");
    PyErr_Clear();
    if (mark != NULL) {
        PyObject *words = PyObject_Str(value);
        text = words == NULL ? NULL : PyUnicode_FromFormat("%s: %U", name, words);
        result = text == NULL ? NULL : Py_BuildValue("(O)", text);
        if (result != NULL && PyObject_SetAttrString(value, "args", result) == 0)
            PyObject_SetAttrString(value, "_fastdl", NULL); /* named once */
        Py_XDECREF(words);
    } else {
        PyObject *add = PyObject_GetAttrString(value, "add_note");
        text = add == NULL ? NULL : PyUnicode_FromFormat("raised by argument %s", name);
        result = text == NULL ? NULL : PyObject_CallFunctionObjArgs(add, text, NULL);
        Py_XDECREF(add);
    }
    PyErr_Clear();
    Py_XDECREF(mark);
    Py_XDECREF(text);
    Py_XDECREF(result);
    PyErr_Restore(type, value, traceback);
}

/* ---- special attributes, found as Python finds them: on the type ---- */

/* What makes `attribute` a descriptor, or NULL. */
FASTDL_COLD_ descrgetfunc fastdl_getter_(PyObject *attribute)
{
    union {
        void *slot;
        descrgetfunc get;
    } found; /* ISO C has no conversion between the two */
    found.slot = PyType_GetSlot(Py_TYPE(attribute), Py_tp_descr_get);
    return found.get;
}

/* What `type` itself says of a class under `name` ("__mro__", "__dict__", "__module__" or
 * "__qualname__"), a new reference; NULL with an exception. A metaclass may say something else and
 * is not asked, so nothing of what is found through it can die meanwhile. */
FASTDL_COLD_ PyObject *fastdl_of_type_(PyTypeObject *type, const char *name)
{
    PyObject *attributes = fastdl_attribute_((PyObject *)&PyType_Type, "__dict__");
    PyObject *own = attributes == NULL ? NULL : PyMapping_GetItemString(attributes, name);
    descrgetfunc get = own == NULL ? NULL : fastdl_getter_(own);
    PyObject *value = get == NULL ? NULL : get(own, (PyObject *)type, (PyObject *)Py_TYPE(type));
    Py_XDECREF(own);
    Py_XDECREF(attributes);
    return value;
}

/* The MRO of a type, a new reference to a tuple of types; NULL with an exception. */
FASTDL_COLD_ PyObject *fastdl_mro_(PyTypeObject *type)
{
    PyObject *mro = fastdl_of_type_(type, "__mro__");
    if (mro != NULL && !PyTuple_Check(mro)) { /* a class that is being made */
        PyErr_SetString(PyExc_TypeError, "expected a type that has an MRO");
        Py_CLEAR(mro);
    }
    return mro;
}

/* An item of the dictionary of a class, a new reference; NULL without an exception if absent. */
FASTDL_COLD_ PyObject *fastdl_class_item_(PyObject *attributes, const char *name)
{
    PyObject *value = PyMapping_GetItemString(attributes, name);
    if (value == NULL && PyErr_ExceptionMatches(PyExc_KeyError))
        PyErr_Clear();
    return value;
}

#if defined(Py_LIMITED_API)

/* What the classes of `type` have under `name`, a new reference; NULL without an exception if
 * nothing. The first class that has it is the provider. */
FASTDL_COLD_ PyObject *fastdl_type_lookup_(PyTypeObject *type, const char *name)
{
    PyObject *found = NULL, *mro = fastdl_mro_(type);
    Py_ssize_t count = mro == NULL ? 0 : PyTuple_Size(mro);
    for (Py_ssize_t i = 0; i < count && found == NULL && !PyErr_Occurred(); i++) {
        PyObject *attributes = fastdl_of_type_((PyTypeObject *)PyTuple_GetItem(mro, i), "__dict__");
        if (attributes == NULL)
            break;
        found = fastdl_class_item_(attributes, name);
        Py_DECREF(attributes);
    }
    Py_XDECREF(mro);
    return found;
}

/* The same for an interned name. */
static inline PyObject *fastdl_find_special_(PyTypeObject *type, PyObject *name)
{
    Py_ssize_t length;
    const char *text = PyUnicode_AsUTF8AndSize(name, &length);
    return text == NULL ? NULL : fastdl_type_lookup_(type, text);
}

#else

static inline PyObject *fastdl_find_special_(PyTypeObject *type, PyObject *name)
{
#if PY_VERSION_HEX >= 0x030D0000
    return _PyType_LookupRef(type, name);
#else
    PyObject *found = _PyType_Lookup(type, name);
    Py_XINCREF(found);
    return found;
#endif
}

FASTDL_COLD_ PyObject *fastdl_type_lookup_(PyTypeObject *type, const char *name)
{
    PyObject *interned = PyUnicode_InternFromString(name);
    PyObject *found = interned == NULL ? NULL : fastdl_find_special_(type, interned);
    Py_XDECREF(interned);
    return found;
}

#endif

/* A special method of an object. */
typedef struct {
    PyObject *callable; /* a new reference, or NULL */
    PyObject *self;     /* its first argument, borrowed; NULL if it is bound */
} fastdl_method_;

/* The rest of fastdl_find_method_, where `callable` is nothing, None, or any descriptor. */
FASTDL_COLD_ int fastdl_bind_method_(PyObject *obj, PyObject *name, fastdl_method_ *method)
{
    if (method->callable != NULL && method->callable != Py_None) {
        descrgetfunc get = fastdl_getter_(method->callable);
        if (get != NULL) {
            PyObject *bound = get(method->callable, obj, (PyObject *)Py_TYPE(obj));
            Py_DECREF(method->callable);
            method->callable = bound;
        }
    } else if (method->callable == NULL && !PyErr_Occurred() && !PyType_Check(obj)) {
        method->callable = PyObject_GetAttr(obj, name);
        if (method->callable == NULL && PyErr_ExceptionMatches(PyExc_AttributeError))
            PyErr_Clear();
    }
    if (method->callable == Py_None)
        Py_CLEAR(method->callable);
    return method->callable != NULL ? 1 : PyErr_Occurred() ? -1 : 0;
}

/* Finds the special method with an interned name as Python does, on the type; then on the instance,
 * so that proxies work. 1; 0 if there is none, or it is None (opted out); -1 with an exception.
 * What it finds stays callable whatever becomes of the type. */
FASTDL_COLD_ int fastdl_find_method_(PyObject *obj, PyObject *name, fastdl_method_ *method)
{
    method->self = NULL;
    method->callable = fastdl_find_special_(Py_TYPE(obj), name);
    if (FASTDL_UNLIKELY_(
            method->callable == NULL ||
            !PyType_HasFeature(Py_TYPE(method->callable), Py_TPFLAGS_METHOD_DESCRIPTOR)))
        return fastdl_bind_method_(obj, name, method);
    method->self = obj;
    return 1;
}

/* The same, bound: a new reference; NULL without an exception if there is none. */
FASTDL_COLD_ PyObject *fastdl_special_(PyObject *obj, PyObject *name)
{
    fastdl_method_ method;
    PyObject *bound;
    if (fastdl_find_method_(obj, name, &method) <= 0)
        return NULL;
    if (method.self == NULL)
        return method.callable;
    bound = fastdl_getter_(method.callable)(method.callable, obj, (PyObject *)Py_TYPE(obj));
    Py_DECREF(method.callable);
    return bound;
}

#define FASTDL_MOST_KEYWORDS_ 3

/* Calls a special method with `count` keyword arguments, named by the tuple `names`. */
FASTDL_COLD_ PyObject *fastdl_call_(const fastdl_method_ *method, PyObject *names,
                                    PyObject *const *values, Py_ssize_t count)
{
#if !defined(Py_LIMITED_API) || Py_LIMITED_API + 0 >= 0x030C0000
    PyObject *arguments[2 + FASTDL_MOST_KEYWORDS_]; /* the first is for the callee to write to */
    size_t positional = 0;
    if (method->self != NULL)
        arguments[1 + positional++] = method->self;
    for (Py_ssize_t i = 0; i < count; i++)
        arguments[1 + positional + (size_t)i] = values[i];
    return PyObject_Vectorcall(method->callable, arguments + 1,
                               positional | PY_VECTORCALL_ARGUMENTS_OFFSET,
                               count == 0 ? NULL : names);
#else
    PyObject *result = NULL, *keywords = PyDict_New();
    PyObject *positional = method->self == NULL ? PyTuple_New(0) : PyTuple_Pack(1, method->self);
    int failed = keywords == NULL || positional == NULL;
    for (Py_ssize_t i = 0; i < count && !failed; i++)
        failed = PyDict_SetItem(keywords, PyTuple_GetItem(names, i), values[i]) < 0;
    if (!failed)
        result = PyObject_Call(method->callable, positional, keywords);
    Py_XDECREF(keywords);
    Py_XDECREF(positional);
    return result;
#endif
}

/* ---- exchange tables that types publish ---- */

/* The first table of the chain that begins with `table` which this interface understands and which
 * is complete, or NULL. */
FASTDL_COLD_ const DLPackExchangeAPI *fastdl_usable_table(const DLPackExchangeAPI *table)
{
    const DLPackExchangeAPIHeader *header = (const DLPackExchangeAPIHeader *)table;
    for (int links = 0; links < 16; links++) { /* a chain may be a circle */
        if (header == NULL || (uintptr_t)header % sizeof(void *) != 0)
            return NULL;
        if (header->version.major == FASTDL_DLPACK_MAJOR) {
            table = (const DLPackExchangeAPI *)header;
            if (table->managed_tensor_allocator == NULL ||
                table->managed_tensor_from_py_object_no_sync == NULL ||
                table->managed_tensor_to_py_object_no_sync == NULL ||
                table->current_work_stream == NULL)
                return NULL;
            return table;
        }
        header = header->prev_api;
    }
    return NULL;
}

/* What `value`, found in the dictionary of a class, says when it is asked of `type`, a new
 * reference: itself, or what it gives as a descriptor. NULL without an exception if that is an
 * AttributeError. */
FASTDL_COLD_ PyObject *fastdl_class_attribute_(PyObject *value, PyTypeObject *type)
{
    descrgetfunc get = fastdl_getter_(value);
    PyObject *result;
    if (get == NULL) {
        Py_INCREF(value);
        return value;
    }
    result = get(value, NULL, (PyObject *)type);
    if (result == NULL && PyErr_ExceptionMatches(PyExc_AttributeError))
        PyErr_Clear();
    return result;
}

/* Looks in one class of `type`. 1: the search is over, *table is what it found. 0: look on. -1: an
 * exception. */
FASTDL_COLD_ int fastdl_published_here_(PyTypeObject *type, PyObject *attributes,
                                        const DLPackExchangeAPI **table)
{
    static const char *const names[] = {"__dlpack_c_exchange_api__", "__c_dlpack_exchange_api__"};
    PyObject *exporter;
    for (int i = 0; i < 2; i++) {
        PyObject *capsule, *value = fastdl_class_item_(attributes, names[i]);
        if (value == NULL) {
            if (PyErr_Occurred())
                return -1;
            continue;
        }
        if (value == Py_None) {
            Py_DECREF(value);
            return 1;
        }
        capsule = fastdl_class_attribute_(value, type);
        Py_DECREF(value);
        if (capsule == NULL && PyErr_Occurred())
            return -1;
        if (capsule != NULL && PyCapsule_IsValid(capsule, "dlpack_exchange_api"))
            *table = fastdl_usable_table(
                (const DLPackExchangeAPI *)PyCapsule_GetPointer(capsule, "dlpack_exchange_api"));
        Py_XDECREF(capsule);
        if (*table != NULL)
            return 1;
    }
    exporter = fastdl_class_item_(attributes, "__dlpack__");
    Py_XDECREF(exporter);
    return PyErr_Occurred() ? -1 : exporter != NULL;
}

/* Finds the table that `type` publishes: *table, and *provider, the class of its MRO that has it, a
 * new reference; NULL there if none. It counts only if no class before its provider in the MRO
 * defines `__dlpack__`: a subclass that overrides the export means it. Only capsules count; the
 * integer of older libraries cannot be checked before it is followed. */
FASTDL_COLD_ int fastdl_published_table_(PyTypeObject *type, const DLPackExchangeAPI **table,
                                         PyObject **provider)
{
    PyObject *mro = fastdl_mro_(type);
    Py_ssize_t count = mro == NULL ? 0 : PyTuple_Size(mro);
    int found = 0;
    *table = NULL;
    *provider = NULL;
    for (Py_ssize_t i = 0; i < count && found == 0; i++) {
        PyObject *base = PyTuple_GetItem(mro, i);
        PyObject *attributes = fastdl_of_type_((PyTypeObject *)base, "__dict__");
        found = attributes == NULL ? -1 : fastdl_published_here_(type, attributes, table);
        Py_XDECREF(attributes);
        if (*table != NULL) {
            Py_INCREF(base);
            *provider = base;
        }
    }
    Py_XDECREF(mro);
    return found < 0 || mro == NULL ? -1 : 0;
}

/* What must be known of particular libraries. A row applies to the class of that name in that
 * package, at any depth, and to its subclasses; found by name, so that nothing is imported. */
typedef struct {
    const char *package, *name;
    uint32_t facts;
} fastdl_peer_fact;

FASTDL_TABLE_("fastdl_peers_")
fastdl_peer_fact fastdl_peer_facts_[] = {
    {"numpy", "ndarray", 0}, /* the installed package has a table for it */
    {"torch", "FakeTensor", FASTDL_TYPE_TRACED},
    {"jax", "Tracer", FASTDL_TYPE_TRACED},
    {"torch", "Tensor", FASTDL_TYPE_ASK_BITS | FASTDL_TYPE_TRUSTED},
    {"jaxlib", "ArrayImpl", FASTDL_TYPE_IMMUTABLE | FASTDL_TYPE_NONE_WAITS | FASTDL_TYPE_BUFFER},
    {"jax", "Array", FASTDL_TYPE_IMMUTABLE | FASTDL_TYPE_NONE_WAITS},
    {"tensorflow", "EagerTensor", FASTDL_TYPE_IMMUTABLE | FASTDL_TYPE_BUFFER},
    {"mlx", "array", FASTDL_TYPE_IMMUTABLE | FASTDL_TYPE_BUFFER},
    {"pyarrow", "Array", FASTDL_TYPE_IMMUTABLE | FASTDL_TYPE_ASK_LATER},
    {"pyarrow", "Tensor", FASTDL_TYPE_IMMUTABLE | FASTDL_TYPE_ASK_LATER},
    {"onnxruntime", "OrtValue", FASTDL_TYPE_KEEP},
    {"cuda.core", "Buffer", FASTDL_TYPE_UNORDERED},
    {"nanobind", "nb_ndarray", FASTDL_TYPE_UNORDERED},
    {"tvm_ffi", "Tensor", FASTDL_TYPE_ASK_LATER | FASTDL_TYPE_UNORDERED},
    {NULL, NULL, 0},
};

/* All rows, then one with a NULL name. */
static inline const fastdl_peer_fact *fastdl_peers(void)
{
    return fastdl_peer_facts_;
}

/* The row of types that none applies to. */
static inline const fastdl_peer_fact *fastdl_no_peer_(void)
{
    const fastdl_peer_fact *row = fastdl_peers();
    while (row->name != NULL)
        row++;
    return row;
}

/* Whether the module of a class, which need not be a string, is `package` or in it. */
FASTDL_COLD_ int fastdl_is_in_package_(PyObject *module, const char *package)
{
    Py_ssize_t length;
    const char *text = PyUnicode_Check(module) ? PyUnicode_AsUTF8AndSize(module, &length) : NULL;
    size_t prefix = strlen(package);
    PyErr_Clear(); /* a name with lone surrogates */
    return text != NULL && strncmp(text, package, prefix) == 0 &&
           (text[prefix] == '.' || text[prefix] == '\0');
}

/* The row of one class, bases aside; the last row if it has none. NULL with an exception. */
FASTDL_COLD_ const fastdl_peer_fact *fastdl_peer_of_(PyTypeObject *type)
{
    const fastdl_peer_fact *row = fastdl_peers();
    PyObject *module, *name = fastdl_of_type_(type, "__qualname__");
    if (name == NULL)
        return NULL;
    module = fastdl_of_type_(type, "__module__");
    if (module == NULL)
        PyErr_Clear(); /* a class may be without one */
    while (row->name != NULL &&
           !(module != NULL && PyUnicode_CompareWithASCIIString(name, row->name) == 0 &&
             fastdl_is_in_package_(module, row->package)))
        row++;
    Py_XDECREF(module);
    Py_DECREF(name);
    return row;
}

/* The row of `type` or of its nearest base that has one; the last row if none has. NULL with an
 * exception. */
FASTDL_COLD_ const fastdl_peer_fact *fastdl_find_peer_(PyTypeObject *type)
{
    const fastdl_peer_fact *row = NULL;
    PyObject *mro = fastdl_mro_(type);
    Py_ssize_t count = mro == NULL ? 0 : PyTuple_Size(mro);
    for (Py_ssize_t i = 0; i < count; i++) {
        row = fastdl_peer_of_((PyTypeObject *)PyTuple_GetItem(mro, i));
        if (row == NULL || row->name != NULL)
            break;
    }
    Py_XDECREF(mro);
    return row;
}

/* ---- values that are not in memory as they read ---- */

/* Calls a method that answers yes or no: 1, 0, or -1 with an exception. */
FASTDL_COLD_ int fastdl_ask_(PyObject *obj, const char *method)
{
    int answer;
    PyObject *bound = fastdl_attribute_(obj, method);
    PyObject *result = bound == NULL ? NULL : PyObject_CallObject(bound, NULL);
    Py_XDECREF(bound);
    if (result == NULL)
        return -1;
    answer = PyObject_IsTrue(result);
    Py_DECREF(result);
    return answer;
}

/* The long way of fastdl_check_bits, for tensors that one look cannot clear. */
FASTDL_COLD_ int fastdl_ask_bits_(PyObject *obj, const DLTensor *tensor)
{
    const char *bit = "conj";
    int answer = 0;
    if (tensor->dtype.code == kDLComplex) {
        answer = fastdl_ask_(obj, "is_conj");
    } else {
        for (int32_t i = tensor->ndim; i-- > 0;)
            if (tensor->shape[i] > 1 && tensor->strides[i] & 1)
                return 0;
    }
    if (answer == 0) {
        bit = "neg";
        answer = fastdl_ask_(obj, "is_neg");
    }
    if (answer > 0) {
        fastdl_text_ text;
        text.length = 0;
        fastdl_put_(&text, "expected a tensor whose memory holds its values, got a lazy view of "
                           "type '%U' with its ");
        fastdl_put_(&text, bit);
        fastdl_put_(&text, " bit set: call resolve_");
        fastdl_put_(&text, bit);
        fastdl_put_(&text, "() first");
        fastdl_raise_about_(PyExc_BufferError, text.text, Py_TYPE(obj));
    }
    return answer == 0 ? 0 : -1;
}

/* Refuses a torch tensor that is a lazy conjugate or negative, whose memory does not hold its
 * values: 0, or -1 with BufferError or what the object raised. `tensor` describes its memory.
 * Complex tensors are asked. A real tensor with the negative bit is the imaginary part of a
 * conjugate, so it has even strides in every dimension longer than 1: one odd stride settles it
 * without a call, which in most tensors is the last. */
FASTDL_HOT_ int fastdl_check_bits(PyObject *obj, const DLTensor *tensor)
{
    int32_t last = tensor->ndim - 1;
    if (tensor->dtype.code == kDLFloat) {
        if (FASTDL_LIKELY_(last >= 0 && tensor->strides[last] & 1 && tensor->shape[last] > 1))
            return 0;
    } else if (tensor->dtype.code != kDLComplex) {
        return 0;
    }
    return fastdl_ask_bits_(obj, tensor);
}

/* ---- owning a tensor by `__dlpack__` ---- */

/* A managed tensor around what has no deleter, an older form, or NULL strides. */
typedef struct {
    DLManagedTensorVersioned managed;
    DLManagedTensorVersioned *versioned; /* one of these two, or neither */
    DLManagedTensor *legacy;
    PyObject *keep; /* the producer, where there is no deleter; or NULL */
    int is_main;    /* whether that is an object of the main interpreter */
    int64_t strides[1];
} fastdl_wrapper_;

/* A thread that asks while another one begins to finalise can pass and then be stopped inside
 * PyGILState_Ensure, a gap that Python closes in 3.15. The limited API before 3.13 can ask only
 * whether finalisation is over. */
FASTDL_COLD_ int fastdl_interpreter_is_gone_(void)
{
#if PY_VERSION_HEX >= 0x030D0000 && (!defined(Py_LIMITED_API) || Py_LIMITED_API + 0 >= 0x030D0000)
    if (Py_IsFinalizing())
        return 1;
#elif !defined(Py_LIMITED_API)
    if (_Py_IsFinalizing())
        return 1;
#endif
    return !Py_IsInitialized();
}

/* A deleter, so it is called on any thread, with or without a thread state. Python attaches a
 * thread to the main interpreter alone, and before 3.12 waits for ever where another one is
 * attached, so what is kept in another one is left alone: a leak beats a deadlock. */
FASTDL_COLD_ void fastdl_delete_wrapper_(DLManagedTensorVersioned *self)
{
    fastdl_wrapper_ *wrapper = (fastdl_wrapper_ *)self;
    if (wrapper->versioned != NULL && wrapper->versioned->deleter != NULL)
        wrapper->versioned->deleter(wrapper->versioned);
    if (wrapper->legacy != NULL && wrapper->legacy->deleter != NULL)
        wrapper->legacy->deleter(wrapper->legacy);
    if (wrapper->keep != NULL && wrapper->is_main && !fastdl_interpreter_is_gone_()) {
        PyGILState_STATE state = PyGILState_Ensure();
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        Py_DECREF(wrapper->keep);
        PyErr_Restore(type, value, traceback);
        PyGILState_Release(state);
    }
    free(wrapper);
}

/* A new wrapper, which does not own yet: see fastdl_adopt_. NULL with MemoryError. */
FASTDL_COLD_ fastdl_wrapper_ *fastdl_new_wrapper_(const DLTensor *tensor, uint64_t flags)
{
    size_t dims = (size_t)tensor->ndim; /* 0 to 64: checked */
    fastdl_wrapper_ *wrapper =
        (fastdl_wrapper_ *)malloc(sizeof(fastdl_wrapper_) + dims * sizeof(int64_t));
    if (wrapper == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    memset(wrapper, 0, sizeof(fastdl_wrapper_));
    wrapper->managed.version.major = FASTDL_DLPACK_MAJOR;
    wrapper->managed.version.minor = FASTDL_DLPACK_MINOR;
    wrapper->managed.manager_ctx = wrapper;
    wrapper->managed.deleter = fastdl_delete_wrapper_;
    wrapper->managed.flags = flags;
    wrapper->managed.dl_tensor = *tensor;
    if (tensor->strides == NULL) {
        fastdl_compact_strides(tensor->ndim, tensor->shape, wrapper->strides);
        wrapper->managed.dl_tensor.strides = wrapper->strides;
    }
    return wrapper;
}

/* Runs a deleter, if there is one, with the pending exception set aside. Needs a thread state, so
 * it releases by itself what a wrapper keeps. */
FASTDL_COLD_ void fastdl_discard_(DLManagedTensorVersioned *versioned, DLManagedTensor *legacy)
{
    PyObject *type, *value, *traceback, *keep = NULL;
    PyErr_Fetch(&type, &value, &traceback);
    if (versioned != NULL && versioned->deleter == fastdl_delete_wrapper_) {
        keep = ((fastdl_wrapper_ *)versioned)->keep;
        ((fastdl_wrapper_ *)versioned)->keep = NULL;
    }
    if (versioned != NULL && versioned->deleter != NULL)
        versioned->deleter(versioned);
    if (legacy != NULL && legacy->deleter != NULL)
        legacy->deleter(legacy);
    Py_XDECREF(keep);
    if (PyErr_Occurred())
        PyErr_WriteUnraisable(NULL); /* nothing can catch it */
    PyErr_Restore(type, value, traceback);
}

/* Whether a refused tensor is the other struct under the wrong name, so that what stands in the
 * place of its deleter is none: there, a DLManagedTensor has ndim and dtype, and no function has an
 * address that ends in a number up to 64. */
FASTDL_COLD_ int fastdl_is_really_legacy(const DLManagedTensorVersioned *managed)
{
    return (uint32_t)(uintptr_t)managed->deleter <= FASTDL_MAX_NDIM && managed->deleter != NULL;
}

/* Likewise. A DLManagedTensorVersioned has its version where a DLManagedTensor has `data`, its
 * flags where that has `shape`, and its deleter where that has ndim and dtype. `data` alone does
 * not tell: without elements it may be any number, as an empty vector of Rust has its alignment
 * there. But then there are dimensions, so `shape` is an address, and no flags are; and a tensor
 * that has none has a dtype, while nothing but a NULL deleter ends in 32 zeros. */
FASTDL_COLD_ int fastdl_is_really_versioned(const DLManagedTensor *managed)
{
    const DLTensor *tensor = &managed->dl_tensor;
    uint64_t data = fastdl_address_(tensor);
    uint32_t major = (uint32_t)data, minor = (uint32_t)(data >> 32);
    if (major < 1 || major > 9 || minor > 255 || (uintptr_t)tensor->shape >= 4096)
        return 0;
    return tensor->ndim != 0 || fastdl_dtype(tensor->dtype) == 0;
}

/* Refuses a tensor of another major version, of which only the deleter may be touched: 0, or -1
 * with BufferError. */
FASTDL_COLD_ int fastdl_check_version(const DLManagedTensorVersioned *managed)
{
    if (managed->version.major == FASTDL_DLPACK_MAJOR)
        return 0;
    fastdl_raise_(PyExc_BufferError,
                  "expected DLPack %d.x, got a tensor of version %u.%u: ask its producer for "
                  "max_version=(%d, %d)",
                  FASTDL_DLPACK_MAJOR, (unsigned)managed->version.major,
                  (unsigned)managed->version.minor, FASTDL_DLPACK_MAJOR, FASTDL_DLPACK_MINOR);
    return -1;
}

/* Makes a managed tensor that was just received one that keeps the promises of fastdl_own. Takes
 * one of `versioned` and `legacy`, also on failure. `facts` are those of the type of `obj`, which
 * may be NULL for a tensor that was allocated. */
FASTDL_COLD_ int fastdl_adopt_(PyObject *obj, DLManagedTensorVersioned *versioned,
                               DLManagedTensor *legacy, uint32_t facts,
                               DLManagedTensorVersioned **out)
{
    const DLTensor *tensor = versioned != NULL ? &versioned->dl_tensor : &legacy->dl_tensor;
    int endless = versioned != NULL ? versioned->deleter == NULL : legacy->deleter == NULL;
    uint64_t flags;
    fastdl_wrapper_ *wrapper;
    fastdl_layout layout;
    fastdl_fault fault;
    if (versioned != NULL && fastdl_check_version(versioned) < 0)
        goto failed;
    flags = versioned != NULL                 ? versioned->flags
            : (facts & FASTDL_TYPE_IMMUTABLE) ? DLPACK_FLAG_BITMASK_READ_ONLY
                                              : 0;
    fault = fastdl_check(tensor, flags, &layout);
    if (fault != FASTDL_OK) {
        fastdl_raise_fault(fault, tensor);
        goto failed;
    }
    if (versioned != NULL && !endless && !(facts & FASTDL_TYPE_KEEP) &&
        (tensor->strides != NULL || tensor->ndim == 0)) {
        if (facts & FASTDL_TYPE_ASK_BITS && fastdl_check_bits(obj, tensor) < 0)
            goto failed;
        *out = versioned;
        return 0;
    }
    wrapper = fastdl_new_wrapper_(tensor, flags);
    if (wrapper == NULL)
        goto failed;
    if (facts & FASTDL_TYPE_ASK_BITS && fastdl_check_bits(obj, &wrapper->managed.dl_tensor) < 0) {
        free(wrapper);
        goto failed;
    }
    wrapper->versioned = versioned;
    wrapper->legacy = legacy;
    if (endless || facts & FASTDL_TYPE_KEEP) {
        Py_XINCREF(obj);
        wrapper->keep = obj;
        wrapper->is_main = PyInterpreterState_GetID(PyInterpreterState_Get()) == 0;
    }
    *out = &wrapper->managed;
    return 0;

failed:
    if (versioned != NULL ? !fastdl_is_really_legacy(versioned)
                          : !fastdl_is_really_versioned(legacy))
        fastdl_discard_(versioned, legacy);
    return -1;
}

/* How work on memory of a device is ordered: a fastdl_stream_kind. Pinned memory is host memory,
 * which a consumer need not order. */
static inline int fastdl_ordering_(int32_t device_type)
{
    const fastdl_device_fact *fact = fastdl_find_device(device_type);
    return fact->host ? (int)FASTDL_STREAM_NONE : (int)fact->stream;
}

/* Whether a consumer of memory of that device passes a stream. */
static inline int fastdl_is_ordered_(int32_t device_type)
{
    int ordering = fastdl_ordering_(device_type);
    return ordering == FASTDL_STREAM_CUDA || ordering == FASTDL_STREAM_ROCM;
}

/* What each exchange over `__dlpack__` needs: interned names, the tuple of the one name
 * `max_version`, and its value. */
typedef struct {
    PyObject *dlpack, *dlpack_device, *dlpack_info, *max_version, *version;
    const void *interpreter; /* to which they belong: a PyInterpreterState */
} fastdl_names_;

/* Those that the module keeps for its home, or in another interpreter new ones in *made, to be
 * dropped after the exchange. NULL with an exception. */
static inline const fastdl_names_ *fastdl_get_names_(fastdl_names_ *made);

FASTDL_COLD_ void fastdl_drop_names_(fastdl_names_ *names)
{
    Py_XDECREF(names->dlpack);
    Py_XDECREF(names->dlpack_device);
    Py_XDECREF(names->dlpack_info);
    Py_XDECREF(names->max_version);
    Py_XDECREF(names->version);
}

FASTDL_COLD_ int fastdl_make_names_(fastdl_names_ *names)
{
    PyObject *max_version = PyUnicode_InternFromString("max_version");
    names->interpreter = PyInterpreterState_Get();
    names->dlpack = PyUnicode_InternFromString("__dlpack__");
    names->dlpack_device = PyUnicode_InternFromString("__dlpack_device__");
    names->dlpack_info = PyUnicode_InternFromString("__dlpack_info__");
    names->max_version = max_version == NULL ? NULL : PyTuple_Pack(1, max_version);
    names->version = Py_BuildValue("(ii)", FASTDL_DLPACK_MAJOR, FASTDL_DLPACK_MINOR);
    Py_XDECREF(max_version);
    if (names->dlpack != NULL && names->dlpack_device != NULL && names->dlpack_info != NULL &&
        names->max_version != NULL && names->version != NULL)
        return 0;
    fastdl_drop_names_(names);
    return -1;
}

/* Whether what came on a device is ordered in the way that was agreed on for `announced`. The
 * device in the capsule is the truth: pinned memory is announced as such and delivered as plain
 * host memory by torch; and a CPU can read managed memory, so that its producer need not copy it.
 */
static inline int fastdl_is_as_announced_(const int32_t *announced, DLDevice delivered)
{
    int ordering = fastdl_ordering_(announced[0]);
    if (announced[0] == kDLCPU && delivered.device_type == kDLCUDAManaged)
        return 1;
    if (fastdl_ordering_((int32_t)delivered.device_type) != ordering)
        return 0;
    return (ordering != FASTDL_STREAM_CUDA && ordering != FASTDL_STREAM_ROCM) ||
           delivered.device_id == announced[1] || announced[0] == kDLCUDAManaged;
}

/* The long way of fastdl_read_device_: the type may be a member of an enum, the id None. */
FASTDL_COLD_ int fastdl_read_any_device_(PyObject *answer, int32_t *device)
{
    if (PySequence_Size(answer) != 2)
        return -1;
    for (int i = 0; i < 2; i++) {
        PyObject *number, *item = PySequence_GetItem(answer, i);
        long value = -1;
        if (item != NULL && i == 0 && !PyIndex_Check(item)) {
            PyObject *member = fastdl_attribute_(item, "value");
            Py_DECREF(item);
            item = member;
        }
        if (item == Py_None && i == 1) { /* some say it where there is only one */
            Py_DECREF(item);
            item = PyLong_FromLong(0);
        }
        number = item == NULL || PyBool_Check(item) ? NULL : PyNumber_Index(item);
        Py_XDECREF(item);
        if (number != NULL)
            value = PyLong_AsLong(number);
        Py_XDECREF(number);
        if (number == NULL || PyErr_Occurred() || value < INT32_MIN || value > INT32_MAX)
            return -1;
        device[i] = (int32_t)value;
    }
    return 0;
}

/* Reads (device type, device id). -1, with or without an exception, if it is anything else. */
static inline int fastdl_read_device_(PyObject *answer, int32_t *device)
{
#ifndef Py_LIMITED_API
    if (FASTDL_LIKELY_(PyTuple_CheckExact(answer) && PyTuple_GET_SIZE(answer) == 2 &&
                       PyLong_CheckExact(PyTuple_GET_ITEM(answer, 0)) &&
                       PyLong_CheckExact(PyTuple_GET_ITEM(answer, 1)))) {
        int overflow[2];
        long type = PyLong_AsLongAndOverflow(PyTuple_GET_ITEM(answer, 0), &overflow[0]);
        long id = PyLong_AsLongAndOverflow(PyTuple_GET_ITEM(answer, 1), &overflow[1]);
        if (overflow[0] || overflow[1] || type < INT32_MIN || type > INT32_MAX || id < INT32_MIN ||
            id > INT32_MAX)
            return -1;
        device[0] = (int32_t)type;
        device[1] = (int32_t)id;
        return 0;
    }
#endif
    return fastdl_read_any_device_(answer, device);
}

/* What `__dlpack_device__` of an object says. */
static inline int fastdl_ask_device_(PyObject *obj, const fastdl_names_ *names, int32_t *device)
{
    fastdl_method_ method;
    PyObject *answer;
    int result = fastdl_find_method_(obj, names->dlpack_device, &method);
    if (FASTDL_UNLIKELY_(result <= 0)) {
        if (result == 0)
            fastdl_raise_about_(PyExc_TypeError,
                                "expected a DLPack producer, got '%U', which has __dlpack__ but "
                                "not __dlpack_device__",
                                Py_TYPE(obj));
        return -1;
    }
    answer = fastdl_call_(&method, NULL, NULL, 0);
    Py_DECREF(method.callable);
    if (answer == NULL)
        return -1;
    result = fastdl_read_device_(answer, device);
    if (FASTDL_UNLIKELY_(result < 0) &&
        (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_Exception))) {
        PyErr_Clear();
        fastdl_raise_answer_(PyExc_TypeError,
                             "expected (device type, device id) from __dlpack_device__ of '%U', "
                             "got %R",
                             Py_TYPE(obj), answer);
    }
    Py_DECREF(answer);
    return result;
}

/* What to pass as `version` by the draft of 2022, which numbers 1.3 as 130: the newest that both
 * know, 60 for the layout of "dltensor"; 0 if `obj` does not follow the draft. -1 with an
 * exception.
 */
FASTDL_COLD_ int32_t fastdl_ask_draft_(PyObject *obj, const fastdl_names_ *names)
{
    static const long newest = FASTDL_DLPACK_MAJOR * 100 + FASTDL_DLPACK_MINOR * 10;
    fastdl_method_ method;
    PyObject *answer;
    long theirs = -1;
    int overflow, found = fastdl_find_method_(obj, names->dlpack_info, &method);
    if (found <= 0)
        return found;
    answer = fastdl_call_(&method, NULL, NULL, 0);
    Py_DECREF(method.callable);
    if (answer == NULL)
        return -1;
    if (!PyLong_Check(answer) || PyBool_Check(answer)) {
        fastdl_raise_answer_(PyExc_TypeError,
                             "expected an int from __dlpack_info__ of '%U', got %R", Py_TYPE(obj),
                             answer);
    } else {
        theirs = PyLong_AsLongAndOverflow(answer, &overflow);
        theirs = overflow > 0 || theirs > newest ? newest : overflow < 0 ? -1 : theirs;
        if (theirs < 60) {
            fastdl_raise_answer_(PyExc_BufferError,
                                 "expected 60 or more from __dlpack_info__ of '%U', got %R: no "
                                 "version in common",
                                 Py_TYPE(obj), answer);
            theirs = -1;
        } else if (theirs < 100) {
            theirs = 60;
        }
    }
    Py_DECREF(answer);
    return (int32_t)theirs;
}

#ifdef Py_LIMITED_API

/* Nothing can be read, and what a type is found to have may have changed since. */
FASTDL_COLD_ int fastdl_read_signature_(PyObject *function, uint32_t *refused)
{
    (void)function;
    (void)refused;
    return 0;
}

#else

/* Removes the keywords that a code object has from *refused. */
FASTDL_COLD_ int fastdl_read_code_(PyObject *object, uint32_t *refused)
{
    const PyCodeObject *code = (const PyCodeObject *)object;
    PyObject *names = fastdl_attribute_(object, "co_varnames");
    Py_ssize_t first = code->co_posonlyargcount > 0 ? code->co_posonlyargcount : 1; /* `self` */
    Py_ssize_t end = code->co_argcount + code->co_kwonlyargcount;
    if (names == NULL || !PyTuple_Check(names)) {
        Py_XDECREF(names);
        return -1;
    }
    if (code->co_flags & CO_VARKEYWORDS || end > PyTuple_GET_SIZE(names))
        *refused = 0;
    for (Py_ssize_t i = first; i < end && *refused != 0; i++)
        for (const fastdl_keyword_fact *row = fastdl_keywords(); row->name != NULL; row++)
            if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i), row->name) == 0)
                *refused &= ~row->keyword;
    Py_DECREF(names);
    return 0;
}

/* Finds the keywords that a function found on a type cannot take, by its signature: functions of
 * Python and Cython have one, and one that takes no keywords at all is known for it. For any other
 * function nothing is found, and each call has to try. What a call raised is never recorded for a
 * type: it may be from another function, to which the keywords were forwarded for this one object.
 */
FASTDL_COLD_ int fastdl_read_signature_(PyObject *function, uint32_t *refused)
{
    static const char cython[] = "cython_function_or_method";
    const char *kind = Py_TYPE(function)->tp_name, *point = strrchr(kind, '.');
    *refused = FASTDL_KEYWORD_STREAM | FASTDL_KEYWORD_MAX_VERSION | FASTDL_KEYWORD_DL_DEVICE |
               FASTDL_KEYWORD_COPY | FASTDL_KEYWORD_VERSION;
    if (PyFunction_Check(function) || strcmp(point == NULL ? kind : point + 1, cython) == 0) {
        PyObject *code = fastdl_attribute_(function, "__code__");
        int result = code == NULL ? -1 : 0;
        if (result == 0 && PyCode_Check(code))
            result = fastdl_read_code_(code, refused);
        else
            *refused = 0;
        Py_XDECREF(code);
        return result;
    }
    if (Py_TYPE(function) != &PyMethodDescr_Type ||
        ((PyMethodDescrObject *)function)->d_method->ml_flags & METH_KEYWORDS)
        *refused = 0;
    return 0;
}

#endif

/* Where the name of the keyword begins that a TypeError is about, in quotes; NULL: it names none.
 */
static inline const char *fastdl_named_keyword_(const char *words)
{
    static const char unexpected[] = "unexpected keyword argument '";
    const char *keyword = strstr(words, unexpected);
    if (keyword != NULL)
        return keyword + sizeof(unexpected) - 1;
    return words[0] == '\'' && strstr(words, "' is an invalid keyword argument") != NULL ? words + 1
                                                                                         : NULL;
}

/* What a TypeError says that is about the keywords of a call. */
FASTDL_TABLE_("fastdl_refusals_")
char *const fastdl_refusals_[] = {
    "unexpected keyword argument",
    "invalid keyword argument",
    "no keyword arguments",
    "keyword argument (", /* "takes at most 1 keyword argument (2 given)" */
    "keyword arguments (",
    "passed as keyword arguments", /* "got some positional-only arguments passed as ..." */
    "incompatible function arguments",
};

/* The keyword of `asked` to drop after `__dlpack__` has raised a TypeError with this message; 0 if
 * the error is not about that. It is if it says so in the way of CPython, Cython, pybind11 or
 * nanobind; a keyword that it names is one that was passed; and it was raised before any frame of
 * the producer ran, or names `__dlpack__`, to which the producer has handed the keywords on. */
FASTDL_COLD_ uint32_t fastdl_refused_keyword(const char *words, int has_frames, uint32_t asked)
{
    const fastdl_keyword_fact *row = fastdl_keywords();
    const char *named = fastdl_named_keyword_(words);
    size_t i = 0, count = sizeof(fastdl_refusals_) / sizeof(fastdl_refusals_[0]);
    while (i < count && strstr(words, fastdl_refusals_[i]) == NULL)
        i++;
    if (i == count || (has_frames && strstr(words, "__dlpack__(") == NULL))
        return 0;
    for (; row->name != NULL; row++) {
        size_t length = strlen(row->name);
        if (asked & row->keyword &&
            (named == NULL || (strncmp(named, row->name, length) == 0 && named[length] == '\'')))
            return row->keyword;
    }
    return 0;
}

/* The same for the pending exception, which is cleared if it is about a keyword. */
FASTDL_COLD_ uint32_t fastdl_take_refusal_(uint32_t asked)
{
    PyObject *type, *value, *traceback, *text;
    const char *words;
    Py_ssize_t length;
    uint32_t refused = 0;
    if (asked == 0 || !PyErr_ExceptionMatches(PyExc_TypeError))
        return 0;
    PyErr_Fetch(&type, &value, &traceback);
    text = value == NULL ? NULL : PyObject_Str(value);
    words = text == NULL ? NULL : PyUnicode_AsUTF8AndSize(text, &length);
    if (words != NULL)
        refused = fastdl_refused_keyword(words, traceback != NULL, asked);
    Py_XDECREF(text);
    PyErr_Clear();
    if (refused == 0) {
        PyErr_Restore(type, value, traceback);
        return 0;
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return refused;
}

/* Calls `__dlpack__` with any keywords. The stream is the default one of the device, by its number.
 */
FASTDL_COLD_ PyObject *fastdl_call_with_(const fastdl_method_ *method, const fastdl_names_ *names,
                                         uint32_t asked, int32_t device_type, int32_t version)
{
    PyObject *passed, *capsule = NULL, *values[FASTDL_MOST_KEYWORDS_];
    Py_ssize_t count = 0, at = 0;
    int failed = 0;
    for (uint32_t rest = asked; rest != 0; rest &= rest - 1)
        count++;
    passed = PyTuple_New(count);
    if (passed == NULL)
        return NULL;
    for (const fastdl_keyword_fact *row = fastdl_keywords(); row->name != NULL; row++) {
        PyObject *name;
        if (!(asked & row->keyword))
            continue;
        name = PyUnicode_InternFromString(row->name);
        if (row->keyword == FASTDL_KEYWORD_MAX_VERSION) {
            values[at] = names->version;
            Py_INCREF(names->version);
        } else if (row->keyword == FASTDL_KEYWORD_VERSION) {
            values[at] = PyLong_FromLong(version);
        } else {
            values[at] = PyLong_FromLong(fastdl_ordering_(device_type) == FASTDL_STREAM_CUDA);
        }
        failed |= name == NULL || PyTuple_SetItem(passed, at, name) < 0 || values[at] == NULL;
        at++;
    }
    if (!failed)
        capsule = fastdl_call_(method, passed, values, count);
    while (at-- > 0)
        Py_XDECREF(values[at]);
    Py_DECREF(passed);
    return capsule;
}

/* Calls `__dlpack__` of an object whose data is on that device with as many keywords as it takes. A
 * new capsule, or NULL with an exception. The newest generation of the protocol is tried first:
 * `max_version`; then `version`, with `__dlpack_info__`; then `stream` alone. */
static inline PyObject *fastdl_negotiate_(PyObject *obj, const fastdl_method_ *method,
                                          const fastdl_names_ *names, uint32_t refused,
                                          int32_t device_type)
{
    int32_t version = 0;
    uint32_t asked = FASTDL_KEYWORD_MAX_VERSION;
    if (FASTDL_UNLIKELY_(fastdl_is_ordered_(device_type)))
        asked |=
            FASTDL_KEYWORD_STREAM; /* dropping it is safe: a producer assumes the default one */
    for (;;) {
        PyObject *capsule;
        uint32_t dropped = asked & refused;
        if (FASTDL_UNLIKELY_(dropped != 0)) {
            asked &= ~dropped;
            if (dropped & FASTDL_KEYWORD_MAX_VERSION && !(refused & FASTDL_KEYWORD_VERSION)) {
                version = fastdl_ask_draft_(obj, names);
                if (version < 0)
                    return NULL;
                asked |= version > 0 ? (uint32_t)FASTDL_KEYWORD_VERSION : 0;
            }
        }
        capsule = asked == 0 ? fastdl_call_(method, NULL, NULL, 0)
                  : FASTDL_LIKELY_(asked == FASTDL_KEYWORD_MAX_VERSION)
                      ? fastdl_call_(method, names->max_version, &names->version, 1)
                      : fastdl_call_with_(method, names, asked, device_type, version);
        if (FASTDL_UNLIKELY_(capsule == NULL)) {
            dropped = fastdl_take_refusal_(asked);
            if (dropped == 0)
                return NULL;
            refused |= dropped;
        } else if (FASTDL_UNLIKELY_(asked & FASTDL_KEYWORD_VERSION) && version >= 100 &&
                   PyCapsule_IsValid(capsule, "dltensor")) {
            /* The draft used the old name for a new layout, so this one is unknown. The capsule is
             * dropped untouched; 60 is certainly the old layout. */
            Py_DECREF(capsule);
            version = 60;
        } else {
            return capsule;
        }
    }
}

/* Asks an object for its tensor over `__dlpack__`: 1, with a new capsule in *capsule; or -1 with an
 * exception. *device is where the object says that its data is. `refused` is what is known of its
 * type. 0 if it has no `__dlpack__` (device[0] is 0 then), or if only data in host memory is wanted
 * (`host_only`) and it is elsewhere. */
static inline int fastdl_ask_capsule_(PyObject *obj, uint32_t refused, int host_only,
                                      int32_t *device, PyObject **capsule)
{
    fastdl_names_ made;
    const fastdl_names_ *names = fastdl_get_names_(&made);
    fastdl_method_ method;
    int result = names == NULL ? -1 : fastdl_find_method_(obj, names->dlpack, &method);
    *capsule = NULL;
    device[0] = device[1] = 0;
    if (FASTDL_LIKELY_(result > 0)) {
        if (FASTDL_UNLIKELY_(fastdl_ask_device_(obj, names, device) < 0)) {
            result = -1;
        } else if (host_only && !fastdl_find_device(device[0])->host) {
            result = 0;
        } else {
            *capsule = fastdl_negotiate_(obj, &method, names, refused, device[0]);
            result = *capsule == NULL ? -1 : 1;
        }
        Py_DECREF(method.callable);
    }
    if (FASTDL_UNLIKELY_(names == &made))
        fastdl_drop_names_(&made);
    return result;
}

/* Takes the managed tensor out of a capsule, which is consumed. */
FASTDL_COLD_ int fastdl_take_(PyObject *obj, PyObject *capsule, uint32_t facts,
                              DLManagedTensorVersioned **out)
{
    DLManagedTensorVersioned *versioned = NULL;
    DLManagedTensor *legacy = NULL;
#ifdef Py_GIL_DISABLED
    Py_BEGIN_CRITICAL_SECTION(capsule); /* two threads could both see the name */
#endif
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        versioned = (DLManagedTensorVersioned *)PyCapsule_GetPointer(capsule, "dltensor_versioned");
        PyCapsule_SetName(capsule, "used_dltensor_versioned");
    } else if (PyCapsule_IsValid(capsule, "dltensor")) {
        legacy = (DLManagedTensor *)PyCapsule_GetPointer(capsule, "dltensor");
        PyCapsule_SetName(capsule, "used_dltensor");
    }
#ifdef Py_GIL_DISABLED
    Py_END_CRITICAL_SECTION();
#endif
    if (versioned != NULL || legacy != NULL)
        return fastdl_adopt_(obj, versioned, legacy, facts, out);
    fastdl_raise_answer_(PyExc_TypeError,
                         "expected a new DLPack capsule from __dlpack__ of '%U', got %R",
                         Py_TYPE(obj), capsule);
    return -1;
}

/* ---- the header's own tables, for when it is alone ---- */

FASTDL_HOT_ const fastdl_record *fastdl_known_(PyTypeObject *type);

FASTDL_COLD_ int fastdl_protocol_own_(void *obj, DLManagedTensorVersioned **out)
{
    PyTypeObject *type = Py_TYPE((PyObject *)obj);
    const fastdl_record *record = fastdl_known_(type);
    DLManagedTensorVersioned *managed = NULL;
    PyObject *capsule;
    int32_t announced[2];
    int result;
    if (record == NULL)
        return -1;
    result = fastdl_ask_capsule_((PyObject *)obj, record->refused, 0, announced, &capsule);
    if (result == 0)
        fastdl_raise_no_tensor((PyObject *)obj);
    if (result <= 0)
        return -1;
    if (record->facts & FASTDL_TYPE_UNORDERED && fastdl_is_ordered_(announced[0])) {
        Py_DECREF(capsule);
        fastdl_raise_about_(PyExc_BufferError,
                            "'%U' ignores `stream`, so nothing orders its work: wait for that "
                            "work, and pass fastdl.from_dlpack(x, stream=-1)",
                            type);
        return -1;
    }
    result = fastdl_take_((PyObject *)obj, capsule, record->facts, &managed);
    Py_DECREF(capsule);
    if (result < 0)
        return -1;
    if (!fastdl_is_as_announced_(announced, managed->dl_tensor.device)) {
        fastdl_raise_(PyExc_BufferError,
                      "a tensor was announced on device (%d, %d) and delivered on (%d, %d), where "
                      "work is ordered in another way. Its producer is at fault",
                      announced[0], announced[1], (int)managed->dl_tensor.device.device_type,
                      managed->dl_tensor.device.device_id);
        fastdl_discard_(managed, NULL);
        return -1;
    }
    *out = managed;
    return 0;
}

FASTDL_COLD_ int fastdl_protocol_allocate_(DLTensor *prototype, DLManagedTensorVersioned **out,
                                           void *context,
                                           void (*SetError)(void *, const char *, const char *))
{
    (void)prototype;
    (void)out;
    SetError(context, "TypeError",
             "this type has no exchange table that could allocate: install fastdlpack and call "
             "fastdl_import() to allocate for it");
    return -1;
}

FASTDL_COLD_ int fastdl_protocol_wrap_(DLManagedTensorVersioned *managed, void **out)
{
    (void)managed;
    (void)out;
    PyErr_SetString(PyExc_TypeError,
                    "this type has no exchange table that could make objects: install fastdlpack "
                    "and call fastdl_import() to get a fastdl.Tensor");
    return -1;
}

/* `__dlpack__` is asked to be ready on the default stream. */
FASTDL_COLD_ int fastdl_protocol_stream_(DLDeviceType type, int32_t id, void **out)
{
    (void)type;
    (void)id;
    *out = NULL;
    return 0;
}

FASTDL_TABLE_("fastdl_protocol_")
DLPackExchangeAPI fastdl_protocol_table_ = {
    {{FASTDL_DLPACK_MAJOR, FASTDL_DLPACK_MINOR}, NULL},
    fastdl_protocol_allocate_,
    fastdl_protocol_own_,
    fastdl_protocol_wrap_,
    NULL,
    fastdl_protocol_stream_,
};

/* Whether instances of a type can be asked for a tensor because of their type. */
static inline int fastdl_is_tensor_type(const fastdl_record *record)
{
    return !(record->facts & FASTDL_TYPE_PROTOCOL) || record->facts & FASTDL_TYPE_HAS_DLPACK;
}

/* ---- the table of types that stand for tensors while a function is traced: it says so ---- */

static const char *const fastdl_traced_words_ =
    "expected a tensor with memory, got one that stands for a tensor while a function is traced: "
    "call this outside of torch.compile, jax.jit and their like, or make it a custom operator "
    "there "
    "(torch.library.custom_op, jax.pure_callback)";

FASTDL_COLD_ int fastdl_traced_allocate_(DLTensor *prototype, DLManagedTensorVersioned **out,
                                         void *context,
                                         void (*SetError)(void *, const char *, const char *))
{
    (void)prototype;
    (void)out;
    SetError(context, "BufferError", fastdl_traced_words_);
    return -1;
}

FASTDL_COLD_ int fastdl_traced_own_(void *obj, DLManagedTensorVersioned **out)
{
    (void)obj;
    (void)out;
    fastdl_raise_(PyExc_BufferError, fastdl_traced_words_);
    return -1;
}

FASTDL_COLD_ int fastdl_traced_wrap_(DLManagedTensorVersioned *managed, void **out)
{
    (void)managed;
    (void)out;
    fastdl_raise_(PyExc_BufferError, fastdl_traced_words_);
    return -1;
}

FASTDL_COLD_ int fastdl_traced_stream_(DLDeviceType type, int32_t id, void **out)
{
    (void)type;
    (void)id;
    (void)out;
    fastdl_raise_(PyExc_BufferError, fastdl_traced_words_);
    return -1;
}

FASTDL_TABLE_("fastdl_traced_")
DLPackExchangeAPI fastdl_traced_table_ = {
    {{FASTDL_DLPACK_MAJOR, FASTDL_DLPACK_MINOR}, NULL},
    fastdl_traced_allocate_,
    fastdl_traced_own_,
    fastdl_traced_wrap_,
    NULL,
    fastdl_traced_stream_,
};

/* Whether a type has anything by a name that says tensor. Other types are rejected quickly, and
 * take no place in the cache. -1 with an exception. */
FASTDL_COLD_ int fastdl_has_names_(PyTypeObject *type)
{
    static const char *const names[] = {"__dlpack__", "__dlpack_c_exchange_api__",
                                        "__c_dlpack_exchange_api__"};
    PyObject *found = NULL;
    for (int i = 0; i < 3 && found == NULL && !PyErr_Occurred(); i++)
        found = fastdl_type_lookup_(type, names[i]);
    Py_XDECREF(found);
    return found != NULL ? 1 : PyErr_Occurred() ? -1 : 0;
}

/* Finds out what a type says about itself: its name, `__dlpack__`, and the table that it publishes,
 * or NULL for that. */
FASTDL_COLD_ int fastdl_describe_type(PyTypeObject *type, fastdl_record *record,
                                      const fastdl_peer_fact **peer)
{
    PyObject *method, *provider;
    int named = fastdl_has_names_(type);
    memset(record, 0, sizeof(*record));
    *peer = named > 0 ? fastdl_find_peer_(type) : fastdl_no_peer_();
    if (named <= 0 || *peer == NULL)
        return named == 0 ? 0 : -1;
    record->facts = (*peer)->facts;
    if (record->facts & FASTDL_TYPE_TRACED) {
        record->api = &fastdl_traced_table_;
        return 0;
    }
    if (fastdl_published_table_(type, &record->api, &provider) < 0)
        return -1;
    if (provider != NULL) {
        record->facts |= FASTDL_TYPE_NATIVE;
        record->lend = record->api->dltensor_from_py_object_no_sync;
        if (record->facts & FASTDL_TYPE_TRUSTED) {
            /* The library's own class is trusted, not a foreign class that derives from it. */
            const fastdl_peer_fact *own = fastdl_peer_of_((PyTypeObject *)provider);
            if (own == NULL || !(own->facts & FASTDL_TYPE_TRUSTED))
                record->facts &= ~(uint32_t)FASTDL_TYPE_TRUSTED;
        }
        Py_DECREF(provider);
    }
    method = fastdl_type_lookup_(type, "__dlpack__");
    if (method != NULL && method != Py_None) { /* None: opted out */
        record->facts |= FASTDL_TYPE_HAS_DLPACK;
        if (fastdl_read_signature_(method, &record->refused) < 0) {
            Py_DECREF(method);
            return -1;
        }
    }
    Py_XDECREF(method);
    return PyErr_Occurred() ? -1 : 0;
}

/* The same, with the header's own table for the rest. */
FASTDL_COLD_ int fastdl_describe_alone_(PyTypeObject *type, fastdl_record *record)
{
    const fastdl_peer_fact *peer;
    if (fastdl_describe_type(type, record, &peer) < 0)
        return -1;
    if (record->api == NULL) {
        record->facts |= FASTDL_TYPE_PROTOCOL;
        record->api = &fastdl_protocol_table_;
    }
    return 0;
}

static inline uint32_t fastdl_tag_(const PyTypeObject *type);

/* Has CPython give a type a tag, if it has none. */
FASTDL_COLD_ uint32_t fastdl_make_tag_(PyTypeObject *type)
{
#if !defined(Py_LIMITED_API) && PY_VERSION_HEX >= 0x030C0000
    (void)PyUnstable_Type_AssignVersionTag(type);
#elif !defined(Py_LIMITED_API)
    Py_XDECREF(fastdl_type_lookup_(type, "__dlpack__"));
#endif
    return fastdl_tag_(type);
}

FASTDL_COLD_LATER_ int fastdl_watch_(PyTypeObject *type, PyObject **watch);

/* Finds out by `describe` what is known of a type, and remembers it in `cache` if `remember` says
 * so. Describing runs code of the type's descriptors, so the tag is compared afterwards. NULL with
 * an exception. */
FASTDL_COLD_ const fastdl_record *fastdl_discover(fastdl_cache *cache, PyTypeObject *type,
                                                  int (*describe)(PyTypeObject *, fastdl_record *),
                                                  int remember)
{
    const fastdl_record *kept;
    fastdl_record found;
    uint32_t tag;
    int tries = 0;
    do {
        tag = fastdl_make_tag_(type);
        if (describe(type, &found) < 0)
            return NULL;
    } while (tag != fastdl_tag_(type) && ++tries < 4);
    kept = fastdl_keep_record_(cache, &found);
    if (kept != NULL && remember && tries < 4 && tag != 0 && fastdl_is_tensor_type(kept)) {
        PyObject *watch = NULL;
        if (fastdl_watch_(type, &watch) == 0)
            fastdl_add_type_(cache, type, tag, kept, watch);
    }
    return kept;
}

/* ---- the state of an extension module ---- */

/* It belongs to one interpreter, its home: the one that called fastdl_import(), else the first to
 * meet a type that is not in the cache. Hits do not ask who calls. Everything else does, and the
 * first call from another interpreter ends such hits permanently: from then on each call asks, and
 * finds what the home knows if it comes from there. Another interpreter has types described each
 * time, and uses nothing of the package. (What can hit there before that first call is a type of
 * static memory, or one at the address and with the tag of a dead one of the home. The table of
 * either is that of the type itself, valid in the whole process; the package's tables serve types
 * of NumPy and its own, which one interpreter of a process can have.)
 *
 * When the home ends, the state is as it was at first: tags are given anew in the next one. */
typedef struct {
    const void *hits; /* the front of `types`, or slots that are always empty: fastdl_slot[] */
    fastdl_cache *types;
    const void *home;                /* a PyInterpreterState, or NULL: none yet */
    const DLPackExchangeAPI *tensor; /* NULL before fastdl_import() */
    const DLPackExchangeAPI *protocol;
    const fastdl_record *(*describe)(PyTypeObject *); /* NULL before fastdl_import() */
    size_t tag_offset;                                /* 0 before fastdl_import() */
    /* NULL before fastdl_import() */
    int (*wrap)(DLManagedTensorVersioned *, PyTypeObject *, PyObject **);
} fastdl_state_t_;

#ifdef __cplusplus
#define FASTDL_ZERO_                                                                               \
    {                                                                                              \
    }
#else
#define FASTDL_ZERO_ {0}
#endif

FASTDL_ONE_("b.fastdl_types_") fastdl_cache fastdl_own_types_ = FASTDL_ZERO_;
FASTDL_ONE_("b.fastdl_none_") fastdl_slot fastdl_no_types_[FASTDL_SETS] = FASTDL_ZERO_;
FASTDL_ONE_("d.fastdl_state_")
fastdl_state_t_ fastdl_state_ = {
    fastdl_no_types_, &fastdl_own_types_, NULL, NULL, &fastdl_protocol_table_, NULL, 0, NULL};

#ifdef Py_LIMITED_API

/* ---- types under the limited API ----
 *
 * It has no access to tags. After fastdl_import() the package says where they are, and all is as in
 * a build under the full API. Alone, a type is identified by its address while it lives, which a
 * weak reference watches. Types that die are forgotten; changed types are not noticed: a table that
 * was withdrawn, replaced or overridden after the first use of the type is used on. (It is valid
 * until the process ends. `__dlpack__` itself is looked up in each call.) */

static inline uint32_t fastdl_tag_(const PyTypeObject *type)
{
    uintptr_t address = (uintptr_t)type;
    if (fastdl_state_.tag_offset != 0)
        return *(const unsigned int *)(address + fastdl_state_.tag_offset);
    return ((uint32_t)(address >> 4) ^ (uint32_t)(address >> 12)) | (uint32_t)1 << 31;
}

/* The callback of a weak reference to a type; `self` is its address. */
FASTDL_COLD_ PyObject *fastdl_has_died_(PyObject *self, PyObject *unused)
{
    const void *type = PyLong_AsVoidPtr(self);
    (void)unused;
    if (type != NULL)
        fastdl_forget_(&fastdl_own_types_, type);
    Py_INCREF(Py_None);
    return Py_None;
}

FASTDL_COLD_ int fastdl_watch_(PyTypeObject *type, PyObject **watch)
{
    static PyMethodDef definition = {"has_died", fastdl_has_died_, METH_O, NULL};
    PyObject *address, *callback;
    if (fastdl_state_.tag_offset != 0)
        return 0;
    address = PyLong_FromVoidPtr(type);
    callback = address == NULL ? NULL : PyCFunction_NewEx(&definition, address, NULL);
    *watch = callback == NULL ? NULL : PyWeakref_NewRef((PyObject *)type, callback);
    Py_XDECREF(callback);
    Py_XDECREF(address);
    PyErr_Clear();
    return *watch == NULL ? -1 : 0;
}

#else

static inline uint32_t fastdl_tag_(const PyTypeObject *type)
{
    return fastdl_load_tag_(&type->tp_version_tag);
}

FASTDL_COLD_ int fastdl_watch_(PyTypeObject *type, PyObject **watch)
{
    (void)type;
    (void)watch;
    return 0;
}

#endif

FASTDL_ONE_("b.fastdl_names_")
const void *fastdl_kept_names_ = NULL; /* a fastdl_names_ */

/* The destructor of what an interpreter keeps for this module: it ends. */
FASTDL_COLD_ void fastdl_leave_home_(PyObject *capsule)
{
    fastdl_names_ *names = (fastdl_names_ *)fastdl_load_(&fastdl_kept_names_);
    if (names != NULL && names->interpreter == PyCapsule_GetContext(capsule)) {
        fastdl_store_(&fastdl_kept_names_, NULL);
        fastdl_drop_names_(names);
        free(names);
    }
    if (fastdl_load_(&fastdl_state_.home) != PyCapsule_GetContext(capsule))
        return; /* another one has become the home since */
    fastdl_store_(&fastdl_state_.hits, fastdl_no_types_);
    fastdl_forget_(&fastdl_own_types_, NULL);
    fastdl_state_.types = &fastdl_own_types_;
    fastdl_state_.tensor = NULL;
    fastdl_state_.protocol = &fastdl_protocol_table_;
    fastdl_state_.describe = NULL;
    fastdl_state_.tag_offset = 0;
    fastdl_state_.wrap = NULL;
    fastdl_store_(&fastdl_state_.home, NULL);
}

/* Makes the calling interpreter the home instead of `former`: 0, or -1 with an exception. */
FASTDL_COLD_ int fastdl_settle_(const void *former)
{
    PyInterpreterState *here = PyInterpreterState_Get();
    PyObject *kept = PyInterpreterState_GetDict(here);
    PyObject *key = PyUnicode_FromFormat("fastdl.h %p", (void *)&fastdl_state_);
    PyObject *capsule = PyCapsule_New(&fastdl_state_, "fastdl.h", fastdl_leave_home_);
    int result = -1;
    /* One that is there stays: its end would be taken for that of the interpreter. */
    if (kept != NULL && key != NULL && capsule != NULL && !fastdl_interpreter_is_gone_() &&
        (PyDict_Contains(kept, key) == 1 ||
         (PyCapsule_SetContext(capsule, here) == 0 && PyDict_SetItem(kept, key, capsule) == 0)) &&
        fastdl_swap_(&fastdl_state_.home, former, here)) {
        fastdl_store_(&fastdl_state_.hits, fastdl_state_.types->tables[0]);
        result = 0;
    } else if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_ImportError, "expected an interpreter that is not about to end");
    }
    Py_XDECREF(capsule);
    Py_XDECREF(key);
    return result;
}

/* Whether the state belongs to the calling interpreter. */
FASTDL_COLD_ int fastdl_is_home_(void)
{
    const void *home = fastdl_load_(&fastdl_state_.home);
    if (home == (const void *)PyInterpreterState_Get())
        return 1;
    if (home != NULL)
        fastdl_store_(&fastdl_state_.hits, fastdl_no_types_);
    return 0;
}

static inline const DLPackExchangeAPI *fastdl_protocol_(void)
{
    return fastdl_is_home_() ? fastdl_state_.protocol : &fastdl_protocol_table_;
}

/* The long way of fastdl_known_, for types that are not in front of the cache. */
FASTDL_COLD_ const fastdl_record *fastdl_look_up_(PyTypeObject *type)
{
    const fastdl_record *record;
    int is_home = fastdl_is_home_();
    if (!is_home && fastdl_load_(&fastdl_state_.home) == NULL) {
        is_home = fastdl_settle_(NULL) == 0;
        PyErr_Clear();
    }
    record = is_home ? fastdl_find_record(fastdl_state_.types, type, fastdl_tag_(type)) : NULL;
    if (record != NULL)
        return record;
    if (is_home && fastdl_state_.describe != NULL)
        return fastdl_state_.describe(type);
    return fastdl_discover(&fastdl_own_types_, type, fastdl_describe_alone_, is_home);
}

/* What is known of `type`, found out now if nothing is. NULL with an exception. */
FASTDL_HOT_ const fastdl_record *fastdl_known_(PyTypeObject *type)
{
    const fastdl_record *record;
    uint32_t tag = fastdl_tag_(type);
    const fastdl_slot *hits = FASTDL_CAST_(const fastdl_slot *, fastdl_load_(&fastdl_state_.hits));
    if (FASTDL_LIKELY_(fastdl_match_(&hits[tag & (FASTDL_SETS - 1)], type, tag, &record)))
        return record;
    return fastdl_look_up_(type);
}

/* What is kept ends with the home, whose capsule frees it. */
FASTDL_COLD_ const fastdl_names_ *fastdl_keep_names_(fastdl_names_ *made)
{
    fastdl_names_ *kept;
    if (fastdl_make_names_(made) < 0)
        return NULL;
    if (fastdl_load_(&fastdl_state_.home) == NULL && fastdl_settle_(NULL) < 0)
        PyErr_Clear();
    kept = fastdl_is_home_() ? (fastdl_names_ *)malloc(sizeof(fastdl_names_)) : NULL;
    if (kept == NULL)
        return made;
    *kept = *made;
    if (fastdl_swap_(&fastdl_kept_names_, NULL, kept))
        return kept;
    free(kept);
    return made;
}

static inline const fastdl_names_ *fastdl_get_names_(fastdl_names_ *made)
{
    const fastdl_names_ *kept = (const fastdl_names_ *)fastdl_load_(&fastdl_kept_names_);
    if (FASTDL_LIKELY_(kept != NULL && kept->interpreter == (void *)PyInterpreterState_Get()))
        return kept;
    return fastdl_keep_names_(made);
}

FASTDL_COLD_ int fastdl_import_(const fastdl_runtime *runtime)
{
    const uint32_t major = FASTDL_ABI_MAJOR, minor = FASTDL_ABI_MINOR;
    if (runtime == NULL) {
        PyErr_Clear(); /* what PyCapsule_Import raises differs from release to release */
        PyErr_SetString(PyExc_ImportError,
                        "the installed fastdl offers no interface for C: upgrade fastdlpack");
        return -1;
    }
    if (runtime->major != major || runtime->minor < minor) {
        int is_newer = runtime->major > major;
        PyErr_Format(PyExc_ImportError,
                     "this module was compiled with fastdl.h of interface %u.%u, and the installed "
                     "fastdl has interface %u.%u, which is %s: %s",
                     (unsigned)major, (unsigned)minor, (unsigned)runtime->major,
                     (unsigned)runtime->minor, is_newer ? "newer" : "older",
                     is_newer ? "upgrade the module, or compile it with the header of the "
                                "installed fastdl"
                              : "upgrade fastdlpack");
        return -1;
    }
    if (!fastdl_is_home_() && fastdl_settle_(fastdl_load_(&fastdl_state_.home)) < 0)
        return -1;
    fastdl_state_.tensor = runtime->tensor;
    fastdl_state_.protocol = runtime->protocol;
    fastdl_state_.describe = runtime->describe;
    fastdl_state_.tag_offset = (size_t)runtime->tag_offset;
    if (runtime->size > offsetof(fastdl_runtime, wrap))
        fastdl_state_.wrap = runtime->wrap;
    fastdl_state_.types = runtime->types;
    fastdl_store_(&fastdl_state_.hits, runtime->types->tables[0]);
    return 0;
}

static inline int fastdl_import(void)
{
    PyObject *package = PyImport_ImportModule("fastdl"); /* whose own error says more */
    Py_XDECREF(package);
    return package == NULL
               ? -1
               : fastdl_import_((const fastdl_runtime *)PyCapsule_Import(FASTDL_RUNTIME, 0));
}

/* The table of a type, and whether it is its library's own; NULL with an exception. */
static inline const DLPackExchangeAPI *fastdl_table_(PyTypeObject *type, int *native)
{
    const fastdl_record *record = fastdl_known_(type);
    if (record == NULL)
        return NULL;
    *native = (record->facts & FASTDL_TYPE_NATIVE) != 0 && record->api != fastdl_state_.tensor;
    if (!fastdl_is_tensor_type(record)) {
        fastdl_raise_about_(PyExc_TypeError,
                            "expected the type of a tensor, got '%U', which has neither a DLPack "
                            "exchange table nor __dlpack__",
                            type);
        return NULL;
    }
    return record->api;
}

static inline const DLPackExchangeAPI *fastdl_exchange_api(PyTypeObject *type)
{
    int native;
    return fastdl_table_(type, &native);
}

/* ---- owning ---- */

/* Whether an object that its native table refused is to be asked for `__dlpack__`, the exception
 * being cleared then; else an exception is set. */
FASTDL_COLD_ int fastdl_ask_on_(PyObject *obj, uint32_t facts)
{
    int silent = !PyErr_Occurred();
    if (facts & FASTDL_TYPE_NATIVE && facts & FASTDL_TYPE_HAS_DLPACK &&
        (silent || PyErr_ExceptionMatches(PyExc_Exception))) { /* not an interrupt */
        PyErr_Clear();
        return 1;
    }
    if (silent)
        fastdl_raise_about_(PyExc_BufferError,
                            "the exchange table of '%U' failed without giving a reason",
                            Py_TYPE(obj));
    return 0;
}

/* As fastdl_own; `record` is of the type of `obj`. */
static inline int fastdl_own_(PyObject *obj, const fastdl_record *record,
                              DLManagedTensorVersioned **out)
{
    DLManagedTensorVersioned *managed = NULL;
    int failed = record->api->managed_tensor_from_py_object_no_sync(obj, &managed);
    if (FASTDL_UNLIKELY_(failed || managed == NULL)) {
        if (!failed)
            PyErr_Clear(); /* it claims to have succeeded */
        return fastdl_ask_on_(obj, record->facts)
                   ? fastdl_protocol_()->managed_tensor_from_py_object_no_sync(obj, out)
                   : -1;
    }
    if (record->facts & FASTDL_TYPE_NATIVE) {
        if (PyErr_Occurred())
            PyErr_Clear(); /* likewise */
        return fastdl_adopt_(obj, managed, NULL, record->facts, out);
    }
    *out = managed; /* of a table of fastdl's, which has checked it */
    return 0;
}

static inline int fastdl_own(PyObject *obj, DLManagedTensorVersioned **out)
{
    const fastdl_record *record = fastdl_known_(Py_TYPE(obj));
    *out = NULL;
    if (record == NULL)
        return -1;
    return fastdl_own_(obj, record, out);
}

/* ---- borrowing ---- */

/* Adds the offset to `data` where that is an address. */
static inline void fastdl_fold_offset_(DLTensor *dl)
{
    if (FASTDL_UNLIKELY_(dl->byte_offset != 0) &&
        fastdl_find_device((int32_t)dl->device.device_type)->addresses) {
        dl->data = (char *)dl->data + dl->byte_offset;
        dl->byte_offset = 0;
    }
}

/* Checks a view that a table filled in, and gives it the form that fastdl_borrow promises. */
static inline int fastdl_check_view_(fastdl_view *view)
{
    fastdl_layout layout;
    fastdl_fault fault;
    DLTensor *dl = &view->dl;
    if (PyErr_Occurred())
        PyErr_Clear(); /* the table claims to have succeeded */
    if (dl->strides == NULL && (uint32_t)dl->ndim <= FASTDL_MAX_NDIM && dl->shape != NULL) {
        fastdl_compact_strides(dl->ndim, dl->shape, view->room_);
        dl->strides = view->room_;
    }
    fault = fastdl_check(dl, view->flags, &layout);
    if (fault != FASTDL_OK) {
        fastdl_raise_fault(fault, dl);
        return -1;
    }
    fastdl_fold_offset_(dl);
    if (dl->device.device_type == kDLCPU)
        dl->device.device_id = 0;
    return 0;
}

/* The long way of fastdl_complete_view_. */
static inline int fastdl_complete_slowly_(PyObject *obj, fastdl_view *view, uint32_t facts)
{
    const DLTensor *dl = &view->dl;
    if ((!(facts & FASTDL_TYPE_TRUSTED) || (uint32_t)dl->ndim > FASTDL_MAX_NDIM ||
         dl->strides == NULL || dl->data == NULL || dl->byte_offset != 0) &&
        fastdl_check_view_(view) < 0)
        return -1;
    return facts & FASTDL_TYPE_ASK_BITS ? fastdl_check_bits(obj, dl) : 0;
}

/* Completes a view that the borrowing slot of a table filled in. Sizes from a trusted table are not
 * checked again, which would take a third of the time of its call. */
FASTDL_HOT_ int fastdl_complete_view_(PyObject *obj, fastdl_view *view, uint32_t facts)
{
    const DLTensor *dl = &view->dl;
    uint32_t last = (uint32_t)dl->ndim - 1; /* wraps for no dimensions: the long way */
    if (FASTDL_LIKELY_(facts & FASTDL_TYPE_TRUSTED && last < FASTDL_MAX_NDIM &&
                       dl->strides != NULL && dl->data != NULL && dl->byte_offset == 0) &&
        /* The quick part of fastdl_check_bits */
        FASTDL_LIKELY_(FASTDL_LIKELY_(dl->dtype.code == kDLFloat)
                           ? dl->strides[last] & 1 && dl->shape[last] > 1
                           : dl->dtype.code != kDLComplex))
        return 0;
    return fastdl_complete_slowly_(obj, view, facts);
}

/* Fills a view by owning, through a table: where there is no way to borrow. */
FASTDL_COLD_ int fastdl_borrow_owned_(PyObject *obj, fastdl_view *view, const fastdl_record *record)
{
    DLManagedTensorVersioned *managed = NULL;
    if (fastdl_own_(obj, record, &managed) < 0)
        return -1;
    view->own_ = managed;
    view->flags = managed->flags;
    view->dl = managed->dl_tensor;
    if (fastdl_check_view_(view) == 0)
        return 0;
    fastdl_release(view);
    return -1;
}

/* The same after a borrowing slot has refused. */
FASTDL_COLD_ int fastdl_borrow_refused_(PyObject *obj, fastdl_view *view, uint32_t facts)
{
    fastdl_record protocol;
    if (!fastdl_ask_on_(obj, facts))
        return -1;
    memset(&protocol, 0, sizeof(protocol));
    protocol.api = view->api_ = fastdl_protocol_();
    return fastdl_borrow_owned_(obj, view, &protocol);
}

FASTDL_HOT_ int fastdl_borrow(PyObject *obj, fastdl_view *view)
{
    const fastdl_record *record = fastdl_known_(Py_TYPE(obj));
    view->flags = 0;
    view->own_ = NULL;
    if (FASTDL_UNLIKELY_(record == NULL))
        return -1;
    view->api_ = record->api;
    if (record->lend != NULL) {
        view->dl.ndim = -1; /* detects a slot that fills in nothing */
        if (FASTDL_UNLIKELY_(record->lend(obj, &view->dl) != 0))
            return fastdl_borrow_refused_(obj, view, record->facts);
        return fastdl_complete_view_(obj, view, record->facts);
    }
    if (record->borrow == NULL)
        return fastdl_borrow_owned_(obj, view, record);
    view->size_ = sizeof(fastdl_view);
    return record->borrow(obj, view);
}

static inline void fastdl_init(fastdl_view *view)
{
    view->own_ = NULL;
}

FASTDL_HOT_ void fastdl_release(fastdl_view *view)
{
    DLManagedTensorVersioned *own = view->own_;
    if (own != NULL) {
        view->own_ = NULL;
        fastdl_discard_(own, NULL);
    }
}

/* ---- results ---- */

/* An allocator's error report, as a Python exception. */
FASTDL_COLD_ void fastdl_set_error_(void *context, const char *kind, const char *message)
{
    PyObject *builtins, *exception;
    (void)context;
    PyErr_Clear();
    builtins = PyImport_ImportModule("builtins");
    exception = builtins == NULL || kind == NULL ? NULL : fastdl_attribute_(builtins, kind);
    PyErr_Clear();
    PyErr_SetString(exception != NULL && PyExceptionClass_Check(exception) ? exception
                                                                           : PyExc_RuntimeError,
                    message != NULL ? message : "the allocator gave no reason");
    Py_XDECREF(exception);
    Py_XDECREF(builtins);
}

/* The table that makes results like a type; NULL with TypeError. */
static inline const DLPackExchangeAPI *fastdl_target_(PyTypeObject *like, int *native)
{
    const DLPackExchangeAPI *tensor;
    *native = 0;
    if (like != NULL)
        return fastdl_table_(like, native);
    tensor = fastdl_is_home_() ? fastdl_state_.tensor : NULL;
    if (tensor == NULL)
        PyErr_SetString(PyExc_TypeError, "expected a type for the result: a fastdl.Tensor can be "
                                         "made only after fastdl_import()");
    return tensor;
}

static inline int fastdl_empty(const DLTensor *prototype, PyTypeObject *like,
                               DLManagedTensorVersioned **out)
{
    DLTensor copy = *prototype;
    DLManagedTensorVersioned *managed = NULL;
    int failed, native;
    const DLPackExchangeAPI *api = fastdl_target_(like, &native);
    *out = NULL;
    if (api == NULL)
        return -1;
    failed = api->managed_tensor_allocator(&copy, &managed, NULL, fastdl_set_error_);
    if (FASTDL_UNLIKELY_(failed || managed == NULL)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_BufferError, "the allocator of the exchange table failed without "
                                               "giving a reason");
        return -1;
    }
    if (PyErr_Occurred())
        PyErr_Clear(); /* it claims to have succeeded */
    if (native && fastdl_adopt_(NULL, managed, NULL, 0, &managed) < 0)
        return -1;
    fastdl_fold_offset_(&managed->dl_tensor);
    *out = managed;
    return 0;
}

static inline int fastdl_zeros(const DLTensor *prototype, PyTypeObject *like,
                               DLManagedTensorVersioned **out)
{
    fastdl_layout layout;
    const DLTensor *dl;
    *out = NULL;
    if (!fastdl_find_device((int32_t)prototype->device.device_type)->host) {
        PyErr_Format(PyExc_BufferError,
                     "expected host memory to fill with zeros, got device (%d, %d): call "
                     "fastdl_empty, and clear the memory on the stream on which it will be used",
                     (int)prototype->device.device_type, (int)prototype->device.device_id);
        return -1;
    }
    if (fastdl_empty(prototype, like, out) < 0)
        return -1;
    dl = &(*out)->dl_tensor;
    fastdl_check(dl, (*out)->flags, &layout);
    if (layout.size > 0)
        memset((char *)dl->data + dl->byte_offset + layout.low, 0,
               (size_t)(layout.high - layout.low));
    return 0;
}

static inline void fastdl_drop(DLManagedTensorVersioned *managed)
{
    if (managed != NULL && managed->deleter != NULL)
        managed->deleter(managed);
}

/* Whether a tensor has a negative stride, be it one that means nothing. */
static inline int fastdl_steps_back_(const DLTensor *dl)
{
    for (int32_t i = 0; dl->strides != NULL && i < dl->ndim; i++)
        if (dl->strides[i] < 0)
            return 1;
    return 0;
}

static inline int fastdl_wrap(DLManagedTensorVersioned *managed, PyTypeObject *like, PyObject **out)
{
    void *object = NULL;
    int failed, native;
    const DLPackExchangeAPI *api = fastdl_target_(like, &native);
    *out = NULL;
    if (api == NULL) {
        fastdl_discard_(managed, NULL);
        return -1;
    }
    if ((native || api == fastdl_state_.protocol) && fastdl_state_.wrap != NULL)
        return fastdl_state_.wrap(managed, like, out); /* which knows what the library takes */
    if (native && fastdl_steps_back_(&managed->dl_tensor)) {
        fastdl_raise_about_(PyExc_BufferError,
                            "expected no negative strides for a result of type '%U', whose library "
                            "may end the process: copy the data, or call fastdl_import(), and it "
                            "is copied",
                            like);
        fastdl_discard_(managed, NULL);
        return -1;
    }
    failed = api->managed_tensor_to_py_object_no_sync(managed, &object);
    if (FASTDL_UNLIKELY_(failed || object == NULL)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_BufferError, "the exchange table of the result's type failed "
                                               "without giving a reason");
        if (!native) /* fastdl's own tables have not consumed it */
            fastdl_discard_(managed, NULL);
        return -1;
    }
    if (PyErr_Occurred())
        PyErr_Clear(); /* it claims to have succeeded */
    *out = (PyObject *)object;
    return 0;
}

static inline int fastdl_work_stream(const fastdl_view *view, void **stream)
{
    DLDevice device = view->dl.device;
    *stream = NULL;
    if (fastdl_ordering_((int32_t)device.device_type) == FASTDL_STREAM_NONE)
        return 0;
    if (view->api_->current_work_stream(device.device_type, device.device_id, stream) == 0) {
        if (PyErr_Occurred())
            PyErr_Clear(); /* it claims to have succeeded */
        return 0;
    }
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_BufferError,
                     "the exchange table of the tensor cannot tell its current stream on device "
                     "(%d, %d)",
                     (int)device.device_type, device.device_id);
    return -1;
}

/* ---- expecting ---- */

typedef enum {
    FASTDL_MEETS_,
    FASTDL_WRONG_DTYPE_,
    FASTDL_WRONG_NDIM_,
    FASTDL_NO_NDIM_,
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

/* Whether two elements of a tensor may be the same memory: false where each dimension steps over
 * all that the shorter steps reach, which any array has that is a slice of a compact one. */
static inline int fastdl_shares_itself_(const DLTensor *dl)
{
    int32_t order[FASTDL_MAX_NDIM], n = 0;
    uint64_t reach = 0; /* a tensor with elements reaches less than 2**64 bytes */
    if (fastdl_is_empty_(dl))
        return 0;
    for (int32_t i = 0; i < dl->ndim; i++) {
        int32_t at = n;
        uint64_t distance = fastdl_distance_(dl->strides[i]);
        if (dl->shape[i] == 1)
            continue;
        for (; at > 0 && fastdl_distance_(dl->strides[order[at - 1]]) > distance; at--)
            order[at] = order[at - 1];
        order[at] = i;
        n++;
    }
    for (int32_t k = 0; k < n; k++) {
        uint64_t distance = fastdl_distance_(dl->strides[order[k]]);
        if (distance <= reach)
            return 1;
        reach += (uint64_t)(dl->shape[order[k]] - 1) * distance;
    }
    return 0;
}

/* What is reached within one round of the long strides of a tensor, in bytes. */
typedef struct {
    uint64_t start, length;
} fastdl_round_;

/* Adds the strides of `threshold` bytes or more to the common divisor *step, and gives the range
 * that the shorter ones reach. */
static inline fastdl_round_ fastdl_round_of_(const DLTensor *dl, uint64_t threshold, uint64_t *step)
{
    uint64_t itemsize = (uint64_t)fastdl_itemsize(dl->dtype);
    fastdl_round_ round;
    round.start = fastdl_address_(dl) + dl->byte_offset;
    round.length = itemsize;
    for (int32_t i = 0; i < dl->ndim; i++) {
        uint64_t distance, rest, reach;
        if (dl->shape[i] == 1)
            continue; /* its stride may be anything */
        distance = fastdl_distance_(dl->strides[i]) * itemsize;
        reach = (uint64_t)(dl->shape[i] - 1) * distance;
        if (distance < threshold) {
            round.length += reach;
            round.start -= dl->strides[i] < 0 ? reach : 0;
            continue;
        }
        for (; distance != 0; distance = rest) { /* Euclid's algorithm */
            rest = *step % distance;
            *step = distance;
        }
    }
    return round;
}

/* Whether two tensors are disjoint in every round of their strides of `threshold` bytes or more. As
 * the columns of a matrix do: seen modulo the length of a row, they are two ranges. */
static inline int fastdl_rounds_disjoint_(const DLTensor *a, const DLTensor *b, uint64_t threshold)
{
    uint64_t step = 0, later;
    fastdl_round_ of_a = fastdl_round_of_(a, threshold, &step);
    fastdl_round_ of_b = fastdl_round_of_(b, threshold, &step);
    if (step == 0)
        return 0;
    later = of_b.start >= of_a.start ? (of_b.start - of_a.start) % step
                                     : (step - (of_a.start - of_b.start) % step) % step;
    return later >= of_a.length && of_b.length <= step && later <= step - of_b.length;
}

/* Whether two tensors may have an element in common: see fastdl_expect. */
static inline int fastdl_overlap_(const fastdl_view *a, const fastdl_view *b)
{
    const DLTensor *tensors[2];
    fastdl_layout of_a, of_b;
    uint64_t at_a = fastdl_address_(&a->dl) + a->dl.byte_offset;
    uint64_t at_b = fastdl_address_(&b->dl) + b->dl.byte_offset;
    fastdl_check(&a->dl, a->flags, &of_a);
    fastdl_check(&b->dl, b->flags, &of_b);
    if (of_a.size == 0 || of_b.size == 0)
        return 0;
    /* Where data is a handle, other handles are other memory. */
    if (a->dl.data != b->dl.data &&
        !(fastdl_find_device((int32_t)a->dl.device.device_type)->addresses &&
          fastdl_find_device((int32_t)b->dl.device.device_type)->addresses))
        return 0;
    if (at_a + (uint64_t)of_a.high <= at_b + (uint64_t)of_b.low ||
        at_b + (uint64_t)of_b.high <= at_a + (uint64_t)of_a.low)
        return 0;
    if (fastdl_is_packed(a->dl.dtype, a->flags) || fastdl_is_packed(b->dl.dtype, b->flags))
        return 1;
    tensors[0] = &a->dl;
    tensors[1] = &b->dl;
    for (int k = 0; k < 2; k++)
        for (int32_t i = 0; i < tensors[k]->ndim; i++) {
            uint64_t distance = fastdl_distance_(tensors[k]->strides[i]) *
                                (uint64_t)fastdl_itemsize(tensors[k]->dtype);
            if (tensors[k]->shape[i] > 1 && fastdl_rounds_disjoint_(&a->dl, &b->dl, distance))
                return 0;
        }
    return 1;
}

static inline int fastdl_is_same_(const DLTensor *a, const DLTensor *b)
{
    if (a->data != b->data || a->byte_offset != b->byte_offset || a->ndim != b->ndim ||
        fastdl_dtype(a->dtype) != fastdl_dtype(b->dtype))
        return 0;
    for (int32_t i = 0; i < a->ndim; i++)
        if (a->shape[i] != b->shape[i] || (a->shape[i] > 1 && a->strides[i] != b->strides[i]))
            return 0;
    return 1;
}

/* The number of the entry of `no_alias` that a tensor overlaps, or its length. */
FASTDL_COLD_ size_t fastdl_aliased_(const fastdl_view *view, const fastdl_argument *no_alias,
                                    size_t count, int32_t rules)
{
    size_t i;
    for (i = 0; i < count; i++) {
        const fastdl_view *other = no_alias[i].view;
        if (fastdl_overlap_(view, other) &&
            !(rules & FASTDL_IN_PLACE && fastdl_is_same_(&view->dl, &other->dl)))
            break;
    }
    return i;
}

static inline int32_t fastdl_wanted_ndim_(const fastdl_spec *spec)
{
    return spec->ndim == FASTDL_SCALAR ? 0 : spec->ndim;
}

/* The number of the entry of spec->shape that a tensor does not have, or -1. */
FASTDL_HOT_ int32_t fastdl_wrong_size_(const DLTensor *dl, const char *name,
                                       const fastdl_spec *spec)
{
    int32_t wanted = fastdl_wanted_ndim_(spec);
    for (int32_t i = 0; i < wanted; i++) {
        fastdl_dim *dim = spec->shape[i];
        int64_t size = dl->shape[dl->ndim - wanted + i];
        if (dim == NULL)
            continue;
        if (dim->size < 0) {
            dim->size = size;
            dim->from = name;
        } else if (dim->size != size) {
            return i;
        }
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

FASTDL_HOT_ int fastdl_has_device_(const DLTensor *dl, int32_t device)
{
    int32_t type = (int32_t)dl->device.device_type;
    if (device == FASTDL_HOST)
        return FASTDL_LIKELY_(type == kDLCPU) || fastdl_find_device(type)->host;
    return device == FASTDL_ANY_DEVICE || device == type;
}

FASTDL_HOT_ fastdl_mismatch_ fastdl_compare_(const fastdl_view *view, const char *name,
                                             const fastdl_spec *spec)
{
    const DLTensor *dl = &view->dl;
    int32_t wanted = fastdl_wanted_ndim_(spec);
    if (spec->dtype_count > 0) {
        uint32_t dtype = fastdl_dtype(dl->dtype);
        size_t i = 0;
        while (dtype != spec->dtypes[i])
            if (++i == spec->dtype_count)
                return FASTDL_WRONG_DTYPE_;
    }
    if (spec->ndim != 0 && dl->ndim != wanted &&
        !(spec->rules & FASTDL_TRAILING && dl->ndim > wanted))
        return FASTDL_WRONG_NDIM_;
    if (spec->shape != NULL && spec->ndim == 0)
        return FASTDL_NO_NDIM_;
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
    if (!fastdl_has_device_(dl, spec->device))
        return FASTDL_WRONG_DEVICE_;
    if (spec->alignment > 1 &&
        (fastdl_address_(dl) + dl->byte_offset) % (uint64_t)spec->alignment != 0) {
        if (!fastdl_is_empty_(dl))
            return FASTDL_UNALIGNED_;
    }
    if (spec->like != NULL) {
        const DLTensor *like = &spec->like->view->dl;
        if (fastdl_dtype(dl->dtype) != fastdl_dtype(like->dtype))
            return FASTDL_OTHER_DTYPE_;
        if (dl->device.device_type != like->device.device_type ||
            dl->device.device_id != like->device.device_id)
            return FASTDL_OTHER_DEVICE_;
    }
    if (spec->no_alias_count > 0 && fastdl_aliased_(view, spec->no_alias, spec->no_alias_count,
                                                    spec->rules) < spec->no_alias_count)
        return FASTDL_ALIASED_;
    return FASTDL_MEETS_;
}

/* Appends the shape that a spec asks for: "(n=5, 3, any)", with "..., " for leading dimensions. */
FASTDL_COLD_ void fastdl_put_shape_(fastdl_text_ *text, const fastdl_spec *spec)
{
    int32_t wanted = fastdl_wanted_ndim_(spec);
    fastdl_put_(text, spec->rules & FASTDL_TRAILING ? "(..., " : "(");
    for (int32_t i = 0; i < wanted; i++) {
        const fastdl_dim *dim = spec->shape[i];
        if (dim != NULL && dim->name != NULL) {
            fastdl_put_(text, dim->name);
            fastdl_put_(text, dim->size >= 0 ? "=" : "");
        }
        if (dim != NULL && dim->size >= 0)
            fastdl_put_int_(text, dim->size);
        else if (dim == NULL)
            fastdl_put_(text, "any");
        fastdl_put_(text, i + 1 < wanted ? ", " : wanted == 1 ? "," : "");
    }
    fastdl_put_(text, ")");
}

/* What was expected and what came, as in "float32 or float64, got int32: convert it first": one
 * function for each mismatch, which gives the exception. */
FASTDL_COLD_ PyObject *fastdl_put_wrong_dtype_(fastdl_text_ *text, const fastdl_view *view,
                                               const char *name, const fastdl_spec *spec)
{
    const DLTensor *dl = &view->dl;
    (void)name;
    for (size_t i = 0; i < spec->dtype_count; i++) {
        fastdl_put_(text, i == 0 ? "" : i + 1 < spec->dtype_count ? ", " : " or ");
        fastdl_put_dtype_(text, spec->dtypes[i]);
    }
    fastdl_put_(text, ", got ");
    fastdl_put_dtype_(text, fastdl_dtype(dl->dtype));
    fastdl_put_(text, ": convert it first");
    return PyExc_TypeError;
}

FASTDL_COLD_ PyObject *fastdl_put_wrong_ndim_(fastdl_text_ *text, const fastdl_view *view,
                                              const char *name, const fastdl_spec *spec)
{
    const DLTensor *dl = &view->dl;
    (void)name;
    fastdl_put_int_(text, fastdl_wanted_ndim_(spec));
    fastdl_put_(text, spec->rules & FASTDL_TRAILING ? " or more dimensions, got "
                      : spec->ndim == 1             ? " dimension, got "
                                                    : " dimensions, got ");
    fastdl_put_int_(text, dl->ndim);
    fastdl_put_(text, ": reshape it");
    return PyExc_ValueError;
}

FASTDL_COLD_ PyObject *fastdl_put_no_ndim_(fastdl_text_ *text, const fastdl_view *view,
                                           const char *name, const fastdl_spec *spec)
{
    (void)view;
    (void)name;
    (void)spec;
    fastdl_put_(text,
                "a specification with ndim as well as shape, got ndim 0: the function itself is "
                "at fault");
    return PyExc_ValueError;
}

FASTDL_COLD_ PyObject *fastdl_put_wrong_size_(fastdl_text_ *text, const fastdl_view *view,
                                              const char *name, const fastdl_spec *spec)
{
    const DLTensor *dl = &view->dl;
    int32_t i = fastdl_wrong_size_(dl, name, spec);
    const fastdl_dim *dim = i < 0 ? NULL : spec->shape[i];
    fastdl_put_(text, "shape ");
    fastdl_put_shape_(text, spec);
    fastdl_put_(text, ", got ");
    fastdl_put_tuple_(text, dl->shape, dl->ndim);
    if (dim != NULL && dim->name != NULL && dim->from != NULL) {
        fastdl_put_(text, ": ");
        fastdl_put_(text, dim->name);
        fastdl_put_(text, " is ");
        fastdl_put_int_(text, dim->size);
        fastdl_put_(text, " in ");
        fastdl_put_(text, dim->from);
    }
    return PyExc_ValueError;
}

FASTDL_COLD_ PyObject *fastdl_put_wrong_layout_(fastdl_text_ *text, const fastdl_view *view,
                                                const char *name, const fastdl_spec *spec)
{
    const DLTensor *dl = &view->dl;
    (void)name;
    fastdl_put_(text, (spec->layout & FASTDL_C && spec->layout & FASTDL_F)
                          ? "a contiguous layout, in either order"
                      : spec->layout & FASTDL_C ? "a row-major contiguous layout"
                      : spec->layout & FASTDL_F ? "a column-major contiguous layout"
                                                : "a last dimension of stride 1");
    fastdl_put_(text, ", got strides ");
    fastdl_put_tuple_(text, dl->strides, dl->ndim);
    fastdl_put_(text, ": copy it first");
    return PyExc_BufferError;
}

FASTDL_COLD_ PyObject *fastdl_put_read_only_(fastdl_text_ *text, const fastdl_view *view,
                                             const char *name, const fastdl_spec *spec)
{
    (void)view;
    (void)name;
    (void)spec;
    fastdl_put_(text, "a writable tensor, got a read-only one: pass a copy");
    return PyExc_BufferError;
}

FASTDL_COLD_ PyObject *fastdl_put_shares_itself_(fastdl_text_ *text, const fastdl_view *view,
                                                 const char *name, const fastdl_spec *spec)
{
    const DLTensor *dl = &view->dl;
    (void)name;
    (void)spec;
    fastdl_put_(text, "an output whose elements do not overlap, got strides ");
    fastdl_put_tuple_(text, dl->strides, dl->ndim);
    fastdl_put_(text, ": pass a copy");
    return PyExc_BufferError;
}

FASTDL_COLD_ PyObject *fastdl_put_wrong_device_(fastdl_text_ *text, const fastdl_view *view,
                                                const char *name, const fastdl_spec *spec)
{
    const DLTensor *dl = &view->dl;
    const char *device = fastdl_find_device(spec->device)->name;
    (void)name;
    fastdl_put_(text, spec->device == FASTDL_HOST ? "host memory"
                      : device != NULL            ? device
                                                  : "another device");
    fastdl_put_(text, ", got ");
    fastdl_put_device_(text, dl->device);
    fastdl_put_(text, ": move it first");
    return PyExc_BufferError;
}

FASTDL_COLD_ PyObject *fastdl_put_unaligned_(fastdl_text_ *text, const fastdl_view *view,
                                             const char *name, const fastdl_spec *spec)
{
    const DLTensor *dl = &view->dl;
    (void)name;
    fastdl_put_(text, "data aligned to ");
    fastdl_put_int_(text, spec->alignment);
    fastdl_put_(text, " bytes, got an address ");
    fastdl_put_int_(text, (int64_t)(((uint64_t)(uintptr_t)dl->data + dl->byte_offset) %
                                    (uint64_t)spec->alignment));
    fastdl_put_(text, " bytes past a multiple: copy it first");
    return PyExc_BufferError;
}

FASTDL_COLD_ PyObject *fastdl_put_other_dtype_(fastdl_text_ *text, const fastdl_view *view,
                                               const char *name, const fastdl_spec *spec)
{
    const DLTensor *dl = &view->dl;
    (void)name;
    fastdl_put_dtype_(text, fastdl_dtype(spec->like->view->dl.dtype));
    fastdl_put_(text, ", as ");
    fastdl_put_(text, spec->like->name);
    fastdl_put_(text, " has, got ");
    fastdl_put_dtype_(text, fastdl_dtype(dl->dtype));
    fastdl_put_(text, ": convert one of them first");
    return PyExc_TypeError;
}

FASTDL_COLD_ PyObject *fastdl_put_other_device_(fastdl_text_ *text, const fastdl_view *view,
                                                const char *name, const fastdl_spec *spec)
{
    const DLTensor *dl = &view->dl;
    (void)name;
    fastdl_put_device_(text, spec->like->view->dl.device);
    fastdl_put_(text, ", where ");
    fastdl_put_(text, spec->like->name);
    fastdl_put_(text, " is, got ");
    fastdl_put_device_(text, dl->device);
    fastdl_put_(text, ": move one of them first");
    return PyExc_BufferError;
}

FASTDL_COLD_ PyObject *fastdl_put_aliased_(fastdl_text_ *text, const fastdl_view *view,
                                           const char *name, const fastdl_spec *spec)
{
    size_t i = fastdl_aliased_(view, spec->no_alias, spec->no_alias_count, spec->rules);
    (void)name;
    fastdl_put_(text, "no memory shared with ");
    fastdl_put_(text, i < spec->no_alias_count ? spec->no_alias[i].name : "another argument");
    fastdl_put_(text, ", got an overlap: pass a copy of one");
    return PyExc_ValueError;
}

FASTDL_COLD_ PyObject *fastdl_put_other_(fastdl_text_ *text, const fastdl_view *view,
                                         const char *name, const fastdl_spec *spec)
{
    (void)view;
    (void)name;
    (void)spec;
    fastdl_put_(text, "something else"); /* the tensor has changed since it was compared */
    return PyExc_ValueError;
}

/* In the order of fastdl_mismatch_. */
typedef PyObject *(*fastdl_writer_)(fastdl_text_ *, const fastdl_view *, const char *,
                                    const fastdl_spec *);
FASTDL_TABLE_("fastdl_writers_")
fastdl_writer_ fastdl_writers_[] = {
    fastdl_put_other_,     fastdl_put_wrong_dtype_,   fastdl_put_wrong_ndim_,
    fastdl_put_no_ndim_,   fastdl_put_wrong_size_,    fastdl_put_wrong_layout_,
    fastdl_put_read_only_, fastdl_put_shares_itself_, fastdl_put_wrong_device_,
    fastdl_put_unaligned_, fastdl_put_other_dtype_,   fastdl_put_other_device_,
    fastdl_put_aliased_};

FASTDL_COLD_ int fastdl_raise_mismatch_(const fastdl_view *view, const char *name,
                                        const fastdl_spec *spec, fastdl_mismatch_ mismatch)
{
    fastdl_text_ text, tensor;
    PyObject *exception;
    text.length = tensor.length = 0;
    fastdl_put_(&text, name);
    fastdl_put_(&text, ": expected ");
    exception = fastdl_writers_[mismatch](&text, view, name, spec);
    fastdl_put_tensor_(&tensor, &view->dl, view->flags);
    PyErr_Format(exception, "%s (%s is %s)", text.text, name, tensor.text);
    return -1;
}

FASTDL_HOT_ int fastdl_expect(const fastdl_view *view, const char *name, const fastdl_spec *spec)
{
    fastdl_mismatch_ mismatch = fastdl_compare_(view, name, spec);
    if (FASTDL_LIKELY_(mismatch == FASTDL_MEETS_))
        return 0;
    /* A copy, so that no call sees the address of the spec: its members are then constants to the
     * compiler, and what the spec does not ask for costs nothing. */
    {
        fastdl_spec seen = *spec;
        return fastdl_raise_mismatch_(view, name, &seen, mismatch);
    }
}

/* ---- arguments ---- */

/* Whether torch records gradients in this thread. What cannot be asked counts as yes. */
FASTDL_COLD_ int fastdl_grad_is_enabled_(void)
{
    int answer = -1;
    PyObject *name = PyUnicode_InternFromString("torch");
    PyObject *torch = name == NULL ? NULL : PyImport_GetModule(name);
    if (torch != NULL)
        answer = fastdl_ask_(torch, "is_grad_enabled");
    if (answer < 0)
        PyErr_Clear();
    Py_XDECREF(torch);
    Py_XDECREF(name);
    return answer != 0;
}

/* Refuses a torch tensor whose gradient would be wrong after a write: 0, or -1 with BufferError. */
FASTDL_COLD_ int fastdl_ask_grad_(PyObject *obj, const char *name)
{
    PyObject *requires_grad = fastdl_optional_attribute_(obj, "requires_grad");
    int answer =
        requires_grad == NULL ? (PyErr_Occurred() ? -1 : 0) : PyObject_IsTrue(requires_grad);
    Py_XDECREF(requires_grad);
    if (answer <= 0 || !fastdl_grad_is_enabled_())
        return answer < 0 ? -1 : 0;
    PyErr_Format(PyExc_BufferError,
                 "%s: expected a tensor that may be written, got one that requires grad while "
                 "gradients are recorded, which would miss it: call within torch.no_grad(), or "
                 "pass a detached tensor",
                 name);
    return -1;
}

/* The same for any object whose tensor is in `view`. */
FASTDL_HOT_ int fastdl_check_grad_(PyObject *obj, const char *name, const fastdl_view *view)
{
    const fastdl_record *record;
    uint8_t code = view->dl.dtype.code;
    if (code == kDLInt || code == kDLUInt || code == kDLBool)
        return 0; /* these have no gradient */
    record = fastdl_known_(Py_TYPE(obj));
    if (record == NULL)
        return -1;
    return record->facts & FASTDL_TYPE_ASK_BITS ? fastdl_ask_grad_(obj, name) : 0;
}

/* ---- copies of host tensors ---- */

/* A copy and its memory, in one allocation. */
typedef struct {
    DLManagedTensorVersioned managed;
    int64_t dims[2]; /* shape, then strides: 2 * ndim of them; then, aligned, the elements */
} fastdl_copy_;

/* A deleter, so it is called on any thread, with or without a thread state. */
FASTDL_COLD_ void fastdl_delete_copy_(DLManagedTensorVersioned *self)
{
    free(self);
}

/* Room for a contiguous copy of a tensor in another element type, in `order`: the elements are not
 * filled in. NULL with an exception. */
FASTDL_COLD_ DLManagedTensorVersioned *fastdl_new_copy_(const DLTensor *from, uint64_t flags,
                                                        DLDataType dtype, char order,
                                                        int32_t alignment)
{
    const uint64_t padded = DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED;
    size_t dims = (size_t)from->ndim, start = sizeof(fastdl_copy_) + dims * 2 * sizeof(int64_t);
    size_t unit = alignment > 64 ? (size_t)alignment : 64;
    fastdl_copy_ *copy = NULL;
    fastdl_layout layout;
    DLTensor to = *from;
    int64_t step = 1;
    to.dtype = dtype;
    to.strides = NULL; /* compact */
    to.byte_offset = 0;
    to.device.device_type = kDLCPU; /* the copy of pinned memory is not pinned */
    to.device.device_id = 0;
    if (fastdl_check(&to, flags & padded, &layout) == FASTDL_OK &&
        (uint64_t)layout.nbytes < (uint64_t)PTRDIFF_MAX - start - unit)
        copy = (fastdl_copy_ *)malloc(start + unit + (size_t)layout.nbytes);
    if (copy == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    to.shape = copy->dims;
    to.strides = copy->dims + dims;
    for (size_t i = 0; i < dims; i++) {
        size_t k = order == 'F' ? i : dims - 1 - i;
        to.shape[k] = from->shape[k];
        to.strides[k] = step;
        if (fastdl_mul_(step, from->shape[k] > 0 ? from->shape[k] : 1, &step))
            step = 1; /* no elements */
    }
    to.data = (char *)copy + start;
    to.data = (char *)to.data + (unit - (uintptr_t)to.data % unit) % unit;
    memset(&copy->managed, 0, sizeof(copy->managed));
    copy->managed.version.major = FASTDL_DLPACK_MAJOR;
    copy->managed.version.minor = FASTDL_DLPACK_MINOR;
    copy->managed.manager_ctx = copy;
    copy->managed.deleter = fastdl_delete_copy_;
    copy->managed.flags = DLPACK_FLAG_BITMASK_IS_COPIED | (flags & padded);
    copy->managed.dl_tensor = to;
    return &copy->managed;
}

#define FASTDL_KIND_CASE_(number, type, kind)                                                      \
    case number:                                                                                   \
        return kind;

/* What an element type holds: nothing that can be converted, bool, integers, floating numbers. Each
 * goes to its own kind and to those above. */
FASTDL_COLD_ int fastdl_kind_(uint32_t dtype)
{
    switch (dtype) {
    case FASTDL_BOOL:
        return 1;
        FASTDL_EACH_INTEGER(FASTDL_KIND_CASE_, 2)
        FASTDL_EACH_FLOATING(FASTDL_KIND_CASE_, 3)
    default:
        return 0;
    }
}

/* Elements on their way from one type to another: a few at a time, so that each type needs one loop
 * to read and one to write. */
#define FASTDL_RUN_ 64
typedef union {
    int64_t whole[FASTDL_RUN_]; /* of bool and integers; uint64 by its bits */
    double real[FASTDL_RUN_];
} fastdl_run_;

#define FASTDL_READ_CASE_(number, type, run)                                                       \
    case number:                                                                                   \
        for (int i = 0; i < n; i++) {                                                              \
            type value;                                                                            \
            memcpy(&value, from + i * step, sizeof(value));                                        \
            (run)->whole[i] = number == FASTDL_BOOL ? value != 0 : (int64_t)value;                 \
        }                                                                                          \
        break;

FASTDL_COLD_ void fastdl_read_run_(uint32_t dtype, const char *from, int64_t step, int n,
                                   fastdl_run_ *run)
{
    switch (dtype) {
        FASTDL_EACH_INTEGER(FASTDL_READ_CASE_, run)
        FASTDL_READ_CASE_(FASTDL_BOOL, uint8_t, run)
    default:
        for (int i = 0; i < n; i++)
            run->real[i] = fastdl_load(dtype, from + i * step);
    }
}

/* Turns integers into floating numbers. Where double cannot hold one, its last bit says whether it
 * is exact, so that narrower types round as if from the integer itself. */
FASTDL_COLD_ void fastdl_float_run_(int is_unsigned, int to_double, int n, fastdl_run_ *run)
{
    for (int i = 0; i < n; i++) {
        int64_t value = run->whole[i];
        int negative = !is_unsigned && value < 0;
        uint64_t size = negative ? (uint64_t)0 - (uint64_t)value : (uint64_t)value;
        if (!to_double && size >> 53 != 0)
            size = (size >> 11 | ((size & 0x7ff) != 0)) << 11;
        run->real[i] = negative ? -(double)size : (double)size;
    }
}

#define FASTDL_WRITE_CASE_(number, type, run)                                                      \
    case number:                                                                                   \
        for (int i = 0; i < n; i++) {                                                              \
            type value = (type)(run)->whole[i];                                                    \
            if ((int64_t)value != (run)->whole[i] ||                                               \
                ((run)->whole[i] < 0 && (is_unsigned || number == FASTDL_UINT64)))                 \
                return i;                                                                          \
            memcpy(to + (size_t)i * sizeof(value), &value, sizeof(value));                         \
        }                                                                                          \
        break;

/* Writes elements next to each other: -1, or the number of the first that does not fit. */
FASTDL_COLD_ int fastdl_write_run_(uint32_t dtype, int is_unsigned, int n, const fastdl_run_ *run,
                                   char *to)
{
    switch (dtype) {
        FASTDL_EACH_INTEGER(FASTDL_WRITE_CASE_, run)
    default:
        for (int i = 0; i < n; i++)
            fastdl_store(dtype, to + (size_t)i * (dtype >> 8 & 0xff) / 8, run->real[i]);
    }
    return -1;
}

/* Copies n elements that lie `step` bytes apart to consecutive ones, in another type or the same.
 * 0, or -1 with *misfit set to the integer that does not fit. */
FASTDL_COLD_ int fastdl_copy_row_(const char *from, int64_t step, DLDataType from_type, char *to,
                                  DLDataType to_type, int64_t n, int64_t *misfit)
{
    uint32_t source = fastdl_dtype(from_type), target = fastdl_dtype(to_type);
    int64_t size = fastdl_itemsize(to_type);
    int is_unsigned = source == FASTDL_UINT64;
    if (source == target) {
        if (step == size)
            memcpy(to, from, (size_t)(n * size));
        else
            for (int64_t i = 0; i < n; i++)
                memcpy(to + i * size, from + i * step, (size_t)size);
        return 0;
    }
    while (n > 0) {
        fastdl_run_ run;
        int count = n < FASTDL_RUN_ ? (int)n : FASTDL_RUN_, wrong;
        fastdl_read_run_(source, from, step, count, &run);
        if (fastdl_kind_(source) < 3 && fastdl_kind_(target) == 3)
            fastdl_float_run_(is_unsigned, target == FASTDL_FLOAT64, count, &run);
        wrong = fastdl_write_run_(target, is_unsigned, count, &run, to);
        if (wrong >= 0) {
            *misfit = run.whole[wrong];
            return -1;
        }
        n -= count;
        from += count * step;
        to += count * size;
    }
    return 0;
}

/* Fills in a copy that fastdl_new_copy_ made of a host tensor. */
FASTDL_COLD_ int fastdl_fill_copy_(const DLTensor *from, const DLTensor *to, char order,
                                   int64_t *misfit)
{
    int64_t index[FASTDL_MAX_NDIM] = {0}, itemsize = fastdl_itemsize(from->dtype);
    int64_t row = 1, step = itemsize, bytes = fastdl_itemsize(to->dtype);
    const char *source = (const char *)from->data + from->byte_offset;
    char *target = (char *)to->data;
    int32_t ndim = from->ndim, last = ndim - 1;
    for (int32_t i = 0; i < ndim; i++)
        if (from->shape[i] == 0)
            return 0;
    if (ndim > 0) {
        int32_t k = order == 'F' ? 0 : last;
        row = from->shape[k];
        if (row > 1) /* else the stride may be anything, here and below */
            step = from->strides[k] * itemsize;
    }
    for (;;) {
        int32_t i = 1;
        if (fastdl_copy_row_(source, step, from->dtype, target, to->dtype, row, misfit) < 0)
            return -1;
        target += row * bytes;
        for (; i < ndim; i++) { /* the next row: an odometer of the other dimensions */
            int32_t k = order == 'F' ? i : last - i;
            if (from->shape[k] == 1)
                continue;
            source += from->strides[k] * itemsize;
            if (++index[k] < from->shape[k])
                break;
            source -= from->shape[k] * from->strides[k] * itemsize;
            index[k] = 0;
        }
        if (i >= ndim)
            return 0;
    }
}

/* Whether elements of one type can be converted to another. */
FASTDL_COLD_ int fastdl_converts_(uint32_t from, uint32_t to)
{
    int kind = fastdl_kind_(from);
    return from == to || (kind != 0 && kind <= fastdl_kind_(to) && to != FASTDL_BOOL);
}

/* The element type of a copy that is to meet a specification: `own` if it is accepted, or if it
 * cannot be converted to any that are. */
FASTDL_COLD_ DLDataType fastdl_choose_dtype_(DLDataType own, const fastdl_spec *spec)
{
    uint32_t from = fastdl_dtype(own), to = from;
    if (spec->like != NULL) {
        uint32_t wanted = fastdl_dtype(spec->like->view->dl.dtype);
        to = fastdl_converts_(from, wanted) ? wanted : from;
    } else {
        for (size_t i = spec->dtype_count; i-- > 0;) {
            if (spec->dtypes[i] == from)
                return own;
            if (fastdl_converts_(from, spec->dtypes[i]))
                to = spec->dtypes[i];
        }
    }
    own.code = (uint8_t)to;
    own.bits = (uint8_t)(to >> 8);
    own.lanes = (uint16_t)(to >> 16);
    return own;
}

/* Puts a copy that meets a specification into a view that does not: 0; 1 if no copy can meet it,
 * for the reason in *mismatch; -1 with an exception. */
FASTDL_COLD_ int fastdl_mend_(fastdl_view *view, const char *name, const fastdl_spec *spec,
                              fastdl_mismatch_ *mismatch)
{
    char order = (spec->layout & (FASTDL_C | FASTDL_F)) == FASTDL_F ? 'F' : 'C';
    DLDataType dtype = view->dl.dtype;
    DLManagedTensorVersioned *copy;
    fastdl_mismatch_ unmended;
    fastdl_view mended;
    int64_t misfit;
    if (spec->rules & FASTDL_WRITABLE || fastdl_is_packed(dtype, view->flags) ||
        !fastdl_find_device((int32_t)view->dl.device.device_type)->host ||
        *mismatch == FASTDL_WRONG_NDIM_ || *mismatch == FASTDL_NO_NDIM_ ||
        *mismatch == FASTDL_WRONG_SIZE_) /* which a copy has, too */
        return 1;
    if (spec->rules & FASTDL_CONVERT)
        dtype = fastdl_choose_dtype_(dtype, spec);
    copy = fastdl_new_copy_(&view->dl, view->flags, dtype, order, spec->alignment);
    if (copy == NULL)
        return -1;
    mended.dl = copy->dl_tensor;
    mended.flags = copy->flags;
    unmended = fastdl_compare_(&mended, name, spec);
    if (unmended != FASTDL_MEETS_) {
        /* A copy of pinned memory may be refused for its device, which was right before. */
        if (mended.dl.device.device_type == view->dl.device.device_type ||
            (unmended != FASTDL_WRONG_DEVICE_ && unmended != FASTDL_OTHER_DEVICE_))
            *mismatch = unmended;
        free(copy);
        return 1;
    }
    if (fastdl_fill_copy_(&view->dl, &copy->dl_tensor, order, &misfit) < 0) {
        fastdl_text_ text;
        text.length = 0;
        fastdl_put_dtype_(&text, fastdl_dtype(dtype));
        PyErr_Format(PyExc_ValueError,
                     view->dl.dtype.code == kDLUInt ? "%s: expected numbers that fit %s, got %llu"
                                                    : "%s: expected numbers that fit %s, got %lld",
                     name, text.text, (long long)misfit);
        free(copy);
        return -1;
    }
    fastdl_release(view);
    view->own_ = copy;
    view->dl = mended.dl;
    view->flags = mended.flags;
    return 0;
}

/* fastdl_expect of a view that was filled from `obj` and may be filled with a copy in its place. */
FASTDL_HOT_ int fastdl_meet_(PyObject *obj, const char *name, const fastdl_spec *spec,
                             fastdl_view *view)
{
    fastdl_mismatch_ mismatch = fastdl_compare_(view, name, spec);
    if (FASTDL_LIKELY_(mismatch == FASTDL_MEETS_)) {
        if ((spec->rules & (FASTDL_WRITABLE | FASTDL_DETACHED)) == FASTDL_WRITABLE)
            return fastdl_check_grad_(obj, name, view);
        return 0;
    }
    {
        fastdl_spec seen = *spec; /* as in fastdl_expect */
        int result = 1;
        if (spec->rules & (FASTDL_COPY | FASTDL_CONVERT))
            result = fastdl_mend_(view, name, &seen, &mismatch);
        return result > 0 ? fastdl_raise_mismatch_(view, name, &seen, mismatch) : result;
    }
}

FASTDL_HOT_ int fastdl_borrow_as(PyObject *obj, const char *name, const fastdl_spec *spec,
                                 fastdl_view *view)
{
    if (FASTDL_UNLIKELY_(fastdl_borrow(obj, view) < 0)) {
        fastdl_name_argument_(name);
        return -1;
    }
    if (FASTDL_LIKELY_(fastdl_meet_(obj, name, spec, view) == 0))
        return 0;
    fastdl_release(view);
    return -1;
}

static inline int fastdl_own_as(PyObject *obj, const char *name, const fastdl_spec *spec,
                                DLManagedTensorVersioned **out)
{
    fastdl_view view;
    *out = NULL;
    if (fastdl_own(obj, &view.own_) < 0) {
        fastdl_name_argument_(name);
        return -1;
    }
    view.api_ = NULL;
    view.flags = view.own_->flags;
    view.dl = view.own_->dl_tensor;
    fastdl_fold_offset_(&view.dl);
    if (fastdl_meet_(obj, name, spec, &view) < 0) {
        fastdl_release(&view);
        return -1;
    }
    *out = view.own_;
    return 0;
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

#ifdef __cplusplus
} /* extern "C" */
#endif
FASTDL_END_

#endif /* FASTDL_WITH_PYTHON_ */
