/* SPDX-License-Identifier: Apache-2.0
 *
 * Error messages of C code that may run without a thread state and so cannot raise an exception.
 */
#ifndef FASTDL_MEMORY_FAILURE_H_
#define FASTDL_MEMORY_FAILURE_H_

/* For the text of an exception. */
typedef struct {
    int no_memory; /* a MemoryError rather than a BufferError */
    int code;      /* the driver's error code; 0: fastdl's own error */
    char text[240];
} fdl_failure;

/* Fills in the message of an error of fastdl's own, formatted as by printf. Returns -1. */
int fdl_refuse(fdl_failure *failure, const char *format, ...);

/* Fills in the message for running out of memory. Returns -1. */
int fdl_refuse_memory(fdl_failure *failure);

#endif
