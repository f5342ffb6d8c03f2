/* SPDX-License-Identifier: Apache-2.0 */

/* ---- what the parts of fastdl.c share: each compiles alone after this ---- */

#include "fastdl.h"

#include <stdarg.h>
#include <stdlib.h>

/* The linkage of functions that the package's own files also call. */
#ifndef FASTDL_SHARED_
#define FASTDL_SHARED_ static
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The module's own cache of types, for use without the package, and slots that are always empty. */
static fastdl_cache fastdl_own_types_;
static fastdl_slot fastdl_no_types_[FASTDL_SETS];

/* A message built from parts, in memory of fixed size. */
typedef struct {
    size_t length;
    char text[1024];
} fastdl_text_;

/* A special method of an object. */
typedef struct {
    PyObject *callable; /* a new reference, or NULL */
    PyObject *self;     /* its first argument, borrowed; NULL if it is bound */
} fastdl_method_;

#define FASTDL_MOST_KEYWORDS_ 2

/* The places of the keywords in fastdl_keywords(). */
enum {
    FASTDL_AT_COPY_,
    FASTDL_AT_DL_DEVICE_,
    FASTDL_AT_MAX_VERSION_,
    FASTDL_AT_VERSION_,
    FASTDL_AT_STREAM_,
    FASTDL_KEYWORDS_
};

/* Constants of each exchange: interned names, the tuple of the one name `max_version`, its value,
 * and 0 and 1. Those of the home are never freed. */
typedef struct {
    PyObject *keywords[FASTDL_KEYWORDS_];
    PyObject *dlpack, *dlpack_device, *dtype, *max_version, *version, *zero, *one;
    const void *interpreter; /* the home, a PyInterpreterState; NULL once it has ended */
} fastdl_names_;

/* Whether the package has a member of fastdl_runtime that its first release did not have: the
 * struct of an older one ends before it, and may have padding there. */
#define FASTDL_OFFERS_(package, member)                                                            \
    ((package) != NULL &&                                                                          \
     (package)->size >= offsetof(fastdl_runtime, member) + sizeof((package)->member))

/* errors.c */
static void fastdl_put_(fastdl_text_ *text, const char *part);
static void fastdl_put_int_(fastdl_text_ *text, int64_t value);
static void fastdl_put_tuple_(fastdl_text_ *text, const int64_t *values, int32_t n);
static void fastdl_put_dtype_(fastdl_text_ *text, uint32_t dtype);
static void fastdl_put_device_type_(fastdl_text_ *text, int32_t type);
static void fastdl_put_device_(fastdl_text_ *text, DLDevice device);
static void fastdl_put_tensor_(fastdl_text_ *text, const DLTensor *tensor, uint64_t flags);
static void fastdl_restore_(PyObject *type, PyObject *value, PyObject *traceback);
FASTDL_SHARED_ void fastdl_raise_(PyObject *exception, const char *format, ...);
FASTDL_SHARED_ void fastdl_raise_fault(fastdl_fault fault, const DLTensor *tensor);
FASTDL_SHARED_ void fastdl_raise_no_tensor(PyObject *obj);
static void fastdl_raise_about_(PyObject *exception, const char *format, PyTypeObject *type);
static void fastdl_raise_answer_(PyObject *exception, const char *format, PyTypeObject *type,
                                 PyObject *answer);
static void fastdl_name_argument_(const char *name);
static PyObject *fastdl_attribute_(PyObject *obj, const char *name);
static PyObject *fastdl_optional_attribute_(PyObject *obj, const char *name);
static PyObject *fastdl_type_name_(PyTypeObject *type);

/* attributes.c */
static descrgetfunc fastdl_getter_(PyObject *attribute);
FASTDL_SHARED_ PyObject *fastdl_of_type_(PyTypeObject *type, const char *name);
FASTDL_SHARED_ PyObject *fastdl_mro_(PyTypeObject *type);
FASTDL_SHARED_ PyObject *fastdl_class_item_(PyObject *attributes, const char *name);
static PyObject *fastdl_type_lookup_(PyTypeObject *type, const char *name);
static int fastdl_find_method_(PyObject *obj, PyObject *name, fastdl_method_ *method);
static PyObject *fastdl_call_(const fastdl_method_ *method, PyObject *names,
                              PyObject *const *values, Py_ssize_t count);

/* published.c */
static int fastdl_mark_as_producer_(PyObject *capsule, const DLPackExchangeAPI *table);
static int fastdl_published_table_(PyTypeObject *type, const DLPackExchangeAPI **table,
                                   int *is_checked);

/* libraries.c */
static int fastdl_add_facts_(PyTypeObject *type, uint32_t *facts);

/* interpreter.c */
static int fastdl_interpreter_is_gone_(void);
static const fastdl_names_ *fastdl_get_names_(void);
static const fastdl_runtime *fastdl_package_(void);

/* values.c */
static int fastdl_call_predicate_(PyObject *obj, const char *method);
static void fastdl_raise_dtype_(PyObject *dtype);
static int fastdl_check_width_(PyObject *obj, const DLTensor *tensor);
FASTDL_SHARED_ int fastdl_check_values_(PyObject *obj, const DLTensor *tensor, uint32_t facts);

/* capsules.c */
FASTDL_SHARED_ void fastdl_release_object_(PyObject *object);
FASTDL_SHARED_ void fastdl_discard_(DLManagedTensorVersioned *versioned, DLManagedTensor *legacy);
static DLManagedTensorVersioned *fastdl_export_(const fastdl_description *description);
static int fastdl_adopt_(PyObject *obj, DLManagedTensorVersioned *versioned,
                         DLManagedTensor *legacy, uint32_t facts, DLManagedTensorVersioned **out);
static int fastdl_refuse_unordered_(PyObject *obj, int32_t device_type);
static int fastdl_ordering_(int32_t device_type);
static int fastdl_is_ordered_(int32_t device_type);
FASTDL_SHARED_ int fastdl_is_as_announced_(const int32_t *announced, DLDevice delivered);
static int fastdl_request_device_(PyObject *obj, const fastdl_names_ *names, int32_t *device);

/* protocol.c */
FASTDL_SHARED_ const fastdl_keyword_fact *fastdl_keywords(void);
static int fastdl_read_signature_(PyObject *function, uint32_t *refused);
FASTDL_SHARED_ int fastdl_request_capsule_(PyObject *obj, const fastdl_record *record,
                                           int host_only, int32_t *device, PyObject **capsule);
static int fastdl_take_(PyObject *obj, PyObject *capsule, uint32_t facts,
                        DLManagedTensorVersioned **out);

/* request.c */
static int fastdl_read_plain_pair_(PyObject *pair, const fastdl_names_ *names, int64_t *numbers);
FASTDL_SHARED_ int fastdl_read_request_(PyObject *const *values, Py_ssize_t count, PyObject *names,
                                        fastdl_request *request, PyObject **draft);

/* types.c, tables.c, borrow.c, copies.c */
static int fastdl_has_names_(PyTypeObject *type);
static const DLPackExchangeAPI *fastdl_protocol_(void);
static const DLPackExchangeAPI *fastdl_traced_(void);
static int fastdl_borrow_owned_(PyObject *obj, fastdl_view *view, const fastdl_record *record);
static DLManagedTensorVersioned *fastdl_copy_of_(const fastdl_description *description);

#ifdef __cplusplus
} /* extern "C" */
#endif
