/* SPDX-License-Identifier: Apache-2.0
 *
 * fastdl/mdspan.h: a fastdl::tensor as std::span and std::mdspan, where the standard library has
 * them (C++20 and C++23). If the reference implementation of mdspan is included first, its mdspan
 * is used where the standard library has none.
 *
 *     void smooth(const fastdl::tensor<float, fastdl::shape<fastdl::any, 3>> &x)
 *     {
 *         auto rows = fastdl::mdspan(x);      // extents<int64_t, dynamic_extent, 3>, layout_stride
 *     }
 *
 * Kept out of tensor.h, since <span> and <mdspan> are slow to compile. The results are valid as
 * long as the object they were made from: the tensor during its call, a fastdl::owned while it
 * lives.
 */
#ifndef FASTDL_MDSPAN_H_
#define FASTDL_MDSPAN_H_

#include "tensor.h"

#include <array>
#if __has_include(<version>)
#include <version>
#endif
#if defined(__cpp_lib_span)
#include <span>
#endif
#if defined(__cpp_lib_mdspan)
#include <mdspan>
#define FASTDL_MDSPAN_ std
#elif defined(MDSPAN_IMPL_STANDARD_NAMESPACE)
#define FASTDL_MDSPAN_ MDSPAN_IMPL_STANDARD_NAMESPACE
#endif

FASTDL_NAMESPACE_
namespace detail
{
/* The constraints of a reader, for functions that take both tensor and owned. */
template <typename... Cs> constraints<Cs...> constraints_of(const reader<Cs...> &);
template <typename Tensor>
using constraints_t = decltype(constraints_of(std::declval<const Tensor &>()));

/* Throws BufferError; takes the GIL for that. */
[[noreturn]] inline void refuse_view(const char *message)
{
    PyGILState_STATE state = PyGILState_Ensure();
    postponed error;
    PyErr_SetString(PyExc_BufferError, message);
    error.keep(true);
    PyGILState_Release(state);
    error.raise();
    throw python_error(); /* not reached */
}
} // namespace detail

#if defined(__cpp_lib_span)

/* The elements of a contiguous tensor, in memory order. */
template <typename Tensor> auto span(const Tensor &x)
{
    using all = detail::constraints_t<Tensor>;
    static_assert((all::layout & (FASTDL_C | FASTDL_F)) != 0 && (all::layout & FASTDL_INNER) == 0,
                  "a span has no gaps: require fastdl::c_contiguous or fastdl::f_contiguous");
    static_assert(!std::is_void_v<typename Tensor::element_type>, "a span has one element type");
    return std::span<typename Tensor::element_type>(x.data(), std::size_t(x.size()));
}

#endif

#if defined(FASTDL_MDSPAN_)

namespace detail
{
/* Extents, known at compile time where shape<...> gives them. */
template <typename All, typename Indices> struct extents;
template <typename All, std::size_t... Is> struct extents<All, std::index_sequence<Is...>> {
    static constexpr std::size_t known(std::size_t i)
    {
        if constexpr (All::sizes::has_sizes)
            if (All::sizes::extents_v[i] != any)
                return std::size_t(All::sizes::extents_v[i]);
        return std::size_t(-1); /* std::dynamic_extent */
    }
    using type = FASTDL_MDSPAN_::extents<int64_t, known(Is)...>;
};

/* Whether a stride steps over a whole dimension: it is at least `step` times `size`. */
constexpr bool exceeds(int64_t stride, int64_t step, int64_t size)
{
    return size == 0 || stride / size >= step; /* the product may overflow */
}
} // namespace detail

/* A tensor of a known number of dimensions: with layout_right for c_contiguous, layout_left for
 * f_contiguous, else layout_stride. layout_stride needs positive strides and, of any two
 * dimensions, one whose stride is at least the other's stride times size: for others, such as
 * sliding windows, mdspan throws BufferError. */
template <typename Tensor> auto mdspan(const Tensor &x)
{
    using all = detail::constraints_t<Tensor>;
    static_assert(all::ndim >= 0, "an mdspan has a known rank: require fastdl::ndim or shape");
    static_assert(!std::is_void_v<typename Tensor::element_type>, "an mdspan has one element type");
    constexpr std::size_t rank = std::size_t(all::ndim);
    using extents = typename detail::extents<all, std::make_index_sequence<rank>>::type;
    using T = typename Tensor::element_type;
    std::array<int64_t, rank> sizes{}, steps{};
    for (std::size_t i = 0; i < rank; i++) {
        sizes[i] = x.shape(int(i));
        steps[i] = sizes[i] > 1 ? x.stride(int(i)) : 1;
    }
    if constexpr (all::layout == FASTDL_C) {
        return FASTDL_MDSPAN_::mdspan<T, extents, FASTDL_MDSPAN_::layout_right>(x.data(),
                                                                                extents(sizes));
    } else if constexpr (all::layout == FASTDL_F) {
        return FASTDL_MDSPAN_::mdspan<T, extents, FASTDL_MDSPAN_::layout_left>(x.data(),
                                                                               extents(sizes));
    } else {
        using mapping = typename FASTDL_MDSPAN_::layout_stride::template mapping<extents>;
        for (std::size_t i = 0; i < rank; i++) {
            if (steps[i] <= 0)
                detail::refuse_view("expected positive strides, as std::mdspan requires, got a "
                                    "negative or zero one: pass a copy");
            for (std::size_t k = 0; k < i; k++)
                if (!detail::exceeds(steps[i], steps[k], sizes[k]) &&
                    !detail::exceeds(steps[k], steps[i], sizes[i]))
                    detail::refuse_view("expected dimensions that do not interleave, as "
                                        "std::mdspan requires, got strides too short for the "
                                        "sizes: pass a copy");
        }
        return FASTDL_MDSPAN_::mdspan<T, extents, FASTDL_MDSPAN_::layout_stride>(
            x.data(), mapping(extents(sizes), steps));
    }
}

#endif

FASTDL_NAMESPACE_END_

#endif /* FASTDL_MDSPAN_H_ */
