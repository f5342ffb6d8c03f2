// SPDX-License-Identifier: Apache-2.0
//
// take(x): a float32 vector on the host, bound by pybind11 with fastdl's caster.

#define FASTDL_IMPLEMENTATION
#include <fastdl/pybind11.h>

static volatile float sink; // so that the tensor is read

using Vector = fastdl::tensor<const float, fastdl::ndim<1>>;

PYBIND11_MODULE(with_fastdl_pybind11, m)
{
    m.def("take", [](const Vector &x) { sink = *x.data(); });
}
