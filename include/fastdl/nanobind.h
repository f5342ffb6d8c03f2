/* SPDX-License-Identifier: Apache-2.0
 *
 * fastdl/nanobind.h: fastdl::tensor as an argument, and fastdl::owned as a result, of functions
 * that nanobind binds. All there is to know is in fastdl/tensor.h.
 *
 *     #include <fastdl/nanobind.h>
 *
 *     NB_MODULE(example, m)
 *     {
 *         m.def("scale", &scale, "x"_a, "by"_a);   // void scale(fastdl::tensor<float>, float)
 *     }
 *
 * An argument that is marked .none() takes None as a tensor that converts to false.
 */
#ifndef FASTDL_NANOBIND_H_
#define FASTDL_NANOBIND_H_

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include "tensor.h"

namespace fastdl::detail
{
[[maybe_unused]] static const bool throws_as_nanobind =
    (throw_error = [] { throw nanobind::python_error(); }, true);
} // namespace fastdl::detail

namespace nanobind::detail
{

template <typename... Cs> struct type_caster<fastdl::tensor<Cs...>> {
    using Value = fastdl::tensor<Cs...>;
    static constexpr auto Name = const_name(fastdl::detail::signature<Cs...>::value.chars);
    template <typename> using Cast = Value;

    /* Called for what would outlive the caster: nanobind::cast, and casters of containers. */
    template <typename T> static constexpr bool can_cast()
    {
        static_assert(!std::is_same_v<T, T>, "a fastdl::tensor is an argument of a function, or "
                                             "in a std::optional; elsewhere use a fastdl::loan");
        return false;
    }

    bool from_python(handle src, uint32_t flags, cleanup_list *) noexcept
    {
        is_none_ = (flags & uint32_t(cast_flags::accepts_none)) != 0 && src.is_none();
        return is_none_ || loan_.take(src.ptr(), (flags & uint32_t(cast_flags::convert)) != 0);
    }

    operator Value()
    {
        return is_none_ ? Value() : loan_.get();
    }

  private:
    fastdl::loan<Value> loan_;
    bool is_none_ = false;
};

/* nanobind's own would let go of the tensor before the call. */
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
        return is_none_ ? Value() : Value(caster_.operator fastdl::tensor<Cs...>());
    }

  private:
    Caster caster_;
    bool is_none_ = false;
};

/* Other templates of a tensor are refused, since it would outlive its caster: by can_cast above, by
 * this assertion, or as ambiguous where nanobind has a caster of its own. */
template <template <typename...> class Template, typename... Cs, typename... Rest>
struct type_caster<Template<fastdl::tensor<Cs...>, Rest...>> {
    static_assert(sizeof...(Rest) == SIZE_MAX, "a fastdl::tensor is an argument of a function, or "
                                               "in a std::optional; elsewhere use a fastdl::loan");
};

template <typename T> struct type_caster<fastdl::owned<T>> {
    using Value = fastdl::owned<T>;
    static constexpr auto Name = const_name("object"); /* of the type of an argument */

    static handle from_cpp(Value &&value, rv_policy, cleanup_list *) noexcept
    {
        return std::move(value).to_python();
    }
};

} // namespace nanobind::detail

#endif /* FASTDL_NANOBIND_H_ */
