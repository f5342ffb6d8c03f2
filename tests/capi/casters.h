/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of tests/test_casters.py, the same for both binding libraries. The file that
 * includes this has `lib` as the name of the library's namespace, and MODULE.
 */
#include <cstring>
#include <stdexcept>
#include <string>

namespace fd = fastdl;
using namespace lib::literals;

/* Sixteen bits that are a float to Python, of which C++ knows nothing. */
struct half {
    uint16_t bits;
};
template <> struct fastdl::dtype_of<half> {
    static constexpr uint32_t value = FASTDL_FLOAT16;
    static constexpr char name[] = "float16";
};

/* `named` without C++20. */
static constexpr char x_[] = "x", y_[] = "y";
using x_name = fd::named<x_>;
using y_name = fd::named<y_>;

static lib::object owned_reference(PyObject *made)
{
#if defined(FASTDL_NANOBIND_H_)
    if (made == nullptr)
        throw lib::python_error();
    return lib::steal(made);
#else
    if (made == nullptr)
        throw lib::error_already_set();
    return lib::reinterpret_steal<lib::object>(made);
#endif
}

/* Every constraint has a function that takes such a tensor, and tells how many elements it has. */
template <typename... Cs> int64_t size(fd::tensor<x_name, Cs...> x)
{
    static_assert(std::is_trivially_copyable_v<decltype(x)>);
    static_assert(sizeof(x) == sizeof(void *));
    return x.size();
}

template <typename... Cs> void define(lib::module_ &m, const char *name)
{
    m.def(name, &size<Cs...>, "x"_a);
}

static void define_constraints(lib::module_ &m)
{
    define<>(m, "anything");
    define<const bool>(m, "bool");
    define<const int8_t>(m, "int8");
    define<const int16_t>(m, "int16");
    define<const int32_t>(m, "int32");
    define<const int64_t>(m, "int64");
    define<const uint8_t>(m, "uint8");
    define<const uint16_t>(m, "uint16");
    define<const uint32_t>(m, "uint32");
    define<const uint64_t>(m, "uint64");
    define<const half>(m, "float16");
    define<const float>(m, "float32");
    define<const double>(m, "float64");
    define<const std::complex<float>>(m, "complex64");
    define<const std::complex<double>>(m, "complex128");
    define<float>(m, "writable_float32");
    define<fd::writable>(m, "writable");
    define<fd::any_of<const float, const int32_t>>(m, "float32_or_int32");
    define<fd::any_of<float, int32_t>>(m, "writable_float32_or_int32");
    define<fd::ndim<0>>(m, "ndim0");
    define<fd::ndim<2>>(m, "ndim2");
    define<fd::shape<>>(m, "shape_none");
    define<fd::shape<fd::any, 3>>(m, "shape_any_3");
    define<fd::c_contiguous>(m, "c_contiguous");
    define<fd::f_contiguous>(m, "f_contiguous");
    define<fd::c_contiguous, fd::f_contiguous>(m, "contiguous");
    define<fd::inner_contiguous>(m, "inner_contiguous");
    define<fd::aligned<64>>(m, "aligned64");
    define<fd::device::cpu>(m, "cpu");
    define<fd::device::cuda>(m, "cuda");
    define<fd::device::on<kDLOneAPI>>(m, "oneapi");
    define<fd::device::any>(m, "any_device");
    /* In another order. */
    define<fd::device::any, fd::shape<2, 3>, fd::c_contiguous, const float>(m, "all_at_once");
}

/* What a handle says of a tensor: (dtype, ndim, size, shape, strides, readonly, device, address,
 * type). */
static PyObject *list_of(const int64_t *values, int32_t n)
{
    PyObject *list = PyList_New(n);
    for (int32_t i = 0; list != nullptr && i < n; i++)
        PyList_SetItem(list, i, PyLong_FromLongLong(values[i]));
    return list;
}

static lib::object facts(fd::tensor<fd::device::any> x)
{
    return owned_reference(Py_BuildValue(
        "(IiLNNO(ii)NO)", x.dtype(), x.ndim(), (long long)x.size(), list_of(x.shape(), x.ndim()),
        list_of(x.strides(), x.ndim()), x.is_readonly() ? Py_True : Py_False,
        (int)x.device().device_type, (int)x.device().device_id,
        PyLong_FromVoidPtr(const_cast<void *>(x.data())), (PyObject *)x.python_type()));
}

static void fill(fd::tensor<float, fd::ndim<2>> x, float value)
{
    for (int64_t i = 0; i < x.shape(0); i++)
        for (int64_t j = 0; j < x.shape(1); j++)
            x(i, j) = value + 10 * float(i) + float(j);
}

