"""fastdl::publish: a class bound by nanobind or pybind11 as a producer."""

import gc
import weakref

import numpy as np
import pytest

import fastdl
from tests.support.build import folder
from tests.support.ctypes_dlpack import READ_ONLY, opened, strides_in
from tests.support.cxx import binding

SOURCE = """
#define FASTDL_IMPLEMENTATION
#include <fastdl/LIBRARY.h>
#include <stdexcept>
#include <vector>
namespace py = LIBRARY;

struct Matrix {
    std::vector<double> values = std::vector<double>(6);
    int what = 0;
    virtual ~Matrix() = default;
};
struct Constant {
    float values[2] = {1, 2};
    int64_t shape[1] = {2};
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

struct Twice {};
void describe_nothing(Twice &, fastdl::description &) {}

MODULE_(NAME, m)
{
    fastdl::publish<&describe>(
        py::class_<Matrix>(m, "Matrix").def(py::init<>()).READWRITE("what", &Matrix::what));
    fastdl::publish<&describe_constant, FASTDL_LENDS>(
        py::class_<Constant>(m, "Constant").def(py::init<>()));
    py::class_<Twice> twice(m, "Twice");
    m.def("publish", [twice](bool again) {
        if (again)
            fastdl::publish<&describe_nothing, FASTDL_LENDS>(twice);
        else
            fastdl::publish<&describe_nothing>(twice);
    });
}
"""


@pytest.fixture(scope="module", params=["pybind11", "nanobind"])
def api(request):
    library = request.param
    pytest.importorskip(library)
    name = f"producers_{library}"
    text = SOURCE.replace("LIBRARY", library).replace("NAME", name)
    text = text.replace("MODULE_", "PYBIND11_MODULE" if library == "pybind11" else "NB_MODULE")
    text = text.replace("READWRITE", "def_readwrite" if library == "pybind11" else "def_rw")
    source = folder() / f"{name}.cpp"
    source.write_text(text)
    return binding(name, library, source)


def test_it_is_read(api):
    x = api.Matrix()
    view = np.from_dlpack(x)
    view[:] = [[1, 2, 3], [4, 5, 6]]
    assert fastdl.from_dlpack(x).tolist() == view.tolist()
    x.what = 1
    assert np.from_dlpack(x).tolist() == [[1, 4], [2, 5], [3, 6]]
    assert strides_in(opened(x.__dlpack__(max_version=(1, 0))).tensor) == (1, 3)
    x.what = 8
    assert x.__dlpack_device__() == (2, 1)


def test_const_memory_is_read_only(api):
    x = api.Constant()
    assert opened(x.__dlpack__(max_version=(1, 0))).flags == READ_ONLY
    assert fastdl.from_dlpack(x).tolist() == [1, 2]
    assert fastdl.from_dlpack(x).readonly


def test_the_object_lives_as_long_as_its_tensors(api):
    class Derived(api.Matrix):
        pass

    x = Derived()
    alive = weakref.ref(x)
    view, tensor = np.from_dlpack(x), fastdl.from_dlpack(x)
    del x
    gc.collect()
    assert alive() is not None
    view[1, 2] = 5
    assert tensor[1, 2].item() == 5
    del view, tensor
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize(
    ("what", "error", "words"),
    [
        (2, RuntimeError, "a reason"),
        (3, MemoryError, None),
        (4, RuntimeError, "the function that describes the object failed"),
        (5, LookupError, "gone"),
        (6, BufferError, "dimensions outside 0 to 64"),
        (7, BufferError, "dimensions outside 0 to 64"),
    ],
)
def test_what_fails(api, what, error, words):
    x = api.Matrix()
    x.what = what
    for export in (x.__dlpack__, x.__dlpack_device__, lambda: fastdl.from_dlpack(x)):
        with pytest.raises(error, match=words):
            export()
    x.what = 0
    assert np.from_dlpack(x).shape == (2, 3)


def test_two_producers_in_one_class(api):
    api.publish(False)
    api.publish(False)
    with pytest.raises(TypeError, match="Twice' has __dlpack_c_exchange_api__ already"):
        api.publish(True)


def test_an_object_without_init(api):
    if api.__name__ == "producers_pybind11":
        pytest.skip("pybind11 has made the C++ object nevertheless, or says so itself")
    with pytest.raises(TypeError, match="expected an object that was initialised"):
        api.Matrix.__new__(api.Matrix).__dlpack__()
