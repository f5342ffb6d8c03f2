# SPDX-License-Identifier: Apache-2.0
"""The examples of the documentation, built as it says, and used with everybody's tensors.

The builds run against the fastdl that the tests import: an installed one in CI.
"""

import os
import shutil
import sysconfig
from pathlib import Path

import pytest

import fastdl
from tests.examples.building import EXAMPLES as SOURCES
from tests.examples.building import built, documented_command, run
from tests.support.isolate import describe, run_isolated, run_python

pytestmark = pytest.mark.slow

CASES = Path(__file__).with_name("cases.py")
INSTALLED = Path(fastdl.get_include()).parent == Path(fastdl.__file__).parent

# Folder of docs/examples, and the file in it that says how to build it.
BUILDS = [
    ("c", "setup.py"),
    ("c", "CMakeLists.txt"),
    ("c", "axpy.c"),  # a compiler line, with pkg-config
    ("cython", "setup.py"),
    ("cython", "CMakeLists.txt"),
    ("nanobind", "CMakeLists.txt"),
    ("pybind11", "CMakeLists.txt"),
    ("pybind11", "setup.py"),
    ("pybind11", "axpy.cpp"),
]
# Examples of types that others take for a tensor.
PRODUCERS = ["c/image.c", "cython/image.pyx", "pybind11/image.cpp"]
# Each example once: what it does is the same, whatever built it.
EXAMPLES = list({build[0]: build for build in reversed(BUILDS)}.values())


@pytest.fixture
def folder(request):
    example, file = request.param
    if file in ("axpy.c", "axpy.cpp") and not INSTALLED:
        pytest.skip("a source tree has no fastdl.pc, which is made when fastdl is installed")
    return built(example, file)


def names(builds):
    return ["-".join(build) for build in builds]


@pytest.mark.parametrize("folder", BUILDS, ids=names(BUILDS), indirect=True)
def test_builds(folder):
    printed = run_isolated(
        f"""
        import sys; sys.path.insert(0, {str(folder)!r})
        import axpy, numpy as np
        assert axpy.__file__.startswith({str(folder)!r}), axpy.__file__
        y = np.ones(3)
        axpy.axpy(2.0, np.arange(3.0), y)
        assert "fastdl" in sys.modules
        print(y.tolist(), axpy.scaled(3.0, y).tolist())
        """
    )
    assert printed == "[1.0, 3.0, 5.0] [3.0, 9.0, 15.0]\n"


def test_examples():
    """All in one process: it is the libraries that take long to import."""
    options = ("-q", "--tb=short", "-W", "error", "-p", "no:cacheprovider")
    folders = os.pathsep.join(str(built(*example)) for example in EXAMPLES)
    child = run_python(
        "-m", "pytest", *options, str(CASES), env={"FASTDL_EXAMPLES": folders}, timeout=600
    )
    assert child.returncode == 0, describe(child)


@pytest.mark.parametrize(
    ("example", "file", "module", "item"),
    [
        ("c", "keep.c", "keep", "vectors.%d."),
        ("pybind11", "keep.cpp", "keep", "vector"),
        ("cython", "setup.py", "axpy", "vectors.%d."),
    ],
)
def test_a_tensor_or_none_that_is_kept_and_a_list(example, file, module, item):
    folder = built(example, file)
    run_isolated(
        f"""
        import sys; sys.path.insert(0, {str(folder)!r})
        import fastdl, numpy as np, pytest
        from {module} import WeightedSum
        item = lambda i: {item!r}.replace("%d", str(i))
        x, y = np.arange(4), np.ones(4, "float32")[::-1]
        for plain in (WeightedSum(), WeightedSum(None)):
            assert plain.of([x, y]).tolist() == [1, 2, 3, 4]
            assert type(plain.of([fastdl.asarray(x), x])) is fastdl.Tensor
        weights, ones = np.array([1.0, 2.0, 3.0]), np.ones(3)
        count = sys.getrefcount(weights), sys.getrefcount(ones)
        total = WeightedSum(weights=weights)
        weights[0] = 10.0  # shared
        result = total.of([ones, np.arange(6, dtype="int8")[::2], ones])
        assert type(result) is np.ndarray and result.tolist() == [20, 8, 18]
        assert WeightedSum(np.arange(6.0)[::2]).of([ones]).tolist() == [0, 2, 4]  # copied
        for call, error, words in [
            (lambda: WeightedSum([1.0]), TypeError, "expected a tensor, got 'list'"),
            (lambda: WeightedSum(np.ones((2, 2))), ValueError, "expected 1 dimension"),
            (lambda: total.of([ones, 1.0]), TypeError, item(1) + ": expected a tensor"),
            (lambda: total.of([ones, ones, ones[:2]]), ValueError, item(2) + ": .* got .2,."),
            (lambda: total.of([ones[:2]]), ValueError, "expected shape"),
            (lambda: WeightedSum().of([ones, ones[:2]]), ValueError, item(1) + ": .* got .2,."),
            (lambda: total.of([]), ValueError, "vectors: expected at least one"),
            (lambda: total.of(7), TypeError, "rgument|iterable"),
        ]:
            with pytest.raises(error, match=words):
                call()
        del total
        assert (sys.getrefcount(weights), sys.getrefcount(ones)) == count
        """
    )


