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

import fastdl

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


# ---- without an operator --------------------------------------------------------------------


def plain_step(x, y):
    return step(2.0, x, y, kernels)


# torch warns of each function that it cannot trace, once in a process.
opaque = pytest.mark.filterwarnings("ignore:Dynamo does not know how to trace the builtin")


@opaque
def test_a_plain_call_cannot_be_in_a_whole_graph():
    function, graphs = compiled(plain_step)
    with pytest.raises(torch._dynamo.exc.Unsupported) as caught:
        function(torch.ones(3), torch.ones(3))
    assert "does not know how to trace the builtin `axpy.scaled.`" in str(caught.value)
    assert "custom operator" in str(caught.value)
    assert graphs == []


@opaque
def test_a_plain_call_splits_the_graph_and_is_right():
    x, y = torch.arange(3.0), torch.ones(3)
    function, graphs = compiled(plain_step, fullgraph=False)
    assert function(x, y).tolist() == expected(2.0, x, y).tolist()
    assert function(x + 1, y).tolist() == expected(2.0, x + 1, y).tolist()
    assert len(graphs) == 3  # before, between and after the two calls


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


@every_backend
def test_y_may_be_x(backend):
    function, _ = compiled(lambda y: ours.axpy(2.0, y, y), backend)
    y = torch.arange(4.0)
    function(y)
    assert y.tolist() == [0, 3, 6, 9]


def vectors(n):
    """x and y of n elements, of which the compiler shall make a variable."""
    x, y = torch.arange(float(n)), torch.ones(n)
    torch._dynamo.mark_dynamic(x, 0)
    torch._dynamo.mark_dynamic(y, 0)
    return x, y


@every_backend
def test_one_graph_serves_all_sizes(backend):
    function, graphs = compiled(step, backend)
    for n in (5, 8, 13, 1000):
        x, y = vectors(n)
        assert torch.equal(function(2.0, x, y), expected(2.0, x, y))
    assert len(graphs) == 1


def test_a_size_that_only_the_data_tells():
    def positive(x):
        return ours.scaled(2.0, x[x > 0])

    function, graphs = compiled(positive)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        for values in ([1.0, -1.0, 2.0], [3.0, -1.0, -2.0], [-1.0, -1.0, -1.0]):
            x = torch.tensor(values)
            assert function(x).tolist() == [2 * v for v in values if v > 0]
    assert len(graphs) == 1


def test_each_number_is_a_graph_of_its_own():
    """torch compiles in a float that an operator takes; its own operators are no exception."""
    function, graphs = compiled(ours.scaled, "eager")
    limit = 8
    assert torch._dynamo.config.recompile_limit == limit
    for a in map(float, range(limit)):
        for _ in range(2):
            assert function(a, torch.arange(3.0)).tolist() == [0.0, a, 2 * a]
        assert len(graphs) == a + 1
    with pytest.raises(torch._dynamo.exc.FailOnRecompileLimitHit):
        function(float(limit), torch.arange(3.0))


@every_backend
def test_a_number_as_a_tensor_is_an_input_of_one_graph(backend):
    @torch.library.custom_op("axpy_by_tensor::scaled", mutates_args=())
    def by_tensor(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return kernels.scaled(float(a), x)

    by_tensor.register_fake(lambda a, x: x.new_empty(x.shape))
    function, graphs = compiled(by_tensor, backend)
    for a in (2.0, 0.5, -3.0):
        assert function(torch.tensor(a), torch.arange(3.0)).tolist() == [0.0, a, 2 * a]
    assert len(graphs) == 1


def test_exported_programs_have_it():
    class Module(torch.nn.Module):
        def forward(self, x, y):
            return step(2.0, x, y)

    x, y = torch.arange(3.0), torch.ones(3)
    program = torch.export.export(Module(), (x, y))
    assert "axpy.scaled.default" in str(program.graph)
    assert program.module()(x, y).tolist() == expected(2.0, x, y).tolist()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, of torch
def test_inductor():
    function, graphs = compiled(step, "inductor")
    for n in (100, 7):
        x, y = vectors(n)
        assert torch.equal(function(2.0, x, y), expected(2.0, x, y))
        assert y.tolist() == [1] * n
    assert len(graphs) == 1


def test_torch_does_not_see_that_a_result_is_a_view():
    """Why the guide forbids it: nothing refuses such an operator, and compiled code is wrong."""

    @torch.library.custom_op("axpy_view::alias", mutates_args=())
    def alias(x: torch.Tensor) -> torch.Tensor:
        return torch.from_dlpack(fastdl.from_dlpack(x))

    alias.register_fake(lambda x: x.new_empty(x.shape))
    assert set(torch.library.opcheck(alias, (torch.ones(2),)).values()) == {"SUCCESS"}

    def write_after(x):
        result = alias(x)
        x.add_(1)
        return result + 0

    assert write_after(torch.ones(2)).tolist() == [2.0, 2.0]
    assert compiled(write_after)[0](torch.ones(2)).tolist() == [1.0, 1.0]


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


def test_gradient():
    x = needs_grad(1.0, -2.0, 3.0)
    assert torch.autograd.gradcheck(lambda x: ours.scaled(3.0, x), (x,))
    assert torch.autograd.gradcheck(lambda x: ours.scaled(3.0, x[::2]), (x,))


@every_backend
def test_gradient_of_compiled_code(backend):
    function, graphs = compiled(lambda x: (ours.scaled(3.0, x) ** 2).sum(), backend)
    x = needs_grad(1.0, -2.0, 3.0)
    function(x).backward()
    assert x.grad.tolist() == [18.0, -36.0, 54.0]  # of 9 x^2
    assert len(graphs) == 1


def test_without_a_formula_a_backward_pass_is_refused():
    @torch.library.custom_op("axpy_bare::scaled", mutates_args=())
    def bare(a: float, x: torch.Tensor) -> torch.Tensor:
        return kernels.scaled(a, x)

    bare.register_fake(lambda a, x: x.new_empty(x.shape))
    result = bare(2.0, needs_grad(1.0, 2.0))
    assert result.tolist() == [2.0, 4.0]
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        result.sum().backward()
    function, _ = compiled(lambda x: bare(2.0, x))
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="no autograd formula"):
        function(needs_grad(1.0, 2.0))  # traced with its backward pass
    with torch.no_grad():
        assert function(needs_grad(1.0, 2.0)).tolist() == [2.0, 4.0]


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


