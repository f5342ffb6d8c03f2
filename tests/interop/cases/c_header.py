# SPDX-License-Identifier: Apache-2.0
"""fastdl.h on real libraries, by way of tests/capi/header.c."""

import gc
import re
import weakref
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch

import fastdl
from fastdl._protocol import consumer
from tests.support.headers import ALONE, ENTRIES, INSTALLED, every_world, installed
from tests.support.producers import Wrapper
from tests.support.specs import COPY, C
from tests.support.threads import runs_during

from .common import freed
from .memoryless import LACKING

READ_ONLY = 1
WRITABLE, DETACHED = 1, 8  # rules of a specification


def described(tensor):
    """What torch says of a tensor, in the fields of a view."""
    return {
        "data": tensor.data_ptr(),
        "shape": tuple(tensor.shape),
        "strides": tuple(tensor.stride()),
        "byte_offset": 0,
        "device": (1, 0),
    }


TENSORS = {
    "compact": torch.arange(24.0).reshape(2, 3, 4),
    "transposed": torch.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1),
    "offset": torch.arange(24.0)[5:],
    "broadcast": torch.arange(4.0).expand(3, 4),
    "even strides": torch.arange(24.0)[::2],
    "no dimensions": torch.tensor(3.0),
    "no elements": torch.empty(0, 3),
    "requires grad": torch.arange(3.0, requires_grad=True),
    "parameter": torch.nn.Parameter(torch.arange(3.0)),
    "int": torch.arange(6, dtype=torch.int32),
    "bool": torch.arange(6) > 2,
    "bfloat16": torch.arange(6, dtype=torch.bfloat16),
    "complex": torch.arange(6.0).to(torch.complex64),
    "real part": torch.arange(6.0).to(torch.complex64).real,
}


@every_world
@pytest.mark.parametrize("tensor", TENSORS.values(), ids=TENSORS)
def test_torch(api, tensor):
    view = api.borrow(tensor)
    expected = described(tensor)
    if tensor.numel() == 0:
        expected["data"] = view["data"]  # may be anything
    assert expected.items() <= view.items()
    assert view["owned"] is False
    assert view["dtype"] == fastdl.from_dlpack(tensor.detach()).dtype.__dlpack_data_type__()
    held = api.held(api.own(tensor))
    for name in ("shape", "strides", "dtype", "device"):
        assert held[name] == view[name]
    assert held["data"] + held["byte_offset"] == view["data"] or tensor.numel() == 0


@every_world
@pytest.mark.parametrize(
    ("tensor", "remedy"),
    [
        (torch.arange(3.0).to(torch.complex64).conj(), "resolve_conj"),
        (torch.arange(3.0).to(torch.complex64).conj().imag, "resolve_neg"),
        (torch.arange(6.0).to(torch.complex64).reshape(2, 3).T.conj().imag[:, :1], "resolve_neg"),
    ],
    ids=["conj", "neg", "neg column"],
)
def test_lazy_torch_views(api, tensor, remedy):
    for enter in (api.borrow, api.own):
        with pytest.raises(BufferError, match=remedy):
            enter(tensor)


@every_world
def test_torch_integers_of_fewer_bits(api):
    """Asking costs more than borrowing, so what borrows is not asked."""
    tensor = torch.empty(3, dtype=torch.uint4)
    with pytest.raises(BufferError, match=r"dtype torch\.uint4, which"):
        api.own(tensor)
    assert api.borrow(tensor)["dtype"] == (1, 8, 1)
    for dtype in (torch.int8, torch.uint8, torch.int8):
        assert api.held(api.own(torch.empty(3, dtype=dtype)))["dtype"][1] == 8


@every_world
@pytest.mark.parametrize("make", [lambda x: x, torch.nn.Parameter, lambda x: 2 * x])
def test_writing_what_autograd_would_not_see(api, make):
    """Refused, where gradients are recorded, with words that help."""
    x = make(torch.arange(3.0, requires_grad=True))
    api.borrow_as(x, "x", {})
    with pytest.raises(BufferError, match=r"^x: .*requires grad.*torch\.no_grad\(\)"):
        api.borrow_as(x, "x", {"rules": WRITABLE})
    api.borrow_as(x, "x", {"rules": WRITABLE | DETACHED})
    api.borrow_as(x.detach(), "x", {"rules": WRITABLE})
    api.borrow_as(torch.arange(3.0), "x", {"rules": WRITABLE})
    with torch.no_grad():
        api.borrow_as(x, "x", {"rules": WRITABLE})
    with torch.inference_mode():
        api.borrow_as(x, "x", {"rules": WRITABLE})


