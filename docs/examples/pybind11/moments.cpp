// SPDX-License-Identifier: Apache-2.0
/* The mean and the variance of each column: an argument that is converted, and two results.
 *
 * Build:

c++ -O2 -std=c++20 -fPIC -fvisibility=hidden -shared $(python -m pybind11 --includes) \
    $(python -m fastdl --cflags) moments.cpp \
    -o moments$(python -c "from sysconfig import *; print(get_config_var('EXT_SUFFIX'))")
 */
#define FASTDL_IMPLEMENTATION
#include <fastdl/pybind11.h>

#include <utility>

namespace py = pybind11;
using namespace py::literals;

// [moments]
// In place of py::array_t<double, py::array::c_style | py::array::forcecast>: a row-major float64
// matrix is borrowed; one of another layout, or of other real numbers, is copied.
using Samples = fastdl::tensor<const double, fastdl::ndim<2>, fastdl::c_contiguous,
                               fastdl::converted, fastdl::named<"samples">>;
using Vector = fastdl::owned<double>;

std::pair<Vector, Vector> moments(const Samples &x)
{
    const int64_t rows = x.shape(0), columns = x.shape(1);
    Vector means = fastdl::empty<double>({columns}, x);
    Vector variances = fastdl::empty<double>({columns}, x);
    for (int64_t j = 0; j < columns; j++) {
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < rows; i++)
            sum += x(i, j);
        const double mean = sum / double(rows);
        for (int64_t i = 0; i < rows; i++)
            squares += (x(i, j) - mean) * (x(i, j) - mean);
        means(j) = mean;
        variances(j) = squares / double(rows);
    }
    return {std::move(means), std::move(variances)};
}
// [/moments]

PYBIND11_MODULE(moments, m)
{
    m.def("moments", &moments, "samples"_a, "The mean and the variance of each column.");
}
