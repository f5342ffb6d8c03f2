/* SPDX-License-Identifier: Apache-2.0
 *
 * Why something failed where no exception can be raised: in C that may run without a thread state.
 */
#ifndef FASTDL_CORE_FAILURE_H_
#define FASTDL_CORE_FAILURE_H_

/* For the text of an exception. */
typedef struct {
    int no_memory; /* a MemoryError, other than a BufferError */
    int code;      /* of a driver; 0: it is fastdl that refuses */
    char text[240];
} fdl_failure;

/* Fills in the words that fastdl refuses with, in the manner of printf. Returns -1. */
int fdl_refuse(fdl_failure *failure, const char *format, ...);

/* The same for memory that there is none of. */
int fdl_refuse_memory(fdl_failure *failure);

#endif