/* The sum of a vector, and the name of the element type that visit() found. */
using Vector = fd::tensor<fd::any_of<const float, const double, const int32_t>, fd::ndim<1>>;
static std::string visit(Vector x)
{
    return x.visit([](auto typed) {
        double sum = 0;
        for (int64_t i = 0; i < typed.shape(0); i++)
            sum += double(typed(i));
        using T = typename decltype(typed)::value_type;
        return std::string(fd::dtype_of<T>::name) + " " + std::to_string(int(sum));
    });
}

static int64_t optional(std::optional<fd::tensor<const float, x_name>> x)
{
    return x ? x->size() : -1;
}

/* ---- overloads ---- */

template <typename T> const char *pick(double, fd::tensor<const T> x)
{
    return x.size() < 0 ? "" : fd::dtype_of<T>::name;
}

static void define_overloads(lib::module_ &m)
{
    m.def("pick", &pick<float>, "scale"_a, "x"_a.noconvert());
    m.def("pick", &pick<double>, "scale"_a, "x"_a.noconvert());
    m.def("pick", [](double, double) { return "scalar"; }, "scale"_a, "x"_a);
    m.def("pick_plain", &pick<float>, "scale"_a, "x"_a);
    m.def("pick_plain", &pick<double>, "scale"_a, "x"_a);
    /* Only after the conversion of `how` fails is the second one asked. */
    m.def("pick_by", [](fd::tensor<const float>, double) { return "number"; }, "x"_a, "how"_a);
    m.def("pick_by", [](fd::tensor<const float>, std::string) { return "text"; }, "x"_a, "how"_a);
}

/* ---- what members throw ---- */

static void read_as_float(fd::tensor<x_name> x)
{
    (void)x.as<const float>();
}
static void write_as_float(fd::tensor<x_name> x)
{
    (void)x.as<float>();
}
static void like(fd::tensor<x_name, fd::device::any> x, fd::tensor<y_name, fd::device::any> y)
{
    fd::expect_like(x, y);
}
static void no_alias(fd::tensor<x_name> x, fd::tensor<y_name> y)
{
    fd::expect_no_alias(x, y);
}
static std::intptr_t work_stream(fd::tensor<fd::device::any> x)
{
    return reinterpret_cast<std::intptr_t>(x.work_stream());
}
static void throw_after(fd::tensor<> x)
{
    throw std::runtime_error("of " + std::to_string(x.size()));
}

/* ---- results ---- */

static fd::owned<float> filled_like(fd::tensor<const float> x, float value)
{
    fd::owned<float> result = x.empty_like();
    for (int64_t i = 0; i < result.size(); i++)
        result.data()[i] = value + float(i);
    return result;
}

/* int32 (2, 3) of 0 to 5, whatever x is. */
static fd::owned<> counted(fd::tensor<fd::device::any> x)
{
    fd::owned<int32_t> result = fd::empty<int32_t>({2, 3}, x);
    for (int32_t i = 0; i < 6; i++)
        result.data()[i] = i;
    return result;
}

static void drop_result(fd::tensor<const float> x, bool loudly)
{
    fd::owned<float> first = x.empty_like(), second = fd::empty<float>({1}, x);
    first = std::move(second);
    if (loudly)
        throw std::runtime_error("after allocation");
}

static fd::owned<float> moved_from(fd::tensor<const float> x)
{
    fd::owned<float> first = x.empty_like(), second = std::move(first);
    return first; // NOLINT: what happens then is the question
}

/* ---- where no caster helps ---- */

static int64_t total(lib::list items)
{
    int64_t sum = 0;
    for (lib::handle item : items) {
        fd::loan<fd::tensor<const float, x_name>> loan(item.ptr());
        sum += loan.get().size();
    }
    return sum;
}

MODULE(m)
{
    define_constraints(m);
    define_overloads(m);
    m.def("facts", &facts);
    m.def("fill", &fill, "x"_a, "value"_a);
    m.def("visit", &visit, "x"_a);
    m.def("optional", &optional, "x"_a);
    m.def("three", [](fd::tensor<float> x, fd::tensor<const float> y, fd::tensor<const float> z) {
        return x.size() + y.size() + z.size();
    });
    m.def("released", &size<const float>, lib::call_guard<lib::gil_scoped_release>());
    m.def("read_as_float", &read_as_float);
    m.def("write_as_float", &write_as_float);
    m.def("like", &like);
    m.def("no_alias", &no_alias);
    m.def("work_stream", &work_stream);
    m.def("throw_after", &throw_after);
    m.def("filled_like", &filled_like);
    m.def("counted", &counted);
    m.def("drop_result", &drop_result);
    m.def("moved_from", &moved_from);
    m.def("total", &total);
}
