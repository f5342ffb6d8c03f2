/* SPDX-License-Identifier: Apache-2.0
 *
 * fastdl/tensor.h: tensors as arguments and results of C++ functions.
 *
 *     void scale(const fastdl::tensor<float, fastdl::ndim<2>> &x, float by)
 *     {
 *         for (int64_t i = 0; i < x.shape(0); i++)
 *             for (int64_t j = 0; j < x.shape(1); j++)
 *                 x(i, j) *= by;
 *     }
 *
 * The common part of both casters. Include fastdl/nanobind.h or fastdl/pybind11.h in the file that
 * binds the functions, and only this file in kernels. C++17 with exceptions; the module also
 * compiles fastdl.c.
 *
 *
 * Arguments
 * ---------
 * A `fastdl::tensor<...>` is valid for the duration of the call that it is an argument of; the
 * caster holds what it points to. So it cannot be copied, stored or returned: that does not
 * compile, with a message that says why. Take it by reference, also in a std::optional, and pass it
 * on by reference. It may be used on other threads during the call. Plain accessors need no GIL.
 * Functions that allocate or may raise a Python error need it: as(), work_stream(), order(),
 * order_back(), empty(), empty_like(), make_owned(), expect_like() and expect_no_alias().
 *
 * The requirements on the tensor are template arguments, in any order:
 *
 *     float, int64_t, ...                 that element type, in memory that may be written
 *     const float, ...                    that element type; read-only memory will do
 *     fastdl::any_of<const float, ...>    one of several; see visit()
 *     (none of these)                     any element type; read-only memory will do
 *     fastdl::writable                    any element type, in memory that may be written
 *     fastdl::ndim<2>                     that many dimensions
 *     fastdl::shape<fastdl::any, 3>       these sizes
 *     fastdl::c_contiguous                row-major without gaps; with f_contiguous: either
 *     fastdl::f_contiguous                column-major without gaps
 *     fastdl::inner_contiguous            the last dimension without gaps
 *     fastdl::aligned<64>                 the first element at a multiple of so many bytes (by
 *                                         default what the element type needs; 1: any address)
 *     fastdl::device::cpu                 memory that the CPU may touch (the default)
 *     fastdl::device::cuda, rocm          on such a device
 *     fastdl::device::on<kDLOneAPI>       on a device of that DLDeviceType
 *     fastdl::device::any                 anywhere
 *     fastdl::copied                      also another layout, by a copy
 *     fastdl::converted                   also another layout or element type, by a copy
 *     fastdl::asarray                     also objects that fastdl.asarray accepts
 *     fastdl::named<"x">                  its name in messages, by default "argument"
 *
 * `named` takes a string from C++20 on. In C++17 it takes an array: inline constexpr char x[] =
 * "x"; fastdl::named<x>. (No binding library passes the name of the argument to a caster.)
 *
 * Without `copied`, `converted` or `asarray` nothing is ever copied: fastdl_expect refuses a tensor
 * that does not fit, and fastdl_borrow an object that is not a tensor, with their messages.
 *
 *
 * Copies
 * ------
 * The equivalent of pybind11's array_t<double, array::c_style | array::forcecast> is
 *
 *     const fastdl::tensor<const double, fastdl::c_contiguous, fastdl::converted> &x
 *
 * A tensor that fits is borrowed as usual. Otherwise the function sees a copy in host memory, made
 * as by FASTDL_COPY and FASTDL_CONVERT of fastdl_borrow_as, with their rules: an integer that does
 * not fit raises ValueError, floating-point numbers are not converted to integers, device tensors
 * are refused. With several element types, a copy has the tensor's own if that is one of them,
 * else the first that it can be converted to. Element types must be const, since the caller would
 * not see writes to a copy. An argument marked noconvert() is never copied, and no argument is
 * copied while a better overload may exist.
 *
 *
 * Overloads
 * ---------
 * For several element types prefer one function with `any_of` and visit(): its error message lists
 * all of them. Where functions are overloaded, mark the tensors noconvert(), as in
 * `"x"_a.noconvert()`: a tensor that does not fit then leads to the next overload, and to the
 * binding library's own TypeError if none is left. Without the mark this holds only in the
 * library's first pass, which converts nothing; in the second, a tensor that does not fit raises
 * its exception, after all other arguments have been converted.
 *
 *
 * Keeping an argument
 * -------------------
 * A `fastdl::owned<...>`, with the same constraints, keeps the memory alive by itself: as a member
 * of a class, in a std::vector, returned from the function. It can be moved but not copied.
 *
 *     struct Interpolator {
 *         fastdl::owned<const double, fastdl::ndim<1>> knots;
 *         explicit Interpolator(fastdl::owned<const double, fastdl::ndim<1>> x)
 *             : knots(std::move(x)) {}
 *     };
 *
 * Its get() is the tensor<...> to pass to functions. The caveats of fastdl_own apply: the producer
 * may still write to the memory, and torch may replace it by `t.data = other`.
 *
 *
 * None, and containers
 * --------------------
 * `std::optional<fastdl::tensor<...>>` and `std::optional<fastdl::owned<...>>` accept None. Other
 * templates (std::vector, std::tuple, std::variant, ...) hold a fastdl::owned; a fastdl::tensor in
 * them would outlive its caster, and does not compile.
 *
 *
 * The installed package
 * ---------------------
 * A module calls fastdl_import() when it receives its first tensor; a missing package is not an
 * error then. Other threads wait for the import. To import earlier, and to detect a missing
 * package, call fastdl_import() when your module is initialised.
 *
 *
 * Errors of the members below
 * ---------------------------
 * Thrown as nanobind::python_error or pybind11::error_already_set in a module that uses that
 * library, otherwise as a fastdl::python_error with the Python exception set.
 */
#ifndef FASTDL_TENSOR_H_
#define FASTDL_TENSOR_H_

#if !defined(__cpp_exceptions) && !defined(_CPPUNWIND)
#error "fastdl/tensor.h throws exceptions: compile without -fno-exceptions"
#endif

#include "fastdl.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <new>
#include <type_traits>
#include <utility>

/* Not for Windows, where a DLL exports nothing by default. */
#if (defined(__GNUC__) || defined(__clang__)) && !defined(_WIN32)
#define FASTDL_HIDDEN_ __attribute__((visibility("hidden")))
#define FASTDL_VISIBLE_ __attribute__((visibility("default")))
#else
#define FASTDL_HIDDEN_
#define FASTDL_VISIBLE_
#endif

/* For functions compiled once per file instead of once per argument: a file of eight functions has
 * half as much code, and takes two thirds of the time to compile. */
#if defined(__GNUC__) || defined(__clang__)
#define FASTDL_NOINLINE_ __attribute__((noinline))
#elif defined(_MSC_VER)
#define FASTDL_NOINLINE_ __declspec(noinline)
#else
#define FASTDL_NOINLINE_
#endif

/* Hidden, and with the release in the name: nothing here is shared with other modules, which may
 * use another release of the header, or throw differently. FASTDL_VISIBLE_ is for classes that
 * users may put into their own, which would otherwise have to be hidden too; functions of such a
 * class that throw, or need the state of the module, are hidden. */
#define FASTDL_NAMESPACE_                                                                          \
    namespace fastdl FASTDL_HIDDEN_                                                                \
    {                                                                                              \
    inline namespace FASTDL_NAME_(v)                                                               \
    {
#define FASTDL_NAMESPACE_END_                                                                      \
    }                                                                                              \
    }

/* The result refers to the object it was called on. */
#if defined(__clang__)
#define FASTDL_LIFETIME_ [[clang::lifetimebound]]
#else
#define FASTDL_LIFETIME_
#endif

FASTDL_NAMESPACE_

/* ========================================================================
 * Element types
 * ===================================================================== */

/* The element type that DLPack has for a C++ type. Specialise it for your own, as in
 *
 *     template <> struct fastdl::dtype_of<half> {
 *         static constexpr uint32_t value = FASTDL_FLOAT16;
 *         static constexpr char name[] = "float16";       // for signatures
 *     };
 *
 * For 16-bit floats derive from a base, as for CUDA's types:
 *
 *     template <> struct fastdl::dtype_of<__half> : fastdl::is_float16 {};
 *     template <> struct fastdl::dtype_of<__nv_bfloat16> : fastdl::is_bfloat16 {};
 *
 * std::float16_t and std::bfloat16_t need no specialisation, where the compiler has them. */