# What docs/examples/cuda/device.c uses of CUDA, which these machines do not have.
CUDA = """
typedef enum { cudaSuccess, cudaErrorUnknown } cudaError_t;
typedef struct CUstream_st *cudaStream_t;
cudaError_t cudaGetDevice(int *);
cudaError_t cudaSetDevice(int);
const char *cudaGetErrorString(cudaError_t);
"""


def test_a_launch_on_a_device_compiles(tmp_path):
    (tmp_path / "cuda_runtime_api.h").write_text(CUDA)
    flags = f"-fsyntax-only -Wall -Wextra -Werror -I{tmp_path} $(python -m fastdl --cflags)"
    include = sysconfig.get_path("include")
    run(f"cc {flags} -isystem {include} {SOURCES / 'cuda/device.c'}", tmp_path)


def test_a_key_of_kernels():
    folder = built("c", "kernel_key.c")
    run_isolated(
        f"""
        import sys; sys.path.insert(0, {str(folder)!r})
        import fastdl, numpy as np, pytest
        from kernel_key import key
        from tests.support.ctypes_dlpack import FakeProducer
        from tests.support.producers import Wrapper

        def floats(count, offset=0):
            memory = np.zeros(4 * count + 64, np.uint8)
            start = -memory.ctypes.data % 16 + offset
            return memory[start : start + 4 * count].view(np.float32)

        x, fixed, array = floats(6), floats(6), floats(6)
        given = Wrapper(array)
        fixed.flags.writeable = False
        assert key(x) == key(floats(7)) == key(fastdl.from_dlpack(x)) == key(given)
        kinds = [
            x, x.view(np.int32), x.view(np.int8), x.reshape(2, 3), x[::2], floats(6, 4), fixed,
            fastdl.empty(6, "int4"), np.zeros(6, fastdl.DType("int4").dtype),
            *(FakeProducer((2, number), shape=(6,)) for number in (0, 1)),
        ]
        assert len(set(map(key, kinds))) == len(kinds)
        assert key() == b"" and key(x, fixed) == key(x) + key(fixed)
        count = sys.getrefcount(array)
        for arguments, words in [
            ((given, [1.0]), "argument 2: expected a tensor, got 'list'"),
            ((given, given, x, None), "argument 4: expected a tensor, got 'NoneType'"),
            ((given,) * 5, "expected at most 4 tensors, got 5"),
        ]:
            key(*arguments[:1] * 4)
            with pytest.raises(TypeError, match=words):
                key(*arguments)
        assert sys.getrefcount(array) == count  # each view was given back
        """
    )


@pytest.mark.parametrize("example", PRODUCERS)
def test_a_type_that_is_a_producer(example):
    folder = built(*example.split("/"))
    run_isolated(
        f"""
        import sys; sys.path.insert(0, {str(folder)!r})
        import gc
        from image import Image
        import numpy as np
        image = Image(3, 4)
        view = np.from_dlpack(image)  # before fastdl is there
        assert "fastdl" not in sys.modules
        assert (view.shape, view.dtype, view.flags.writeable) == ((3, 4), np.uint8, True)
        view[1, 2] = 7
        import fastdl
        tensor = fastdl.from_dlpack(image)
        assert tensor.data_ptr == view.ctypes.data and tensor.tolist()[1] == [0, 0, 7, 0]
        assert fastdl.exchange_api(Image) is not None
        del image
        gc.collect()
        view[2, 3] = 9
        assert tensor[2, 3].item() == 9
        copy = np.from_dlpack(Image(1, 2), copy=True)
        assert copy.tolist() == [[0, 0]]
        assert Image(0, 5).__dlpack_device__() == (1, 0)
        """
    )


