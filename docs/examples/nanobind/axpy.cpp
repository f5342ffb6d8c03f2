// SPDX-License-Identifier: Apache-2.0
// y += a * x over the tensors of any framework, bound by nanobind.
#define FASTDL_IMPLEMENTATION
#include <fastdl/nanobind.h>

namespace nb = nanobind;
using namespace nb::literals;

// Vectors on the host, with any stride. y is written; x may be read-only.
using Input =
    fastdl::tensor<fastdl::any_of<const float, const double>, fastdl::ndim<1>, fastdl::named<"x">>;
using Output = fastdl::tensor<fastdl::any_of<float, double>, fastdl::ndim<1>, fastdl::named<"y">>;

template <typename T> void add(T a, int64_t n, const T *x, int64_t x_step, T *y, int64_t y_step)
{
    for (int64_t i = 0; i < n; i++)
        y[i * y_step] += a * x[i * x_step];
}

void axpy(double a, const Input &x, const Output &y)
{
    fastdl::expect_like(x, y);     // has the shape and the element type of y
    fastdl::expect_no_alias(y, x); // shares no memory with x, or is x
    y.visit([&](auto typed) {      // a tensor of float or double
        using T = typename decltype(typed)::value_type;
        add<T>(T(a), x.size(), x.as<const T>().data(), x.stride(0), typed.data(), typed.stride(0));
    });
}

// A result of the framework of x: torch in, torch out.
fastdl::owned<> scaled(double a, const Input &x)
{
    return x.visit([&](auto typed) -> fastdl::owned<> {
        using T = typename decltype(typed)::value_type;
        auto result = typed.empty_like();
        T *out = result.data();
        for (int64_t i = 0; i < result.size(); i++)
            out[i] = T(a) * typed(i);
        return result;
    });
}

NB_MODULE(axpy, m)
{
    m.def("axpy", &axpy, "a"_a, "x"_a, "y"_a, "Adds a * x to y, in place.");
    m.def("scaled", &scaled, "a"_a, "x"_a, "a * x, as a new tensor of the type of x.");
}
