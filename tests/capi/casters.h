/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of tests/header/test_casters.py, the same for both binding libraries. The file that
 * includes this has `lib` as the name of the library's namespace, and MODULE.
 */
#include <array>
#include <complex>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

namespace fd = fastdl;
using namespace lib::literals;

/* Sixteen bits that are a float to Python, of which C++ knows nothing. */
struct half {
    uint16_t bits;
};
struct brain {
    uint16_t bits;
};
template <> struct fastdl::dtype_of<half> : fastdl::is_float16 {};
template <> struct fastdl::dtype_of<brain> : fastdl::is_bfloat16 {};

/* `named` without C++20. */
inline constexpr char x_[] = "x", y_[] = "y";
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
template <typename... Cs> int64_t size(const fd::tensor<x_name, Cs...> &x)
{
    static_assert(sizeof(fd::tensor<x_name, Cs...>) == sizeof(void *));
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
    define<const brain>(m, "bfloat16");
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
    define<const float, fd::aligned<1>>(m, "aligned1");
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

static lib::object facts(const fd::tensor<fd::device::any> &x)
{
    return owned_reference(Py_BuildValue(
        "(IiLNNO(ii)NO)", x.dtype(), x.ndim(), (long long)x.size(), list_of(x.shape(), x.ndim()),
        list_of(x.strides(), x.ndim()), x.is_readonly() ? Py_True : Py_False,
        (int)x.device().device_type, (int)x.device().device_id,
        PyLong_FromVoidPtr(const_cast<void *>(x.data())), (PyObject *)x.python_type()));
}

static void fill(const fd::tensor<float, fd::ndim<2>> &x, float value)
{
    for (int64_t i = 0; i < x.shape(0); i++)
        for (int64_t j = 0; j < x.shape(1); j++)
            x(i, j) = value + 10 * float(i) + float(j);
}

/* The sum of a vector, and the name of the element type that visit() found. */
using Vector = fd::tensor<fd::any_of<const float, const double, const int32_t>, fd::ndim<1>>;
static std::string visit(const Vector &x)
{
    return x.visit([](auto typed) {
        double sum = 0;
        for (int64_t i = 0; i < typed.shape(0); i++)
            sum += double(typed(i));
        using T = typename decltype(typed)::value_type;
        return std::string(fd::dtype_of<T>::name) + " " + std::to_string(int(sum));
    });
}

/* The first element as it lies in memory, of two types of two bytes. */
static std::string
visit_halves(const fd::tensor<fd::any_of<const half, const brain>, fd::ndim<1>> &x)
{
    return x.visit([](const auto &typed) {
        using T = typename std::decay_t<decltype(typed)>::value_type;
        return std::string(fd::dtype_of<T>::name) + " " + std::to_string(typed(0).bits);
    });
}

static int64_t optional(const std::optional<fd::tensor<const float, x_name>> &x)
{
    return x ? x->size() : -1;
}

/* ---- overloads ---- */

template <typename T> const char *pick(double, const fd::tensor<const T> &x)
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
    m.def(
        "pick_by", [](const fd::tensor<const float> &, double) { return "number"; }, "x"_a,
        "how"_a);
    m.def(
        "pick_by", [](const fd::tensor<const float> &, std::string) { return "text"; }, "x"_a,
        "how"_a);
}

/* ---- what members throw ---- */

static void read_as_float(const fd::tensor<x_name> &x)
{
    (void)x.as<const float>();
}
static void write_as_float(const fd::tensor<x_name> &x)
{
    (void)x.as<float>();
}
static void like(const fd::tensor<x_name, fd::device::any, fd::aligned<1>> &x,
                 const fd::tensor<y_name, fd::device::any> &y)
{
    fd::expect_like(x, y);
}
static void no_alias(const fd::tensor<x_name, fd::aligned<1>> &x, const fd::tensor<y_name> &y)
{
    fd::expect_no_alias(x, y);
}
static std::intptr_t work_stream(const fd::tensor<fd::device::any> &x)
{
    return reinterpret_cast<std::intptr_t>(x.work_stream());
}
static void order(const fd::tensor<fd::device::any> &x, std::intptr_t stream)
{
    x.order(reinterpret_cast<void *>(stream));
    x.order_back(reinterpret_cast<void *>(stream));
}
static void throw_after(const fd::tensor<> &x)
{
    throw std::runtime_error("of " + std::to_string(x.size()));
}

/* ---- results ---- */

static fd::owned<float> filled_like(const fd::tensor<const float> &x, float value)
{
    fd::owned<float> result = x.empty_like();
    for (int64_t i = 0; i < result.size(); i++)
        result.data()[i] = value + float(i);
    return result;
}

