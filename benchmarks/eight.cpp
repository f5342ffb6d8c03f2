// SPDX-License-Identifier: Apache-2.0
//
// Eight functions of vectors and matrices, bound by nanobind: with fastdl's caster if WITH_FASTDL
// is defined, else with nanobind's own. Only compiled, to compare the two.

#ifdef WITH_FASTDL
#include <fastdl/nanobind.h>
template <typename T, int N> using Array = fastdl::tensor<T, fastdl::ndim<N>>;
#else
#include <nanobind/ndarray.h>
template <typename T, int N>
using Array = nanobind::ndarray<T, nanobind::ndim<N>, nanobind::device::cpu>;
#endif

#include <cstdint>

using namespace nanobind::literals;

void scale(const Array<float, 1> &x, float by)
{
    for (int64_t i = 0; i < int64_t(x.shape(0)); i++)
        x.data()[i * x.stride(0)] *= by;
}
void scale_matrix(const Array<double, 2> &x, double by)
{
    for (int64_t i = 0; i < int64_t(x.shape(0)); i++)
        for (int64_t j = 0; j < int64_t(x.shape(1)); j++)
            x.data()[i * x.stride(0) + j * x.stride(1)] *= by;
}
float sum(const Array<const float, 1> &x)
{
    float s = 0;
    for (int64_t i = 0; i < int64_t(x.shape(0)); i++)
        s += x.data()[i * x.stride(0)];
    return s;
}
double sum_double(const Array<const double, 1> &x)
{
    double s = 0;
    for (int64_t i = 0; i < int64_t(x.shape(0)); i++)
        s += x.data()[i * x.stride(0)];
    return s;
}
double dot(const Array<const double, 1> &x, const Array<const double, 1> &y)
{
    double s = 0;
    for (int64_t i = 0; i < int64_t(x.shape(0)); i++)
        s += x.data()[i * x.stride(0)] * y.data()[i * y.stride(0)];
    return s;
}
void axpy(float a, const Array<const float, 1> &x, const Array<float, 1> &y)
{
    for (int64_t i = 0; i < int64_t(x.shape(0)); i++)
        y.data()[i * y.stride(0)] += a * x.data()[i * x.stride(0)];
}
int64_t count(const Array<const uint8_t, 3> &x)
{
    return int64_t(x.shape(0) * x.shape(1) * x.shape(2));
}
int64_t largest(const Array<const int64_t, 1> &x)
{
    int64_t s = INT64_MIN;
    for (int64_t i = 0; i < int64_t(x.shape(0)); i++)
        s = x.data()[i * x.stride(0)] > s ? x.data()[i * x.stride(0)] : s;
    return s;
}
NB_MODULE(eight, m)
{
    m.def("scale", &scale, "x"_a, "by"_a);
    m.def("scale_matrix", &scale_matrix, "x"_a, "by"_a);
    m.def("sum", &sum, "x"_a);
    m.def("sum_double", &sum_double, "x"_a);
    m.def("dot", &dot, "x"_a, "y"_a);
    m.def("axpy", &axpy, "a"_a, "x"_a, "y"_a);
    m.def("count", &count, "x"_a);
    m.def("largest", &largest, "x"_a);
}
