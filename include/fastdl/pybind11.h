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
        fastdl::detail::refuse_to_keep<Value>();
    }

    bool load(handle src, bool convert)
    {
        return argument_.take(src.ptr(), convert, false);
    }

    operator Value()
    {
        return argument_.get();
    }

  private:
    fastdl::detail::borrowed_argument<Value> argument_;
};

/* pybind11's caster would release the tensor before the call. */
template <typename... Cs> struct type_caster<std::optional<fastdl::tensor<Cs...>>> {
    using Value = std::optional<fastdl::tensor<Cs...>>;
    static constexpr auto name =
        const_name("typing.Optional[") + type_caster<fastdl::tensor<Cs...>>::name + const_name("]");
    template <typename> using cast_op_type = Value;

    bool load(handle src, bool convert)
    {
        return argument_.take(src.ptr(), convert, true);
    }

    operator Value()
    {
        return argument_.template get_optional<Value>();
    }

  private:
    fastdl::detail::borrowed_argument<fastdl::tensor<Cs...>> argument_;
};

template <typename... Cs> struct type_caster<fastdl::owned<Cs...>> {
    using Value = fastdl::owned<Cs...>;
    /* The signature of an argument; a result may be any object. */
#if PYBIND11_VERSION_HEX >= 0x03000000
    static constexpr auto name = io_name(fastdl::detail::signature<Cs...>::value.chars, "object");
#else
    static constexpr auto name = const_name("object");
#endif
    template <typename> using cast_op_type = Value;

    bool load(handle src, bool convert)
    {
        return argument_.take(src.ptr(), convert, false);
    }

    operator Value()
    {
        return argument_.get();
    }

    static handle cast(Value &&value, return_value_policy, handle)
    {
        PyObject *made = std::move(value).to_python();
        if (made == nullptr)
            throw error_already_set();
        return made;
    }

  private:
    fastdl::detail::kept_argument<Cs...> argument_;
};

} // namespace pybind11::detail

FASTDL_NAMESPACE_
namespace detail
{
struct pybind11_producers {
    /* TypeError if the object has a T whose constructor has not run: pybind11's cast would
     * return uninitialised memory. In a Python class C(B, A) where B derives from A, the separate A
     * is never constructed; without multiple inheritance in C++, the cast uses the A in B. */
    template <typename T> static T *instance(PyObject *self)
    {
        pybind11::detail::values_and_holders parts(
            reinterpret_cast<pybind11::detail::instance *>(self));
        const auto *wanted = pybind11::detail::get_type_info(typeid(T));
        for (auto &part : parts) {
            if (wanted == nullptr || !PyType_IsSubtype(part.type->type, wanted->type) ||
                (wanted->simple_type && parts.is_redundant_value_and_holder(part)))
                continue;
            if (!part.instance_registered())
                throw pybind11::type_error("expected an initialised object");
        }
        return pybind11::cast<T *>(pybind11::handle(self));
    }

    template <typename F> static pybind11::object function(F f)
    {
        return pybind11::cpp_function(std::move(f));
    }
};
} // namespace detail

/* Makes a bound class a producer: see "Producers" in fastdl/tensor.h. */
template <auto Describe, int32_t Rules = 0, DLPackCurrentWorkStream Stream = fastdl_default_stream>
void publish(const pybind11::object &bound)
{
    using detail::pybind11_producers;
    detail::publish(bound.ptr(),
                    &detail::producer_of<pybind11_producers, Describe, Rules, Stream>::table);
}
FASTDL_NAMESPACE_END_

#endif /* FASTDL_PYBIND11_H_ */
