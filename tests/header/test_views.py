# SPDX-License-Identifier: Apache-2.0
"""fastdl::span and fastdl::mdspan of a tensor."""

import sysconfig

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided, sliding_window_view

from tests.support.build import LIBRARIES, ROOT, folder, load_module
from tests.support.cxx import WARNINGS, compile_cxx, refusal

MODULE = """
#ifndef STANDARD
#include "tests/capi/standin_mdspan.h"
namespace md = standin;
#endif
#define FASTDL_IMPLEMENTATION
#include <fastdl/mdspan.h>
#include <type_traits>
#ifdef STANDARD
namespace md = std;
#endif

template <typename Tensor, typename F> static PyObject *with(PyObject *object, F &&f)
{
    try {
        fastdl::loan<Tensor> loan(object);
        return f(loan.get());
    } catch (const fastdl::python_error &) {
        return nullptr;
    }
}

static PyObject *span(PyObject *, PyObject *object)
{
    return with<fastdl::tensor<const int32_t, fastdl::c_contiguous>>(object, [](const auto &x) {
        std::span<const int32_t> all = fastdl::span(x);
        long long sum = 0;
        for (int32_t value : all)
            sum += value;
        return Py_BuildValue("(LL)", (long long)all.size(), sum);
    });
}

/* Strides as the view has them. */
template <typename Span> static PyObject *strides(const Span &x)
{
    return Py_BuildValue("(LL)", (long long)x.stride(0), (long long)x.stride(1));
}

template <typename Layout, typename... Cs> static PyObject *view(PyObject *, PyObject *object)
{
    return with<fastdl::tensor<const int32_t, fastdl::shape<fastdl::any, 3>, Cs...>>(
        object, [](const auto &x) {
            auto seen = fastdl::mdspan(x);
            using Seen = decltype(seen);
            static_assert(std::is_same_v<typename Seen::layout_type, Layout>);
            static_assert(Seen::static_extent(0) == std::size_t(-1));
            static_assert(Seen::static_extent(1) == 3);
            return strides(seen);
        });
}

static PyMethodDef methods[] = {
    {"span", span, METH_O, nullptr},
    {"right", view<md::layout_right, fastdl::c_contiguous>, METH_O, nullptr},
    {"left", view<md::layout_left, fastdl::f_contiguous>, METH_O, nullptr},
    {"stride", view<md::layout_stride>, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "views", nullptr, 0, methods,
                                 nullptr, nullptr, nullptr, nullptr};
PyMODINIT_FUNC PyInit_views()
{
    return PyModule_Create(&definition);
}
"""


def compiled(standard, *flags):
    source = folder() / "views.cpp"
    source.write_text(MODULE)
    output = folder() / f"views{len(flags)}{sysconfig.get_config_var('EXT_SUFFIX')}"
    command = [f"-std={standard}", "-shared", *WARNINGS, *flags, f"-I{ROOT}", source]
    compile_cxx(*command, "-o", output, *LIBRARIES)
    return load_module("views", output)


@pytest.fixture(scope="module", params=["stand-in", "standard library"])
def views(request):
    if request.param == "stand-in":
        return compiled("c++20")
    probe = folder() / "probe.cpp"
    probe.write_text("#include <mdspan>\nint main() { return __cpp_lib_mdspan == 0; }\n")
    try:
        compile_cxx("-std=c++23", "-fsyntax-only", probe)
    except RuntimeError:
        pytest.skip("no <mdspan> here")
    return compiled("c++23", "-DSTANDARD")


def test_span(views):
    assert views.span(np.arange(6, dtype="int32").reshape(2, 3)) == (6, 15)
    with pytest.raises(BufferError, match="row-major"):
        views.span(np.zeros((3, 2), "int32").T)


def test_mdspan_has_the_layout_that_was_asked_for(views):
    array = np.zeros((4, 3), "int32")
    assert views.right(array) == (3, 1)
    assert views.left(np.asfortranarray(array)) == (1, 4)
    assert views.stride(array) == (3, 1)
    assert views.stride(np.zeros((8, 9), "int32")[::2, ::3]) == (18, 3)
    assert views.stride(np.zeros((1, 6), "int32")[::-1, ::2]) == (1, 2)  # never stepped along


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros((2, 3), "int32")[:, ::-1], "positive strides"),
        (np.broadcast_to(np.zeros(3, "int32"), (2, 3)), "positive strides"),
        (sliding_window_view(np.zeros(6, "int32"), 3), "do not interleave"),
        (as_strided(np.zeros(9, "int32"), (2, 3), (20, 8)), "do not interleave"),  # nor overlap
    ],
)
def test_strides_that_mdspan_cannot_have(views, array, words):
    with pytest.raises(BufferError, match=words):
        views.stride(array)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("void f(const tensor<float> &x) { (void)span(x); }", "a span has no gaps"),
        ("void f(const tensor<c_contiguous> &x) { (void)span(x); }", "one element type"),
        ("void f(const tensor<float> &x) { (void)mdspan(x); }", "an mdspan has a known rank"),
    ],
)
def test_what_a_view_needs(tmp_path, code, words):
    source = '#include "tests/capi/standin_mdspan.h"\n#include <fastdl/mdspan.h>\n'
    source += f"namespace fastdl {{ {code} }}\n"
    assert words in refusal(tmp_path, source, "-std=c++20", f"-I{ROOT}")