@every_world
@pytest.mark.parametrize("kind", LACKING)
@pytest.mark.filterwarnings("ignore")
def test_torch_tensors_without_memory(api, kind):
    """Without the package, what torch raises where it does."""
    run, words = LACKING[kind]
    named = api in INSTALLED.values()
    seen = []

    def use(x):
        for enter in (api.borrow, api.own):
            with pytest.raises((BufferError, RuntimeError), match=words if named else "") as caught:
                enter(x)
            assert not named or isinstance(caught.value, BufferError)
            seen.append(enter)
        with pytest.raises((BufferError, RuntimeError), match="^x: " if named else ""):
            api.borrow_as(x, "x", {})

    run(use)
    assert seen[:2] == [api.borrow, api.own]


TRACED = r"got a tracer .*: call this outside of"


@every_world
def test_fake_tensor(api):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        tensor = torch.ones(3)
    for enter in (api.borrow, api.own, fastdl.from_dlpack):
        with pytest.raises(BufferError, match=TRACED):
            enter(tensor)
    with pytest.raises(BufferError, match=f"^x: expected a tensor.*{TRACED}"):
        api.borrow_as(tensor, "x", {})


@every_world
def test_jax_tracers(api):
    import jax

    seen = []

    def function(x):
        for enter in (api.borrow, api.own, fastdl.from_dlpack):
            with pytest.raises(BufferError, match=TRACED):
                enter(x)
        with pytest.raises(BufferError, match=f"^x: expected a tensor.*{TRACED}"):
            api.borrow_as(x, "x", {})
        seen.append(type(x).__name__)
        return x.sum()

    jax.jit(function)(np.ones(3, np.float32))
    jax.grad(function)(np.ones(3, np.float32))
    jax.vmap(function)(np.ones((2, 3), np.float32))
    assert len(seen) == 3


@every_world
def test_result_as_a_torch_tensor(api):
    source = torch.arange(6.0).reshape(2, 3)
    result = api.wrap(api.own(source), torch.Tensor)
    assert type(result) is torch.Tensor
    assert result.data_ptr() == source.data_ptr()
    made = api.wrap(api.empty(source.T, torch.Tensor), torch.Tensor)
    assert type(made) is torch.Tensor
    assert (made.shape, made.dtype, made.is_contiguous()) == ((3, 2), torch.float32, True)
    made[...] = 7
    again = api.wrap(api.own(np.arange(3.0)), type(torch.nn.Parameter(source)))
    assert type(again) is torch.Tensor
    assert again.tolist() == [0, 1, 2]


@every_world
def test_negative_strides_never_reach_torch(api):
    """At which it would end the process."""
    source = np.arange(4.0)[::-1]
    managed = api.own(source)
    if api in ALONE.values():
        with pytest.raises(BufferError, match=r"negative strides .*fastdl_import\(\)"):
            api.wrap(managed, torch.Tensor)
    else:
        result = api.wrap(managed, torch.Tensor)
        assert type(result) is torch.Tensor
        assert result.tolist() == [3.0, 2.0, 1.0, 0.0]


@installed
def test_read_only_data_is_copied_for_torch(api):
    source = np.arange(3.0)
    source.flags.writeable = False
    result = api.wrap(api.own(source), torch.Tensor)
    result[0] = 7
    assert source[0] == 0


@every_world
def test_owned_torch_tensor(api):
    source = torch.arange(3.0)
    alive = weakref.ref(source)
    capsule = api.own(source)
    taken = torch.from_dlpack(capsule)
    assert taken.data_ptr() == source.data_ptr()
    del source, capsule
    gc.collect()
    assert taken.tolist() == [0, 1, 2]
    del taken
    gc.collect()
    assert alive() is None


@every_world
def test_jax(api):
    import jax.numpy as jnp

    array = jnp.arange(6.0, dtype=jnp.float32).reshape(2, 3)
    for _ in range(2):
        view = api.borrow(array)
        assert view["shape"] == (2, 3)
        assert view["strides"] == (3, 1)
        assert view["data"] == array.unsafe_buffer_pointer()
        assert view["flags"] & READ_ONLY  # JAX shares values among arrays
    assert api.held(api.own(array))["flags"] & READ_ONLY


@installed
def test_result_as_a_jax_array(api):
    import jax.numpy as jnp

    array = np.arange(3, dtype=np.float32)
    like = type(jnp.ones(3))
    made = api.wrap(api.own(array), like)
    assert type(made) is like
    assert made.tolist() == [0.0, 1.0, 2.0]


# ---- the table of docs/c-guide.md -----------------------------------------------------------

