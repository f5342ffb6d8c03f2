# SPDX-License-Identifier: Apache-2.0
"""An interrupt, and whatever else is no Exception, comes out of fastdl unchanged: it is never taken
for a refusal, cleared, or replaced by another error."""

import itertools
import operator
import pickle
import re
from collections import Counter
from numbers import Number

import numpy as np
import pytest

import fastdl
from fastdl._bridges.bridge import ANYWHERE, Bridge
from fastdl._convert import convert as front
from fastdl._protocol import consumer as _consumer
from tests.support.build import ROOT
from tests.support.headers import ALONE, INSTALLED, every_world
from tests.support.interrupts import Index, chatty, sweep
from tests.support.isolate import describe, run_python
from tests.support.named import named
from tests.support.producers import (
    CPU,
    CUDA,
    KINDS,
    DraftProducer,
    Given,
    Lending,
    LendingProducer,
    Producer,
    Tabled,
    hostile,
    raises,
)

# ---- by the source --------------------------------------------------------------------------

SOURCES = ("include/fastdl", "src/fastdl", "docs/examples")
PYTHON = re.compile(r"\bexcept\s*:|\bexcept\s+\(?[^#\n]*BaseException")


def uses_of(pattern: str) -> dict[str, int]:
    """How often the files in C, C++ and Cython have a pattern, block comments aside."""
    found: Counter = Counter()
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*")):
            if path == ROOT / "include/fastdl/fastdl.c":  # its parts are in impl/
                continue
            if path.suffix in (".c", ".h", ".cpp", ".pyx", ".pxd"):
                lines = path.read_text(encoding="utf-8").splitlines()
                found[path.name] += sum(
                    bool(re.search(pattern, line)) for line in lines if line.lstrip()[:1] != "*"
                )
    return {name: count for name, count in found.items() if count}


def test_one_function_clears_exceptions():
    """It is fastdl_clear_if_. Four examples for users are modules that can do without fastdl."""
    examples = {"axpy.c": 1, "keep.c": 1, "kernel_key.c": 1, "moments.c": 1}
    assert uses_of(r"\bPyErr_Clear\b") == {"fastdl.h": 1, **examples}


def test_exceptions_are_restored_where_none_is_pending():
    """PyErr_Restore replaces what is pending: use fastdl_restore_. Elsewhere nothing can be, or it
    was reported, as in deleters."""
    assert uses_of(r"\bPyErr_(Restore|SetRaisedException)\b") == {
        "arrow_import.c": 1,  # release_chunks
        "capsules.c": 2,  # fastdl_delete_wrapper_, fastdl_discard_
        "errors.c": 1,  # fastdl_restore_
        "lifetime.c": 1,
        "tensor.h": 1,
        "views.c": 1,
    }


def test_python_code_that_catches_everything_raises_it_again():
    for path in sorted((ROOT / "src/fastdl").rglob("*.py*")):
        lines = (
            path.read_text(encoding="utf-8").splitlines() if path.suffix in (".py", ".pyx") else []
        )
        for number, line in enumerate(lines):
            if not PYTHON.search(line):
                continue
            indent = len(line) - len(line.lstrip())
            body = itertools.takewhile(
                lambda text, indent=indent: len(text) - len(text.lstrip()) > indent,
                lines[number + 1 :],
            )
            assert list(body)[-1].strip() == "raise", f"{path}:{number + 1}"


#: Functions of CPython that clear whatever is raised inside them.
SILENT = r"\b(PyDict_GetItem|PyDict_GetItemString|PyObject_HasAttr(String)?|PyMapping_HasKey\w*)\b"


def test_no_function_of_cpython_is_used_that_clears():
    assert uses_of(SILENT) == {}


TRANSLATE = """
import os, runpy, setuptools
setuptools.setup = lambda **arguments: None
setup = runpy.run_path("setup.py")
for path, module in setup["TRANSLATED"].items():
    setup["translate"](module)
    for line in open(path):
        if "__Pyx_WriteUnraisable(\\"" in line:
            print(path, line.strip())
"""


@pytest.mark.slow
def test_what_cannot_raise_does_not(tmp_path):
    """A Cython function that cannot raise reports an exception and goes on: there is none in which
    Cython sees a need for that."""
    pytest.importorskip("Cython")
    for path in ROOT.iterdir():
        if path.name != "build":
            (tmp_path / path.name).symlink_to(path)
    result = run_python("-c", TRANSLATE, cwd=tmp_path)
    assert result.returncode == 0, describe(result)
    reports = [line for line in result.stdout.splitlines() if "WriteUnraisable" in line]
    assert reports == []
    assert list(tmp_path.rglob("build/**/tensor.c"))


