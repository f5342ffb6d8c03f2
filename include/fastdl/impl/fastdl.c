/* SPDX-License-Identifier: Apache-2.0
 *
 * fastdl/fastdl.c: the code of fastdl.h off the common path. It is compiled once in an extension
 * module, as C or C++, in one of two ways:
 *
 *   - as one of the module's sources;
 *   - by `#define FASTDL_IMPLEMENTATION` before `#include <fastdl/fastdl.h>` in one of its files.
 *
 * All functions are static (but for FASTDL_SHARED_, in the package); fastdl.h reaches them through
 * one variable, which is weak: libraries of one release that are linked into one module share it.
 */
#ifndef FASTDL_C_
#define FASTDL_C_

#include "private.h"

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

#include "errors.c"
#include "attributes.c"
#include "published.c"
#include "libraries.c"
#include "interpreter.c"
#include "values.c"
#include "request.c"
#include "capsules.c"
#include "protocol.c"
#include "tables.c"
#include "types.c"
#include "borrow.c"
#include "results.c"
#include "expect.c"
#include "copies.c"
#include "arrays.c"
#include "producers.c"

/* ---- the module's state ---- */

static const fastdl_functions_ fastdl_cold_ = {
    fastdl_import_package_,
    fastdl_exchange_api_,
    fastdl_own_any_,
    fastdl_own_as_,
    fastdl_wrap_,
    fastdl_empty_,
    fastdl_zeros_,
    fastdl_work_stream_,
    fastdl_order_,
    fastdl_empty_on_,
    fastdl_wrap_on_,
    fastdl_look_up_,
    fastdl_borrow_owned_,
    fastdl_borrow_refused_,
    fastdl_complete_slow_path_,
    fastdl_check_view_,
    fastdl_lazy_bits_,
    fastdl_requires_grad_,
    fastdl_shares_itself_in_any_order_,
    fastdl_compare_place_,
    fastdl_aliased_,
    fastdl_substitute_copy_,
    fastdl_raise_mismatch_,
    fastdl_unlisted_,
    fastdl_argument_failed_,
    fastdl_discard_,
    fastdl_settle_argument_,
    fastdl_target_,
    fastdl_enter_home_,
    fastdl_publish_,
    fastdl_describe_deep_,
    fastdl_produce_,
    fastdl_dlpack_,
    fastdl_dlpack_device_,
    fastdl_refuse_to_lend_,
    fastdl_allocate_produced_,
    fastdl_wrap_produced_,
};

#if (defined(__GNUC__) || defined(__clang__)) && !defined(_WIN32)
__attribute__((weak))
#elif defined(_WIN32)
__declspec(selectany)
#endif
fastdl_state_t_ fastdl_state_ = {fastdl_own_types_.tables[0],
                                 NULL,
                                 NULL,
#ifdef Py_LIMITED_API
                                 0, /* until fastdl_import() */
#else
                                 offsetof(PyTypeObject, tp_version_tag),
#endif
                                 &fastdl_cold_,
                                 0};

#ifdef __cplusplus
} /* extern "C" */
#endif

#if defined(__cplusplus) && defined(__clang__)
#pragma clang diagnostic pop
#elif defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#endif /* FASTDL_C_ */
