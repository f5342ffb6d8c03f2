# SPDX-License-Identifier: Apache-2.0
"""Functions built on the C header in code that torch compiles: docs/examples/torch_compile.

FASTDL_EXAMPLE is the folder of the module built from docs/examples/c, FASTDL_TORCH_COMPILE that of
the operators. Most tests use the backends that generate no code: whether the graph is whole is
settled before a backend sees it. "aot_eager" adds the tracing of gradients and of writes, which
inductor is built on.
"""

import importlib
import os
import sys

import pytest
import torch

sys.path.insert(0, os.environ["FASTDL_EXAMPLE"])
sys.path.insert(0, os.environ["FASTDL_TORCH_COMPILE"])

kernels = importlib.import_module("axpy")
ours = importlib.import_module("axpy_torch")
library = importlib.import_module("axpy_library")

BACKENDS = ("eager", "aot_eager")
every_backend = pytest.mark.parametrize("backend", BACKENDS)
every_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(function, backend="aot_eager", fullgraph=True):
    """The compiled function, and the graphs that it has been compiled to so far."""
    graphs = []

    def count(graph, inputs):
        graphs.append(graph)
        return torch._dynamo.lookup_backend(backend)(graph, inputs)

    return torch.compile(function, backend=count, fullgraph=fullgraph), graphs


def called(graph):
    """The operators of ours in a graph."""
    targets = (str(node.target) for node in graph.graph.nodes if node.op == "call_function")
    return [target for target in targets if target.startswith("axpy.")]


def step(a, x, y, functions=ours):
    """Both functions, between operations of torch."""
    y = y.clone()
    functions.axpy(3.0, functions.scaled(a, x) + 1, y)
    return y * 2


def expected(a, x, y):
    return (y + 3 * (a * x + 1)) * 2


# ---- in a whole graph -----------------------------------------------------------------------


@every_backend
@every_dtype
def test_both_functions_in_one_graph(backend, dtype):
    x, y = torch.arange(4, dtype=dtype), torch.ones(4, dtype=dtype)
    function, graphs = compiled(step, backend)
    result = function(2.0, x, y)
    assert result.dtype == dtype
    assert result.tolist() == expected(2.0, x, y).tolist() == step(2.0, x, y).tolist()
    assert y.tolist() == [1, 1, 1, 1]
    (graph,) = graphs
    assert called(graph) == ["axpy.scaled.default", "axpy.axpy.default"]


@every_backend
def test_an_argument_is_written(backend):
    """Of a function that is compiled itself: what it does to its arguments is seen outside."""
    x, y = torch.arange(4.0), torch.ones(4)
    function, _ = compiled(lambda x, y: ours.axpy(2.0, x, y), backend)
    for n in (1, 2):
        assert function(x, y) is None
        assert y.tolist() == (1 + 2 * n * x).tolist()


@every_backend
def test_views(backend):
    """Strides come through; what is written through a view is in its base."""

    def columns(matrix):
        ours.axpy(10.0, matrix[:, 0], matrix[:, 2])
        return ours.scaled(2.0, matrix[1, ::2]), matrix

    eager, traced = torch.arange(9.0).reshape(3, 3), torch.arange(9.0).reshape(3, 3)
    function, _ = compiled(columns, backend)
    (part, result), (their_part, theirs) = function(traced), columns(eager)
    assert result.tolist() == theirs.tolist() == [[0, 1, 2], [3, 4, 35], [6, 7, 68]]
    assert part.tolist() == their_part.tolist() == [6, 70]
    assert traced.tolist() == theirs.tolist()


def vectors(n):
    """x and y of n elements, of which the compiler shall make a variable."""
    x, y = torch.arange(float(n)), torch.ones(n)
    torch._dynamo.mark_dynamic(x, 0)
    torch._dynamo.mark_dynamic(y, 0)
    return x, y


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, of torch
def test_inductor():
    function, graphs = compiled(step, "inductor")
    for n in (100, 7):
        x, y = vectors(n)
        assert torch.equal(function(2.0, x, y), expected(2.0, x, y))
        assert y.tolist() == [1] * n
    assert len(graphs) == 1


# ---- what the header checks -----------------------------------------------------------------

BAD = {
    "dtype": (lambda: ours.scaled(2.0, torch.arange(3)), TypeError, "x: expected float32 or"),
    "ndim": (lambda: ours.scaled(2.0, torch.ones(2, 2)), ValueError, "x: expected 1 dimension"),
    "sizes": (
        lambda: ours.axpy(2.0, torch.ones(3), torch.ones(4)),
        *(ValueError, r"y: expected shape \(n=3,\), got \(4,\)"),
    ),
    "like": (
        lambda: ours.axpy(2.0, torch.ones(3), torch.ones(3, dtype=torch.float64)),
        *(TypeError, "y: expected float32"),
    ),
    "writable": (
        lambda: ours.axpy(2.0, torch.ones(3), torch.ones(1).expand(3)),
        *(BufferError, "y: expected .*do not overlap"),
    ),
}