# ---- a table that succeeds, with an interrupt pending ---------------------------------------


@every_world
def test_a_table_that_lends_and_interrupts(api):
    """One that gives is in test_faults_exchange.py."""
    for enter in (api.borrow, api.own):
        given = Given()
        with pytest.raises(KeyboardInterrupt):
            enter(Lending(given, "give and interrupt"))
        if enter is api.own:
            given.assert_released()
        else:
            given.assert_alive()  # lent only
    given = Given()
    with pytest.raises(KeyboardInterrupt):
        api.borrow(Tabled(given, "give and interrupt"))
    given.assert_released()


@every_world
def test_an_allocator_or_maker_that_succeeds_and_interrupts(api):
    given = Given()
    hostile.set_maker("give, interrupt", given)
    try:
        with pytest.raises(KeyboardInterrupt):
            api.empty(np.empty((2, 3)), Tabled)
        given.assert_released()
        for make in (lambda: api.wrap(Given().capsule(), Tabled),
                     lambda: fastdl.convert(np.arange(6.0), Tabled)):  # fmt: skip
            with pytest.raises(KeyboardInterrupt):
                make()
    finally:
        hostile.set_maker("raise")


@every_world
def test_a_work_stream_that_interrupts(api):
    hostile.set_stream(0, 0, 2)
    try:
        with pytest.raises(KeyboardInterrupt):
            api.work_stream(Tabled(Given(device=CUDA)))
    finally:
        hostile.set_stream(0, 0, 0)


# ---- at every point -------------------------------------------------------------------------


class Words(TypeError):
    """An error that words itself in Python."""

    def __str__(self):
        return "expected no unexpected keyword argument 'max_version'"


class Answer:
    def __repr__(self):
        return "an odd answer"


class Member:
    """Of an enum."""

    @property
    def value(self):
        return 1