template <typename T, typename = void> struct dtype_of;

#define FASTDL_DTYPE_OF_(condition, number, text)                                                  \
    template <typename T> struct dtype_of<T, std::enable_if_t<condition>> {                        \
        static constexpr uint32_t value = number;                                                  \
        static constexpr char name[] = text;                                                       \
    };

namespace detail
{
/* Character types are not integers here, except the two that are bytes; `long` counts by its
 * size. */
template <typename T, std::size_t Bytes>
inline constexpr bool is_int_v =
    std::is_integral_v<T> && std::is_signed_v<T> && sizeof(T) == Bytes &&
    !std::is_same_v<T, char> && !std::is_same_v<T, wchar_t>;
template <typename T, std::size_t Bytes>
inline constexpr bool is_uint_v =
    std::is_integral_v<T> && std::is_unsigned_v<T> && sizeof(T) == Bytes &&
    !std::is_same_v<T, bool> && !std::is_same_v<T, char> && !std::is_same_v<T, wchar_t> &&
    !std::is_same_v<T, char16_t> && !std::is_same_v<T, char32_t>;

/* std::complex and its like (thrust::complex, cuda::std::complex), without <complex>, which is slow
 * to compile: a template over one type, whose two parts are of that value_type. */
template <typename C, typename Part, typename = void> inline constexpr bool is_complex_v = false;
template <template <typename> class C, typename Part>
inline constexpr bool is_complex_v<
    C<Part>, Part, std::void_t<decltype(C<Part>(Part(), Part()).real() + C<Part>().imag())>> =
    sizeof(C<Part>) == 2 * sizeof(Part);
} // namespace detail

struct is_float16 {
    static constexpr uint32_t value = FASTDL_FLOAT16;
    static constexpr char name[] = "float16";
};
struct is_bfloat16 {
    static constexpr uint32_t value = FASTDL_BFLOAT16;
    static constexpr char name[] = "bfloat16";
};
#if defined(__STDCPP_FLOAT16_T__)
template <> struct dtype_of<decltype(0.0f16)> : is_float16 {};
#elif defined(__clang__) && defined(__FLT16_MANT_DIG__)
template <> struct dtype_of<_Float16> : is_float16 {};
#endif
#if defined(__STDCPP_BFLOAT16_T__)
template <> struct dtype_of<decltype(0.0bf16)> : is_bfloat16 {};
#endif

FASTDL_DTYPE_OF_((std::is_same_v<T, bool>), FASTDL_BOOL, "bool")
FASTDL_DTYPE_OF_((detail::is_int_v<T, 1>), FASTDL_INT8, "int8")
FASTDL_DTYPE_OF_((detail::is_int_v<T, 2>), FASTDL_INT16, "int16")
FASTDL_DTYPE_OF_((detail::is_int_v<T, 4>), FASTDL_INT32, "int32")
FASTDL_DTYPE_OF_((detail::is_int_v<T, 8>), FASTDL_INT64, "int64")
FASTDL_DTYPE_OF_((detail::is_uint_v<T, 1>), FASTDL_UINT8, "uint8")
FASTDL_DTYPE_OF_((detail::is_uint_v<T, 2>), FASTDL_UINT16, "uint16")
FASTDL_DTYPE_OF_((detail::is_uint_v<T, 4>), FASTDL_UINT32, "uint32")
FASTDL_DTYPE_OF_((detail::is_uint_v<T, 8>), FASTDL_UINT64, "uint64")
FASTDL_DTYPE_OF_((std::is_same_v<T, float>), FASTDL_FLOAT32, "float32")
FASTDL_DTYPE_OF_((std::is_same_v<T, double>), FASTDL_FLOAT64, "float64")
FASTDL_DTYPE_OF_((detail::is_complex_v<T, float>), FASTDL_COMPLEX64, "complex64")
FASTDL_DTYPE_OF_((detail::is_complex_v<T, double>), FASTDL_COMPLEX128, "complex128")
#undef FASTDL_DTYPE_OF_

/* ========================================================================
 * Constraints
 * ===================================================================== */

inline constexpr int64_t any = -1; /* a size of any value, in shape<...> */

namespace detail
{
template <typename... Ts> struct list {};

template <typename A, typename B> struct joined;
template <typename... As, typename... Bs> struct joined<list<As...>, list<Bs...>> {
    using type = list<As..., Bs...>;
};

/* What a constraint requires; by default nothing. */
struct FASTDL_VISIBLE_ constraint {
    using elements = list<>;
    static constexpr int32_t ndim_v = -1;
    static constexpr fastdl_dim *const *sizes_v = nullptr;
    static constexpr const int64_t *extents_v = nullptr; /* the same, at compile time */
    static constexpr int32_t layout_v = 0, rules_v = 0, alignment_v = 0;
    static constexpr int32_t device_v = FASTDL_HOST, devices = 0;
    static constexpr const char *name_v = "argument";
    static constexpr bool has_sizes = false, has_name = false;
};

template <int32_t Layout> struct FASTDL_VISIBLE_ layout : constraint {
    static constexpr int32_t layout_v = Layout;
};

template <int64_t Size> FASTDL_HIDDEN_ inline fastdl_dim exact_size = {nullptr, Size, {}};

template <int64_t Size> constexpr fastdl_dim *required_size()
{
    static_assert(Size >= any, "a size is fastdl::any, 0, or positive");
    if constexpr (Size == any)
        return nullptr;
    else
        return &exact_size<Size>;
}

template <int64_t... Sizes> struct sizes {
    static constexpr fastdl_dim *const dims[sizeof...(Sizes) + 1] = {required_size<Sizes>()...,
                                                                     nullptr};
    static constexpr int64_t extents[sizeof...(Sizes) + 1] = {Sizes..., any};
};
} // namespace detail

template <typename... Ts> struct FASTDL_VISIBLE_ any_of : detail::constraint {
    using elements = detail::list<Ts...>;
};

struct FASTDL_VISIBLE_ writable : detail::constraint {
    static constexpr int32_t rules_v = FASTDL_WRITABLE;
};

struct FASTDL_VISIBLE_ copied : detail::constraint {
    static constexpr int32_t rules_v = FASTDL_COPY;
};

struct FASTDL_VISIBLE_ converted : detail::constraint {
    static constexpr int32_t rules_v = FASTDL_CONVERT;
};

struct FASTDL_VISIBLE_ asarray : detail::constraint {
    static constexpr int32_t rules_v = FASTDL_ASARRAY;
};

template <int32_t N> struct FASTDL_VISIBLE_ ndim : detail::constraint {
    static_assert(N >= 0 && N <= FASTDL_MAX_NDIM, "a tensor has 0 to 64 dimensions");
    static constexpr int32_t ndim_v = N;
};

template <int64_t... Sizes> struct FASTDL_VISIBLE_ shape : detail::constraint {
    static_assert(sizeof...(Sizes) <= FASTDL_MAX_NDIM, "a tensor has 0 to 64 dimensions");
    static constexpr int32_t ndim_v = sizeof...(Sizes);
    static constexpr fastdl_dim *const *sizes_v = detail::sizes<Sizes...>::dims;
    static constexpr const int64_t *extents_v = detail::sizes<Sizes...>::extents;
    static constexpr bool has_sizes = true;
};

struct FASTDL_VISIBLE_ c_contiguous : detail::layout<FASTDL_C> {};
struct FASTDL_VISIBLE_ f_contiguous : detail::layout<FASTDL_F> {};
struct FASTDL_VISIBLE_ inner_contiguous : detail::layout<FASTDL_INNER> {};

template <int32_t Bytes> struct FASTDL_VISIBLE_ aligned : detail::constraint {
    static_assert(Bytes > 0 && (Bytes & (Bytes - 1)) == 0, "an alignment is a power of two");
    static constexpr int32_t alignment_v = Bytes;
};

namespace device
{
template <int32_t Type> struct FASTDL_VISIBLE_ on : detail::constraint {
    static constexpr int32_t device_v = Type, devices = 1;
};
using cpu = on<FASTDL_HOST>;
using cuda = on<kDLCUDA>;
using rocm = on<kDLROCM>;
using any = on<FASTDL_ANY_DEVICE>;
} // namespace device

