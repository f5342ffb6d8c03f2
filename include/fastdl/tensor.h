/* SPDX-License-Identifier: Apache-2.0
 *
 * fastdl/tensor.h: tensors as arguments and results of C++ functions.
 *
 *     void scale(fastdl::tensor<float, fastdl::ndim<2>> x, float by)
 *     {
 *         for (int64_t i = 0; i < x.shape(0); i++)
 *             for (int64_t j = 0; j < x.shape(1); j++)
 *                 x(i, j) *= by;
 *     }
 *
 * What both casters share. Include fastdl/nanobind.h or fastdl/pybind11.h in the file that binds
 * the functions, and this file alone where kernels are that know nothing of either. C++17; nothing
 * to link with.
 *
 *
 * Arguments
 * ---------
 * A `fastdl::tensor<...>` is a light handle, a pointer: pass it by value. It is valid for the
 * duration of the call that it is an argument of and must not outlive it; the caster holds what it
 * points to. It needs no GIL, except where a member says so, and may be used on other threads.
 *
 * What the tensor must be is written as template arguments, in any order:
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
 *     fastdl::aligned<64>                 the first element at a multiple of so many bytes
 *     fastdl::device::cpu                 memory that the CPU may touch; so if nothing is said
 *     fastdl::device::cuda, rocm          on such a device
 *     fastdl::device::on<kDLOneAPI>       on a device of that DLDeviceType
 *     fastdl::device::any                 anywhere
 *     fastdl::named<"x">                  what messages call it, else "argument"
 *
 * `named` takes a string from C++20 on. In C++17 it takes an array: static constexpr char x[] =
 * "x"; fastdl::named<x>. (No binding library tells a caster the name of its argument.)
 *
 * Nothing is ever copied or converted: a tensor that is not as asked for is refused by
 * fastdl_expect, and what is no tensor by fastdl_borrow, with their messages.
 *
 *
 * Overloads
 * ---------
 * For several element types prefer one function of `any_of` and visit(): its message lists them
 * all. Where functions are overloaded, mark the tensors noconvert(), as in `"x"_a.noconvert()`: a
 * tensor that does not fit then leads to the next overload, and the binding library's own TypeError
 * if none is left. Without the mark that holds only for the library's first pass, in which nothing
 * is converted; in the second, a tensor that does not fit raises its exception. It does so after
 * all other arguments have been taken.
 *
 *
 * None
 * ----
 * `std::optional<fastdl::tensor<...>>` takes None. No other class template may hold a tensor
 * (std::vector, std::tuple, ...), and nb::cast and py::cast do not make one: it would not outlive
 * the conversion. Use a fastdl::loan there.
 *
 *
 * The installed package
 * ---------------------
 * The first tensor that a module takes makes it call fastdl_import(), which imports fastdl if that
 * is installed and is no error if it is not. Call fastdl_import() when your module is initialised
 * to know at once, or to have the import, of 10 ms, done there.
 *
 *
 * Errors of the members below
 * ---------------------------
 * Thrown as nanobind::python_error or pybind11::error_already_set in a module that uses one of
 * them, else as a fastdl::python_error with the Python exception set.
 */
#ifndef FASTDL_TENSOR_H_
#define FASTDL_TENSOR_H_

#include "fastdl.h"

#include <complex>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <type_traits>
#include <utility>

