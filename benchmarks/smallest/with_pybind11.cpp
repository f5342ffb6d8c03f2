// SPDX-License-Identifier: Apache-2.0
//
// take(x): a float32 vector on the host, bound by pybind11 with its own py::array, which knows
// NumPy's arrays alone.

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

namespace py = pybind11;

static volatile float sink; // so that the tensor is read

PYBIND11_MODULE(with_pybind11, m)
{
    m.def("take", [](const py::array &x) {
        if (x.dtype().char_() != 'f' || x.ndim() != 1)
            throw py::type_error("expected float32 arrays of one dimension");
        sink = *static_cast<const float *>(x.data());
    });
}
