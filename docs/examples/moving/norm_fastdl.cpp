// SPDX-License-Identifier: Apache-2.0
/* Build:

c++ -O2 -std=c++17 -fPIC -shared -fvisibility=hidden $(python -m fastdl --cflags) \
    $(python -m pybind11 --includes) norm_fastdl.cpp \
    -o norm_fastdl$(python -m pybind11 --extension-suffix)
 */
#include "rms_norm.h"

// [norm]
#define FASTDL_IMPLEMENTATION
#include <fastdl/pybind11.h>

inline constexpr char out_[] = "out", x_[] = "x", weight_[] = "weight"; // for messages
using Output = fastdl::tensor<float, fastdl::ndim<2>, fastdl::c_contiguous, fastdl::named<out_>>;
using Input = fastdl::tensor<const float, fastdl::ndim<2>, fastdl::c_contiguous, fastdl::named<x_>>;
using Weight =
    fastdl::tensor<const float, fastdl::ndim<1>, fastdl::c_contiguous, fastdl::named<weight_>>;

void norm(const Output &out, const Input &x, const Weight &weight, double eps)
{
    fastdl::expect_like(out, x);
    if (weight.size() != x.shape(1))
        throw pybind11::value_error("weight: expected a number for each column of x");
    rms_norm(out.data(), x.data(), weight.data(), x.shape(0), x.shape(1), eps);
}

PYBIND11_MODULE(norm_fastdl, m)
{
    m.def("norm", &norm);
}
// [/norm]