namespace fastdl
{

/* ========================================================================
 * Element types
 * ===================================================================== */

/* The element type that DLPack has for a C++ type. Specialise it for your own, as in
 *
 *     template <> struct fastdl::dtype_of<half> {
 *         static constexpr uint32_t value = FASTDL_FLOAT16;
 *         static constexpr char name[] = "float16";       // for signatures
 *     };
 */
template <typename T, typename = void> struct dtype_of;

#define FASTDL_DTYPE_OF_(condition, number, text)                                                  \
    template <typename T> struct dtype_of<T, std::enable_if_t<condition>> {                        \
        static constexpr uint32_t value = number;                                                  \
        static constexpr char name[] = text;                                                       \
    };

namespace detail
{
/* Characters are none, but for the two that are bytes; `long` has a size like any other. */
template <typename T, std::size_t Bytes>
inline constexpr bool is_int_v =
    std::is_integral_v<T> && std::is_signed_v<T> && sizeof(T) == Bytes &&
    !std::is_same_v<T, char> && !std::is_same_v<T, wchar_t>;
template <typename T, std::size_t Bytes>
inline constexpr bool is_uint_v =
    std::is_integral_v<T> && std::is_unsigned_v<T> && sizeof(T) == Bytes &&
    !std::is_same_v<T, bool> && !std::is_same_v<T, char> && !std::is_same_v<T, wchar_t> &&
    !std::is_same_v<T, char16_t> && !std::is_same_v<T, char32_t>;
} // namespace detail

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
FASTDL_DTYPE_OF_((std::is_same_v<T, std::complex<float>>), FASTDL_COMPLEX64, "complex64")
FASTDL_DTYPE_OF_((std::is_same_v<T, std::complex<double>>), FASTDL_COMPLEX128, "complex128")
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

/* What a constraint says, which by itself is nothing. */
struct constraint {
    using elements = list<>;
    static constexpr int32_t ndim_v = -1;
    static constexpr fastdl_dim *const *sizes_v = nullptr;
    static constexpr const int64_t *extents_v = nullptr; /* the same, at compile time */
    static constexpr int32_t layout_v = 0, rules_v = 0, alignment_v = 0;
    static constexpr int32_t device_v = FASTDL_HOST, devices = 0;
    static constexpr const char *name_v = "argument";
    static constexpr bool has_sizes = false, has_name = false;
};

template <int32_t Layout> struct layout : constraint {
    static constexpr int32_t layout_v = Layout;
};

template <int64_t Size> inline fastdl_dim exact_size = {nullptr, Size, nullptr};

template <int64_t Size> constexpr fastdl_dim *size_of()
{
    static_assert(Size >= any, "a size is fastdl::any, 0, or positive");
    if constexpr (Size == any)
        return nullptr;
    else
        return &exact_size<Size>;
}
} // namespace detail

template <typename... Ts> struct any_of : detail::constraint {
    using elements = detail::list<Ts...>;
};

struct writable : detail::constraint {
    static constexpr int32_t rules_v = FASTDL_WRITABLE;
};

template <int32_t N> struct ndim : detail::constraint {
    static_assert(N >= 0 && N <= FASTDL_MAX_NDIM, "a tensor has 0 to 64 dimensions");
    static constexpr int32_t ndim_v = N;
};

template <int64_t... Sizes> struct shape : detail::constraint {
    static_assert(sizeof...(Sizes) <= FASTDL_MAX_NDIM, "a tensor has 0 to 64 dimensions");
    static constexpr int32_t ndim_v = sizeof...(Sizes);
    static constexpr fastdl_dim *const dims[] = {detail::size_of<Sizes>()..., nullptr};
    static constexpr fastdl_dim *const *sizes_v = dims;
    static constexpr int64_t extents[] = {Sizes..., any};
    static constexpr const int64_t *extents_v = extents;
    static constexpr bool has_sizes = true;
};

struct c_contiguous : detail::layout<FASTDL_C> {};
struct f_contiguous : detail::layout<FASTDL_F> {};
struct inner_contiguous : detail::layout<FASTDL_INNER> {};

template <int32_t Bytes> struct aligned : detail::constraint {
    static_assert(Bytes > 0 && (Bytes & (Bytes - 1)) == 0, "an alignment is a power of two");
    static constexpr int32_t alignment_v = Bytes;
};

namespace device
{
template <int32_t Type> struct on : detail::constraint {
    static constexpr int32_t device_v = Type, devices = 1;
};
using cpu = on<FASTDL_HOST>;
using cuda = on<kDLCUDA>;
using rocm = on<kDLROCM>;
using any = on<FASTDL_ANY_DEVICE>;
} // namespace device

