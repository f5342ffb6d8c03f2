/* SPDX-License-Identifier: Apache-2.0
 *
 * Strided host copies. The target is always compact. So drop dimensions of size 1, fuse neighbours
 * that one stride describes, and run two nested loops over the rest, with constant element sizes
 * that the compiler can vectorise.
 */
#include "copy.h"

#include <string.h>

void fdl_walk_of(const DLTensor *tensor, fdl_walk *out)
{
    int64_t itemsize = fastdl_itemsize(tensor->dtype);
    int32_t n = 0;
    for (int32_t i = 0; i < tensor->ndim; i++) {
        int64_t dim = tensor->shape[i], stride;
        if (dim == 1)
            continue; /* its stride may be anything, even out of range */
        stride = tensor->strides[i] * itemsize;
        if (n > 0 && (uint64_t)out->strides[n - 1] == (uint64_t)dim * (uint64_t)stride) {
            out->shape[n - 1] *= dim;
            out->strides[n - 1] = stride;
        } else {
            out->shape[n] = dim;
            out->strides[n] = stride;
            n++;
        }
    }
    out->ndim = n;
}

/* Copies a plane to consecutive bytes: `rows` rows of `columns` elements, rows `row` bytes apart,
 * columns `column` bytes apart. Where the rows are nearer than the columns (a transpose) the plane
 * is cut into tiles, so that each cache line of the source is fetched once. */
#define TILE 16

#define DEFINE_PLANE(bytes)                                                                        \
    static void plane_##bytes(const char *source, int64_t rows, int64_t row, int64_t columns,      \
                              int64_t column, char *target)                                        \
    {                                                                                              \
        int64_t step = rows > 1 && -column < row && row < column ? TILE : columns;                 \
        int64_t band = step == columns ? 1 : TILE;                                                 \
        for (int64_t r0 = 0; r0 < rows; r0 += band) {                                              \
            int64_t r1 = r0 + band < rows ? r0 + band : rows;                                      \
            for (int64_t c0 = 0; c0 < columns; c0 += step) {                                       \
                int64_t c1 = c0 + step < columns ? c0 + step : columns;                            \
                for (int64_t r = r0; r < r1; r++) {                                                \
                    const char *from = source + r * row + c0 * column;                             \
                    char *to = target + (r * columns + c0) * bytes;                                \
                    int64_t c = c0;                                                                \
                    for (; c + 4 <= c1; c += 4, from += 4 * column, to += 4 * bytes) {             \
                        memcpy(to, from, bytes);                                                   \
                        memcpy(to + bytes, from + column, bytes);                                  \
                        memcpy(to + 2 * bytes, from + 2 * column, bytes);                          \
                        memcpy(to + 3 * bytes, from + 3 * column, bytes);                          \
                    }                                                                              \
                    for (; c < c1; c++, from += column, to += bytes)                               \
                        memcpy(to, from, bytes);                                                   \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

DEFINE_PLANE(1)
DEFINE_PLANE(2)
DEFINE_PLANE(4)
DEFINE_PLANE(8)
DEFINE_PLANE(16)

/* Writes a row that repeats one element, by doubling the part already written. */
static void repeat(const char *element, int64_t columns, int64_t itemsize, char *target)
{
    int64_t length = columns * itemsize;
    memcpy(target, element, (size_t)itemsize);
    for (int64_t done = itemsize; done < length; done *= 2)
        memcpy(target + done, target, (size_t)(done < length - done ? done : length - done));
}

#define PLANE_CASE(bytes)                                                                          \
    case bytes:                                                                                    \
        plane_##bytes(source, rows, row, columns, column, target);                                 \
        return;

#define FEW 16 /* elements, for which a loop is as fast */

static void copy_plane(const char *source, int64_t rows, int64_t row, int64_t columns,
                       int64_t column, int64_t itemsize, char *target)
{
    if (column == itemsize) {
        int64_t length = columns * itemsize;
        for (int64_t n = 0; n < rows; n++) {
            int64_t r = row < 0 ? rows - 1 - n : n; /* upwards in the source, for the prefetcher */
            memcpy(target + r * length, source + r * row, (size_t)length);
        }
        return;
    }
    if (column == 0 && columns > FEW) {
        for (int64_t r = 0; r < rows; r++)
            repeat(source + r * row, columns, itemsize, target + r * columns * itemsize);
        return;
    }
    switch (itemsize) {
        PLANE_CASE(1)
        PLANE_CASE(2)
        PLANE_CASE(4)
        PLANE_CASE(8)
        PLANE_CASE(16)
    default:
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < columns; c++, target += itemsize)
                memcpy(target, source + r * row + c * column, (size_t)itemsize);
    }
}

void fdl_copy_compact(const DLTensor *source, uint64_t flags, void *target)
{
    const char *from;
    int64_t itemsize = fastdl_itemsize(source->dtype);
    int64_t index[FASTDL_MAX_NDIM] = {0};
    int64_t plane;
    int32_t outer;
    char *to = target;
    fastdl_layout layout;
    fdl_walk w;

    (void)fastdl_check(source, flags, &layout);
    if (layout.size == 0) /* and `data` may be NULL */
        return;
    from = (const char *)source->data + source->byte_offset;
    if (fastdl_is_packed(source->dtype, flags) || fastdl_is_contiguous(source, 'C')) {
        memcpy(target, from, (size_t)layout.nbytes);
        return;
    }

    fdl_walk_of(source, &w);
    if (w.ndim == 1) { /* one strided run: a plane of one row */
        copy_plane(from, 1, 0, w.shape[0], w.strides[0], itemsize, to);
        return;
    }
    outer = w.ndim - 2;
    plane = w.shape[outer] * w.shape[outer + 1] * itemsize;
    for (;;) {
        int32_t i = outer;
        copy_plane(from, w.shape[outer], w.strides[outer], w.shape[outer + 1], w.strides[outer + 1],
                   itemsize, to);
        to += plane;
        while (i-- > 0) { /* the next index of the outer dimensions, like an odometer */
            from += w.strides[i];
            if (++index[i] < w.shape[i])
                break;
            from -= w.strides[i] * w.shape[i];
            index[i] = 0;
        }
        if (i < 0)
            return;
    }
}
