/* SPDX-License-Identifier: Apache-2.0
 *
 * The drivers' shared libraries, on each operating system. Libraries are never unloaded.
 */
#ifndef FASTDL_DEVICES_LIBRARY_H_
#define FASTDL_DEVICES_LIBRARY_H_

/* The library of CUDA's driver, or of HIP, or NULL. A copy of HIP that the process has already
 * loaded comes first, whatever its name: streams of one copy are invalid in another. */
void *fdl_library_of(int cuda);

/* The library at a path, or NULL. */
void *fdl_library_at(const char *path);

/* The address of a function, or NULL. */
void *fdl_library_symbol(void *library, const char *name);

/* Registers a function to call in every forked child. 1 on success, or without fork. */
int fdl_library_at_fork(void (*child)(void));

#endif
