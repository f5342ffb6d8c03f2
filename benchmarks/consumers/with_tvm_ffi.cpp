// SPDX-License-Identifier: Apache-2.0
//
// The same functions by tvm-ffi: a library for tvm_ffi.load_module, not a module of Python's.

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

using View = tvm::ffi::TensorView;

static volatile float sink; // so that each tensor is read

// What fastdl_expect is asked for in with_fastdl.c.
static void check(const View &x)
{
    if (x.dtype().code != kDLFloat || x.dtype().bits != 32 || x.dtype().lanes != 1)
        TVM_FFI_THROW(TypeError) << "expected float32";
    if (x.ndim() != 1 || x.device().device_type != kDLCPU)
        TVM_FFI_THROW(ValueError) << "expected one dimension on the host";
}

template <typename... Views> static void take(const Views &...views)
{
    (check(views), ...);
    ((sink = *static_cast<const float *>(views.data_ptr())), ...);
}

static void one(View a)
{
    take(a);
}

static void three(View a, View b, View c)
{
    take(a, b, c);
}

static void eight(View a, View b, View c, View d, View e, View f, View g, View h)
{
    take(a, b, c, d, e, f, g, h);
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(one, one)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(three, three)
TVM_FFI_DLL_EXPORT_TYPED_FUNC(eight, eight)
