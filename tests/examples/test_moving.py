# SPDX-License-Identifier: Apache-2.0
"""What docs/comparison.md links to: that the code does the same before and after."""

import numpy as np
import pytest

from tests.examples.building import EXAMPLES
from tests.support.build import load_module, run_compiler
from tests.support.cxx import binding
from tests.support.frameworks import Array, Interface, simulated
from tests.support.isolate import run_isolated

SOURCES = EXAMPLES / "moving"


def cuda_view():
    return load_module("cuda_view", SOURCES / "cuda_view.py")


def check(norm, make):
    """A kernel that is called by its binding, and refuses what it must."""
    x, weight, out = (
        np.arange(6, dtype="f").reshape(2, 3),
        np.array([1, 2, 3], "f"),
        np.ones((2, 3), "f"),
    )
    norm(make(out), make(x), make(weight), 0.5)
    expected = x / np.sqrt((x.astype("d") ** 2).mean(1, keepdims=True) + 0.5) * weight
    np.testing.assert_allclose(out, expected, rtol=1e-6)
    wrong = [
        (out[:1], x, weight),
        (out, x, weight[:2]),
        (out, x[:, ::2], weight),
        (out.astype("d"), x, weight),
        (out, x.astype("d"), weight),
        (out[0], x, weight),
    ]
    for arguments in wrong:
        with pytest.raises((TypeError, ValueError, BufferError), match="^(out|x|weight): expected"):
            norm(*map(make, arguments), 0.5)


@pytest.mark.slow
def test_after():
    norm = binding("norm_fastdl", "pybind11", SOURCES / "norm_fastdl.cpp").norm
    check(norm, lambda array: array)
    x = np.ones((2, 3), "f")
    with pytest.raises(BufferError, match="out: expected a writable"):
        norm(np.frombuffer(bytes(24), "f").reshape(2, 3), x, x[0], 0.5)


@pytest.mark.library("torch")
def test_after_with_torch():
    import torch

    norm = binding("norm_fastdl", "pybind11", SOURCES / "norm_fastdl.cpp").norm
    check(norm, torch.from_numpy)
    x = torch.ones(2, 3)
    with pytest.raises(BufferError, match="requires grad"):
        norm(torch.ones(2, 3, requires_grad=True), x, torch.ones(3), 0.5)


def before(name, folder):
    """The kernel, bound by the tool itself."""
    source = str(SOURCES / f"{name}.cpp")
    if name == "norm_torch":
        from torch.utils.cpp_extension import load

        return load(name, [source], extra_cflags=["-O2"], build_directory=str(folder)).norm

    import tvm_ffi

    from benchmarks import bindings

    include, link = bindings.of_tvm_ffi()
    output = folder / f"{name}{bindings.SUFFIX}"
    flags = ["-std=c++17", *bindings.FLAGS, *include]
    run_compiler(["g++", *flags, "-shared", source, *link, "-o", output])
    return tvm_ffi.load_module(output).norm


@pytest.mark.slow
@pytest.mark.library("torch", "tvm_ffi")
@pytest.mark.parametrize("name", ["norm_torch", "norm_tvm_ffi"])
def test_before(name, tmp_path):
    """In a process of its own: a module of torch changes how exceptions of C++ are found."""
    code = f"""
        from pathlib import Path
        import torch
        from tests.examples.test_moving import before, check
        check(before({name!r}, Path({str(tmp_path)!r})), torch.from_numpy)
        print("checked")
    """
    assert run_isolated(code, timeout=300) == "checked\n"


def test_of_the_cuda_array_interface():
    """Without the waits, the simulation reports that the kernels race."""
    guide = cuda_view()
    with simulated("cuda") as sim:
        array = Array(sim, stream=sim.side())
        stream = sim.side()
        assert guide.argument_before(Interface(array, "<f4", stream=stream), stream) == (
            array.pointer,
            (2, 3),
        )
        with pytest.raises(NotImplementedError):
            guide.argument_before(Interface(array, "<f4", stream=array.stream), stream)
        array.write()
        seen = []

        def kernel(address, shape, on):
            seen.append((address, shape))
            array.write(on)

        guide.launch(kernel, Interface(array, "<f4", stream=array.stream), stream)
        assert seen == [(array.pointer, (2, 3))]
        for changes in ({"typestr": "<f8"}, {"strides": (4, 8)}, {"data": (array.pointer, True)}):
            for function in (guide.argument, guide.argument_before):
                with pytest.raises((TypeError, ValueError), match="expected a (writable|row)"):
                    function(
                        Interface(array, **{"typestr": "<f4", "stream": stream, **changes}), stream
                    )
