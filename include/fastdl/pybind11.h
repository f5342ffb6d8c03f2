/* SPDX-License-Identifier: Apache-2.0
 *
 * fastdl/pybind11.h: fastdl::tensor as an argument, and fastdl::owned as an argument and a result,
 * of functions that pybind11 binds. The manual is in fastdl/tensor.h.
 *
 *     #include <fastdl/pybind11.h>
 *
 *     PYBIND11_MODULE(example, m)
 *     {
 *         m.def("scale", &scale, "x"_a, "by"_a);   // (const fastdl::tensor<float> &, float)
 *     }
 *
 * For containers of fastdl::owned, and std::optional of it, include <pybind11/stl.h>.
 */
#ifndef FASTDL_PYBIND11_H_
#define FASTDL_PYBIND11_H_

#include <pybind11/pybind11.h>

#include <optional>

#include "tensor.h"

FASTDL_NAMESPACE_
namespace detail
{
[[maybe_unused]] static const bool throws_as_pybind11 =
    (throw_error = [] { throw pybind11::error_already_set(); }, true);
} // namespace detail
FASTDL_NAMESPACE_END_

namespace pybind11::detail
{

template <typename... Cs> struct type_caster<fastdl::tensor<Cs...>> {
    using Value = fastdl::tensor<Cs...>;
    static constexpr auto name = const_name(fastdl::detail::signature<Cs...>::value.chars);
    template <typename> using cast_op_type = Value;

    type_caster() = default;
    /* pybind11::cast makes a caster that is destroyed before its result. */
    type_caster(const type_caster &)
    {
        static_assert(sizeof...(Cs) == SIZE_MAX,
                      "a fastdl::tensor is valid during the call that it is an argument of: "
                      "elsewhere use a fastdl::owned, or a fastdl::loan");
    }

    bool load(handle src, bool convert)
    {
        return loan_.take(src.ptr(), convert);
    }

    operator Value()
    {
        return loan_.get();
    }
    const fastdl::detail::lent *lent()
    {
        return loan_.lent();
    }

  private:
    fastdl::loan<Value> loan_;
};

/* pybind11's own would release the tensor before the call. */
template <typename... Cs> struct type_caster<std::optional<fastdl::tensor<Cs...>>> {
    using Value = std::optional<fastdl::tensor<Cs...>>;
    using Caster = type_caster<fastdl::tensor<Cs...>>;
    static constexpr auto name = const_name("typing.Optional[") + Caster::name + const_name("]");
    template <typename> using cast_op_type = Value;

    bool load(handle src, bool convert)
    {
        is_none_ = src.is_none();
        return is_none_ || caster_.load(src, convert);
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
#if PYBIND11_VERSION_HEX >= 0x03000000
    static constexpr auto name = io_name(fastdl::detail::signature<Cs...>::value.chars, "object");
#else
    static constexpr auto name = const_name("object");
#endif
    template <typename> using cast_op_type = Value;

    bool load(handle src, bool convert)
    {
        return keeper_.take(src.ptr(), convert);
    }

    operator Value()
    {
        return keeper_.get();
    }

    static handle cast(Value &&value, return_value_policy, handle)
    {
        PyObject *made = std::move(value).to_python();
        if (made == nullptr)
            throw error_already_set();
        return made;
    }

  private:
    fastdl::detail::keeper<Cs...> keeper_;
};

} // namespace pybind11::detail

#endif /* FASTDL_PYBIND11_H_ */