/* int32 (2, 3) of 0 to 5, whatever x is. */
static fd::owned<> counted(const fd::tensor<fd::device::any> &x)
{
    fd::owned<int32_t> result = fd::empty<int32_t>({2, 3}, x);
    for (int32_t i = 0; i < 6; i++)
        result.data()[i] = i;
    return result;
}

/* A container of 0 to 5, of which each that is not moved from counts, with the address of its
 * elements. */
struct Counted {
    static inline int alive = 0;
    std::vector<float> values{0, 1, 2, 3, 4, 5};

    Counted()
    {
        alive++;
    }
    Counted(Counted &&from) noexcept : values(std::move(from.values))
    {
        alive++;
    }
    ~Counted()
    {
        alive--;
    }
    float *data()
    {
        return values.data();
    }
    std::size_t size() const
    {
        return values.size();
    }
};

template <typename Result> static auto at(const void *data, Result &&result)
{
    return std::pair(reinterpret_cast<std::uintptr_t>(data), std::move(result));
}

static auto from_container(const fd::tensor<const float> &x, int64_t rows, int64_t columns)
{
    Counted values;
    const void *data = values.data();
    return at(data, fd::make_owned(std::move(values), {rows, columns}, x));
}

static auto from_vector(const fd::tensor<const float> &x, int64_t size)
{
    std::vector<int16_t> values(std::size_t(size), 7);
    const void *data = values.data();
    auto result = fd::make_owned(std::move(values), {size}, x);
    return at(values.empty() ? data : nullptr, std::move(result)); /* it was moved from */
}

static auto from_unique_ptr(const fd::tensor<const float> &x, int64_t rows, int64_t columns)
{
    auto values = std::make_unique<double[]>(3);
    values[1] = 1.5;
    const void *data = values.get();
    std::unique_ptr<const double[]> moved = std::move(values);
    return at(data, fd::make_owned(std::move(moved), {rows, columns}, x));
}

static auto from_std_array(const fd::tensor<const float> &x)
{
    std::array<int64_t, 2> values{7, 8};
    return at(values.data(), fd::make_owned(std::move(values), {2}, x));
}

static void drop_result(const fd::tensor<const float> &x, bool loudly)
{
    fd::owned<float> first = x.empty_like(), second = fd::empty<float>({1}, x);
    first = std::move(second);
    if (loudly)
        throw std::runtime_error("after allocation");
}

/* Two int8 as something else. */
template <typename... Cs> static fd::owned<Cs...> of_two_bytes(const fd::tensor<> &x)
{
    int64_t size = 2;
    DLManagedTensorVersioned *managed;
    DLTensor prototype{};
    prototype.device = {kDLCPU, 0};
    prototype.ndim = 1;
    prototype.dtype = {kDLInt, 8, 1};
    prototype.shape = &size;
    if (fastdl_zeros(&prototype, x.python_type(), &managed) < 0)
        owned_reference(nullptr); /* throws */
    return fd::owned<Cs...>(managed, x.python_type());
}

static fd::owned<float> moved_from(const fd::tensor<const float> &x)
{
    fd::owned<float> first = x.empty_like(), second = std::move(first);
    return first; // NOLINT: what happens then is the question
}

/* ---- tensors to keep ---- */

using Kept = fd::owned<const float, x_name, fd::ndim<1>>;

static double sum_of(const fd::tensor<const float, x_name, fd::ndim<1>> &x)
{
    double sum = 0;
    for (int64_t i = 0; i < x.shape(0); i++)
        sum += double(x(i));
    return sum;
}

class Table
{
  public:
    explicit Table(Kept values) : values_(std::move(values))
    {
    }
    void add(Kept more)
    {
        rest_.push_back(std::move(more));
    }
    int64_t room_for(const fd::tensor<const float> &x) const
    {
        return x.size();
    }
    double sum() const
    {
        double sum = sum_of(values_.get());
        for (const Kept &more : rest_)
            sum += sum_of(more.get());
        return sum;
    }
    Kept take()
    {
        return std::move(values_);
    }

  private:
    Kept values_;
    std::vector<Kept> rest_;
};

static double sum_of_all(std::vector<Kept> items)
{
    double sum = 0;
    for (const Kept &item : items)
        sum += sum_of(item.get());
    return sum;
}

/* In the other order. */
static std::vector<Kept> reversed(std::vector<Kept> items)
{
    return std::vector<Kept>(std::make_move_iterator(items.rbegin()),
                             std::make_move_iterator(items.rend()));
}

static int64_t optional_kept(std::optional<Kept> x)
{
    return x ? x->size() : -1;
}

static void write_kept(fd::owned<float> x)
{
    for (int64_t i = 0; i < x.size(); i++)
        x.data()[i] = 7;
}

