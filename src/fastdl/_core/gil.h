/* SPDX-License-Identifier: Apache-2.0
 *
 * Letting other Python threads run while this one waits for something that is not Python's.
 */
#ifndef FASTDL_CORE_GIL_H_
#define FASTDL_CORE_GIL_H_

/* Nothing of Python may be touched until the second call is given what the first returned. Both do
 * nothing on a thread that does not hold the GIL, or without an interpreter. */
void *fdl_pause_python(void);
void fdl_resume_python(void *paused);

#endif
