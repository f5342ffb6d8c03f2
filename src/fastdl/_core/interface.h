/* SPDX-License-Identifier: Apache-2.0
 *
 * The public header, and the further functions of fastdl.c that the package uses: the package and
 * every module that vendors the header run the same code. Names that begin with fastdl_ are
 * documented where they are defined.
 */
#ifndef FASTDL_CORE_INTERFACE_H_
#define FASTDL_CORE_INTERFACE_H_

#include <fastdl/fastdl.h>

/* The keywords of `__dlpack__`: all rows, then one with a NULL name. */
const fastdl_keyword_fact *fastdl_keywords(void);

int fastdl_read_request_(PyObject *const *values, Py_ssize_t count, PyObject *names,
                         fastdl_request_ *request, PyObject **draft);

/* Types. */
const fastdl_record *fastdl_find_record(fastdl_cache *cache, const PyTypeObject *type,
                                        uint32_t tag);
const fastdl_record *fastdl_discover(fastdl_cache *cache, PyTypeObject *type,
                                     int (*describe)(PyTypeObject *, fastdl_record *));
int fastdl_fill_record_(PyTypeObject *type, fastdl_record *record);
const DLPackExchangeAPI *fastdl_usable_table(const DLPackExchangeAPI *table);
PyObject *fastdl_mro_(PyTypeObject *type);
PyObject *fastdl_class_item_(PyObject *attributes, const char *name);
PyObject *fastdl_of_type_(PyTypeObject *type, const char *name);

/* More facts about the instances of a type, stated in the file on its library: see
 * _bridges/lookup.py. */
enum {
    FDL_TYPE_TRUSTED = 1 << 16,              /* its own table describes tensors correctly */
    FDL_TYPE_IMMUTABLE = 1 << 17,            /* read-only, and the memory never changes */
    FDL_TYPE_BUFFER = 1 << 18,               /* its buffer keeps host data alive; not subclasses' */
    FDL_TYPE_EXPORT_DOES_NOT_SYNC = 1 << 19, /* exporting never waits */
    FDL_TYPE_STREAM_NONE_SYNCS = 1 << 20, /* passes stream=-1 to its driver; synchronises on None */
    FDL_TYPE_REFUSES = 1 << 21,           /* the file has a function that refuses some instances */
    FDL_TYPE_LEGACY = 1 << 22             /* it returns legacy capsules, whatever is requested */
};
#define FDL_REFUSAL_SHIFT 28 /* of the number of that function in the facts */

/* The offset of the version tag in a type. */
#define FDL_TAG_OFFSET offsetof(PyTypeObject, tp_version_tag)

/* The cache of types for this process: see fastdl_cache. */
extern fastdl_cache fdl_types;

/* The record of `type`, or NULL. Needs no thread state. */
static inline const fastdl_record *fdl_type_find(const PyTypeObject *type)
{
    const fastdl_record *record;
    uint32_t tag = fastdl_tag_(type);
    if (FASTDL_LIKELY_(
            fastdl_match_(&fdl_types.tables[0][tag & (FASTDL_SETS - 1)], type, tag, &record)) ||
        fastdl_match_(&fdl_types.others[0][tag & (FASTDL_SETS - 1)], type, tag, &record))
        return record;
    return fastdl_find_record(&fdl_types, type, tag);
}

/* Binds the package to the calling interpreter, so that a first exchange does not bind it to one
 * that soon ends: 0, or -1 with ImportError. */
int fdl_make_home(void);

/* The exchange. */
/* The special method of an object with an interned name, bound: a new reference; NULL without an
 * exception if there is none. */
PyObject *fdl_special(PyObject *obj, PyObject *name);
/* The result of `__dlpack_device__`: 0, or -1 with an exception. */
int fdl_announced_device(PyObject *obj, DLDevice *device);
/* Calls `__dlpack__` for a versioned capsule, or for a `plain` one without keywords, without
 * `__dlpack_device__`: a new reference; NULL with an exception. */
PyObject *fdl_request(PyObject *obj, int plain);
void fastdl_open_capsule_(PyObject *capsule, int host_only, DLManagedTensorVersioned **versioned,
                          DLManagedTensor **legacy);
void fastdl_discard_(DLManagedTensorVersioned *versioned, DLManagedTensor *legacy);
void fastdl_release_object_(PyObject *object);
int fastdl_check_exporter_(PyObject *obj, uint32_t facts);
int fastdl_request_capsule_(PyObject *obj, const fastdl_record *record, int host_only,
                            int32_t *device, PyObject **capsule);
int fastdl_should_try_protocol_(PyObject *obj, uint32_t facts);
int fastdl_is_as_announced_(const int32_t *announced, DLDevice delivered);
int fastdl_check_stream_(DLDevice device, int64_t stream);
uint32_t fastdl_refused_keyword(const char *message, int has_frames, uint32_t keywords);
int fastdl_is_really_legacy(const DLManagedTensorVersioned *managed);
int fastdl_is_really_versioned(const DLManagedTensor *managed);
int fastdl_check_values_(PyObject *obj, const DLTensor *tensor, uint32_t facts);
PyObject *fastdl_keeper_(PyObject *obj, uint32_t facts);
int fastdl_check_version(const DLManagedTensorVersioned *managed);

/* Errors. */
void fastdl_raise_(PyObject *exception, const char *format, ...);
void fastdl_raise_fault(fastdl_fault fault, const DLTensor *tensor);
void fastdl_raise_no_tensor(PyObject *obj);

#endif
