/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts large copies in all processes that are started with it: LD_PRELOAD, and FASTDL_COPIES, a
 * file of three uint64_t that they map: bytes in calls of at least the first number, and how many
 * such calls there were. What a compiler makes of a copy of a known size is not seen, nor is what
 * the C library does within itself. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static volatile uint64_t *counts;

__attribute__((constructor)) static void map_counts(void)
{
    const char *path = getenv("FASTDL_COPIES");
    int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    void *mapped = MAP_FAILED;
    if (fd >= 0) {
        mapped = mmap(NULL, 3 * sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
    }
    if (mapped != MAP_FAILED)
        counts = mapped;
}

static void count(ssize_t n)
{
    if (counts == NULL || n <= 0 || (uint64_t)n < counts[0])
        return;
    __atomic_fetch_add(&counts[1], (uint64_t)n, __ATOMIC_RELAXED);
    __atomic_fetch_add(&counts[2], 1, __ATOMIC_RELAXED);
}

/* Not by dlsym, which itself copies memory. */
void *memmove(void *target, const void *source, size_t n)
{
    char *t = target;
    const char *s = source;
    count((ssize_t)n);
    if (t <= s || t >= s + n)
        __asm__ volatile("rep movsb" : "+D"(t), "+S"(s), "+c"(n) : : "memory");
    else {
        t += n - 1;
        s += n - 1;
        __asm__ volatile("std\n\trep movsb\n\tcld" : "+D"(t), "+S"(s), "+c"(n) : : "memory");
    }
    return target;
}

void *memcpy(void *target, const void *source, size_t n)
{
    return memmove(target, source, n);
}

#define NEXT(type, name, parameters, arguments)                                                    \
    type name parameters                                                                           \
    {                                                                                              \
        static type(*next) parameters;                                                             \
        type n;                                                                                    \
        if (next == NULL)                                                                          \
            next = (type(*) parameters)dlsym(RTLD_NEXT, #name);                                    \
        n = next arguments;                                                                        \
        count(n);                                                                                  \
        return n;                                                                                  \
    }

NEXT(ssize_t, read, (int fd, void *b, size_t n_), (fd, b, n_))
NEXT(ssize_t, write, (int fd, const void *b, size_t n_), (fd, b, n_))
NEXT(ssize_t, pread64, (int fd, void *b, size_t n_, off_t o), (fd, b, n_, o))
NEXT(ssize_t, pwrite64, (int fd, const void *b, size_t n_, off_t o), (fd, b, n_, o))
NEXT(ssize_t, pwrite, (int fd, const void *b, size_t n_, off_t o), (fd, b, n_, o))
NEXT(ssize_t, readv, (int fd, const struct iovec *v, int c), (fd, v, c))
NEXT(ssize_t, writev, (int fd, const struct iovec *v, int c), (fd, v, c))
NEXT(ssize_t, send, (int fd, const void *b, size_t n_, int f), (fd, b, n_, f))
NEXT(ssize_t, recv, (int fd, void *b, size_t n_, int f), (fd, b, n_, f))
NEXT(ssize_t, sendmsg, (int fd, const struct msghdr *m, int f), (fd, m, f))
NEXT(ssize_t, recvmsg, (int fd, struct msghdr *m, int f), (fd, m, f))