/* clang has the part of C++20 that this needs, but not everything that the macro stands for. */
#if (defined(__cpp_nontype_template_args) && __cpp_nontype_template_args >= 201911L) ||            \
    (defined(__clang__) && __clang_major__ >= 13 && __cplusplus > 201703L)
namespace detail
{
template <std::size_t N> struct FASTDL_VISIBLE_ literal {
    char text[N] = {};
    constexpr literal(const char (&from)[N])
    {
        for (std::size_t i = 0; i < N; i++)
            text[i] = from[i];
    }
};
} // namespace detail
template <detail::literal Name> struct FASTDL_VISIBLE_ named : detail::constraint {
    static constexpr const char *name_v = Name.text;
    static constexpr bool has_name = true;
};
#else
template <const char *Name> struct FASTDL_VISIBLE_ named : detail::constraint {
    static constexpr const char *name_v = Name;
    static constexpr bool has_name = true;
};
#endif

namespace detail
{
template <typename T> struct element : constraint {
    using elements = list<T>;
};

/* An argument of tensor<...> as a constraint. */
template <typename C>
using meaning = std::conditional_t<std::is_base_of_v<constraint, C>, C, element<C>>;

template <typename... Cs> struct elements_of {
    using type = list<>;
};
template <typename C, typename... Cs> struct elements_of<C, Cs...> {
    using type =
        typename joined<typename meaning<C>::elements, typename elements_of<Cs...>::type>::type;
};

template <typename T, typename = void> inline constexpr bool has_dtype_v = false;
template <typename T>
inline constexpr bool has_dtype_v<T, std::void_t<decltype(dtype_of<T>::value)>> = true;

/* Facts about a list of element types. An empty list stands for all. */
template <typename L> struct element_facts;
template <typename... Ts> struct element_facts<list<Ts...>> {
    static_assert((true && ... && has_dtype_v<std::remove_const_t<Ts>>),
                  "expected a constraint or an element type; specialise fastdl::dtype_of for types "
                  "of your own");

    using only = const void;
    static constexpr std::size_t count = sizeof...(Ts);
    /* With explicit bounds: in a template, clang does not deduce them. */
    static constexpr uint32_t numbers[count + 1] = {dtype_of<std::remove_const_t<Ts>>::value..., 0};
    static constexpr const char *names[count + 1] = {dtype_of<std::remove_const_t<Ts>>::name...,
                                                     nullptr};
    static constexpr bool writes = (false || ... || !std::is_const_v<Ts>);
};
template <typename T> struct element_facts<list<T>> : element_facts<list<T, T>> {
    using only = T;
    static constexpr std::size_t count = 1;
};

/* The constraint that gives the sizes, and the one that gives the name, or one that gives neither.
 * Chosen as types: gcc cannot compare addresses with NULL at compile time under
 * -fsanitize=undefined. */
template <typename... Cs> struct chosen {
    using sizes = constraint;
    using name = constraint;
};
template <typename C, typename... Cs> struct chosen<C, Cs...> {
    using sizes = std::conditional_t<C::has_sizes, C, typename chosen<Cs...>::sizes>;
    using name = std::conditional_t<C::has_name, C, typename chosen<Cs...>::name>;
};

constexpr int32_t largest(std::initializer_list<int32_t> values)
{
    int32_t found = *values.begin();
    for (int32_t value : values)
        found = value > found ? value : found;
    return found;
}

/* All constraints of a tensor<...> together. */
template <typename... Cs> struct constraints {
    using elements = element_facts<typename elements_of<Cs...>::type>;

    static_assert((0 + ... + int(!std::is_same_v<typename meaning<Cs>::elements, list<>>)) <= 1,
                  "expected at most one element type; pass several as fastdl::any_of<...>");
    static_assert((0 + ... + int(meaning<Cs>::ndim_v >= 0)) <= 1,
                  "expected at most one of ndim<> and shape<>");
    static_assert((0 + ... + meaning<Cs>::devices) <= 1, "expected at most one device");

    using sizes = typename chosen<meaning<Cs>...>::sizes;

    static constexpr int32_t ndim = largest({-1, meaning<Cs>::ndim_v...});
    static constexpr int32_t layout = (0 | ... | meaning<Cs>::layout_v);
    static constexpr int32_t rules =
        (0 | ... | meaning<Cs>::rules_v) | (elements::writes ? FASTDL_WRITABLE : 0);
    static_assert((rules & FASTDL_WRITABLE) == 0 || (rules & (FASTDL_COPY | FASTDL_CONVERT)) == 0,
                  "the caller would not see writes to a copy: with fastdl::copied and "
                  "fastdl::converted use const element types and no fastdl::writable");
    static constexpr int32_t alignment = largest({0, meaning<Cs>::alignment_v...});
    static constexpr int32_t device = (0 + ... + meaning<Cs>::device_v);
    static constexpr const char *name = chosen<meaning<Cs>...>::name::name_v;

    using void_type = std::conditional_t<(rules & FASTDL_WRITABLE) != 0, void, const void>;
    using element_type =
        std::conditional_t<elements::count == 1, typename elements::only, void_type>;

    static constexpr fastdl_spec make()
    {
        fastdl_spec made{};
        made.dtypes = elements::count == 0 ? nullptr : elements::numbers;
        made.dtype_count = elements::count;
        made.ndim = ndim == 0 ? int32_t(FASTDL_SCALAR) : ndim < 0 ? 0 : ndim;
        made.shape = sizes::sizes_v;
        made.layout = layout;
        made.rules = rules;
        made.device = device;
        made.alignment = alignment;
        return made;
    }
    static constexpr fastdl_spec spec = make();
};

/* ---- signatures: an argument as documentation and stubs show it ---- */

struct text {
    char chars[1024] = {};
    std::size_t length = 0;

    constexpr void put(const char *part)
    {
        while (*part != '\0')
            chars[length++] = *part++;
    }
    constexpr void put(int64_t value)
    {
        if (value >= 10)
            put(value / 10);
        chars[length++] = char('0' + value % 10);
    }
    constexpr void begin(const char *keyword)
    {
        put(chars[length - 1] == '(' ? "" : ", ");
        put(keyword);
    }
};

/* "typing.Annotated[typing.Any, dict(dtype='float32', shape=(None, 3), device='cpu')]": valid as
 * an annotation, and complete. */
template <typename... Cs> constexpr text describe()
{
    using All = constraints<Cs...>;
    text out;
    out.put("typing.Annotated[typing.Any, dict(");
    for (std::size_t i = 0; i < All::elements::count; i++) {
        i == 0 ? out.begin("dtype='") : out.put(" | ");
        out.put(All::elements::names[i]);
    }
    out.put(All::elements::count > 0 ? "'" : "");
    if (All::ndim >= 0) {
        out.begin("shape=");
        out.put(All::ndim == 0 ? "(" : "");
        for (int32_t i = 0; i < All::ndim; i++) {
            out.put(i == 0 ? "(" : ", ");
            if (!All::sizes::has_sizes || All::sizes::extents_v[i] == any)
                out.put("None");
            else
                out.put(All::sizes::extents_v[i]);
        }
        out.put(All::ndim == 1 ? ",)" : ")");
    }
    if (All::layout != 0) {
        out.begin("order='");
        out.put(All::layout & FASTDL_C ? "C" : "");
        out.put(All::layout & FASTDL_F ? "F" : "");
        out.put(All::layout & FASTDL_INNER ? "inner" : "");
        out.put("'");
    }
    if (All::device == FASTDL_HOST || All::device == kDLCUDA || All::device == kDLROCM) {
        out.begin("device='");
        out.put(All::device == kDLCUDA ? "cuda'" : All::device == kDLROCM ? "rocm'" : "cpu'");
    } else if (All::device != FASTDL_ANY_DEVICE) {
        out.begin("device=");
        out.put(int64_t(All::device));
    }
    if (All::rules & FASTDL_WRITABLE)
        out.begin("writable=True");
    if (All::rules & FASTDL_CONVERT)
        out.begin("converted=True");
    else if (All::rules & FASTDL_COPY)
        out.begin("copied=True");
    if (All::rules & FASTDL_ASARRAY)
        out.begin("asarray=True");
    out.put(")]");
    return out;
}

/* The text of describe() as an array of its exact size, for the casters' descriptions. */
template <typename... Cs> struct signature {
    static constexpr text whole = describe<Cs...>();
    struct exact {
        char chars[whole.length + 1] = {};
    };
    static constexpr exact make()
    {
        exact made;
        for (std::size_t i = 0; i < whole.length; i++)
            made.chars[i] = whole.chars[i];
        return made;
    }
    static constexpr exact value = make();
};

/* ---- errors ---- */

/* How this module throws: set by the header of a binding library. */
using thrower = void (*)();
inline void throw_plainly();
inline thrower throw_error = throw_plainly;
} // namespace detail

