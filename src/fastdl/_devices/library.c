/* SPDX-License-Identifier: Apache-2.0 */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* dl_iterate_phdr */
#endif

#include "library.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef _WIN32

#include <windows.h>

/* Loads a library of the system, never from the current folder. */
static void *open_system(const char *name)
{
    return (void *)LoadLibraryExA(name, NULL, LOAD_LIBRARY_SEARCH_SYSTEM32);
}

void *fdl_library_of(int cuda)
{
    static const char *const names[] = {"amdhip64_7.dll", "amdhip64_6.dll", "amdhip64.dll"};
    void *found = NULL;
    if (cuda)
        return open_system("nvcuda.dll");
    for (int i = 0; i < 3 && found == NULL; i++)
        found = (void *)GetModuleHandleA(names[i]);
    for (int i = 0; i < 3 && found == NULL; i++)
        found = open_system(names[i]);
    return found;
}

void *fdl_library_at(const char *path)
{
    return (void *)LoadLibraryA(path);
}

void *fdl_library_symbol(void *library, const char *name)
{
    FARPROC found = GetProcAddress((HMODULE)library, name);
    void *address;
    memcpy(&address, &found, sizeof(address));
    return address;
}

int fdl_library_at_fork(void (*child)(void))
{
    (void)child; /* Windows has no fork */
    return 1;
}

#else

#include <dlfcn.h>
#include <pthread.h>

void *fdl_library_at(const char *path)
{
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

void *fdl_library_symbol(void *library, const char *name)
{
    return dlsym(library, name);
}

int fdl_library_at_fork(void (*child)(void))
{
    return pthread_atfork(NULL, NULL, child) == 0;
}

/* Frameworks bundle HIP under names other than the system's. */
#ifdef __linux__

#include <link.h>

typedef struct {
    char text[1024];
} found_path;

static int is_hip(struct dl_phdr_info *info, size_t size, void *found)
{
    const char *name = strrchr(info->dlpi_name, '/');
    (void)size;
    if (strncmp(name == NULL ? info->dlpi_name : name + 1, "libamdhip64.so", 14) != 0)
        return 0;
    (void)snprintf(((found_path *)found)->text, sizeof(found_path), "%s", info->dlpi_name);
    return 1;
}

static void *loaded_hip(void)
{
    found_path found = {""};
    (void)dl_iterate_phdr(is_hip, &found);
    return found.text[0] == '\0' ? NULL : dlopen(found.text, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
}

#else

static void *loaded_hip(void)
{
    return NULL;
}

#endif

static void *hip_in(const char *folder)
{
    char path[1024];
    int length = snprintf(path, sizeof(path), "%s/lib/libamdhip64.so", folder);
    return length > 0 && (size_t)length < sizeof(path) ? fdl_library_at(path) : NULL;
}

void *fdl_library_of(int cuda)
{
    static const char *const names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"};
    const char *rocm = getenv("ROCM_PATH");
    void *found;
    if (cuda) {
        /* Not "libcuda.so", which may be the toolkit's stub. The second path is for WSL. */
        found = fdl_library_at("libcuda.so.1");
        return found != NULL ? found : fdl_library_at("/usr/lib/wsl/lib/libcuda.so.1");
    }
    found = loaded_hip();
    for (int i = 0; i < 3 && found == NULL; i++)
        found = fdl_library_at(names[i]);
    if (found == NULL && rocm != NULL)
        found = hip_in(rocm);
    return found != NULL ? found : hip_in("/opt/rocm");
}

#endif