#if defined(__cpp_nontype_template_args) && __cpp_nontype_template_args >= 201911L
namespace detail
{
template <std::size_t N> struct literal {
    char text[N] = {};
    constexpr literal(const char (&from)[N])
    {
        for (std::size_t i = 0; i < N; i++)
            text[i] = from[i];
    }
};
} // namespace detail
template <detail::literal Name> struct named : detail::constraint {
    static constexpr const char *name_v = Name.text;
    static constexpr bool has_name = true;
};
#else
template <const char *Name> struct named : detail::constraint {
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

/* Facts about a list of element types. A list of none stands for all. */
template <typename L> struct element_facts;
template <typename... Ts> struct element_facts<list<Ts...>> {
    static_assert((true && ... && has_dtype_v<std::remove_const_t<Ts>>),
                  "a constraint, or an element type: see fastdl::dtype_of for types of your own");

    using only = const void;
    static constexpr std::size_t count = sizeof...(Ts);
    static constexpr uint32_t numbers[] = {dtype_of<std::remove_const_t<Ts>>::value..., 0};
    static constexpr const char *names[] = {dtype_of<std::remove_const_t<Ts>>::name..., nullptr};
    static constexpr bool writes = (false || ... || !std::is_const_v<Ts>);
};
template <typename T> struct element_facts<list<T>> : element_facts<list<T, T>> {
    using only = T;
    static constexpr std::size_t count = 1;
};

/* The constraints that tell sizes and the name, or one that does not. Chosen as types: gcc cannot
 * compare addresses with NULL at compile time under -fsanitize=undefined. */
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
                  "one element type, or several as fastdl::any_of<...>");
    static_assert((0 + ... + int(meaning<Cs>::ndim_v >= 0)) <= 1, "one of ndim<> and shape<>");
    static_assert((0 + ... + meaning<Cs>::devices) <= 1, "one device");

    using sizes = typename chosen<meaning<Cs>...>::sizes;

    static constexpr int32_t ndim = largest({-1, meaning<Cs>::ndim_v...});
    static constexpr int32_t layout = (0 | ... | meaning<Cs>::layout_v);
    static constexpr int32_t rules =
        (0 | ... | meaning<Cs>::rules_v) | (elements::writes ? FASTDL_WRITABLE : 0);
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

/* ---- signatures: what documentation and stubs say of an argument ---- */

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
    out.put(")]");
    return out;
}

/* The text of describe() as an array of its exact size, which descriptions are made from. */
template <typename... Cs> struct signature {
    static constexpr std::size_t length = describe<Cs...>().length;
    struct exact {
        char chars[length + 1] = {};
    };
    static constexpr exact make()
    {
        exact made;
        text from = describe<Cs...>();
        for (std::size_t i = 0; i < length; i++)
            made.chars[i] = from.chars[i];
        return made;
    }
    static constexpr exact value = make();
};

/* ---- errors ---- */

/* How this module throws: set by the header of a binding library. */
using thrower = void (*)();
inline void throw_plainly();
FASTDL_ONE_("d.fastdl_thrower_") thrower throw_error = throw_plainly;
} // namespace detail

/* A Python exception is set. For modules without a binding library. */
struct python_error : std::exception {
    const char *what() const noexcept override
    {
        return "a Python exception is set";
    }
};

inline void detail::throw_plainly()
{
    throw python_error();
}

namespace detail
{
[[noreturn]] inline void throw_pending()
{
    throw_error();
    throw python_error(); /* not reached */
}

/* What a caster holds and a handle points to. */
struct lent {
    fastdl_view view;
    PyTypeObject *type;
};

inline DLDataType dtype_from(uint32_t number)
{
    return {uint8_t(number), uint8_t(number >> 8), uint16_t(number >> 16)};
}

/* The list of constraints without its element types, and a tensor of another one. */
template <typename Kept, typename... Cs> struct untyped {
    using type = Kept;
};
template <typename... Ks, typename C, typename... Cs> struct untyped<list<Ks...>, C, Cs...> {
    static constexpr bool keep = std::is_same_v<typename meaning<C>::elements, list<>>;
    using type =
        typename untyped<std::conditional_t<keep, list<Ks..., C>, list<Ks...>>, Cs...>::type;
};
template <template <typename...> class Tensor, typename T, typename L> struct retyped;
template <template <typename...> class Tensor, typename T, typename... Ks>
struct retyped<Tensor, T, list<Ks...>> {
    using type = Tensor<T, Ks...>;
};
} // namespace detail

/* ========================================================================
 * Arguments
 * ===================================================================== */

template <typename T = void> class owned;

/* A tensor that a function was called with: see the head of this file. A default-constructed one
 * refers to no tensor, and nothing but operator bool may be asked of it; with nanobind that is what
 * None becomes for an argument that is marked .none().
 *
 * In a loop take data(), shape() and strides() into variables first: behind a handle the compiler
 * has to read them again after each write of an element that may be one of them (int64_t). */
