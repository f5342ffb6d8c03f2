# cython: language_level=3
# SPDX-License-Identifier: Apache-2.0
"""pykdtree.kdtree with `cimport fastdl`: trees of any tensor, and answers in its framework."""
cimport fastdl
from libc.stdint cimport UINT32_MAX, int8_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc

fastdl.import_fastdl()

cdef extern from *:
    # The functions of _kdtree_core.c, which has no header: for two types of points and two of
    # indices, with one signature for all. `search` also does what follows a search.
    """
    #include <float.h>
    #include <math.h>

    typedef struct {
        void *(*construct)(void *points, int8_t dims, uint64_t n, uint32_t leafsize);
        void (*search)(void *tree, void *points, uint64_t n, void *queries, uint64_t m, uint64_t k,
                       double bound, double eps, uint8_t *mask, int squared, void *indices,
                       void *distances);
        void (*destroy)(void *tree);
        uint32_t point, index;
    } kdtree_kind;

    #define KDTREE_KIND(name, real, index_t, largest)                                              \
        struct tree_##name *construct_tree_##name(real *, int8_t, index_t, index_t);               \
        void search_tree_##name(struct tree_##name *, real *, real *, index_t, index_t, real,      \
                                real, uint8_t *, index_t *, real *);                               \
        void delete_tree_##name(struct tree_##name *);                                             \
        static void *construct_##name(void *points, int8_t dims, uint64_t n, uint32_t leafsize)    \
        {                                                                                          \
            return construct_tree_##name((real *)points, dims, (index_t)n, leafsize);              \
        }                                                                                          \
        static void search_##name(void *tree, void *points, uint64_t n, void *queries, uint64_t m, \
                                  uint64_t k, double bound, double eps, uint8_t *mask,             \
                                  int squared, void *indices, void *distances)                     \
        {                                                                                          \
            real *distance = (real *)distances;                                                    \
            real most = bound < 0 ? largest : (real)(bound * bound);                               \
            search_tree_##name((struct tree_##name *)tree, (real *)points, (real *)queries,        \
                               (index_t)m, (index_t)k, most, (real)eps, mask, (index_t *)indices,  \
                               distance);                                                          \
            for (uint64_t i = 0; i < m * k; i++) {                                                 \
                if (bound >= 0 && distance[i] >= most) {                                           \
                    distance[i] = (real)INFINITY;                                                  \
                    ((index_t *)indices)[i] = (index_t)n;                                          \
                } else if (!squared) {                                                             \
                    distance[i] = (real)sqrt(distance[i]);                                         \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        static void destroy_##name(void *tree)                                                     \
        {                                                                                          \
            delete_tree_##name((struct tree_##name *)tree);                                        \
        }
    KDTREE_KIND(float_int32_t, float, uint32_t, FLT_MAX)
    KDTREE_KIND(float_int64_t, float, uint64_t, FLT_MAX)
    KDTREE_KIND(double_int32_t, double, uint32_t, DBL_MAX)
    KDTREE_KIND(double_int64_t, double, uint64_t, DBL_MAX)
    #define KDTREE_ROW(name, point, index)                                                         \
        {construct_##name, search_##name, destroy_##name, point, index}
    static const kdtree_kind KDTREE_KINDS[] = {
        KDTREE_ROW(float_int32_t, FASTDL_FLOAT32, FASTDL_UINT32),
        KDTREE_ROW(float_int64_t, FASTDL_FLOAT32, FASTDL_UINT64),
        KDTREE_ROW(double_int32_t, FASTDL_FLOAT64, FASTDL_UINT32),
        KDTREE_ROW(double_int64_t, FASTDL_FLOAT64, FASTDL_UINT64),
    };
    """
    ctypedef struct kdtree_kind:
        void *(*construct)(void *, int8_t, uint64_t, uint32_t) noexcept nogil
        void (*search)(void *, void *, uint64_t, void *, uint64_t, uint64_t, double, double,
                       uint8_t *, int, void *, void *) noexcept nogil
        void (*destroy)(void *) noexcept
        uint32_t point, index
    const kdtree_kind KDTREE_KINDS[4]

cdef uint32_t[2] REAL = [fastdl.FLOAT64, fastdl.FLOAT32]  # what becomes neither is made float64
cdef uint32_t[3] FLAGS = [fastdl.UINT8, fastdl.BOOL, fastdl.FLOAT64]


cdef fastdl.spec compact(const uint32_t *dtypes, size_t count, int rules=fastdl.CONVERT) noexcept:
    """Elements of one of these types in row-major order, if need be as a copy."""
    cdef fastdl.spec wanted = fastdl.anything()
    wanted.dtypes, wanted.dtype_count = dtypes, count
    wanted.layout, wanted.rules = fastdl.C, rules
    return wanted


