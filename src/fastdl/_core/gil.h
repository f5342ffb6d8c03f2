/* SPDX-License-Identifier: Apache-2.0
 *
 * Lets other Python threads run while this one waits for something outside Python.
 */
#ifndef FASTDL_CORE_GIL_H_
#define FASTDL_CORE_GIL_H_

/* Do not use Python until the second call has been given what the first returned. Both do nothing
 * on a thread that does not hold the GIL, or without an interpreter. */
void *fdl_pause_python(void);
void fdl_resume_python(void *paused);

#endif
