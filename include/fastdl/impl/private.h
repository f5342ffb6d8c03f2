/* SPDX-License-Identifier: Apache-2.0 */

/* ---- declarations that the parts of fastdl.c share; each part uses only those before it ---- */

#include "fastdl.h"

#include <stdarg.h>

/* The linkage of functions that the package's own files also call. */
#ifndef FASTDL_SHARED_
#define FASTDL_SHARED_ static
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

#define FASTDL_MOST_KEYWORDS_ 4

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
    int is_main;             /* whether that is the main interpreter: not read from one that ends */
} fastdl_names_;
