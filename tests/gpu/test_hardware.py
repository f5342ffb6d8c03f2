# SPDX-License-Identifier: Apache-2.0
"""The scenarios, and real libraries, on the first NVIDIA GPU. Skipped where there is none."""

import textwrap

import numpy as np
import pytest

import fastdl
from tests.gpu import stream_objects
from tests.gpu.arrays import DefinedLibrary, InterfaceLibrary, Library, TabledLibrary
from tests.gpu.backends import NEW, OLD, SIZE, Hardware
from tests.gpu.peers import STREAMS, Cupy, Jax, Numba, Torch, require_jax
from tests.gpu.scenarios import Scenarios, both, fixtures
from tests.interop.peers import require
from tests.support.isolate import describe, run_python
from tests.support.producers import Wrapper

pytestmark = pytest.mark.library  # those of a library that is missing are skipped

LIBRARIES = [Library, TabledLibrary, Cupy, Torch]
CONSUMERS = [*LIBRARIES, InterfaceLibrary, Numba]
PRODUCERS = [*CONSUMERS, DefinedLibrary, Jax]


@pytest.fixture
def gpu():
    try:
        backend = Hardware()
    except RuntimeError as reason:
        pytest.skip(str(reason))
    yield backend
    backend.close()


library, producer, consumer = fixtures(LIBRARIES, CONSUMERS, PRODUCERS)


class TestHardware(Scenarios):
    """Those of scenarios.py."""


# ---- JAX, which chooses its streams itself --------------------------------------------------


@pytest.fixture
def jax(gpu):
    return require_jax()


def test_jax_without_a_stream(gpu, jax):
    """-1 would crash it: fastdl leaves it out, and JAX waits on the host."""
    place, stream = gpu.place(), gpu.stream()
    array = jax.numpy.full(SIZE, NEW, "uint8") + 0
    tensor = fastdl.from_dlpack(array, stream=-1)
    assert gpu.look(stream, tensor.data_ptr, place).value() == NEW


ORDERED = both("ordered", "ordered", "unordered")


def handed(library, array, source, ordered):
    return (library.give if ordered else library.give_unordered)(array, source)


@ORDERED
@pytest.mark.parametrize("library", CONSUMERS, ids=lambda x: x.name)  # writable data alone
def test_jax_as_a_consumer(gpu, jax, library, ordered):
    """Its streams wait, and not the host. What was imported without order it reads at once."""
    library = library(gpu)
    import numpy

    warm = library.give(library.make(OLD), gpu.setup)
    numpy.asarray(jax.dlpack.from_dlpack(warm) + 1)  # compiles
    source, array = gpu.stream(), library.make(OLD)
    with gpu.hold(source) as latch:
        array = library.write(array, source, NEW)
        tensor = handed(library, array, source, ordered)
        with library.using(source):
            taken = jax.dlpack.from_dlpack(tensor)
        result = taken + 1
        if ordered:
            mark = gpu.mark(source)
            gpu.waits(mark, latch)  # gives the result time to be ready, had it not waited
            assert not result.is_ready()
        else:
            assert set(numpy.asarray(result).tolist()) == {OLD + 1}
    assert set(numpy.asarray(result).tolist()) == {(NEW if ordered else OLD) + 1}
    gpu.finish(source)
    gpu.raced(not ordered)


# ---- Numba, by __dlpack__ -------------------------------------------------------------------


