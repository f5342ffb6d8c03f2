// SPDX-License-Identifier: Apache-2.0
/* WeightedSum(weights).of([x, y, ...]): the sum of vectors, times `weights` unless that is None.
 *
 * Build:

c++ -O2 -std=c++20 -fPIC -fvisibility=hidden -shared $(python -m pybind11 --includes) \
    $(python -m fastdl --cflags) keep.cpp \
    -o keep$(python -c "from sysconfig import *; print(get_config_var('EXT_SUFFIX'))")
 */
#define FASTDL_IMPLEMENTATION
#include <fastdl/pybind11.h>
#include <pybind11/stl.h> // for std::optional and std::vector

namespace py = pybind11;

// Contiguous float64 is used in place; other layouts are copied, other types converted.
using Vector = fastdl::owned<const double, fastdl::ndim<1>, fastdl::c_contiguous, fastdl::converted,
                             fastdl::named<"vector">>;

class WeightedSum
{
  public:
    explicit WeightedSum(std::optional<Vector> weights) : weights_(std::move(weights))
    {
    }

    fastdl::owned<double> of(const std::vector<Vector> &vectors) const
    {
        if (vectors.empty())
            throw py::value_error("vectors: expected at least one");
        auto sum = vectors[0].get().empty_like(); // of the framework of the first vector
        for (int64_t i = 0; i < sum.size(); i++)
            sum(i) = 0;
        if (weights_)
            fastdl::expect_like(weights_->get(), sum.get()); // has the shape of sum
        for (const Vector &x : vectors) {
            fastdl::expect_like(x.get(), sum.get());
            for (int64_t i = 0; i < sum.size(); i++)
                sum(i) += x(i) * (weights_ ? (*weights_)(i) : 1);
        }
        return sum;
    }

  private:
    std::optional<Vector> weights_;
};

PYBIND11_MODULE(keep, m)
{
    py::class_<WeightedSum>(m, "WeightedSum")
        .def(py::init<std::optional<Vector>>(), py::arg("weights") = py::none())
        .def("of", &WeightedSum::of, py::arg("vectors"));
}
