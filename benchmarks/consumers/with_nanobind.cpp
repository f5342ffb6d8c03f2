// SPDX-License-Identifier: Apache-2.0
//
// The same functions by nanobind: with its own nb::ndarray and, where there is fastdl/nanobind.h,
// with fastdl's caster.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#if defined(__has_include)
#if __has_include(<fastdl/nanobind.h>)
#define FASTDL_IMPLEMENTATION
#include <fastdl/nanobind.h>
#define HAVE_CASTER
#endif
#endif

namespace nb = nanobind;

static volatile float sink; // so that each tensor is read

// What fastdl_expect is asked for in with_fastdl.c.
using Array = nb::ndarray<const float, nb::ndim<1>, nb::device::cpu>;

template <typename... Arrays> static void take(const Arrays &...arrays)
{
    ((sink = arrays.data()[0]), ...);
}

// borrow(n, object): imports the array n times, as for an argument of a function
static void borrow(size_t n, nb::handle object)
{
    while (n-- > 0)
        nb::cast<nb::ndarray<nb::ro>>(object);
}

NB_MODULE(with_nanobind, m)
{
    using A = const Array &;
    m.def("borrow", &borrow);
    m.def("one", [](A a) { take(a); });
    m.def("three", [](A a, A b, A c) { take(a, b, c); });
    m.def("eight", [](A a, A b, A c, A d, A e, A f, A g, A h) { take(a, b, c, d, e, f, g, h); });

#ifdef HAVE_CASTER
    using T = const fastdl::tensor<const float, fastdl::ndim<1>> &;
    m.def("one_cast", [](T a) { take(a); });
    m.def("three_cast", [](T a, T b, T c) { take(a, b, c); });
    m.def("eight_cast",
          [](T a, T b, T c, T d, T e, T f, T g, T h) { take(a, b, c, d, e, f, g, h); });
#endif
}