/* A Python exception is set. For modules without a binding library. */
struct FASTDL_VISIBLE_ python_error : std::exception {
    const char *what() const noexcept override
    {
        return "a Python exception is set";
    }
};

inline void detail::throw_plainly()
{
    throw python_error();
}

template <typename... Cs> class owned;

namespace detail
{
[[noreturn]] FASTDL_NOINLINE_ inline void throw_pending()
{
    throw_error();
    throw python_error(); /* not reached */
}

/* Held by a caster; a tensor<...> points to it. */
struct FASTDL_VISIBLE_ borrowed_view {
    fastdl_view view;
    PyTypeObject *type;
    PyObject *object; /* borrowed for the call; NULL for an owned tensor */
};

/* The list of constraints without its element types. */
template <typename Kept, typename... Cs> struct untyped {
    using type = Kept;
};
template <typename... Ks, typename C, typename... Cs> struct untyped<list<Ks...>, C, Cs...> {
    static constexpr bool keep = std::is_same_v<typename meaning<C>::elements, list<>>;
    using type =
        typename untyped<std::conditional_t<keep, list<Ks..., C>, list<Ks...>>, Cs...>::type;
};
/* The owned<...> for a new tensor of an element type, which is void if that is not known. */
template <typename T> struct result {
    using type = owned<T>;
};
template <> struct result<void> {
    using type = owned<writable>;
};
template <typename T> using result_of = typename result<T>::type;

template <template <typename...> class Tensor, typename T, typename L> struct retyped;
template <template <typename...> class Tensor, typename T, typename... Ks>
struct retyped<Tensor, T, list<Ks...>> {
    using type = Tensor<T, Ks...>;
};
} // namespace detail

/* ========================================================================
 * Members of all tensors
 * ===================================================================== */

template <typename... Cs> class tensor;

namespace detail
{
template <typename... Cs> class kept_argument;

/* What tensor<...> and owned<...> have in common: a pointer to a view held elsewhere. */
template <typename... Cs> class FASTDL_VISIBLE_ reader
{
    using all = constraints<Cs...>;

  public:
    using element_type = typename all::element_type; /* (const) void unless there is one */
    using value_type = std::remove_const_t<element_type>;
    static constexpr const fastdl_spec &spec = all::spec; /* what fastdl_expect has checked */
    static constexpr int32_t static_ndim = all::ndim;     /* -1 if any number is accepted */

    /* Whether there is a tensor. */
    explicit operator bool() const
    {
        return lent_ != nullptr;
    }

    /* The first element; where `data` is a handle, the handle: see fastdl_view. NULL is possible if
     * there are no elements. */
    element_type *data() const
    {
        return static_cast<element_type *>(view()->dl.data);
    }
    int32_t ndim() const
    {
        return all::ndim >= 0 ? all::ndim : view()->dl.ndim;
    }
    int64_t shape(int i) const
    {
        return view()->dl.shape[i];
    }
    const int64_t *shape() const
    {
        return view()->dl.shape;
    }
    /* In elements; may be negative or 0. */
    int64_t stride(int i) const
    {
        return view()->dl.strides[i];
    }
    const int64_t *strides() const
    {
        return view()->dl.strides;
    }
    /* The number of elements. */
    int64_t size() const
    {
        uint64_t count = 1; /* may wrap if a size is 0, but ends as 0 */
        for (int i = 0; i < ndim(); i++)
            count *= uint64_t(shape(i));
        return int64_t(count);
    }
    uint32_t dtype() const /* FASTDL_FLOAT32, ... */
    {
        return fastdl_dtype(view()->dl.dtype);
    }
    DLDevice device() const
    {
        return view()->dl.device;
    }
    bool is_readonly() const
    {
        return (view()->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
    }

    /* An element. Indices are not checked; their number is, if it is known. */
    template <typename... Is>
    std::add_lvalue_reference_t<element_type> operator()(Is... indices) const
    {
        static_assert(!std::is_void_v<element_type>, "x(...) needs exactly one element type");
        static_assert(all::ndim < 0 || sizeof...(Is) == std::size_t(all::ndim),
                      "expected one index for each dimension");
        const int64_t *steps = strides();
        int64_t at = 0;
        ((at += int64_t(indices) * *steps++), ...);
        return data()[at];
    }

    /* The view, for functions of fastdl.h. */
    const fastdl_view *view() const
    {
        return &lent_->view;
    }
    /* The name of the argument in messages. */
    static constexpr const char *name()
    {
        return all::name;
    }
    /* The type of the Python object, borrowed; for a result, the type of its `like` argument. */
    PyTypeObject *python_type() const
    {
        return lent_->type;
    }

    /* The stream on which to queue work on the tensor, as fastdl_work_stream. Throws. */
    FASTDL_HIDDEN_ void *work_stream() const
    {
        void *stream;
        if (fastdl_work_stream(view(), &stream) < 0)
            throw_pending();
        return stream;
    }
    /* Before and after work on a stream of your own: as fastdl_order and fastdl_order_back, with
     * the GIL. They throw. */
    FASTDL_HIDDEN_ void order(void *stream) const
    {
        if (fastdl_order(view(), stream) < 0)
            throw_pending();
    }
    FASTDL_HIDDEN_ void order_back(void *stream) const
    {
        if (fastdl_order_back(view(), stream) < 0)
            throw_pending();
    }

  protected:
    reader() = default;
    explicit reader(const borrowed_view *from) : lent_(from)
    {
    }

    const borrowed_view *lent_ = nullptr;
};
} // namespace detail

/* ========================================================================
 * Arguments
 * ===================================================================== */

/* A tensor argument: see the head of this file. A default-constructed one refers to no tensor, and
 * only operator bool may be called on it; with nanobind, None becomes such a tensor if the argument
 * is marked .none(). Before a loop, copy data(), shape() and strides() to variables: otherwise the
 * compiler has to reload them after each write of an element that may alias them (int64_t). */
template <typename... Cs> class FASTDL_VISIBLE_ tensor : public detail::reader<Cs...>
{
    template <typename T>
    using retyped =
        typename detail::retyped<tensor, T,
                                 typename detail::untyped<detail::list<>, Cs...>::type>::type;

  public:
    tensor() = default;
    explicit tensor(const detail::borrowed_view *view) : detail::reader<Cs...>(view)
    {
    }
    /* A copy would outlive the call, so copying does not compile: into a std::vector, a member, a
     * lambda that captures it, a result. */
    tensor(const tensor &other) : detail::reader<Cs...>(other)
    {
        refuse_copy<tensor>();
    }
    tensor &operator=(const tensor &)
    {
        refuse_copy<tensor>();
        return *this;
    }

    /* This tensor with element type T; a const T accepts read-only memory. Throws TypeError for
     * another element type, BufferError if T is not const and the tensor is read-only or requires
     * grad. */
    template <typename T> [[nodiscard]] FASTDL_HIDDEN_ retyped<T> as() const
    {
        if (fastdl_expect(this->view(), this->name(), &retyped<T>::spec) < 0)
            detail::throw_pending();
        if constexpr (!std::is_const_v<T>) /* as when borrowing */
            if (this->lent_->object != nullptr &&
                fastdl_check_grad_(this->lent_->object, this->name(), this->view()) < 0)
                detail::throw_pending();
        return retyped<T>(this->lent_);
    }

    /* Calls f(x), where x is this tensor with its element type, one of any_of<...>. Returns what f
     * returns. */
    template <typename F> decltype(auto) visit(F &&f) const
    {
        using elements = typename detail::elements_of<Cs...>::type;
        static_assert(!std::is_same_v<elements, detail::list<>>,
                      "visit() needs the element types to choose from: fastdl::any_of<...>");
        return visit_(f, elements{});
    }

    /* An uninitialised tensor of this one's shape, element type, device and library: see empty. */
    FASTDL_HIDDEN_ detail::result_of<typename detail::reader<Cs...>::value_type> empty_like() const;

  private:
    template <typename T> static constexpr void refuse_copy()
    {
        static_assert(
            !std::is_same_v<T, T>,
            "a fastdl::tensor is valid during the call that it is an argument of: take it, and "
            "pass it on, by reference; to keep it take a fastdl::owned");
    }

    template <typename F, typename T, typename... Ts>
    decltype(auto) visit_(F &f, detail::list<T, Ts...>) const
    {
        if constexpr (sizeof...(Ts) > 0)
            if (this->dtype() != dtype_of<std::remove_const_t<T>>::value)
                return visit_(f, detail::list<Ts...>{});
        return f(retyped<T>(this->lent_));
    }
};

/* ---- two arguments compared ---- */

/* Throws unless x has the shape (ValueError), element type (TypeError) and device (BufferError) of
 * y. */
template <typename... As, typename... Bs>
void expect_like(const tensor<As...> &x, const tensor<Bs...> &y)
{
    fastdl_dim sizes[FASTDL_MAX_NDIM], *shape[FASTDL_MAX_NDIM];
    fastdl_argument like = {y.view(), y.name()};
    fastdl_spec spec{};
    for (int i = 0; i < y.ndim(); i++) {
        sizes[i] = {nullptr, y.shape(i), {}};
        shape[i] = &sizes[i];
    }
    spec.ndim = y.ndim() == 0 ? int32_t(FASTDL_SCALAR) : y.ndim();
    spec.shape = shape;
    spec.device = FASTDL_ANY_DEVICE;
    spec.alignment = 1; /* x's own constraints apply */
    spec.like = &like;
    if (fastdl_expect(x.view(), x.name(), &spec) < 0)
        detail::throw_pending();
}

/* Throws ValueError if x and y share memory, unless they are the very same tensor: after this
 * check, a function may write one while it reads the other, element by element. */
template <typename... As, typename... Bs>
void expect_no_alias(const tensor<As...> &x, const tensor<Bs...> &y)
{
    fastdl_argument no_alias = {y.view(), y.name()};
    fastdl_spec spec{};
    spec.rules = FASTDL_IN_PLACE;
    spec.device = FASTDL_ANY_DEVICE;
    spec.alignment = 1;
    spec.no_alias = &no_alias;
    spec.no_alias_count = 1;
    if (fastdl_expect(x.view(), x.name(), &spec) < 0)
        detail::throw_pending();
}

/* ========================================================================
 * Arguments from Python
 * ===================================================================== */

namespace detail
{
/* 1 once an import has ended. Until then other threads wait for it, without the GIL, in Python's
 * import lock. */
inline uint32_t package_sought = 0;

/* 0, even if the package is missing; -1 with an exception that is not an Exception, such as an
 * interrupt, after which the next call imports again. */
FASTDL_NOINLINE_ inline int seek_package()
{
    static thread_local bool importing = false;
    if (importing) /* a hook of the import calls a function of this module */
        return 0;
    importing = true;
    const bool done = fastdl_import() == 0 || fastdl_clear_if_(PyExc_Exception);
    importing = false;
    if (done)
        fastdl_atomic_store_tag_(&package_sought, 1);
    return done ? 0 : -1;
}

/* Calls seek_package() the first time: 0, or -1 as there. */
inline int find_package()
{
    return FASTDL_LIKELY_(fastdl_atomic_load_tag_(&package_sought) != 0) ? 0 : seek_package();
}

/* An exception to raise later: a caster must not throw while it checks whether an argument fits. */
class FASTDL_VISIBLE_ postponed
{
  public:
    postponed() noexcept
    {
        error_[0] = nullptr;
    }
    postponed(postponed &&from) noexcept
    {
        error_[0] = std::exchange(from.error_[0], nullptr);
        if (error_[0] != nullptr) {
            error_[1] = from.error_[1];
            error_[2] = from.error_[2];
        }
    }
    ~postponed()
    {
        drop();
    }

