// SPDX-License-Identifier: Apache-2.0
// Build, in Python: torch.utils.cpp_extension.load("norm_torch", ["norm_torch.cpp"])
#include "rms_norm.h"
#include <torch/extension.h>

// [norm]
void norm(at::Tensor out, at::Tensor x, at::Tensor weight, double eps)
{
    TORCH_CHECK_TYPE(x.scalar_type() == at::kFloat, "x: expected float32");
    TORCH_CHECK_VALUE(x.is_cpu() && x.dim() == 2 && x.is_contiguous(), "x: expected a row-major "
                                                                       "matrix on the host");
    TORCH_CHECK_TYPE(out.scalar_type() == at::kFloat, "out: expected float32");
    TORCH_CHECK_VALUE(out.is_cpu() && out.is_contiguous() && out.sizes() == x.sizes(),
                      "out: expected the shape of x, row-major");
    TORCH_CHECK_TYPE(weight.scalar_type() == at::kFloat, "weight: expected float32");
    TORCH_CHECK_VALUE(weight.is_cpu() && weight.is_contiguous() && weight.dim() == 1 &&
                          weight.size(0) == x.size(1),
                      "weight: expected a number for each column of x");
    rms_norm(out.data_ptr<float>(), x.const_data_ptr<float>(), weight.const_data_ptr<float>(),
             x.size(0), x.size(1), eps);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)
{
    m.def("norm", &norm);
}
// [/norm]