GUIDE = Path(__file__).parents[3] / "docs" / "c-guide.md"
BORROWED = {"by its table": False, "the array struct is read": False, "directly": False}
# The view owns what the producer exported, or a lock of its buffer.
BORROWED |= {"by `__dlpack__`": True, "by their buffer": True}


def cells():
    """(first cell of a row, header to use, what its cell says) of each cell."""
    table = re.search(r"\| object \| header only .*\n\|[-|]+\n((?:\|.*\n)+)", GUIDE.read_text())[1]
    for line in table.splitlines():
        what, *said = (cell.strip() for cell in line.strip("|").split("|"))
        for api, cell in zip((ALONE["alone"], INSTALLED["installed"]), said, strict=True):
            yield what, api, cell


def examples():
    import jax.numpy as jnp

    return {
        "torch": torch.ones(3),
        "`numpy.ndarray`": np.ones(3, np.float32),
        "`fastdl.Tensor`": fastdl.from_dlpack(np.ones(3, np.float32)),
        "JAX": jnp.ones(3),
        "CuPy, any other object": Wrapper(np.ones(3, np.float32)),
        "result as a torch tensor": torch.ones(3),
        "result as a NumPy array": np.ones(3, np.float32),
        "result as a JAX": jnp.ones(3),
        "result as any other type": Wrapper(None),
    }


def test_the_table_of_the_guide():
    seen = set()
    for what, api, said in cells():
        (name, x), *_ = [(n, x) for n, x in examples().items() if what.startswith(n)]
        seen.add(name)
        if not what.startswith("result"):
            assert api.borrow(x)["owned"] is BORROWED[said], (what, said)
        elif said == "`TypeError`":
            with pytest.raises(TypeError, match="exchange table"):
                api.wrap(api.own(np.ones(3, np.float32)), type(x))
        else:
            made = {"yes": type(x), "a `fastdl.Tensor`": fastdl.Tensor}[said]
            assert type(api.wrap(api.own(np.ones(3, np.float32)), type(x))) is made, what
    assert seen == set(examples())


# ---- owning: the memory, not the tensor -----------------------------------------------------


def assign(parameter):
    parameter.data = torch.zeros(2)


def convert_module(parameter):
    module = torch.nn.Module()
    module.weight = parameter
    module.half()


def swap(parameter):
    torch.utils.swap_tensors(parameter, torch.nn.Parameter(torch.zeros(2)))


WAYS_IN = {
    **ENTRIES,
    "on the host": lambda x: fastdl.from_dlpack(x, device="cpu"),
    "on the host, in Python": lambda x: consumer.from_dlpack(x, device="cpu"),
    "in place": lambda x: fastdl.from_dlpack(x, copy=False),
    "on a stream": lambda x: fastdl.from_dlpack(x, stream=-1),
    "asarray": fastdl.asarray,
    "to NumPy": lambda x: fastdl.convert(x, np.ndarray),
    "to NumPy, without a copy": lambda x: fastdl.convert(x, np.ndarray, copy=False),
    "to torch": lambda x: fastdl.convert(fastdl.from_dlpack(x), torch.Tensor),
}


class WithoutTable(torch.nn.Parameter):
    __dlpack_c_exchange_api__ = None


@pytest.mark.parametrize("cls", [torch.nn.Parameter, WithoutTable])
@pytest.mark.parametrize("enter", WAYS_IN.values(), ids=WAYS_IN)
@pytest.mark.parametrize("move", [assign, convert_module, lambda x: x.set_(torch.ones(2)), swap])
def test_an_import_keeps_the_memory_whatever_becomes_of_the_tensor(enter, move, cls):
    array = np.array([1.0, 2.0], np.float32)
    memory = weakref.ref(array)
    parameter = cls(torch.from_numpy(array), requires_grad=False)
    kept = enter(parameter)
    del array
    with suppress(RuntimeError):  # torch refuses to swap a tensor that it has exported
        move(parameter)
    del parameter
    assert memory() is not None
    assert fastdl.from_dlpack(kept).tolist() == [1.0, 2.0]
    del kept
    assert freed(memory)


@every_world
def test_a_copy_without_the_gil_keeps_its_source(api):
    """Another thread gives the tensor other memory while it is copied."""
    buffer, kept = bytearray(1 << 22), []
    array = np.frombuffer(buffer, np.float32).reshape(1024, 1024).T
    memory, tensor = weakref.ref(array), torch.from_numpy(array)
    del array

    def replace():
        tensor.data = torch.empty(0)
        kept.append(memory() is not None)

    assert runs_during(lambda: api.borrow_as(tensor, "x", {"layout": C, "rules": COPY}), replace)
    assert kept == [True]
    assert freed(memory)