    explicit operator bool() const noexcept
    {
        return error_[0] != nullptr;
    }

    /* Stores the pending exception and returns true; or clears it and returns false if another
     * overload may be tried (`meant` is false). An interrupt is always stored. */
    FASTDL_HIDDEN_ bool keep(bool meant) noexcept
    {
        if (!meant && fastdl_clear_if_(PyExc_Exception))
            return false;
        PyErr_Fetch(&error_[0], &error_[1], &error_[2]);
        return true;
    }

    FASTDL_HIDDEN_ void raise()
    {
        if (FASTDL_UNLIKELY_(error_[0] != nullptr))
            throw_now();
    }
    void drop() noexcept
    {
        if (FASTDL_UNLIKELY_(error_[0] != nullptr))
            clear();
    }

  private:
    /* Takes the GIL: pybind11 converts arguments after a call guard has released it. */
    [[noreturn]] FASTDL_HIDDEN_ FASTDL_NOINLINE_ void throw_now()
    {
        struct gil {
            PyGILState_STATE state = PyGILState_Ensure();
            ~gil()
            {
                PyGILState_Release(state);
            }
        } held;
        PyErr_Restore(std::exchange(error_[0], nullptr), error_[1], error_[2]);
        throw_pending();
    }
    FASTDL_HIDDEN_ FASTDL_NOINLINE_ void clear() noexcept
    {
        Py_DECREF(std::exchange(error_[0], nullptr));
        Py_XDECREF(error_[1]);
        Py_XDECREF(error_[2]);
    }

    PyObject *error_[3]; /* type, value, traceback */
};
} // namespace detail

/* ========================================================================
 * Tensors to keep, and results
 * ===================================================================== */

namespace detail
{
/* What an owned<...> points to. Sizes and strides are copies, stored after it: some producers
 * change theirs. */
struct owned_view : borrowed_view {
    static owned_view *make(const fastdl_view &from, PyTypeObject *type)
    {
        std::size_t dims = std::size_t(from.dl.ndim);
        void *memory =
            ::operator new(sizeof(owned_view) + 2 * dims * sizeof(int64_t), std::nothrow);
        if (memory == nullptr) {
            PyErr_NoMemory();
            return nullptr;
        }
        owned_view *made = new (memory) owned_view;
        int64_t *sizes = reinterpret_cast<int64_t *>(made + 1);
        made->view.dl = from.dl;
        made->view.flags = from.flags;
        made->view.api_ = from.api_;
        made->view.own_ = from.own_;
        made->view.dl.shape = sizes;
        made->view.dl.strides = sizes + dims;
        for (std::size_t i = 0; i < dims; i++) {
            sizes[i] = from.dl.shape[i];
            sizes[dims + i] = from.dl.strides[i];
        }
        made->type = type;
        made->object = nullptr;
        Py_XINCREF(reinterpret_cast<PyObject *>(type));
        return made;
    }

    /* Works with or without the GIL, since a call guard may have released it. A static object that
     * outlives Python leaks its tensor, as does a drop in another interpreter. */
    static void drop(owned_view *from)
    {
        PyGILState_STATE state;
        const int entered = fastdl_state_.cold->enter_home(&state);
        if (entered >= 0)
            release(from);
        if (entered > 0)
            PyGILState_Release(state);
    }

