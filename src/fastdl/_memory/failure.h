/* SPDX-License-Identifier: Apache-2.0
 *
 * Why something failed, for C code that may run without a thread state and cannot raise an
 * exception.
 */
#ifndef FASTDL_MEMORY_FAILURE_H_
#define FASTDL_MEMORY_FAILURE_H_

/* For the text of an exception. */
typedef struct {
    int no_memory; /* a MemoryError rather than a BufferError */
    int code;      /* the driver's code; 0: fastdl itself refuses */
    char text[240];
} fdl_failure;

/* Fills in the message for a refusal by fastdl, formatted as by printf. Returns -1. */
int fdl_refuse(fdl_failure *failure, const char *format, ...);

/* The same for running out of memory. */
int fdl_refuse_memory(fdl_failure *failure);

#endif
