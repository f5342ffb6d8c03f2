/* SPDX-License-Identifier: Apache-2.0
 *
 * As much of std::mdspan as fastdl/mdspan.h uses, for compilers that have none yet; in the way that
 * the reference implementation announces itself.
 */
#include <array>
#include <cstddef>
#include <cstdint>

#define MDSPAN_IMPL_STANDARD_NAMESPACE standin

namespace standin
{
template <typename Index, std::size_t... Es> struct extents {
    static constexpr std::size_t ranks[] = {Es..., 0};
    std::array<Index, sizeof...(Es)> sizes{};

    extents() = default;
    explicit extents(const std::array<Index, sizeof...(Es)> &from) : sizes(from)
    {
    }
    static constexpr std::size_t rank()
    {
        return sizeof...(Es);
    }
    static constexpr std::size_t static_extent(std::size_t i)
    {
        return ranks[i];
    }
    Index extent(std::size_t i) const
    {
        return sizes[i];
    }
};

template <bool Right> struct compact {
    template <typename E> struct mapping {
        std::array<int64_t, E::rank()> steps{};
        mapping(const E &sizes)
        {
            int64_t step = 1;
            for (std::size_t k = 0; k < E::rank(); k++) {
                std::size_t i = Right ? E::rank() - 1 - k : k;
                steps[i] = step;
                step *= sizes.extent(i);
            }
        }
    };
};
struct layout_right : compact<true> {};
struct layout_left : compact<false> {};
struct layout_stride {
    template <typename E> struct mapping {
        std::array<int64_t, E::rank()> steps;
        mapping(const E &, const std::array<int64_t, E::rank()> &from) : steps(from)
        {
        }
    };
};

template <typename T, typename E, typename Layout> struct mdspan {
    using layout_type = Layout;
    using map = typename Layout::template mapping<E>;
    T *data;
    E sizes;
    map mapped;

    mdspan(T *from, const E &of) : data(from), sizes(of), mapped(of)
    {
    }
    mdspan(T *from, const map &by) : data(from), mapped(by)
    {
    }
    static constexpr std::size_t static_extent(std::size_t i)
    {
        return E::static_extent(i);
    }
    int64_t stride(std::size_t i) const
    {
        return mapped.steps[i];
    }
};
} // namespace standin