cdef class KDTree:
    cdef const kdtree_kind *kind
    cdef void *tree
    cdef fastdl.DLManagedTensorVersioned *points
    cdef readonly object data_pts
    cdef readonly object data
    cdef readonly uint64_t n
    cdef readonly int8_t ndim
    cdef readonly uint32_t leafsize

    def __init__(self, data_pts, int leafsize=16):
        cdef fastdl.spec wanted = compact(REAL, 2)
        if leafsize < 1:
            raise ValueError("leafsize must be greater than zero")
        if self.tree is not NULL:
            raise RuntimeError("expected a new tree")
        # The points as an object of the caller's library, and what keeps its memory.
        rows = fastdl.wrap(fastdl.own_as(data_pts, b"data_pts", &wanted), type(data_pts))
        self.points = fastdl.own(rows)
        cdef const fastdl.DLTensor *points = &self.points.dl_tensor
        if points.ndim != 2:
            raise ValueError("data_pts array should have exactly 2 dimensions")
        if fastdl.size(points) == 0:
            raise ValueError("data_pts should be non-empty")
        if points.shape[1] > 127:
            raise ValueError("Max 127 dimensions allowed")
        self.data = self.data_pts = rows.reshape(-1)
        self.n, self.ndim, self.leafsize = points.shape[0], points.shape[1], leafsize
        self.kind = &KDTREE_KINDS[2 * (fastdl.dtype(points.dtype) == fastdl.FLOAT64)
                                  + (fastdl.size(points) >= UINT32_MAX)]
        with nogil:
            self.tree = self.kind.construct(self.memory(), self.ndim, self.n, leafsize)

    cdef void *memory(self) noexcept nogil:
        return <char *>self.points.dl_tensor.data + self.points.dl_tensor.byte_offset

    def __dealloc__(self):
        if self.tree is not NULL:
            self.kind.destroy(self.tree)
        fastdl.drop(self.points)

    def query(self, query_pts, k=1, eps=0, distance_upper_bound=None, sqr_dists=False, mask=None):
        cdef fastdl.view queries, flags
        cdef fastdl.DLManagedTensorVersioned *distances = NULL
        cdef fastdl.DLManagedTensorVersioned *indices = NULL
        cdef fastdl.DLTensor shape
        cdef int64_t[2] sizes
        cdef uint8_t *masked = NULL
        cdef uint8_t *made = NULL
        cdef double bound = -1 if distance_upper_bound is None else distance_upper_bound
        cdef double slack = eps
        cdef uint64_t count = k if k >= 1 else 0
        cdef bint squared = sqr_dists
        if count < 1:
            raise ValueError("Number of neighbours must be greater than zero")
        if slack < 0 or (bound < 0 and distance_upper_bound is not None):
            raise ValueError("eps and distance_upper_bound must be non-negative")
        # With points of float64 goes what becomes float64, with those of float32 only float32.
        cdef fastdl.spec of_queries = compact(
            &self.kind.point, 1,
            fastdl.CONVERT if self.kind.point == fastdl.FLOAT64 else fastdl.COPY)
        cdef fastdl.spec of_mask = compact(FLAGS, 3)
        fastdl.init(&queries)
        fastdl.init(&flags)
        try:
            fastdl.borrow_as(query_pts, b"query_pts", &of_queries, &queries)
            if self.ndim != (queries.dl.shape[1] if queries.dl.ndim > 1 else 1):
                raise ValueError("Data and query points must have same dimensions")
            if mask is not None:
                fastdl.borrow_as(mask, b"mask", &of_mask, &flags)
                if fastdl.size(&flags.dl) != <int64_t>self.n:
                    raise ValueError("Mask must have the same size as data points")
                masked = <uint8_t *>flags.dl.data
                if fastdl.dtype(flags.dl.dtype) == fastdl.FLOAT64:
                    masked = made = <uint8_t *>malloc(self.n)
                    if made is NULL:
                        raise MemoryError
                    for i in range(self.n):
                        made[i] = <uint8_t>(<double *>flags.dl.data)[i]
            shape = queries.dl
            sizes = [queries.dl.shape[0], count]
            shape.ndim, shape.shape = 1 + (count > 1), sizes
            shape.dtype = fastdl.data_type(self.kind.point)
            distances = fastdl.empty(&shape, type(query_pts))
            shape.dtype = fastdl.data_type(self.kind.index)
            indices = fastdl.empty(&shape, type(query_pts))
            with nogil:
                self.kind.search(
                    self.tree, self.memory(), self.n, queries.dl.data, sizes[0], count, bound,
                    slack, masked, squared, indices.dl_tensor.data, distances.dl_tensor.data)
            taken, distances = distances, NULL  # by wrap, even if it fails
            first = fastdl.wrap(taken, type(query_pts))
            taken, indices = indices, NULL
            return first, fastdl.wrap(taken, type(query_pts))
        finally:
            fastdl.drop(distances)
            fastdl.drop(indices)
            free(made)
            fastdl.release(&flags)
            fastdl.release(&queries)
