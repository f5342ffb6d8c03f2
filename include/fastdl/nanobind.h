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
 * (`std::vector<fastdl::owned<...>>`) an object that does not fit raises nanobind's own
 * TypeError.
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

/* The first step of the casters below. */
template <typename Argument>
bool take(Argument &argument, nanobind::handle src, uint32_t flags) noexcept
{
    using nanobind::detail::cast_flags;
    return argument.take(src.ptr(), (flags & uint32_t(cast_flags::convert)) != 0,
                         (flags & uint32_t(cast_flags::accepts_none)) != 0);
}
} // namespace detail
FASTDL_NAMESPACE_END_

namespace nanobind::detail
{

template <typename... Cs> struct type_caster<fastdl::tensor<Cs...>> {
    using Value = fastdl::tensor<Cs...>;
    static constexpr auto Name = const_name(fastdl::detail::signature<Cs...>::value.chars);
    template <typename> using Cast = Value;

    /* Called where the result would outlive the caster: nanobind::cast, and casters of
     * containers. */
    template <typename T> static constexpr bool can_cast()
    {
        return fastdl::detail::refuse_to_keep<T>();
    }

    bool from_python(handle src, uint32_t flags, cleanup_list *) noexcept
    {
        return fastdl::detail::take(argument_, src, flags);
    }

    operator Value()
    {
        return argument_.get();
    }

  private:
    fastdl::detail::borrowed_argument<Value> argument_;
};

/* nanobind's caster would release the tensor before the call. */
template <typename... Cs> struct type_caster<std::optional<fastdl::tensor<Cs...>>> {
    using Value = std::optional<fastdl::tensor<Cs...>>;
    static constexpr auto Name = optional_name(type_caster<fastdl::tensor<Cs...>>::Name);
    template <typename> using Cast = Value;

    template <typename T> static constexpr bool can_cast()
    {
        return fastdl::detail::refuse_to_keep<T>();
    }

    bool from_python(handle src, uint32_t flags, cleanup_list *) noexcept
    {
        flags |= uint32_t(cast_flags::accepts_none);
        return fastdl::detail::take(argument_, src, flags);
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
    static constexpr auto Name = io_name(fastdl::detail::signature<Cs...>::value.chars, "object");
    template <typename> using Cast = Value;

    bool from_python(handle src, uint32_t flags, cleanup_list *) noexcept
    {
        return fastdl::detail::take(argument_, src, flags);
    }

    /* Called by casters of containers, which must not throw. */
    template <typename> bool can_cast() const noexcept
    {
        return argument_.will_return();
    }

    operator Value()
    {
        return argument_.get();
    }

    static handle from_cpp(Value &&value, rv_policy, cleanup_list *) noexcept
    {
        return std::move(value).to_python();
    }

  private:
    fastdl::detail::kept_argument<Cs...> argument_;
};

} // namespace nanobind::detail

FASTDL_NAMESPACE_
namespace detail
{
struct nanobind_producers {
    template <typename T> static T *instance(PyObject *self)
    {
        if (!nanobind::inst_ready(self))
            throw nanobind::type_error("expected an initialised object");
        return nanobind::inst_ptr<T>(self);
    }

    template <typename F> static nanobind::object function(F f)
    {
        return nanobind::cpp_function(std::move(f));
    }
};
} // namespace detail

/* Makes a bound class a producer: see "Producers" in fastdl/tensor.h. */
template <auto Describe, int32_t Rules = 0, DLPackCurrentWorkStream Stream = fastdl_default_stream>
void publish(const nanobind::object &bound)
{
    using detail::nanobind_producers;
    detail::publish(bound.ptr(),
                    &detail::producer_of<nanobind_producers, Describe, Rules, Stream>::table);
}
FASTDL_NAMESPACE_END_

#endif /* FASTDL_NANOBIND_H_ */
