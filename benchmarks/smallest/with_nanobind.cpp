// SPDX-License-Identifier: Apache-2.0
//
// take(x): a float32 vector on the host, bound by nanobind with its own nb::ndarray.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace nb = nanobind;

static volatile float sink; // so that the tensor is read

using Vector = nb::ndarray<const float, nb::ndim<1>, nb::device::cpu>;

NB_MODULE(with_nanobind, m)
{
    m.def("take", [](const Vector &x) { sink = *x.data(); });
}
