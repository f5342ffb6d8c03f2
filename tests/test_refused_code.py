"""C++ that the compiler refuses, and what it says then: a tensor that would outlive its argument,
constraints that exclude each other."""

import pytest

from tests.support.cxx import headers, refusal

pytestmark = pytest.mark.slow

LIBRARIES = ("nanobind", "pybind11")

REFUSED = {
    "two element types": "void f(tensor<float, double> x) { x.ndim(); }",
    "two ways of sizes": "void f(tensor<ndim<2>, shape<3, 3>> x) { x.ndim(); }",
    "two devices": "void f(tensor<device::cpu, device::cuda> x) { x.ndim(); }",
    "no element type": "struct S {}; void f(tensor<S> x) { x.ndim(); }",
    "a character": "void f(tensor<char> x) { x.ndim(); }",
    "too few indices": "void f(tensor<float, ndim<2>> x) { x(0) = 1; }",
    "writing what is const": "void f(tensor<const float, ndim<1>> x) { x(0) = 1; }",
    "elements of no type": "void f(tensor<ndim<1>> x) { (void)x(0); }",
    "copying a result": "owned<float> f(owned<float> &x) { return x; }",
    "a result of another type": "owned<int> f(owned<float> x) { return x; }",
    "a result of a container that stays": "auto f(std::vector<int> &v, tensor<> x) "
    "{ return make_owned(v, {1}, x); }",
    "a result of packed bools": "auto f(std::vector<bool> v, tensor<> x) "
    "{ return make_owned(std::move(v), {1}, x); }",
    "writing to a copy": "void f(tensor<float, converted> x) { x.ndim(); }",
    "writing to a copy of any type": "void f(tensor<writable, copied> x) { x.ndim(); }",
    "writing to a copy, later": "void f(tensor<copied> x) { (void)x.as<float>(); }",
    "choosing among nothing": "void f(tensor<> x) { x.visit([](const auto &) {}); }",
}
# What would leave a tensor behind.
KEPT = {
    "in a member": "struct S { tensor<> kept; S(tensor<> x) : kept(x) {} };",
    "in a container": "void f(tensor<> x, std::vector<tensor<>> &all) { all.push_back(x); }",
    "in a lambda": "auto f(tensor<> x) { return [x] { return x.size(); }; }",
    "in a variable": "tensor<> kept; void f(tensor<> x) { kept = x; }",
    "in a result": "tensor<> f(tensor<> x) { return x; }",
    "in a thread": "void f(tensor<> x) { std::function<int64_t()> g = [x] { return x.size(); }; }",
}
BY_LIBRARY = {
    "vector": "std::vector<tensor<>>",
    "array": "std::array<tensor<>, 2>",
    "pair": "std::pair<int, tensor<>>",
    "tuple": "std::tuple<int, tensor<>, int>",
    "map": "std::map<std::string, tensor<>>",
    "variant": "std::variant<int, tensor<>>",
    "list": "std::list<tensor<>>",
    "nested": "std::vector<std::optional<tensor<>>>",
}
CODE = {
    **{what: f'm.def("f", []({argument}) {{}});' for what, argument in BY_LIBRARY.items()},
    "cast": "(void)lib::cast<tensor<>>(lib::object());",
}
# What fastdl::make_owned does not take, and the compiler's reason.
SPAN = "struct Span { int *first; int *data() const; std::size_t size() const; };"
NOT_OWNED = {
    "a const vector": ("", "const std::vector<int>", "moves the container: a const one"),
    "a view": (SPAN, "Span", "takes a container that owns its elements"),
    "a string view": ("", "std::basic_string_view<int>", "takes a container that owns"),
}
KEEP = "a fastdl::tensor is valid during the call that it is an argument of"
INCLUDES = {
    "nanobind": [f"stl/{name}.h" for name in ("array", "list", "map", "pair", "string", "tuple")]
    + ["stl/variant.h", "stl/vector.h"],
    "pybind11": ["stl.h"],
}


def in_a_file(code):
    includes = "Python.h", "functional", "string_view", "vector", "fastdl/tensor.h"
    lines = "".join(f"#include <{name}>\n" for name in includes)
    return f"{lines}using namespace fastdl;\nnamespace {{ {code} }}\n"


@pytest.mark.parametrize("what", ["nothing", *REFUSED])
def test_refused_by_the_compiler(tmp_path, what):
    code = REFUSED.get(what, "void f(tensor<float, ndim<1>> x) { x(0) = 1; }")
    said = refusal(tmp_path, in_a_file(code))
    assert said is None if what == "nothing" else "error: " in said


@pytest.mark.parametrize("what", NOT_OWNED)
def test_make_owned_takes_what_it_can_move_and_keep(tmp_path, what):
    before, container, reason = NOT_OWNED[what]
    code = f"auto f({container} c, tensor<> x) {{ return make_owned(std::move(c), {{1}}, x); }}"
    said = refusal(tmp_path, in_a_file(before + code))
    assert f"fastdl::make_owned {reason}" in said


def test_a_compiler_without_exceptions_is_told_to_have_them(tmp_path):
    said = refusal(tmp_path, in_a_file(""), "-fno-exceptions")
    assert "fastdl/tensor.h throws exceptions: compile without -fno-exceptions" in said


@pytest.mark.parametrize("what", ["nothing", *KEPT])
def test_a_borrowed_tensor_cannot_be_kept(tmp_path, what):
    passed = "int64_t g(const tensor<> &x) { return x.size(); } int64_t f(tensor<> x)"
    said = refusal(tmp_path, in_a_file(KEPT.get(what, f"{passed} {{ return g(x); }}")))
    assert said is None if what == "nothing" else KEEP in said


def binds(library, code):
    includes = "".join(f"#include <{library}/{name}>\n" for name in INCLUDES[library])
    return (
        f"#include <fastdl/{library}.h>\n{includes}namespace lib = {library};\n"
        f"using fastdl::tensor;\nusing fastdl::owned;\nvoid bind(lib::module_ &m);\n"
        f"void bind(lib::module_ &m) {{ (void)m; {code} }}\n"
    )


@pytest.mark.parametrize("what", CODE)
@pytest.mark.parametrize("library", LIBRARIES)
def test_what_a_library_would_keep_is_refused(library, tmp_path, what):
    said = refusal(tmp_path, binds(library, CODE[what]), *headers(library))
    assert said is not None
    assert KEEP in said


@pytest.mark.parametrize("library", LIBRARIES)
def test_an_owned_tensor_is_taken_in_the_same_places(library, tmp_path):
    """In all of them at once: compiling the library's headers is what takes long."""
    code = "".join(CODE[what] for what in CODE if what != "nested").replace("tensor<>", "owned<>")
    assert refusal(tmp_path, binds(library, code), *headers(library)) is None
