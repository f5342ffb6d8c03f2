// SPDX-License-Identifier: Apache-2.0
//
// take(x): a float32 vector on the host, as an operator of torch in C++.

#include <torch/library.h>

static volatile float sink; // so that the tensor is read

static void take(const at::Tensor &x)
{
    TORCH_CHECK_TYPE(x.scalar_type() == at::kFloat, "expected float32");
    TORCH_CHECK_VALUE(x.dim() == 1 && x.is_cpu(), "expected one dimension on the host");
    sink = *x.const_data_ptr<float>();
}

TORCH_LIBRARY(fastdl_benchmark, m)
{
    m.def("take(Tensor x) -> ()", &take);
}
