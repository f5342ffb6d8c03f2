// SPDX-License-Identifier: Apache-2.0
//
// Classes that fastdl::publish makes producers, bound by nanobind or pybind11.
#define FASTDL_IMPLEMENTATION
#if defined(nanobind_)
#include <fastdl/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
namespace py = nanobind;
#else
#include <fastdl/pybind11.h>
#include <pybind11/stl.h>
namespace py = pybind11;
#define NB_MODULE PYBIND11_MODULE
#define def_rw def_readwrite
#endif
#include <stdexcept>
#include <tuple>
#include <vector>

// What Python says, as in producer.c.
struct Given {
    py::object owner;
    std::uintptr_t data;
    std::vector<int64_t> shape, strides;
    std::tuple<uint8_t, uint8_t, uint16_t> dtype;
    uint64_t flags;
};

void describe_given(const Given &x, fastdl::description &out)
{
    // Of any type: what there is no template for.
    out->owner = x.owner.ptr();
    out->dl.data = reinterpret_cast<void *>(x.data);
    out->dl.ndim = int32_t(x.shape.size());
    out->dl.shape = const_cast<int64_t *>(x.shape.data());
    out->dl.strides = const_cast<int64_t *>(x.strides.data());
    out->dl.dtype = {std::get<0>(x.dtype), std::get<1>(x.dtype), std::get<2>(x.dtype)};
    out->flags = x.flags;
}

struct Matrix {
    std::vector<double> values = std::vector<double>(6);
    int what = 0;
    virtual ~Matrix() = default;
};
struct Constant {
    float values[2] = {1, 2};
    int64_t shape[1] = {2};
};

// An exception of the author, which the module makes known to the binding library.
struct OwnError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

void describe(const Matrix &x, fastdl::description &out)
{
    double *data = const_cast<double *>(x.values.data());
    switch (x.what) {
    case 0:
        return out.set(data, {2, 3});
    case 1:
        return out.set(data, {3, 2}, {1, 3});
    case 2:
        throw std::runtime_error("a reason");
    case 3:
        throw std::bad_alloc();
    case 4:
        throw 5;
    case 5:
        PyErr_SetString(PyExc_LookupError, "gone");
        return fastdl::detail::throw_error();
    case 6:
        return out.set(data, {2, 3}, {1});
    case 7: {
        int64_t many[70] = {};
        return out.set(data, many, 70);
    }
    case 9:
        throw py::value_error("a value");
    case 10:
        throw py::index_error("an index");
    case 11:
        throw py::type_error("a type");
    case 12:
        throw std::invalid_argument("an argument");
    case 13:
        throw std::out_of_range("a range");
    case 14:
        throw std::overflow_error("too much");
    case 15:
        throw std::length_error("a length");
    case 16:
        throw OwnError("of the author");
    case 17:
        PyErr_SetString(PyExc_KeyError, "pending");
        throw std::runtime_error("not seen");
    default:
        out.set(data, {2, 3});
        out->dl.device = {kDLCUDA, 1};
    }
}

void describe_constant(const Constant &x, fastdl::description &out) noexcept
{
    out.set(x.values, {2});
    out->dl.shape = const_cast<int64_t *>(x.shape);
}

struct Label {
    virtual ~Label() = default;
};
struct Labelled : Label, Matrix { // the matrix does not come first
};
struct Same : Constant {};

struct Twice {};
void describe_nothing(Twice &, fastdl::description &)
{
}

NB_MODULE(MODULE, m)
{
#if defined(nanobind_)
    py::exception<OwnError>(m, "OwnError", PyExc_ArithmeticError);
#else
    py::register_exception<OwnError>(m, "OwnError", PyExc_ArithmeticError);
#endif
    fastdl::publish<&describe_given, FASTDL_LENDS>(
        py::class_<Given>(m, "Given")
            .def(py::init<py::object, std::uintptr_t, std::vector<int64_t>, std::vector<int64_t>,
                          std::tuple<uint8_t, uint8_t, uint16_t>, uint64_t>(),
                 py::arg("owner"), py::arg("data"), py::arg("shape"), py::arg("strides"),
                 py::arg("dtype"), py::arg("flags")));
    fastdl::publish<&describe>(
        py::class_<Matrix>(m, "Matrix").def(py::init<>()).def_rw("what", &Matrix::what));
    fastdl::publish<&describe_constant, FASTDL_LENDS>(
        py::class_<Constant>(m, "Constant").def(py::init<>()));
    py::class_<Twice> twice(m, "Twice");
    m.def("publish", [twice](bool again) {
        if (again)
            fastdl::publish<&describe_nothing, FASTDL_LENDS>(twice);
        else
            fastdl::publish<&describe_nothing>(twice);
    });
#if !defined(nanobind_) // nanobind has single inheritance
    py::class_<Same, Constant>(m, "Same").def(py::init<>());
    py::class_<Label>(m, "Label").def(py::init<>());
    py::class_<Labelled, Label, Matrix>(m, "Labelled").def(py::init<>());
#endif
    m.def("same", [](fastdl::owned<> x) { return x; });
#if defined(nanobind_)
    // A producer and a consumer that are not fastdl's.
    static float zeros[2];
    m.def("array", [] { return py::ndarray<py::array_api, float>(zeros, {2}, py::none()); });
    m.def("sum", [](py::ndarray<const float, py::ndim<2>, py::device::cpu> x) {
        float sum = 0;
        for (std::size_t i = 0; i < x.shape(0); i++)
            for (std::size_t j = 0; j < x.shape(1); j++)
                sum += x(i, j);
        return sum;
    });
#endif
}
