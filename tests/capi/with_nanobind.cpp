// What nanobind's own arguments take: see tests/interop/test_comparison.py.
/* SPDX-License-Identifier: Apache-2.0 */

#include <cstdint>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace nb = nanobind;

static double memory[1];

NB_MODULE(with_nanobind, m)
{
    m.def("take", [](nb::ndarray<nb::ro>) {});
    m.def("take_writable", [](nb::ndarray<>) {});
    m.def("values", [](nb::ndarray<const double, nb::ndim<1>> x) {
        nb::list values;
        for (size_t i = 0; i < x.shape(0); i++)
            values.append(x.data()[static_cast<int64_t>(i) * x.stride(0)]);
        return values;
    });
    m.def("make", [] { return nb::ndarray<double>(memory, {1}, nb::none()); });
}