def test_autograd_does_not_see_what_a_plain_call_writes():
    """Why `axpy` of the example says so: the gradient here should be [1, 1]."""
    weight, y = needs_grad(1.0, 2.0), torch.ones(2, dtype=torch.float64)
    product = (weight * y).sum()
    kernels.axpy(2.0, torch.ones(2, dtype=torch.float64), y)
    product.backward()
    assert weight.grad.tolist() == [3.0, 3.0]


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


def test_the_operator_that_writes_loses_gradients_silently():
    """Why `axpy` of the example refuses: torch has no formula for such operators, and no error."""
    x, y = needs_grad(1.0, 2.0), torch.ones(2, dtype=torch.float64)
    ours.axpy_operator(2.0, x, y)
    assert y.tolist() == [3.0, 5.0]
    assert not y.requires_grad
    with pytest.raises(RuntimeError, match="non-functional operator"):
        ours.axpy_operator.register_autograd(lambda ctx: None)


def test_inference_mode():
    with torch.inference_mode():
        y = torch.ones(3)
        ours.axpy(2.0, ours.scaled(2.0, torch.ones(3)), y)
        function, _ = compiled(step)
        assert function(2.0, torch.ones(3), y).tolist() == [28.0] * 3
    assert y.tolist() == [5.0] * 3


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


def test_autograd_does_not_see_what_such_a_kernel_writes():
    """Outside of compiled code; custom_op adds that."""
    y = torch.ones(2)
    version = y._version
    library.axpy(2.0, torch.ones(2), y)
    assert y._version == version
    compiled(lambda y: library.axpy(2.0, torch.ones(2), y))[0](y)
    assert y.tolist() == [5.0, 5.0]
    assert y._version > version


def test_without_a_formula_such_a_kernel_loses_the_gradient():
    """With no more than a warning, where custom_op raises an exception."""
    bare = torch.library.Library("axpy_library_bare", "DEF")
    bare.define("scaled(float a, Tensor x) -> Tensor")
    bare.impl("scaled", kernels.scaled, "CPU")
    x = needs_grad(1.0, 2.0)
    with pytest.warns(UserWarning, match="autograd kernel was not registered"):
        torch.ops.axpy_library_bare.scaled(2.0, x).sum().backward()
    assert x.grad is None
    bare._destroy()


def test_compiled_code_may_call_the_function_of_c_itself():
    substitute = torch.compiler.substitute_in_graph
    substitute(kernels.scaled, skip_signature_check=True)(lambda a, x: ours.scaled(a, x))
    function, graphs = compiled(lambda x: kernels.scaled(2.0, x) + 1)
    assert function(torch.arange(3.0)).tolist() == [1.0, 3.0, 5.0]
    assert called(graphs[0]) == ["axpy.scaled.default"]


def test_transforms_need_the_operator():
    """Tensors without memory of their own are refused by the function, not misread."""
    rows = torch.arange(6.0).reshape(2, 3)
    with pytest.raises(RuntimeError, match="storage"):
        torch.vmap(lambda x: kernels.scaled(2.0, x))(rows)
    assert torch.vmap(lambda x: ours.scaled_operator(2.0, x))(rows).tolist() == (2 * rows).tolist()
