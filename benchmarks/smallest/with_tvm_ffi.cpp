// SPDX-License-Identifier: Apache-2.0
//
// take(x): a float32 vector on the host, bound by tvm-ffi.

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

static volatile float sink; // so that the tensor is read

static void take(tvm::ffi::TensorView x)
{
    if (x.dtype().code != kDLFloat || x.dtype().bits != 32 || x.dtype().lanes != 1)
        TVM_FFI_THROW(TypeError) << "expected float32";
    if (x.ndim() != 1 || x.device().device_type != kDLCPU)
        TVM_FFI_THROW(ValueError) << "expected one dimension on the host";
    sink = *static_cast<const float *>(x.data_ptr());
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(take, take)
