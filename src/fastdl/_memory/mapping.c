/* SPDX-License-Identifier: Apache-2.0 */
#include "mapping.h"

#include <errno.h>
#include <stdlib.h>

#ifdef _WIN32

fdl_description *fdl_mapping_new(int fd, int64_t nbytes)
{
    (void)fd;
    (void)nbytes;
    errno = ENOSYS; /* Windows hands no descriptors from process to process */
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
    munmap(owned->address, owned->nbytes);
    free(owned);
}

static int drop_mapping(fdl_block *block, int attached)
{
    mapping *owned = block->owner;
    int fd = owned->fd;
    (void)attached;
    end_mapping(owned);
    close(fd);
    return 1;
}

fdl_description *fdl_mapping_new(int fd, int64_t nbytes)
{
    DLTensor tensor = {.device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLUInt, 8, 1}};
    fdl_description *description;
    mapping *owned;
    if ((uint64_t)nbytes > PTRDIFF_MAX || (owned = malloc(sizeof *owned)) == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    owned->fd = fd;
    owned->nbytes = (size_t)nbytes;
    owned->address = mmap(NULL, owned->nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (owned->address == MAP_FAILED) {
        free(owned);
        return NULL;
    }
    description = fdl_block_new_detached(1);
    if (description == NULL) {
        end_mapping(owned);
        errno = ENOMEM;
        return NULL;
    }
    tensor.data = owned->address;
    tensor.shape = &nbytes;
    fdl_description_fill(description, &tensor, 0);
    description->block->owner = owned;
    description->block->drop = drop_mapping;
    return description;
}

#endif
