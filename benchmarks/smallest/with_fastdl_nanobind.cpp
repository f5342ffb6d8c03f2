// SPDX-License-Identifier: Apache-2.0
//
// take(x): a float32 vector on the host, bound by nanobind with fastdl's caster.

#define FASTDL_IMPLEMENTATION
#include <fastdl/nanobind.h>

static volatile float sink; // so that the tensor is read

using Vector = fastdl::tensor<const float, fastdl::ndim<1>>;

NB_MODULE(with_fastdl_nanobind, m)
{
    m.def("take", [](const Vector &x) { sink = *x.data(); });
}