class Pair:
    """A sequence in Python."""

    def __init__(self, *items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def refusing(error):
    return lambda: chatty(Producer)(Given(), act=raises(error))


PRODUCERS = {
    **{name: lambda kind=kind: chatty(kind)(Given()) for name, kind in KINDS.items()},
    "known producer": lambda: Producer(Given()),
    "table that refuses": lambda: chatty(Tabled)(Given(), "raise"),
    "table, then protocol": lambda: chatty(LendingProducer)(Given(), mode="raise"),
    "refuses": refusing(ValueError),
    "refuses keywords": refusing(Words),
    "device of odd kinds": lambda: Producer(Given(), Pair(Member(), Index(0))),
    "device that is none": lambda: Producer(Given(), Answer()),
    "device of bad kinds": lambda: Producer(Given(), Pair(Answer(), Member())),
    "malformed": lambda: Producer(Given(shape=(2, -1))),
    "no capsule": lambda: Producer(Given(), act=lambda self: Answer()),
    "odd draft": lambda: DraftProducer(Given(), info=Answer()),
    "no producer": lambda: chatty(Answer)(),
    "instance alone": lambda: chatty(Instance)(),
}


class Instance:
    """`__dlpack__` of the instance, as proxies have it."""

    def __getattr__(self, name):
        if name not in ("__dlpack__", "__dlpack_device__"):
            raise AttributeError(name)
        return getattr(Producer(Given()), name)


class Fake:
    """A class of a library with a table, which convert knows."""

    __dlpack_c_exchange_api__ = fastdl.exchange_api(fastdl.Tensor)


TABLE = fastdl.exchange_api(fastdl.Tensor)
FAKE = Bridge("fake.Fake", title="Fake", classes=(), devices=ANYWHERE, quick=lambda: TABLE)
FAKE.start()
front.remember(Fake, FAKE)

ENTRIES = {
    "from_dlpack": fastdl.from_dlpack,
    "from_dlpack in Python": _consumer.from_dlpack,
    "on the host": lambda x: fastdl.from_dlpack(x, device="cpu"),
    "copied": lambda x: fastdl.from_dlpack(x, copy=True),
    "asarray": fastdl.asarray,
    "convert": lambda x: fastdl.convert(x, np.ndarray),
    "convert over a table": lambda x: fastdl.convert(x, Fake),
    "exchange_api": fastdl.exchange_api,
    **{
        f"{function}, {name}": getattr(api, function)
        for name, api in (ALONE | INSTALLED).items()
        for function in ("borrow", "own")
    },
    **{
        f"named, {name}": lambda x, api=api: api.borrow_as(x, "weights", {})
        for name, api in (ALONE | INSTALLED).items()
    },
}


@pytest.mark.parametrize("entry", ENTRIES)
def test_interrupts_in_producers(entry):
    points = 0
    for make in PRODUCERS.values():
        points += sweep(make, ENTRIES[entry])
    assert points > 20


def described(**entries):
    """A type with `__array_interface__`."""

    class Interface:
        array = np.arange(6.0).reshape(2, 3)

        @property
        def __array_interface__(self):
            interface = dict(self.array.__array_interface__)
            interface["shape"] = tuple(map(Index, interface["shape"]))
            return interface | entries

    return Interface


def small_floats():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    return np.arange(3).astype(ml_dtypes.bfloat16)


OTHERS = {
    "array interface": described(),
    "array interface, malformed": described(strides=(Index(4), Index(3))),
    "array interface, odd data": described(data=Answer()),
    "__array__": named("A", "m", __array__=lambda self, dtype=None, copy=None: np.arange(3.0)),
    "__cuda_array_interface__": named("A", "m", __cuda_array_interface__={
        "shape": (3,), "typestr": "<f4", "data": (256, False), "version": 3}),
    "__arrow_c_array__": named("A", "m", __arrow_c_array__=lambda self, requested_schema=None:
                               fastdl.from_dlpack(np.arange(3)).__arrow_c_array__()),
    "ml_dtypes": small_floats,
    "masked array": lambda: np.ma.array([1, 2, 3], mask=[0, 1, 0]),
    "array": lambda: np.arange(6.0)[::2],
    "array of text": lambda: np.array(["a"]),
    "buffer": lambda: bytearray(b"abc"),
    "list": lambda: [1, 2],
}  # fmt: skip


@pytest.mark.parametrize("entry", [e for e in ENTRIES if "asarray" in e or "convert" in e])
def test_interrupts_in_other_interfaces(entry):
    assert sum(sweep(make, ENTRIES[entry]) for make in OTHERS.values()) > 100


class Real(Number):
    """A number that compares in Python."""

    def __eq__(self, other):
        return False

    __hash__ = None


class Scalar:
    def item(self):
        return 2.0


class OddDtype:
    def __dlpack_data_type__(self):
        return Index(2), 32, 1

    def __str__(self):
        return "float32"


class OddDevice:
    @property
    def type(self):
        return "cpu"

    @property
    def index(self):
        return Index(0)

    def __str__(self):
        return "cpu:0"


METHODS = {
    "index": lambda t: t[Index(1), Index(0) :],
    "index that is none": lambda t: t[Answer()],
    "reshape": lambda t: t.reshape([Index(3), Index(-1)]),
    "permute": lambda t: t.permute(Index(1), Index(0)),
    "expand": lambda t: t.expand((Index(2), Index(-1), Index(-1))),
    "squeeze": lambda t: t[None].squeeze(Index(0)),
    "unsqueeze": lambda t: t.unsqueeze(Index(-1)),
    "view": lambda t: t.view(OddDtype()),
    "in": lambda t: Real() in t,
    "in, a scalar": lambda t: Scalar() in t,
    "in, none": lambda t: Answer() in t,
    "format": lambda t: f"{t[0, 0]:.3f} {t!r}",
    "to": lambda t: (t.to(OddDevice()), t.to_device(OddDevice())),
    "equal": lambda t: (t.dtype == OddDtype(), t.device == OddDevice()),
    "empty": lambda t: fastdl.empty([Index(2), Index(3)], OddDtype(), OddDevice()),
    "numpy": lambda t: (t.numpy(), np.asarray(t, np.float64)),
    "export": lambda t: t.__dlpack__(max_version=Pair(Index(1), Index(0)), dl_device=CPU),
    "export, copied": lambda t: t.__dlpack__(max_version=(1, 0), copy=True),
    "pickle": lambda t: pickle.loads(pickle.dumps(t, 5)),
    "array interface": operator.attrgetter("__array_interface__"),
}


@pytest.mark.parametrize("name", METHODS)
def test_interrupts_in_methods(name):
    assert sweep(lambda: fastdl.from_dlpack(Given().capsule()), METHODS[name]) > 0


@pytest.mark.library("torch")
def test_interrupts_while_torch_is_asked_for_its_bits():
    """A mode of torch sees that question in Python."""
    import torch
    from torch.overrides import TorchFunctionMode

    class Once(TorchFunctionMode):
        left = 1

        def __torch_function__(self, function, types, arguments=(), keywords=None):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
            return function(*arguments, **keywords or {})

    x = torch.zeros(3, dtype=torch.complex64)
    fastdl.convert(x, np.ndarray)
    for enter in (ENTRIES["convert"], *(api.borrow for api in (ALONE | INSTALLED).values())):
        with Once(), pytest.raises(KeyboardInterrupt):
            enter(x)