static lib::object kept_facts(fd::owned<fd::device::any> x)
{
    return owned_reference(Py_BuildValue("(INNO)", x.dtype(), list_of(x.shape(), x.ndim()),
                                         list_of(x.strides(), x.ndim()),
                                         x.is_readonly() ? Py_True : Py_False));
}

static void define_kept(lib::module_ &m)
{
    lib::class_<Table>(m, "Table")
        .def(lib::init<Kept>())
        .def("add", &Table::add)
        .def("room_for", &Table::room_for)
        .def("sum", &Table::sum)
        .def("take", &Table::take);
    m.def("sum_of_all", &sum_of_all);
    m.def("reversed", &reversed);
    m.def("optional_kept", &optional_kept, "x"_a.none());
    m.def("write_kept", &write_kept);
    m.def("two_bytes", &of_two_bytes<int8_t, fd::ndim<1>>);
    m.def("two_bytes_as_float", &of_two_bytes<float>);
    m.def("two_bytes_as_matrix", &of_two_bytes<int8_t, fd::ndim<2>>);
    m.def("same", [](Kept x) { return x; }, "x"_a);
    m.def(
        "released_kept", [](const Kept &x) { return x.size(); },
        lib::call_guard<lib::gil_scoped_release>());
    m.def(
        "released_value", [](Kept x) { return x.size(); },
        lib::call_guard<lib::gil_scoped_release>());
    m.def("keep_for_ever", [](Kept x) {
        static std::vector<Kept> all;
        all.push_back(std::move(x));
    });
    m.def("kept_facts", &kept_facts);
    m.def(
        "kept_pick", [](double, fd::owned<const float>) { return "float32"; }, "by"_a,
        "x"_a.noconvert());
    m.def(
        "kept_pick", [](double, fd::owned<const double>) { return "float64"; }, "by"_a,
        "x"_a.noconvert());
    m.def("kept_pick", [](double, double) { return "scalar"; }, "by"_a, "x"_a);
}

/* ---- arguments that may be copied ---- */

/* What a function sees: (dtype, shape, strides, whether it is a copy, address). */
static lib::object seen(const fastdl_view &view)
{
    bool is_copy = (view.flags & DLPACK_FLAG_BITMASK_IS_COPIED) != 0;
    return owned_reference(
        Py_BuildValue("(INNON)", fastdl_dtype(view.dl.dtype), list_of(view.dl.shape, view.dl.ndim),
                      list_of(view.dl.strides, view.dl.ndim), is_copy ? Py_True : Py_False,
                      PyLong_FromVoidPtr(view.dl.data)));
}

template <typename... Cs> lib::object seen_as(const fd::tensor<x_name, Cs...> &x)
{
    return seen(*x.view());
}
template <typename... Cs> lib::object seen_kept(const fd::owned<x_name, Cs...> &x)
{
    return seen(*x.view());
}

static double sum_of_matrix(const fd::tensor<const double, fd::c_contiguous, fd::converted> &x)
{
    double sum = 0;
    for (int64_t i = 0; i < x.size(); i++)
        sum += x.data()[i];
    return sum;
}

template <typename T>
const char *pick_converted(const fd::tensor<const T, fd::c_contiguous, fd::converted> &)
{
    return fd::dtype_of<T>::name;
}

/* A tensor of so many dimensions, or of any. */
template <typename... Cs> lib::object seen_with(lib::object x, int32_t ndim, int32_t rules)
{
    static const uint32_t types[] = {FASTDL_FLOAT64, FASTDL_FLOAT32};
    fastdl_spec spec{};
    spec.dtypes = types;
    spec.dtype_count = 2;
    spec.ndim = ndim;
    spec.layout = FASTDL_C;
    spec.rules = rules;
    fd::loan<fd::tensor<x_name, Cs...>> loan(x.ptr(), spec);
    return seen(*loan.get().view());
}

/* A matrix in column-major order: the specification says so, the constraints the element type. */
static lib::object seen_column_major(lib::object x)
{
    fastdl_spec spec{};
    spec.ndim = 2;
    spec.layout = FASTDL_F;
    fd::loan<fd::tensor<x_name, const double, fd::converted>> loan(x.ptr(), spec);
    return seen(*loan.get().view());
}

/* float32 in a layout and at an address, which the constraints narrow. */
template <int32_t Alignment, typename... Cs> lib::object seen_in(lib::object x, int32_t layout)
{
    fastdl_spec spec{};
    spec.layout = layout;
    spec.alignment = Alignment;
    fd::loan<fd::tensor<x_name, const float, Cs...>> loan(x.ptr(), spec);
    return seen(*loan.get().view());
}

/* ---- results like arguments whose types are not those of tensors ---- */

