/* SPDX-License-Identifier: Apache-2.0
 *
 * fastdl/nanobind.h: fastdl::tensor as an argument, and fastdl::owned as an argument and a result,
 * of functions that nanobind binds. The manual is in fastdl/tensor.h.
 *
 *     #include <fastdl/nanobind.h>
 *
 *     NB_MODULE(example, m)
 *     {
 *         m.def("scale", &scale, "x"_a, "by"_a);   // (const fastdl::tensor<float> &, float)
 *     }
 *
 * An argument marked .none() takes None as a tensor that converts to false. In containers
 * (`std::vector<fastdl::owned<...>>`) what does not fit ends in nanobind's own TypeError.
 */
#ifndef FASTDL_NANOBIND_H_
#define FASTDL_NANOBIND_H_

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include "tensor.h"

FASTDL_NAMESPACE_
namespace detail
{
[[maybe_unused]] static const bool throws_as_nanobind =
    (throw_error = [] { throw nanobind::python_error(); }, true);
} // namespace detail
FASTDL_NAMESPACE_END_

namespace nanobind::detail
{

template <typename... Cs> struct type_caster<fastdl::tensor<Cs...>> {
    using Value = fastdl::tensor<Cs...>;
    static constexpr auto Name = const_name(fastdl::detail::signature<Cs...>::value.chars);
    template <typename> using Cast = Value;

    /* Called for what would outlive the caster: nanobind::cast, and casters of containers. */
    template <typename T> static constexpr bool can_cast()
    {
        static_assert(!std::is_same_v<T, T>,
                      "a fastdl::tensor is valid during the call that it is an argument of: "
                      "elsewhere use a fastdl::owned, or a fastdl::loan");
        return false;
    }

    bool from_python(handle src, uint32_t flags, cleanup_list *) noexcept
    {
        is_none_ = (flags & uint32_t(cast_flags::accepts_none)) != 0 && src.is_none();
        return is_none_ || loan_.take(src.ptr(), (flags & uint32_t(cast_flags::convert)) != 0);
    }

    operator Value()
    {
        return Value(is_none_ ? nullptr : lent());
    }
    const fastdl::detail::lent *lent()
    {
        return loan_.lent();
    }

  private:
    fastdl::loan<Value> loan_;
    bool is_none_ = false;
};

/* nanobind's own would release the tensor before the call. */
template <typename... Cs> struct type_caster<std::optional<fastdl::tensor<Cs...>>> {
    using Value = std::optional<fastdl::tensor<Cs...>>;
    using Caster = type_caster<fastdl::tensor<Cs...>>;
    static constexpr auto Name = optional_name(Caster::Name);
    template <typename> using Cast = Value;
    template <typename T> static constexpr bool can_cast()
    {
        return Caster::template can_cast<T>();
    }

    bool from_python(handle src, uint32_t flags, cleanup_list *cleanup) noexcept
    {
        is_none_ = src.is_none();
        return is_none_ || caster_.from_python(src, flags, cleanup);
    }

    operator Value()
    {
        if (is_none_)
            return Value();
        return Value(std::in_place, caster_.lent());
    }

  private:
    Caster caster_;
    bool is_none_ = false;
};

template <typename... Cs> struct type_caster<fastdl::owned<Cs...>> {
    using Value = fastdl::owned<Cs...>;
    /* As an argument, and as a result, which is of the type of an argument. */
    static constexpr auto Name = io_name(fastdl::detail::signature<Cs...>::value.chars, "object");
    template <typename> using Cast = Value;

    bool from_python(handle src, uint32_t flags, cleanup_list *) noexcept
    {
        is_none_ = (flags & uint32_t(cast_flags::accepts_none)) != 0 && src.is_none();
        return is_none_ || keeper_.take(src.ptr(), (flags & uint32_t(cast_flags::convert)) != 0);
    }

    /* Casters of containers ask, since they may not throw. */
    template <typename> bool can_cast() const noexcept
    {
        return is_none_ || keeper_.settles();
    }

    operator Value()
    {
        if (is_none_)
            return Value();
        return keeper_.get();
    }

    static handle from_cpp(Value &&value, rv_policy, cleanup_list *) noexcept
    {
        return std::move(value).to_python();
    }

  private:
    fastdl::detail::keeper<Cs...> keeper_;
    bool is_none_ = false;
};

} // namespace nanobind::detail

#endif /* FASTDL_NANOBIND_H_ */
