// SPDX-License-Identifier: Apache-2.0
/* y += a * x over the tensors of any framework, bound by pybind11.
 *
 * Build:

c++ -O2 -std=c++20 -fPIC -fvisibility=hidden -shared $(python -m pybind11 --includes) \
    $(python -m pkgconf --cflags fastdl) axpy.cpp \
    -o axpy$(python -c "from sysconfig import *; print(get_config_var('EXT_SUFFIX'))")
 */
#define FASTDL_IMPLEMENTATION
#include <fastdl/pybind11.h>

namespace py = pybind11;
using namespace py::literals;

// Vectors of two element types, in host memory, with any stride. y is written; x may be read-only.
using Input =
    fastdl::tensor<fastdl::any_of<const float, const double>, fastdl::ndim<1>, fastdl::named<"x">>;
using Output = fastdl::tensor<fastdl::any_of<float, double>, fastdl::ndim<1>, fastdl::named<"y">>;

template <typename T> void add(double a, const Input &x, const Output &y)
{
    auto from = x.as<const T>(); // TypeError if x has the other element type
    auto to = y.as<T>();
    for (int64_t i = 0, n = to.shape(0); i < n; i++)
        to(i) += T(a) * from(i);
}

void axpy(double a, const Input &x, const Output &y)
{
    fastdl::expect_like(x, y);     // has the shape and the element type of y
    fastdl::expect_no_alias(y, x); // shares no memory with x, or is x
    switch (y.dtype()) {
    case FASTDL_FLOAT32:
        return add<float>(a, x, y);
    case FASTDL_FLOAT64:
        return add<double>(a, x, y);
    }
}

// Allocates in the framework of x: a torch tensor in gives a torch tensor out.
fastdl::owned<> scaled(double a, const Input &x)
{
    return x.visit([&](auto typed) -> fastdl::owned<> { // a tensor<const float, ...> or double
        using T = typename decltype(typed)::value_type;
        auto result = typed.empty_like();
        T *out = result.data();
        for (int64_t i = 0; i < result.size(); i++)
            out[i] = T(a) * typed(i);
        return result;
    });
}

PYBIND11_MODULE(axpy, m)
{
    m.def("axpy", &axpy, "a"_a, "x"_a, "y"_a, "Adds a * x to y, in place.");
    m.def("scaled", &scaled, "a"_a, "x"_a, "a * x, as a new tensor of the type of x.");
}
