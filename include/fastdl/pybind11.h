/* SPDX-License-Identifier: Apache-2.0
 *
 * fastdl/pybind11.h: fastdl::tensor as an argument, and fastdl::owned as a result, of functions
 * that pybind11 binds. All there is to know is in fastdl/tensor.h.
 *
 *     #include <fastdl/pybind11.h>
 *
 *     PYBIND11_MODULE(example, m)
 *     {
 *         m.def("scale", &scale, "x"_a, "by"_a);   // void scale(fastdl::tensor<float>, float)
 *     }
 */
#ifndef FASTDL_PYBIND11_H_
#define FASTDL_PYBIND11_H_

#include <pybind11/pybind11.h>

#include <optional>

#include "tensor.h"

namespace fastdl::detail
{
[[maybe_unused]] static const bool throws_as_pybind11 =
    (throw_error = [] { throw pybind11::error_already_set(); }, true);
} // namespace fastdl::detail

namespace pybind11::detail
{

template <typename... Cs> struct type_caster<fastdl::tensor<Cs...>> {
    using Value = fastdl::tensor<Cs...>;
    static constexpr auto name = const_name(fastdl::detail::signature<Cs...>::value.chars);
    template <typename> using cast_op_type = Value;

    bool load(handle src, bool convert)
    {
        return loan_.take(src.ptr(), convert);
    }

    operator Value()
    {
        return loan_.get();
    }

  private:
    fastdl::loan<Value> loan_;
};

/* pybind11's own would let go of the tensor before the call. */
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
        return is_none_ ? Value() : Value(caster_.operator fastdl::tensor<Cs...>());
    }

  private:
    Caster caster_;
    bool is_none_ = false;
};

/* Other templates of a tensor are refused, since it would outlive its caster: by the assertion, or
 * as ambiguous where pybind11 has a caster of its own. */
template <template <typename...> class Template, typename... Cs, typename... Rest>
struct type_caster<Template<fastdl::tensor<Cs...>, Rest...>> {
    static_assert(sizeof...(Rest) == SIZE_MAX, "a fastdl::tensor is an argument of a function, or "
                                               "in a std::optional; elsewhere use a fastdl::loan");
};

template <typename T> struct type_caster<fastdl::owned<T>> {
    using Value = fastdl::owned<T>;
    static constexpr auto name = const_name("object"); /* of the type of an argument */

    static handle cast(Value &&value, return_value_policy, handle)
    {
        PyObject *made = std::move(value).to_python();
        if (made == nullptr)
            throw error_already_set();
        return made;
    }
};

} // namespace pybind11::detail

#endif /* FASTDL_PYBIND11_H_ */