  private:
    static void release(owned_view *from)
    {
        fastdl_release(&from->view);
        Py_XDECREF(reinterpret_cast<PyObject *>(from->type));
        ::operator delete(from);
    }
};

/* Makes an owned_view of a managed tensor, which is consumed; `like` as in owned. NULL with an
 * exception. */
inline owned_view *keep(DLManagedTensorVersioned *managed, PyTypeObject *like, fastdl_spec spec)
{
    fastdl_view view;
    owned_view *made = nullptr;
    int native;
    view.own_ = managed;
    view.flags = managed->flags;
    view.dl = managed->dl_tensor;
    view.api_ = fastdl_state_.cold->target(like, &native);
    spec.device = FASTDL_ANY_DEVICE; /* a result is on the device of the argument it is like */
    if (view.api_ != nullptr && fastdl_state_.cold->check_view(&view) == 0 &&
        fastdl_expect(&view, "result", &spec) == 0)
        made = owned_view::make(view, like);
    if (made == nullptr)
        fastdl_release(&view);
    return made;
}

/* Makes an owned_view of an argument, or of a copy if the specification allows it. NULL with an
 * exception. */
inline owned_view *keep(PyObject *obj, const char *name, const fastdl_spec *spec)
{
    fastdl_view view;
    owned_view *made = nullptr;
    const fastdl_record *record = find_package() < 0 ? nullptr : fastdl_known_(Py_TYPE(obj));
    if (record == nullptr)
        return nullptr;
    fastdl_init(&view);
    view.api_ = record->api;
    if ((fastdl_state_.cold->borrow_owned(obj, &view, record) == 0 ||
         fastdl_state_.cold->argument_failed(obj, name, spec->rules, &view) == 0) &&
        fastdl_check_spec_(obj, name, spec, &view) == 0)
        made = owned_view::make(view, Py_TYPE(obj));
    if (made == nullptr)
        fastdl_release(&view);
    return made;
}
} // namespace detail

/* A tensor that keeps its memory alive: a result, or the tensor of an argument. The constraints are
 * those of tensor<...>. It can be moved but not copied. The plain accessors need no GIL, and the
 * destructor takes it; everything else needs it.
 *
 * Returned from a function, it becomes an object of the type of an argument: the one it was made
 * like or taken from. */
template <typename... Cs> class FASTDL_VISIBLE_ owned : public detail::reader<Cs...>
{
    using base = detail::reader<Cs...>;

  public:
    owned() = default; /* empty; only operator bool and assignment are allowed */

    /* Consumes `managed`, also on failure; `like`, to which a reference is kept, may be NULL for a
     * fastdl.Tensor. Throws unless the tensor meets all constraints but the device's. */
    FASTDL_HIDDEN_ owned(DLManagedTensorVersioned *managed, PyTypeObject *like)
        : base(detail::keep(managed, like, base::spec))
    {
        if (this->lent_ == nullptr)
            detail::throw_pending();
    }
    /* Takes the tensor of `obj` as by fastdl_own, if it meets the constraints. Throws. */
    FASTDL_HIDDEN_ explicit owned(PyObject *obj)
        : base(detail::keep(obj, base::name(), &base::spec))
    {
        if (this->lent_ == nullptr)
            detail::throw_pending();
    }
    owned(owned &&from) noexcept : base(std::exchange(from.lent_, nullptr))
    {
    }
    /* An owned<> can be made from one with any constraints. */
    template <typename... Ds, typename = std::enable_if_t<sizeof...(Cs) == 0 && sizeof...(Ds) != 0>>
    owned(owned<Ds...> &&from) noexcept : base(std::exchange(from.lent_, nullptr))
    {
    }
    owned &operator=(owned &&from) noexcept
    {
        std::swap(this->lent_, from.lent_);
        return *this;
    }
    FASTDL_HIDDEN_ ~owned()
    {
        if (this->lent_ != nullptr)
            detail::owned_view::drop(held());
    }

    /* The tensor in the form that functions take. Valid only while this object lives. */
    [[nodiscard]] tensor<Cs...> get() const FASTDL_LIFETIME_
    {
        return tensor<Cs...>(this->lent_);
    }

    /* The Python object, a new reference, or NULL with an exception; this object is empty
     * afterwards. Casters call it; see fastdl_wrap. */
    FASTDL_HIDDEN_ PyObject *to_python() &&
    {
        PyObject *made = nullptr;
        if (this->lent_ == nullptr) {
            PyErr_SetString(PyExc_ValueError, "expected a fastdl::owned that holds a tensor, got "
                                              "one that was moved from");
        } else {
            owned from = std::move(*this);
            fastdl_wrap(std::exchange(from.held()->view.own_, nullptr), from.python_type(), &made);
        }
        return made;
    }

  private:
    template <typename...> friend class owned;
    template <typename...> friend class detail::kept_argument;

    explicit owned(detail::owned_view *from) noexcept : base(from)
    {
    }

    detail::owned_view *held() const
    {
        return const_cast<detail::owned_view *>(
            static_cast<const detail::owned_view *>(this->lent_));
    }
};

namespace detail
{
template <typename T, typename... Cs>
result_of<T> allocate(DLDataType dtype, const int64_t *shape, int32_t ndim,
                      const reader<Cs...> &like)
{
    DLTensor prototype{};
    DLManagedTensorVersioned *managed;
    prototype.device = like.device();
    prototype.ndim = ndim;
    prototype.dtype = dtype;
    prototype.shape = const_cast<int64_t *>(shape);
    if (fastdl_empty(&prototype, like.python_type(), &managed) < 0)
        throw_pending();
    return result_of<T>(managed, like.python_type());
}
} // namespace detail

/* An uninitialised tensor of element type T in the library, and on the device, of an argument:
 * torch in gives torch out, from torch's allocator. Return it from the function once it is filled,
 * on the work stream of that argument. Throws what fastdl_empty raises. */
template <typename T, typename... Cs>
owned<T> empty(const int64_t *shape, int32_t ndim, const detail::reader<Cs...> &like)
{
    return detail::allocate<T>(fastdl_data_type(dtype_of<T>::value), shape, ndim, like);
}

template <typename T, typename... Cs>
owned<T> empty(std::initializer_list<int64_t> shape, const detail::reader<Cs...> &like)
{
    return empty<T>(shape.begin(), int32_t(shape.size()), like);
}

namespace detail
{
/* A managed tensor with the object that owns its memory. Its deleter does not need the GIL. */
template <typename Owner> struct held : DLManagedTensorVersioned {
    Owner owner;
    int64_t room[2 * FASTDL_MAX_NDIM];

    explicit held(Owner &&from) : DLManagedTensorVersioned{}, owner(std::move(from))
    {
    }
    static void drop(DLManagedTensorVersioned *managed)
    {
        delete static_cast<held *>(managed);
    }
};

/* Whether a moved container takes its elements along. A view, such as std::span, does not: its
 * destructor is trivial. That of a std::array is too, but its elements are inside. */
template <typename Container>
inline constexpr bool owns_elements_v = !std::is_trivially_destructible_v<Container>;
template <typename T, std::size_t Size>
inline constexpr bool owns_elements_v<std::array<T, Size>> = true;

/* Throws ValueError; `bound` is "" for exactly `size` elements, or "at most ". */
[[noreturn]] inline void refuse_shape(std::initializer_list<int64_t> shape, const char *bound,
                                      std::size_t size)
{
    PyObject *given = PyTuple_New(Py_ssize_t(shape.size()));
    Py_ssize_t i = 0;
    for (auto dim = shape.begin(); given != nullptr && dim != shape.end(); dim++)
        PyTuple_SetItem(given, i++, PyLong_FromLongLong(*dim));
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_ValueError, "make_owned: expected a shape of %s%zu elements, got %R",
                     bound, size, given);
    Py_XDECREF(given);
    throw_pending();
}

/* The number of elements of a shape: at most `most`, or an exception. */
inline std::size_t size_of(std::initializer_list<int64_t> shape, const char *bound,
                           std::size_t most)
{
    std::size_t size = 1;
    bool bad = shape.size() > FASTDL_MAX_NDIM, empty = false;
    for (int64_t dim : shape) {
        bad = bad || dim < 0;
        empty = empty || dim == 0;
    }
    for (int64_t dim : shape) {
        if (bad || (!empty && std::size_t(dim) > most / size))
            refuse_shape(shape, bound, most);
        size *= std::size_t(dim);
    }
    return size;
}

/* `data_of` returns the memory of the owner after the owner was moved into the tensor. */
template <typename T, typename Owner, typename Data, typename... Cs>
owned<T> hold(Owner &&from, Data data_of, std::initializer_list<int64_t> shape,
              const reader<Cs...> &like)
{
    auto *made = new held<Owner>(std::move(from));
    int64_t *strides = made->room;
    for (int64_t dim : shape)
        *strides++ = dim;
    made->version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
    made->manager_ctx = made;
    made->deleter = held<Owner>::drop;
    made->flags = std::is_const_v<T> ? DLPACK_FLAG_BITMASK_READ_ONLY : 0;
    made->dl_tensor.data = const_cast<std::remove_const_t<T> *>(data_of(made->owner));
    made->dl_tensor.device = {kDLCPU, 0};
    made->dl_tensor.ndim = int32_t(shape.size());
    made->dl_tensor.dtype = fastdl_data_type(dtype_of<std::remove_const_t<T>>::value);
    made->dl_tensor.shape = made->room;
    made->dl_tensor.strides = strides;
    fastdl_compact_strides(made->dl_tensor.ndim, made->room, strides);
    return owned<T>(made, like.python_type()); /* which owns it from now on, even if it throws */
}
} // namespace detail