@pytest.mark.parametrize("file", ["c/moments.c", "pybind11/moments.cpp"])
def test_a_converted_argument_and_two_results(file):
    example, _, name = file.partition("/")
    folder = built(example, name)
    run_isolated(
        f"""
        import sys; sys.path.insert(0, {str(folder)!r})
        import fastdl, moments, numpy as np, pytest
        x = np.array([[1.0, 2, 3], [3, 2, 7]])
        for samples in (x, x.astype("int8"), x.astype("float32"), np.asfortranarray(x)):
            both = moments.moments(samples)
            assert type(both) is tuple and [type(part) for part in both] == [np.ndarray] * 2
            assert [part.tolist() for part in both] == [[2, 2, 5], [1, 0, 4]], both
        first, second = moments.moments(fastdl.asarray(x))
        assert (type(first), second.tolist()) == (fastdl.Tensor, [1, 0, 4])
        assert moments.moments(x.T)[0].tolist() == [2, 4]
        for bad, error, words in [
            (x[0], ValueError, "samples: expected 2 dimensions, got 1"),
            (x.astype("complex128"), TypeError, "samples: expected float64, got complex128"),
            ([[1.0]], TypeError, "samples: expected a tensor, got 'list'"),
        ]:
            with pytest.raises(error, match=words):
                moments.moments(bad)
        """
    )


@pytest.mark.library("torch")
def test_torch_compile_example(tmp_path):
    """Builds the C example beside it, and compiles with inductor: what it does is tested in
    tests/interop/cases/torch_compile.py."""
    for name in ("c", "torch_compile"):
        shutil.copytree(SOURCES / name, tmp_path / name)
    place = tmp_path / "torch_compile"
    file = place / "axpy_torch.py"
    run(documented_command(file), place)
    assert run(documented_command(file, "Run"), place) == "tensor([3., 4., 5.])\n"


@pytest.mark.library("torch", "jax")
@pytest.mark.parametrize(("example", "count"), [("cython", 3), ("c", 8)])
def test_sessions(example, count):
    """That of the Cython example's own documentation, and that of the C guide."""
    guide = Path(__file__).parents[2] / "docs" / "c-guide.md"
    folders = [str(built(example, "setup.py"))]
    if example == "c":
        folders.append(str(built("c", "keep.c")))
    run_isolated(
        f"""
        import sys; sys.path[:0] = {folders!r}
        import axpy, doctest, jax.numpy, pathlib, re, torch
        session, names = axpy.__doc__, dict(vars(axpy), torch=torch, jax=jax)
        if {example!r} == "c":
            guide = pathlib.Path({str(guide)!r}).read_text()
            session = "\\n".join(re.findall(r"```python\\n(>>> .*?)```", guide, re.DOTALL))
            names = {{}}
        test = doctest.DocTestParser().get_doctest(session, names, "axpy", None, None)
        results = doctest.DocTestRunner().run(test)
        assert (results.failed, results.attempted) == (0, {count}), results
        """
    )


ALONE = """
    import sys
    sys.modules["fastdl"] = None  # as if it were not installed
    sys.path.insert(0, {folder!r})
    import axpy
    {body}
    assert not [name for name in sys.modules if name.startswith("fastdl.")]
    print("done")
"""
WITH_NUMPY = """
    import numpy as np, pytest
    x, y = np.arange(6.0)[::2], np.ones(3)
    counts = sys.getrefcount(x), sys.getrefcount(y)
    axpy.axpy(2.0, x, y)
    assert y.tolist() == [1.0, 5.0, 9.0]
    with pytest.raises(BufferError, match="y: expected"):
        axpy.axpy(2.0, x, np.broadcast_to(1.0, 3))
    with pytest.raises(TypeError, match="fastdl_import"):
        axpy.scaled(2.0, x)  # NumPy has no table that could make an array
    for bad in [(x, y[:2]), (x, 3)]:
        with pytest.raises((ValueError, TypeError)):
            axpy.axpy(2.0, *bad)
    del bad
    assert (sys.getrefcount(x), sys.getrefcount(y)) == counts  # each view was given back
"""
WITH_TORCH = """
    import torch
    x, y = torch.arange(6.0)[::2], torch.ones(3)
    axpy.axpy(2.0, x, y)
    assert y.tolist() == [1.0, 5.0, 9.0]
    result = axpy.scaled(2.0, x)
    assert type(result) is torch.Tensor and result.tolist() == [0.0, 4.0, 8.0]
"""


@pytest.mark.parametrize("folder", EXAMPLES, ids=names(EXAMPLES), indirect=True)
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(WITH_NUMPY, id="numpy"),
        pytest.param(WITH_TORCH, id="torch", marks=pytest.mark.library("torch")),
    ],
)
def test_where_fastdl_is_not_installed(folder, body):
    assert run_isolated(ALONE.format(folder=str(folder), body=body.lstrip())) == "done\n"
