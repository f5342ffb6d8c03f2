# SPDX-License-Identifier: Apache-2.0
"""C++ that the compiler refuses, and what it says then: a tensor that would outlive its argument,
constraints that exclude each other. All code of a kind is compiled at once, a line each, since it
is the headers that take long; the compiler must have something to say of each line."""

import re

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
OWNS = "takes a container that owns its elements"
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


ELEMENTS = [f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)] + ["double"]


def of_many_types(codes):
    """With another type of tensor in each, since a compiler refuses a type once."""
    types = iter(ELEMENTS)
    return [code.replace("tensor<>", f"tensor<{next(types)}>") for code in codes]


def in_a_file(codes):
    includes = "Python.h", "functional", "string_view", "vector", "fastdl/tensor.h"
    lines = [f"#include <{name}>" for name in includes] + ["using namespace fastdl;"]
    lines += [f"namespace {{ namespace n{i} {{ {code} }} }}" for i, code in enumerate(codes)]
    return "\n".join([*lines, ""])


def check(tmp_path, source, codes, *flags):
    """What the compiler says, which is something of each of these lines and of no other code."""
    said = refusal(tmp_path, source, *flags) or ""
    assert "error: " in said
    lines = source.splitlines()
    numbers = {int(number) for number in re.findall(r"refused\.cpp:(\d+):", said)}
    named = [lines[number - 1] for number in numbers]
    assert [code for code in codes if not any(code in line for line in named)] == []
    assert [line for line in named if not any(c in line for c in ("#include", *codes))] == []
    return said


def test_refused_by_the_compiler(tmp_path):
    good = "void f(tensor<float, ndim<1>> x) { x(0) = 1; }"
    codes = [*REFUSED.values()]
    check(tmp_path, in_a_file([good, *codes]), codes)
    assert refusal(tmp_path, in_a_file([good])) is None


def test_make_owned_takes_what_it_can_move_and_keep(tmp_path):
    code = "auto f({} c, tensor<> x) {{ return make_owned(std::move(c), {{1}}, x); }}"
    codes = [before + code.format(container) for before, container, _ in NOT_OWNED.values()]
    said = check(tmp_path, in_a_file(codes), codes)
    for reason, count in (("moves the container: a const one", 1), (OWNS, 2)):
        assert said.count(f"error: static assertion failed: fastdl::make_owned {reason}") == count


def test_a_borrowed_tensor_cannot_be_kept(tmp_path):
    passed = "int64_t g(const tensor<> &x) { return x.size(); } int64_t f(tensor<> x)"
    passed += " { return g(x); }"
    codes = of_many_types(KEPT.values())
    said = check(tmp_path, in_a_file([passed, *codes]), codes)
    assert len(re.findall(f"error: .*{KEEP}", said)) == len(codes)
    assert refusal(tmp_path, in_a_file([passed])) is None


def binds(library, codes):
    lines = [f"#include <fastdl/{library}.h>"]
    lines += [f"#include <{library}/{name}>" for name in INCLUDES[library]]
    lines += [f"namespace lib = {library};"]
    lines += ["using fastdl::tensor;", "using fastdl::owned;", "void bind(lib::module_ &m);"]
    return "\n".join([*lines, "void bind(lib::module_ &m)", "{", "(void)m;", *codes, "}", ""])


@pytest.mark.parametrize("library", LIBRARIES)
def test_what_a_library_would_keep_is_refused(library, tmp_path):
    codes = of_many_types(CODE.values())
    said = check(tmp_path, binds(library, codes), codes, *headers(library))
    assert len(re.findall(f"error: .*{KEEP}", said)) >= len(codes)


@pytest.mark.parametrize("library", LIBRARIES)
def test_an_owned_tensor_is_taken_in_the_same_places(library, tmp_path):
    codes = [code.replace("tensor<>", "owned<>") for what, code in CODE.items() if what != "nested"]
    assert refusal(tmp_path, binds(library, codes), *headers(library)) is None