/* A result in the memory of a container, which is moved into the result and destroyed with it, on
 * any thread and without the GIL. No element is copied, except those that lie in the container
 * itself, as in a std::array. The container is a std::vector, or any contiguous container with
 * data() and size() in elements, passed as an rvalue; it may be moved from even if this throws.
 * std::vector<bool> has no such memory and does not compile. The result is row-major, in host
 * memory, and of the given shape, which must have as many elements as the container (ValueError).
 * It is returned as an object of the type of `like`, like any owned. Throws std::bad_alloc, and
 * what fastdl::owned throws. */
template <typename Container, typename... Cs,
          typename = std::enable_if_t<!std::is_lvalue_reference_v<Container>>,
          typename T = std::remove_pointer_t<decltype(std::declval<Container &>().data())>>
owned<T> make_owned(Container &&container, std::initializer_list<int64_t> shape,
                    const detail::reader<Cs...> &like)
{
    static_assert(!std::is_const_v<Container>,
                  "fastdl::make_owned moves the container: a const one would be copied");
    static_assert(detail::owns_elements_v<Container>,
                  "fastdl::make_owned takes a container that owns its elements: memory that a view "
                  "refers to may be freed before the result");
    const std::size_t size = std::size_t(container.size());
    if (detail::size_of(shape, "", size) != size)
        detail::refuse_shape(shape, "", size);
    return detail::hold<T>(
        std::move(container), [](Container &held) { return held.data(); }, shape, like);
}

/* make_owned for an array in a std::unique_ptr, with any deleter that does not need the GIL. The
 * size of the array is unknown, so you must ensure that the shape fits. Const elements make the
 * result read-only. (`Pointer` is std::unique_ptr, without <memory>, which is slow to compile.) */
template <template <typename, typename> class Pointer, typename T, typename Deleter, typename... Cs>
owned<T> make_owned(Pointer<T[], Deleter> &&array, std::initializer_list<int64_t> shape,
                    const detail::reader<Cs...> &like)
{
    (void)detail::size_of(shape, "at most ", std::size_t(INT64_MAX) / sizeof(T));
    return detail::hold<T>(
        std::move(array), [](Pointer<T[], Deleter> &held) { return held.get(); }, shape, like);
}

template <typename... Cs>
detail::result_of<typename detail::reader<Cs...>::value_type> tensor<Cs...>::empty_like() const
{
    using T = typename detail::reader<Cs...>::value_type;
    return detail::allocate<T>(this->view()->dl.dtype, this->shape(), this->ndim(), *this);
}

/* ========================================================================
 * Borrowing
 * ===================================================================== */

namespace detail
{
/* The layouts that meet two specifications, for copies too: row-major data is also contiguous in
 * its last dimension. If there are none, those of the first, and the second refuses the tensor. */
inline int32_t common_layout(int32_t first, int32_t second)
{
    const auto met_by = [](int32_t layout) {
        return layout & FASTDL_INNER ? layout | FASTDL_C : layout;
    };
    const int32_t common = met_by(first) & met_by(second);
    return first == 0 ? second : common == 0 ? first : common;
}

/* Restricts `first` to the element types of both, in its own order; if there are none, `first`
 * is unchanged. `common` has room for the types of `second`. */
inline void keep_common_dtypes(fastdl_spec &first, const fastdl_spec &second, uint32_t *common)
{
    const auto has = [](const uint32_t *dtypes, std::size_t count, uint32_t dtype) {
        for (std::size_t i = 0; i < count; i++)
            if (dtypes[i] == dtype)
                return true;
        return false;
    };
    std::size_t count = 0;
    for (std::size_t i = 0; i < first.dtype_count; i++)
        if (has(second.dtypes, second.dtype_count, first.dtypes[i]) &&
            !has(common, count, first.dtypes[i]))
            common[count++] = first.dtypes[i];
    if (first.dtype_count == 0) {
        first.dtypes = second.dtypes;
        first.dtype_count = second.dtype_count;
    } else if (count > 0) {
        first.dtypes = common;
        first.dtype_count = count;
    }
}

/* The part of a loan that does not depend on the type of the tensor. */
class FASTDL_VISIBLE_ any_loan
{
  public:
    any_loan() noexcept
    {
        lent_.view.own_ = nullptr; /* the rest is not read */
    }
    any_loan(const any_loan &) = delete;
    any_loan &operator=(const any_loan &) = delete;
    FASTDL_HIDDEN_ ~any_loan()
    {
        fastdl_release(&lent_.view);
    }
    FASTDL_HIDDEN_ const borrowed_view *lent()
    {
        error_.raise();
        return &lent_;
    }

  protected:
    /* Borrows `obj`; false with an exception. */
    FASTDL_HIDDEN_ FASTDL_NOINLINE_ bool borrow(PyObject *obj) noexcept
    {
        fastdl_release(&lent_.view);
        error_.drop();
        lent_.type = Py_TYPE(obj);
        lent_.object = obj;
        if (FASTDL_LIKELY_(find_package() == 0))
            return fastdl_borrow(obj, &lent_.view) == 0;
        return false;
    }

    /* The result of take() for an object that could not be borrowed, or does not fit. */
    FASTDL_HIDDEN_ FASTDL_NOINLINE_ bool settle(PyObject *obj, bool meant, const char *name,
                                                const fastdl_spec *spec, bool borrowed) noexcept
    {
        const int taken =
            fastdl_state_.cold->settle_argument(obj, name, spec, meant, borrowed, &lent_.view);
        return taken < 0 ? error_.keep(meant) : taken > 0;
    }

    /* The result of take() for a tensor that fits and may be written: refused if it requires
     * grad. */
    FASTDL_HIDDEN_ FASTDL_NOINLINE_ bool admit(PyObject *obj, bool meant, const char *name) noexcept
    {
        if (FASTDL_LIKELY_(fastdl_check_grad_(obj, name, &lent_.view) == 0))
            return true;
        fastdl_release(&lent_.view);
        return error_.keep(meant);
    }

    borrowed_view lent_;
    postponed error_;
};
} // namespace detail

template <typename Tensor> class loan;

/* Holds what a tensor<...> points to. Casters have one for each argument; make one yourself where
 * no caster helps, such as for each item of a list:
 *
 *     fastdl::loan<fastdl::tensor<float>> item(object.ptr());     // throws
 *     item.get().data()[0] = 1;
 *
 * or where a requirement is known only at run time:
 *
 *     fastdl_spec spec{};
 *     spec.ndim = order == 1 ? 1 : 2;
 *     fastdl::loan<fastdl::tensor<const float>> item(object.ptr(), spec);
 *
 * Keep the object alive yourself. The constructors and the destructor need the GIL. */
