/* SPDX-License-Identifier: Apache-2.0 */
#include "mapping.h"

#include <errno.h>
#include <stdlib.h>

#ifdef _WIN32

#include <io.h>

fdl_description *fdl_mapping_new(int fd, int64_t nbytes)
{
    (void)nbytes;
    _close(fd);
    errno = ENOSYS; /* Windows cannot pass a descriptor to another process */
    return NULL;
}

#else

#include <sys/mman.h>
#include <unistd.h>

typedef struct {
    void *address;
    size_t nbytes;
    int fd;
} mapping;

static void end_mapping(mapping *owned)
{
    if (owned->address != MAP_FAILED)
        munmap(owned->address, owned->nbytes);
    close(owned->fd);
    free(owned);
}

static int drop_mapping(fdl_block *block, int attached)
{
    (void)attached;
    end_mapping(block->owner);
    return 1;
}

static fdl_description *fail(mapping *owned, int error)
{
    end_mapping(owned);
    errno = error;
    return NULL;
}

fdl_description *fdl_mapping_new(int fd, int64_t nbytes)
{
    DLTensor tensor = {.device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLUInt, 8, 1}};
    fdl_description *description;
    mapping *owned = malloc(sizeof *owned);
    if (owned == NULL) {
        close(fd);
        errno = ENOMEM;
        return NULL;
    }
    owned->fd = fd;
    owned->address = MAP_FAILED;
    owned->nbytes = (size_t)nbytes;
    if ((uint64_t)nbytes > PTRDIFF_MAX)
        return fail(owned, ENOMEM);
    owned->address = mmap(NULL, owned->nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (owned->address == MAP_FAILED)
        return fail(owned, errno);
    description = fdl_block_new_detached(1);
    if (description == NULL)
        return fail(owned, ENOMEM);
    tensor.data = owned->address;
    tensor.shape = &nbytes;
    fdl_description_fill(description, &tensor, 0);
    description->block->owner = owned;
    description->block->drop = drop_mapping;
    return description;
}

#endif