template <typename X> auto results_like(const X &x)
{
    return std::pair(fd::empty<float>({2}, x),
                     fd::make_owned(std::vector<int16_t>{1, 2, 3}, {3}, x));
}

static void define_like_arrays(lib::module_ &m)
{
    m.def("like_array", &results_like<fd::tensor<fd::asarray>>);
    m.def("like_kept_array", &results_like<fd::owned<fd::asarray>>);
    m.def("like_loaned_array", [](lib::object x) {
        fastdl_spec spec{};
        fd::loan<fd::tensor<fd::asarray>> loan(x.ptr(), spec);
        return results_like(loan.get());
    });
    m.def("empty_like_array",
          [](const fd::tensor<const uint8_t, fd::asarray> &x) { return x.empty_like(); });
    m.def("same_array", [](fd::owned<fd::asarray> x) { return x; });
}

static void define_copied(lib::module_ &m)
{
    m.def("seen_aligned", &seen_in<1, fd::aligned<64>, fd::copied>);
    m.def("seen_by_default", &seen_in<1, fd::copied>);
    m.def("seen_by_default_spec", &seen_in<0, fd::aligned<1>, fd::copied>);
    m.def("seen_anywhere", &seen_in<1, fd::aligned<1>, fd::copied>);
    m.def("seen_by_rows", &seen_in<0, fd::c_contiguous, fd::copied>);
    m.def("seen_by_columns", &seen_in<0, fd::f_contiguous, fd::copied>);
    using types = fd::any_of<const int32_t, const float>;
    m.def("copied_c", &seen_as<fd::c_contiguous, fd::copied>);
    m.def("copied_f", &seen_as<fd::f_contiguous, fd::copied>);
    m.def("copied_double", &seen_as<const double, fd::c_contiguous, fd::copied>);
    m.def("converted_double", &seen_as<const double, fd::c_contiguous, fd::converted>, "x"_a);
    m.def("converted_int8", &seen_as<const int8_t, fd::converted>);
    m.def("from_array", &seen_as<const uint8_t, fd::asarray>);
    m.def("from_array_kept", &seen_kept<const uint8_t, fd::asarray>);
    m.def("converted_any", &seen_as<types, fd::converted>);
    m.def("converted_matrix", &seen_as<const double, fd::ndim<2>, fd::converted>);
    m.def("converted_marked", &seen_as<const double, fd::converted>, "x"_a.noconvert());
    m.def("converted_kept", &seen_kept<const double, fd::c_contiguous, fd::converted>);
    m.def("kept_marked", &seen_kept<const double, fd::converted>, "x"_a.noconvert());
    m.def("sum_of_matrix", &sum_of_matrix, lib::call_guard<lib::gil_scoped_release>());
    m.def("same_converted", [](fd::owned<const double, fd::converted> x) { return x; });
    m.def("pick_converted", &pick_converted<float>);
    m.def("pick_converted", &pick_converted<double>);
    m.def("seen_with", &seen_with<>);
    m.def("seen_with_float", &seen_with<const float>);
    m.def("seen_with_array", &seen_with<fd::asarray>);
    m.def("seen_with_converted_float", &seen_with<const float, fd::converted>);
    m.def("seen_column_major", &seen_column_major);
    m.def("seen_with_write", &seen_with<fd::writable>);
    m.def("from_container", &from_container);
    m.def("from_vector", &from_vector);
    m.def("from_unique_ptr", &from_unique_ptr);
    m.def("from_std_array", &from_std_array);
    m.def("containers", [] { return Counted::alive; });
    m.def("two_results", [](const fd::tensor<const float> &x) {
        return std::pair(x.empty_like(), fd::empty<int32_t>({2}, x));
    });
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
    define_kept(m);
    define_copied(m);
    define_like_arrays(m);
    m.def("visit_halves", &visit_halves);
    m.def("facts", &facts);
    m.def("fill", &fill, "x"_a, "value"_a);
    m.def("visit", &visit, "x"_a);
    m.def("optional", &optional, "x"_a);
    m.def("three", [](const fd::tensor<float> &x, const fd::tensor<const float> &y,
                      const fd::tensor<const float> &z) { return x.size() + y.size() + z.size(); });
    m.def("released", &size<const float>, lib::call_guard<lib::gil_scoped_release>());
    m.def("read_as_float", &read_as_float);
    m.def("write_as_float", &write_as_float);
    m.def("like", &like);
    m.def("no_alias", &no_alias);
    m.def("work_stream", &work_stream);
    m.def("order", &order);
    m.def("throw_after", &throw_after);
    m.def("filled_like", &filled_like);
    m.def("counted", &counted);
    m.def("drop_result", &drop_result);
    m.def("moved_from", &moved_from);
    m.def("total", &total);
}