template <typename... Cs> class FASTDL_VISIBLE_ loan<tensor<Cs...>> : public detail::any_loan
{
  public:
    loan() = default;
    FASTDL_HIDDEN_ explicit loan(PyObject *obj) : loan()
    {
        take(obj, true);
        lent();
    }
    /* With a further specification, made at run time; `device` 0 is host memory here, too. The
     * tensor, or its copy, meets both the specification and the constraints. Throws.
     */
    FASTDL_HIDDEN_ loan(PyObject *obj, const fastdl_spec &made) : loan()
    {
        uint32_t dtypes[spec->dtype_count + 1];
        fastdl_spec both = made, rest = *spec;
        both.rules |= rest.rules; /* so that a copy is never written */
        detail::keep_common_dtypes(both, rest, dtypes);
        both.layout = detail::common_layout(made.layout, rest.layout);
        if (both.alignment == 1 || (rest.alignment != 1 && both.alignment < rest.alignment))
            both.alignment = rest.alignment; /* 1 requires less than 0 does */
        rest.rules &= ~(FASTDL_COPY | FASTDL_CONVERT);
        rest.rules |= made.rules & FASTDL_DETACHED;
        lent_.type = Py_TYPE(obj);
        lent_.object = obj;
        if (detail::find_package() < 0 || fastdl_borrow_as(obj, name, &both, &lent_.view) < 0 ||
            fastdl_check_spec_(obj, name, &rest, &lent_.view) < 0)
            detail::throw_pending();
    }

    /* Borrows from `obj`. Returns true if get() is to be called, which may throw. Returns false
     * only if `meant` is false and `obj` does not fit: another overload may be tried. */
    FASTDL_HIDDEN_ FASTDL_NOINLINE_ bool take(PyObject *obj, bool meant) noexcept
    {
        const bool borrowed = borrow(obj);
        if (FASTDL_UNLIKELY_(!borrowed ||
                             fastdl_compare_(&lent_.view, name, spec) != FASTDL_MATCHES_))
            return settle(obj, meant, name, spec, borrowed);
        return (spec->rules & FASTDL_WRITABLE) == 0 || admit(obj, meant, name);
    }

    /* The tensor, valid while this loan lives; throws the exception of a take() that failed. */
    [[nodiscard]] FASTDL_HIDDEN_ tensor<Cs...> get() FASTDL_LIFETIME_
    {
        return tensor<Cs...>(lent());
    }

  private:
    static constexpr const char *name = tensor<Cs...>::name();
    static constexpr const fastdl_spec *spec = &tensor<Cs...>::spec;
};

/* ---- shared by the casters of both libraries ---- */

namespace detail
{
/* For uses in which a tensor would outlive its caster. */
template <typename T> constexpr bool refuse_to_keep()
{
    static_assert(!std::is_same_v<T, T>,
                  "a fastdl::tensor is valid during the call that it is an argument of: "
                  "elsewhere use a fastdl::owned, or a fastdl::loan");
    return false;
}

/* A tensor<...> as an argument, or None if that is accepted. */
template <typename Tensor> class borrowed_argument
{
  public:
    bool take(PyObject *obj, bool meant, bool accepts_none) noexcept
    {
        is_none_ = accepts_none && obj == Py_None;
        return is_none_ || loan_.take(obj, meant);
    }

    /* Throws the exception of a take() that failed. */
    Tensor get()
    {
        return Tensor(is_none_ ? nullptr : loan_.lent());
    }
    template <typename Optional> Optional get_optional()
    {
        return is_none_ ? Optional() : Optional(std::in_place, loan_.lent());
    }

  private:
    loan<Tensor> loan_;
    bool is_none_ = false;
};

/* An owned<...> as an argument, which get() moves out; empty for None if that is accepted. */
template <typename... Cs> class kept_argument
{
  public:
    bool take(PyObject *obj, bool meant, bool accepts_none) noexcept
    {
        error_.drop();
        is_none_ = accepts_none && obj == Py_None;
        if (is_none_)
            return true;
        fastdl_spec wanted = owned<Cs...>::spec;
        if (!meant)
            wanted.rules &= ~(FASTDL_COPY | FASTDL_CONVERT);
        kept_ = owned<Cs...>(keep(obj, owned<Cs...>::name(), &wanted));
        return kept_ || error_.keep(meant);
    }

    /* Whether get() will return rather than throw; an exception is dropped. */
    bool will_return() const noexcept
    {
        error_.drop();
        return is_none_ || kept_;
    }

    owned<Cs...> get()
    {
        error_.raise();
        return std::move(kept_);
    }

  private:
    owned<Cs...> kept_;
    mutable postponed error_;
    bool is_none_ = false;
};
} // namespace detail

/* ========================================================================
 * Producers: exporting a bound class
 *
 *     void describe(const Image &image, fastdl::description &out)
 *     {
 *         out.set(image.pixels(), {image.height(), image.width()});
 *     }
 *
 *     fastdl::publish<&describe>(py::class_<Image>(m, "Image").def(...));
 *
 * `publish` is in fastdl/nanobind.h and fastdl/pybind11.h. The rules of fastdl_publish apply; an
 * exception of the function is translated as in a bound function. Further template arguments are
 * FASTDL_LENDS (not with `set`, which copies the shape) or 0, and the function for the stream. */

/* A fastdl_description, which the function fills in. */
class FASTDL_VISIBLE_ description
{
  public:
    explicit description(fastdl_description &out) : out_(out)
    {
    }

    /* The first element, and sizes and strides in elements, which are copied; without strides the
     * elements are compact. For a const T the memory is read-only. */
    template <typename T>
    void set(T *data, std::initializer_list<int64_t> shape,
             std::initializer_list<int64_t> strides = {})
    {
        const bool given = strides.size() == shape.size(); /* else there may be too few */
        set(data, shape.begin(), shape.size(), given ? strides.begin() : nullptr);
        if (strides.size() != 0 && strides.size() != shape.size())
            out_.dl.ndim = -1; /* refused */
    }
    template <typename T>
    void set(T *data, const int64_t *shape, std::size_t ndim, const int64_t *strides = nullptr)
    {
        using element = std::remove_const_t<T>;
        out_.dl.data = const_cast<element *>(data);
        out_.dl.dtype = fastdl_data_type(dtype_of<element>::value);
        out_.dl.ndim = ndim > FASTDL_MAX_NDIM ? FASTDL_MAX_NDIM + 1 : static_cast<int32_t>(ndim);
        for (std::size_t i = 0; i < ndim && i < FASTDL_MAX_NDIM; i++) {
            out_.room[i] = shape[i];
            out_.room[FASTDL_MAX_NDIM + i] = strides == nullptr ? 0 : strides[i];
        }
        out_.dl.shape = out_.room;
        out_.dl.strides = strides == nullptr ? nullptr : out_.room + FASTDL_MAX_NDIM;
        if (std::is_const_v<T>)
            out_.flags |= DLPACK_FLAG_BITMASK_READ_ONLY;
    }

    /* All other members: `out->dl.device`, `out->owner`, ... */
    fastdl_description *operator->()
    {
        return &out_;
    }

  private:
    fastdl_description &out_;
};

namespace detail
{
template <typename T> T *self_of(void (*)(T &, description &));

/* Runs a function; translates a C++ exception as in a bound function, by the translators of the
 * binding library and of its users. */
template <typename Binding, typename F> int describe_safely(F &&f)
{
    try {
        try {
            f();
            return 0;
        } catch (const std::bad_alloc &) {
            throw;
        } catch (...) {
            if (PyErr_Occurred() == nullptr) {
                std::exception_ptr thrown = std::current_exception();
                auto again = Binding::function([thrown] { std::rethrow_exception(thrown); });
                Py_XDECREF(PyObject_CallObject(again.ptr(), nullptr));
            }
        }
    } catch (...) {
        if (PyErr_Occurred() == nullptr)
            PyErr_NoMemory();
    }
    return -1;
}

/* The producer of the class that `Describe` describes. `Binding` wraps the instances of the binding
 * library, and its functions. */
template <typename Binding, auto Describe, int32_t Rules, DLPackCurrentWorkStream Stream>
struct producer_of {
    using self_type = std::remove_pointer_t<decltype(self_of(Describe))>;

    static int describe(PyObject *self, fastdl_description *out)
    {
        return describe_safely<Binding>([&] {
            description filled(*out);
            Describe(*Binding::template instance<self_type>(self), filled);
        });
    }
    FASTDL_PRODUCER_FUNCTIONS_(class, describe, Stream)
    static inline fastdl_producer table = FASTDL_PRODUCER_TABLE_(class, Rules);
};

inline void publish(PyObject *type, fastdl_producer *producer)
{
    if (fastdl_publish(reinterpret_cast<PyTypeObject *>(type), producer) < 0)
        throw_error();
}
} // namespace detail

FASTDL_NAMESPACE_END_

#endif /* FASTDL_TENSOR_H_ */