@ORDERED
@pytest.mark.parametrize("library", LIBRARIES, ids=lambda x: x.name)
def test_numba_kernel_arguments(gpu, library, ordered):
    """A launch asks for the stream of the kernel, which waits, and not the host."""
    require("numba_cuda")
    from numba import cuda

    @cuda.jit
    def copy(source, target):
        i = cuda.grid(1)
        if i < target.size:
            target[i] = source[i]

    library, stream = library(gpu), cuda.stream()
    number = int(getattr(stream.handle, "value", stream.handle))
    target = cuda.device_array(SIZE, "uint8", stream=stream)
    pointer, place = target.__cuda_array_interface__["data"][0], gpu.place()
    source, array = gpu.stream(), library.make(OLD)

    def launch(tensor):
        copy[(SIZE + 127) // 128, 128, stream](Wrapper(tensor), target)

    try:
        launch(library.give(array, gpu.setup))  # compiles
    except (TypeError, ValueError) as reason:
        pytest.skip(f"this numba-cuda takes no arguments by DLPack: {reason}")
    stream.synchronize()
    with gpu.hold(source) as latch:
        array = library.write(array, source, NEW)
        tensor = handed(library, array, source, ordered)
        with library.using(source):
            launch(tensor)
        look = gpu.look(number, pointer, place)
        gpu.judge(look, latch, ordered)
    gpu.saw(look, NEW if ordered else OLD, ordered)
    gpu.finish(source)


# ---- the stream objects of libraries --------------------------------------------------------


@pytest.mark.parametrize("use", stream_objects.USES)
@pytest.mark.parametrize("kind", [Library, TabledLibrary], ids=lambda x: x.name)
@pytest.mark.parametrize(
    ("name", "which"),
    [(name, which) for name, (_, kinds) in STREAMS.items() for which in kinds],
)
def test_stream_object(gpu, kind, name, which, use):
    make, _ = STREAMS[name]
    stream, number = make(which)
    stream_objects.stream_object(gpu, kind(gpu), use, stream, number)


# ---- torch's own captures -------------------------------------------------------------------


def test_torch_graph(gpu):
    """Import and export inside of torch.cuda.graph, replayed with other data."""
    require("torch")
    import torch

    source = torch.zeros(SIZE, dtype=torch.uint8, device="cuda")
    result = torch.zeros_like(source)

    def step():
        tensor = fastdl.from_dlpack(source)
        result.copy_(torch.from_dlpack(tensor) + 1)

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        step()  # warms up
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    for value in (NEW, OLD):
        source.fill_(value)
        graph.replay()
        torch.cuda.synchronize()
        assert set(result.tolist()) == {value + 1}


# ---- the end of the process -----------------------------------------------------------------


def run(code, **variables):
    """In a process of its own, which ends well; its errors. Libraries may warn there."""
    done = run_python("-c", textwrap.dedent(code), env=variables, timeout=120)
    assert done.returncode == 0, describe(done)
    return done.stderr


# How to make `x`, and how to take `y`: JAX does not take what it made itself.
MAKE = {
    "cupy": ("import cupy as lib; x = lib.ones(1000)", "lib.from_dlpack(y)"),
    "torch": ("import torch as lib; x = lib.ones(1000, device='cuda')", "lib.from_dlpack(y)"),
    "jax": ("import jax.numpy as np; x = np.ones(1000)", "y.__dlpack__(max_version=(1, 3))"),
    "numba_cuda": (
        "import numpy; from numba import cuda as lib; x = lib.to_device(numpy.ones(1000))",
        "lib.as_cuda_array(y)",
    ),
}


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize("keep", ["module", "builtins", "thread"])
def test_exit_with_tensors_alive(gpu, name, keep):
    require(name)
    make, take = MAKE[name]
    code = f"""
    import fastdl, builtins, threading
    {make}
    y = fastdl.asarray(x)
    z = {take}
    alive = [x, y, z, y[10:]]
    keep = {keep!r}
    if keep == "builtins":
        builtins.alive = alive
    if keep == "thread":
        threading.Thread(target=lambda held: None, args=[alive]).start()
        del x, y, z, alive
    """
    assert run(code, CUDA_MODULE_LOADING="LAZY") == ""  # nothing is held here


@pytest.mark.parametrize("name", ["torch.Tensor", "cupy.ndarray", "jax.Array"])
@pytest.mark.parametrize("dtype", ["uint8", "float64"])
def test_a_move_by_the_library_of_the_result(gpu, name, dtype):
    require(name.partition(".")[0])
    host = np.arange(6, dtype=dtype).reshape(2, 3)
    moved = fastdl.convert(host, name, device=gpu.device)
    assert fastdl.from_dlpack(moved).device == gpu.device
    back = fastdl.convert(moved, np.ndarray, device="cpu")
    assert back.dtype == dtype and back.tolist() == host.tolist()


def test_fork_after_use(gpu):
    """The driver does not survive a fork; fastdl says so in the child, and the parent goes on."""
    require("torch")
    code = """
    import os, fastdl, torch
    tensor = fastdl.from_dlpack(torch.ones(4, device="cuda"))
    child = os.fork()
    if child == 0:
        try:
            tensor.record(4096)
        except BufferError as error:
            os._exit(0 if "fork" in str(error) else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    tensor.__dlpack__(stream=1)
    """
    run(code)