template <typename... Cs> class tensor
{
    using all = detail::constraints<Cs...>;
    template <typename T>
    using retyped =
        typename detail::retyped<tensor, T,
                                 typename detail::untyped<detail::list<>, Cs...>::type>::type;

  public:
    using element_type = typename all::element_type; /* (const) void if there is more than one */
    using value_type = std::remove_const_t<element_type>;
    static constexpr const fastdl_spec &spec = all::spec; /* what fastdl_expect has checked */

    tensor() = default;
    explicit tensor(const detail::lent *lent) : lent_(lent)
    {
    }

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
    /* Elements. */
    int64_t size() const
    {
        int64_t count = 1;
        for (int i = 0; i < ndim(); i++)
            count *= shape(i);
        return count;
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

    /* An element. Indices are not checked; their number is, where it is known. */
    template <typename... Is>
    std::add_lvalue_reference_t<element_type> operator()(Is... indices) const
    {
        static_assert(!std::is_void_v<element_type>, "elements of a tensor of one element type");
        static_assert(all::ndim < 0 || sizeof...(Is) == std::size_t(all::ndim),
                      "one index for each dimension");
        const int64_t *steps = strides();
        int64_t at = 0;
        ((at += int64_t(indices) * *steps++), ...);
        return data()[at];
    }

    /* For functions of fastdl.h. */
    const fastdl_view *view() const
    {
        return &lent_->view;
    }
    /* What messages call it. */
    static constexpr const char *name()
    {
        return all::name;
    }
    /* The type of the Python object, borrowed. */
    PyTypeObject *python_type() const
    {
        return lent_->type;
    }

    /* This tensor as one of element type T; T is const for one that may be read-only. Throws
     * TypeError if it has another, BufferError if it cannot be written. */
    template <typename T> retyped<T> as() const
    {
        if (fastdl_expect(view(), name(), &retyped<T>::spec) < 0)
            detail::throw_pending();
        return retyped<T>(lent_);
    }

    /* Calls f(x), x being this tensor as one of the type, of those in any_of<...>, that it has.
     * Gives what f returns. */
    template <typename F> decltype(auto) visit(F &&f) const
    {
        return visit_(f, typename detail::elements_of<Cs...>::type{});
    }

    /* The stream that work on the tensor belongs on, as fastdl_work_stream. Throws. */
    void *work_stream() const
    {
        void *stream;
        if (fastdl_work_stream(view(), &stream) < 0)
            detail::throw_pending();
        return stream;
    }

    /* An uninitialised tensor of this one's shape, element type, device and library: see empty. */
    owned<value_type> empty_like() const;

  private:
    template <typename F, typename T, typename... Ts>
    decltype(auto) visit_(F &f, detail::list<T, Ts...>) const
    {
        if constexpr (sizeof...(Ts) > 0)
            if (dtype() != dtype_of<std::remove_const_t<T>>::value)
                return visit_(f, detail::list<Ts...>{});
        return f(retyped<T>(lent_));
    }

    const detail::lent *lent_ = nullptr;
};

/* ---- what two arguments are to each other ---- */

/* Throws unless x has the shape (ValueError), element type (TypeError) and device (BufferError) of
 * y. */
template <typename... As, typename... Bs> void expect_like(tensor<As...> x, tensor<Bs...> y)
{
    fastdl_dim sizes[FASTDL_MAX_NDIM], *shape[FASTDL_MAX_NDIM];
    fastdl_argument like = {y.view(), y.name()};
    fastdl_spec spec{};
    for (int i = 0; i < y.ndim(); i++) {
        sizes[i] = {nullptr, y.shape(i), nullptr};
        shape[i] = &sizes[i];
    }
    spec.ndim = y.ndim() == 0 ? int32_t(FASTDL_SCALAR) : y.ndim();
    spec.shape = shape;
    spec.device = FASTDL_ANY_DEVICE;
    spec.like = &like;
    if (fastdl_expect(x.view(), x.name(), &spec) < 0)
        detail::throw_pending();
}

/* Throws ValueError if x and y share memory, unless they are the very same tensor: a function that
 * writes one while it reads the other, element by element, can do no harm then. */
template <typename... As, typename... Bs> void expect_apart(tensor<As...> x, tensor<Bs...> y)
{
    fastdl_argument apart = {y.view(), y.name()};
    fastdl_spec spec{};
    spec.rules = FASTDL_IN_PLACE;
    spec.device = FASTDL_ANY_DEVICE;
    spec.apart = &apart;
    spec.apart_count = 1;
    if (fastdl_expect(x.view(), x.name(), &spec) < 0)
        detail::throw_pending();
}

/* ========================================================================
 * Results
 * ===================================================================== */

/* A new tensor that this function owns, compact and row-major, until it is returned to Python as an
 * object of the type of an argument. T is its element type, or void. Moves, and does not copy. All
 * but the plain readers need the GIL, the destructor of one that was not moved from included. */
template <typename T> class owned
{
  public:
    /* Takes `managed`; `like`, whose reference is kept, may be NULL for a fastdl.Tensor. */
    owned(DLManagedTensorVersioned *managed, PyTypeObject *like) : managed_(managed), like_(like)
    {
        Py_XINCREF(reinterpret_cast<PyObject *>(like_));
    }
    owned(owned &&from) noexcept
        : managed_(std::exchange(from.managed_, nullptr)), like_(std::exchange(from.like_, nullptr))
    {
    }
    /* An owned<> takes one of any element type. */
    template <typename U, typename = std::enable_if_t<std::is_void_v<T> && !std::is_void_v<U>>>
    owned(owned<U> &&from) noexcept
        : managed_(std::exchange(from.managed_, nullptr)), like_(std::exchange(from.like_, nullptr))
    {
    }
    owned &operator=(owned &&from) noexcept
    {
        std::swap(managed_, from.managed_);
        std::swap(like_, from.like_);
        return *this;
    }
    ~owned()
    {
        if (managed_ != nullptr)
            fastdl_discard_(managed_, nullptr);
        Py_XDECREF(reinterpret_cast<PyObject *>(like_));
    }

    T *data() const
    {
        char *base = static_cast<char *>(dl().data);
        return reinterpret_cast<T *>(base + dl().byte_offset);
    }
    int32_t ndim() const
    {
        return dl().ndim;
    }
    int64_t shape(int i) const
    {
        return dl().shape[i];
    }
    int64_t size() const
    {
        int64_t count = 1;
        for (int i = 0; i < ndim(); i++)
            count *= shape(i);
        return count;
    }
    uint32_t dtype() const
    {
        return fastdl_dtype(dl().dtype);
    }
    DLDevice device() const
    {
        return dl().device;
    }

    /* The Python object, a new reference, or NULL with an exception; this result is empty from then
     * on. Casters call it; see fastdl_wrap. */
    PyObject *to_python() &&
    {
        PyObject *made = nullptr;
        if (managed_ == nullptr)
            PyErr_SetString(PyExc_ValueError, "expected a fastdl::owned that holds a tensor, got "
                                              "one that was moved from");
        else
            fastdl_wrap(std::exchange(managed_, nullptr), like_, &made);
        return made;
    }

  private:
    template <typename> friend class owned;

    const DLTensor &dl() const
    {
        return managed_->dl_tensor;
    }

    DLManagedTensorVersioned *managed_;
    PyTypeObject *like_;
};

namespace detail
{
template <typename T, typename... Cs>
owned<T> allocate(DLDataType dtype, const int64_t *shape, int32_t ndim, tensor<Cs...> like)
{
    DLTensor prototype{};
    DLManagedTensorVersioned *managed;
    prototype.device = like.device();
    prototype.ndim = ndim;
    prototype.dtype = dtype;
    prototype.shape = const_cast<int64_t *>(shape);
    if (fastdl_empty(&prototype, like.python_type(), &managed) < 0)
        throw_pending();
    return owned<T>(managed, like.python_type());
}
} // namespace detail

/* An uninitialised tensor of element type T in the library, and on the device, of an argument:
 * torch in gives torch out, from torch's allocator. Return it from the function once it is filled,
 * on the work stream of that argument. Throws what fastdl_empty raises. */
template <typename T, typename... Cs>
owned<T> empty(const int64_t *shape, int32_t ndim, tensor<Cs...> like)
{
    return detail::allocate<T>(detail::dtype_from(dtype_of<T>::value), shape, ndim, like);
}

template <typename T, typename... Cs>
owned<T> empty(std::initializer_list<int64_t> shape, tensor<Cs...> like)
{
    return empty<T>(shape.begin(), int32_t(shape.size()), like);
}

template <typename... Cs>
owned<typename tensor<Cs...>::value_type> tensor<Cs...>::empty_like() const
{
    return detail::allocate<value_type>(view()->dl.dtype, shape(), ndim(), *this);
}

/* ========================================================================
 * Borrowing
 * ===================================================================== */

namespace detail
{
FASTDL_ONE_("b.fastdl_sought_") bool package_sought = false;

/* 0, or -1 with an exception that is no Exception, an interrupt: there is no harm in no package. */
FASTDL_COLD_ int seek_package()
{
    package_sought = true; /* first: nobody is to wait for us, who may hold the GIL */
    if (fastdl_import() < 0) {
        if (!PyErr_ExceptionMatches(PyExc_Exception))
            return -1;
        PyErr_Clear();
    }
    return 0;
}
} // namespace detail

template <typename Tensor> class loan;

/* Holds what a tensor<...> points to. Casters have one for each argument; have one yourself where
 * no caster helps, such as for each item of a list:
 *
 *     fastdl::loan<fastdl::tensor<float>> item(object.ptr());     // throws
 *     item.get().data()[0] = 1;
 *
 * The object must be kept alive. Needs the GIL to be made and destroyed. */
template <typename... Cs> class loan<tensor<Cs...>>
{
  public:
    loan() noexcept
    {
        lent_.view.own_ = nullptr; /* the rest of its 640 bytes is not touched */
        error_[0] = nullptr;
    }
    explicit loan(PyObject *obj) : loan()
    {
        take(obj, true);
        get();
    }
    loan(const loan &) = delete;
    loan &operator=(const loan &) = delete;
    ~loan()
    {
        forget();
    }

    /* Borrows from `obj`. Whether that is what get() will give or throw: false only where somebody
     * else may be asked, as `meant` is false, and `obj` is not as asked for. */
    bool take(PyObject *obj, bool meant) noexcept
    {
        forget();
        lent_.type = Py_TYPE(obj);
        if (FASTDL_LIKELY_((detail::package_sought || detail::seek_package() == 0) &&
                           fastdl_borrow(obj, &lent_.view) == 0)) {
            if (FASTDL_LIKELY_(fastdl_compare_(&lent_.view, name, spec) == FASTDL_MEETS_))
                return true;
            if (!meant) {
                fastdl_release(&lent_.view);
                return false;
            }
            if (fastdl_expect(&lent_.view, name, spec) == 0)
                return true; /* its owner has changed it in between */
        }
        return refuse(meant);
    }

    /* The tensor; throws the exception of a take() that failed. Takes the GIL for that: pybind11
     * asks for arguments after a call guard has released it. */
    tensor<Cs...> get()
    {
        if (FASTDL_UNLIKELY_(error_[0] != nullptr))
            raise();
        return tensor<Cs...>(&lent_);
    }

  private:
    static constexpr const char *name = tensor<Cs...>::name();
    static constexpr const fastdl_spec *spec = &tensor<Cs...>::spec;

    /* Keeps the exception that is set, if there is one, for get(). */
    bool refuse(bool meant) noexcept
    {
        fastdl_release(&lent_.view);
        if (!meant && PyErr_ExceptionMatches(PyExc_Exception)) { /* not an interrupt */
            PyErr_Clear();
            return false;
        }
        PyErr_Fetch(&error_[0], &error_[1], &error_[2]);
        return true;
    }

    [[noreturn]] void raise()
    {
        struct gil {
            PyGILState_STATE state = PyGILState_Ensure();
            ~gil()
            {
                PyGILState_Release(state);
            }
        } held;
        PyErr_Restore(std::exchange(error_[0], nullptr), error_[1], error_[2]);
        detail::throw_pending();
    }

    void forget() noexcept
    {
        fastdl_release(&lent_.view);
        if (FASTDL_UNLIKELY_(error_[0] != nullptr)) {
            Py_DECREF(std::exchange(error_[0], nullptr));
            Py_XDECREF(error_[1]);
            Py_XDECREF(error_[2]);
        }
    }

    detail::lent lent_;
    PyObject *error_[3]; /* type, value, traceback */
};

} // namespace fastdl

#endif /* FASTDL_TENSOR_H_ */
