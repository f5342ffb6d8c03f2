// SPDX-License-Identifier: Apache-2.0
//
// The same functions by pybind11, whose py::array knows NumPy's arrays alone.

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <stdexcept>

namespace py = pybind11;

static volatile float sink; // so that each tensor is read

// What fastdl_expect is asked for in with_fastdl.c. py::array_t<float> would copy what does not
// fit instead of refusing it.
template <typename... Arrays> static void take(const Arrays &...arrays)
{
    if (((arrays.dtype().char_() != 'f' || arrays.ndim() != 1) || ...))
        throw py::type_error("expected float32 arrays of one dimension");
    ((sink = *static_cast<const float *>(arrays.data())), ...);
}

PYBIND11_MODULE(with_pybind11, m)
{
    using A = const py::array &;
    m.def("one", [](A a) { take(a); });
    m.def("three", [](A a, A b, A c) { take(a, b, c); });
    m.def("eight", [](A a, A b, A c, A d, A e, A f, A g, A h) { take(a, b, c, d, e, f, g, h); });
}