@pytest.mark.parametrize("what", [*BAD])
@pytest.mark.parametrize("backend", [None, "eager"])
def test_errors_are_those_of_the_header(what, backend):
    """The fake implementation need not repeat the checks: the first run makes them."""
    function, error, message = BAD[what]
    if backend:
        function, graphs = compiled(function, backend)
    with pytest.raises(error, match=message):
        function()
    if backend:
        assert len(graphs) == 1  # it was traced, and then refused


# ---- gradients ------------------------------------------------------------------------------


def needs_grad(*values, dtype=torch.float64):
    return torch.tensor(values, dtype=dtype, requires_grad=True)


@every_backend
def test_gradient_of_compiled_code(backend):
    function, graphs = compiled(lambda x: (ours.scaled(3.0, x) ** 2).sum(), backend)
    x = needs_grad(1.0, -2.0, 3.0)
    function(x).backward()
    assert x.grad.tolist() == [18.0, -36.0, 54.0]  # of 9 x^2
    assert len(graphs) == 1


def test_a_plain_call_takes_the_tensor_as_if_detached():
    assert not kernels.scaled(2.0, needs_grad(1.0, 2.0)).requires_grad


WRITES = {
    "the function": lambda x, y: ours.axpy(2.0, x, y),
    "its operator": lambda x, y: ours.axpy_operator(2.0, x, y),
    "compiled": lambda x, y: compiled(lambda x, y: ours.axpy(2.0, x, y))[0](x, y),
}


@pytest.mark.parametrize("how", [*WRITES])
def test_autograd_sees_what_is_written(how):
    """A value that the backward pass needs must not change before it."""
    weight, y = needs_grad(1.0, 2.0), torch.ones(2, dtype=torch.float64)
    product = (weight * y).sum()
    WRITES[how](torch.ones(2, dtype=torch.float64), y)
    assert y.tolist() == [3.0, 3.0]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


def test_writing_where_a_gradient_is_asked_for_is_refused():
    plain = torch.ones(2, dtype=torch.float64)
    for x, y in [(needs_grad(1.0, 2.0), plain), (plain, needs_grad(1.0, 2.0))]:
        with pytest.raises(RuntimeError, match="axpy has no gradient"):
            ours.axpy(2.0, x, y)
        function, _ = compiled(lambda x, y: ours.axpy(2.0, x, y))
        with pytest.raises(torch._dynamo.exc.Unsupported, match="RuntimeError"):
            function(x, y)
        with torch.no_grad():
            ours.axpy(2.0, x, y)
            function(x, y)
        torch._dynamo.reset()
    assert plain.tolist() == [5.0, 9.0]  # 1 + 2 * 2 * x, by the first pair


# ---- torch's own tests of an operator -------------------------------------------------------

X = torch.arange(6.0)
SAMPLES = {
    "scaled": (torch.ops.axpy.scaled.default, (2.0, X)),
    "scaled, strided": (torch.ops.axpy.scaled.default, (2.0, X[::2])),
    "scaled, broadcast": (torch.ops.axpy.scaled.default, (2.0, X[:1].expand(4))),
    "scaled, empty": (torch.ops.axpy.scaled.default, (2.0, X[:0])),
    "scaled, with gradient": (torch.ops.axpy.scaled.default, (2.0, needs_grad(1.0, 2.0))),
    "axpy": (torch.ops.axpy.axpy.default, (2.0, X, torch.ones(6))),
    "axpy, strided": (torch.ops.axpy.axpy.default, (2.0, X[::2], torch.ones(6)[1::2])),
    "axpy, float64": (
        torch.ops.axpy.axpy.default,
        (2.0, X.double(), torch.ones(6, dtype=torch.float64)),
    ),
    "library: scaled": (library.scaled.default, (2.0, X[::2])),
    "library: scaled, with gradient": (library.scaled.default, (2.0, needs_grad(1.0, 2.0))),
    "library: axpy": (library.axpy.default, (2.0, X[::2], torch.ones(6)[1::2])),
}


@pytest.mark.parametrize("what", [*SAMPLES])
def test_opcheck(what):
    operator, arguments = SAMPLES[what]
    results = torch.library.opcheck(operator, arguments)
    assert len(results) == 4
    assert set(results.values()) == {"SUCCESS"}


# ---- other ways to the same -----------------------------------------------------------------


def test_kernels_of_a_library():
    x, y = torch.arange(3.0), torch.ones(3)
    for backend in BACKENDS:
        function, graphs = compiled(lambda x, y: step(2.0, x, y, library), backend)
        assert function(x, y).tolist() == expected(2.0, x, y).tolist()
        assert len(graphs) == 1


def test_transforms_need_the_operator():
    """Tensors without memory of their own are refused by the function, not misread."""
    rows = torch.arange(6.0).reshape(2, 3)
    with pytest.raises(BufferError, match="make it a custom operator"):
        torch.vmap(lambda x: kernels.scaled(2.0, x))(rows)
    assert torch.vmap(lambda x: ours.scaled_operator(2.0, x))(rows).tolist() == (2 * rows).tolist()
