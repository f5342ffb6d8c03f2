/* SPDX-License-Identifier: Apache-2.0
 *
 * The Arrow C data interface, for arrow.c and arrow_import.c.
 *
 * Ownership. A struct belongs to whoever holds it while its `release` is not NULL; moving it is a
 * copy of the struct, after which the old one's `release` is NULL. The structs of children belong
 * to their parent, unless they are moved.
 */
#ifndef FASTDL_CORE_ARROW_ABI_H_
#define FASTDL_CORE_ARROW_ABI_H_

#include "_memory/layout.h"

#define SCHEMA_NAME "arrow_schema"
#define ARRAY_NAME "arrow_array"
#define STREAM_NAME "arrow_array_stream"

/* The structs and the flag of the Arrow C data and stream interfaces, which are frozen. */
struct ArrowSchema {
    const char *format, *name, *metadata;
    int64_t flags, n_children;
    struct ArrowSchema **children, *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};

struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children, *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

struct ArrowArrayStream {
    int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *);
    int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *);
    const char *(*get_last_error)(struct ArrowArrayStream *);
    void (*release)(struct ArrowArrayStream *);
    void *private_data;
};

/* The element types that are in both Arrow and DLPack; bools are bits in Arrow. */
typedef struct {
    DLDataType dtype;
    const char *format;
} fdl_arrow_type;

extern const fdl_arrow_type fdl_arrow_types[]; /* the last row has no format */

#endif
