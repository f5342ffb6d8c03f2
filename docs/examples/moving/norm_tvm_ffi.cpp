// SPDX-License-Identifier: Apache-2.0
/* Build:

c++ -O2 -std=c++17 -fPIC -shared $(tvm-ffi-config --cxxflags) norm_tvm_ffi.cpp \
    $(tvm-ffi-config --ldflags --libs) -o norm_tvm_ffi.so
 */
#include "rms_norm.h"

// [norm]
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

using tvm::ffi::TensorView;

static void expect(bool met, const char *text)
{
    if (!met)
        TVM_FFI_THROW(ValueError) << text;
}

static bool is_row_major_float(TensorView x, int ndim)
{
    const auto dtype = x.dtype();
    return dtype.code == kDLFloat && dtype.bits == 32 && dtype.lanes == 1 && x.ndim() == ndim &&
           x.device().device_type == kDLCPU && x.IsContiguous();
}

static void norm(TensorView out, TensorView x, TensorView weight, double eps)
{
    expect(is_row_major_float(x, 2), "x: expected a row-major matrix of float32 on the host");
    expect(is_row_major_float(out, 2) && out.size(0) == x.size(0) && out.size(1) == x.size(1),
           "out: expected the shape of x, row-major");
    expect(is_row_major_float(weight, 1) && weight.size(0) == x.size(1),
           "weight: expected a number for each column of x");
    rms_norm(static_cast<float *>(out.data_ptr()), static_cast<const float *>(x.data_ptr()),
             static_cast<const float *>(weight.data_ptr()), x.size(0), x.size(1), eps);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(norm, norm)
// [/norm]
