# SPDX-License-Identifier: Apache-2.0
"""What fastdl refuses: each row of refused_calls.txt is a call, the exact type of the exception,
and what a user needs of its message: the argument, what was passed, or the remedy. All else may be
worded anew. Refusals that need a compiler or another process are with the tests of their subjects.
"""
# ruff: noqa: F401 - the rows use what is imported

import hashlib
import os
import pickle
import re
import sys
from ctypes import create_string_buffer, py_object, pythonapi
from pathlib import Path
from types import ModuleType, SimpleNamespace
from unittest import mock

import ml_dtypes
import numpy as np
import pytest

import fastdl
from fastdl.__main__ import main
from fastdl._bridges import bridge as bridges
from fastdl._bridges import lookup
from fastdl._build import get_pkgconfig_dir
from fastdl._cli.expression import evaluate
from tests.support import arrow, consumer, frameworks, headers, producers, specs
from tests.support.build import extension
from tests.support.c_producers import ALONE, given
from tests.support.ctypes_dlpack import FakeProducer
from tests.support.frameworks import Array, Plain, Protocol, current_stream
from tests.support.library import libraries
from tests.support.named import NAMES, NotAsked, named
from tests.support.producers import CPU, Given, Producer, hostile, new

TABLE = Path(__file__).with_name("refused_calls.txt").read_text()
LINES = re.findall(r"^[^#\n].*(?:\n .*)*", TABLE, re.MULTILINE)
ROWS = [re.sub(r"\n +", " ", line).rsplit(" | ", 2) for line in LINES]

alone, installed = headers.ALONE["alone"], headers.INSTALLED["installed"]

X = np.ones((2, 3), "float32")
FROZEN = np.broadcast_to(X, X.shape)
HEADER, DATA = fastdl.encode(X)
MATRIX, VALUE = fastdl.from_dlpack(X), fastdl.from_dlpack(np.array(1.5))
FOURS = fastdl.empty(4, "int4")
ROCM = (10, 0)


def names():
    """What the rows speak of, besides what is in this file."""
    found = {}
    for module in (bridges, frameworks, producers, specs):
        found.update(vars(module))
    found.update((name, getattr(fastdl, name)) for name in fastdl.__all__)
    return {**found, **globals()}


@pytest.mark.parametrize(("call", "kind", "words"), ROWS, ids=[call for call, *_ in ROWS])
def test_refused(call, kind, words, capsys):
    # What is told to `enter` does so through the package, and through a module of C without it.
    for enter in (fastdl.from_dlpack, alone.borrow)[: 1 + ("enter(" in call)]:
        space = {**names(), "enter": enter}
        expected = eval(kind, space)
        try:
            with pytest.raises(expected) as caught:
                exec(call, space)
        finally:
            hostile.set_maker("raise")
            hostile.set_stream(0, 0, False)
        raised, message = type(caught.value), f"{caught.value}{capsys.readouterr().err}"
        del caught, space  # and the tensors in them
        assert raised is expected
        assert len(words.split()) <= 3
        assert [word for word in words.split() if word not in message] == [], message


# ---- objects ----------------------------------------------------------------------------------


def on(device, **fields):
    """A Tensor on a device."""
    return fastdl.from_dlpack(Given(device=device, **fields).capsule())


def producer(kind=Producer, *, act=None, device=CPU, info=130, **fields):
    """An object of a type that fastdl has not seen, on a managed tensor with these fields."""
    return new(kind)(Given(**fields), device, act, info=info)


def made(name, module, *bases, **members):
    """An object of a library that need not be installed."""
    return named(name, module, *bases, **members)()


def torch_like(kind, **members):
    """A type of torch's tensors. Those with a table have their negative bit set."""
    bits = {"is_neg": lambda self: kind is producers.Tabled, "is_conj": lambda self: False}
    return named("Tensor", "torch", kind, __qualname__="Tensor", **bits, **members)


class Interface:
    """An object with one array interface, whose dict has these `changes`."""

    def __init__(self, name="__array_interface__", **changes):
        self.array = np.arange(6, dtype="<i4").reshape(2, 3)
        setattr(self, name, {**self.array.__array_interface__, **changes})


def series(answer, missing=()):
    """As those of pandas: what it has, `__array__` says."""
    members = {"dtype": made("Int64Dtype", "pandas"), "isna": lambda self: np.array(missing)}
    return made("Series", "pandas", __array__=lambda self, *_, **__: answer, **members)


# ---- calls ------------------------------------------------------------------------------------


def standin(x, make=lambda tensor, like: tensor, copy=None, device=None, **facts):
    """convert to a library of which fastdl knows these facts. Its `Matrix` has 2 dimensions."""
    matrix = bridges.Bridge("standin.Matrix", title="Standin", classes=(), make=make, ndims=(2, 2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "standin", ModuleType("standin"))
        sys.modules["standin"].__version__ = "1.0"
        array = libraries(patch)(make, name="standin", **facts)
        lookup.load("standin").BRIDGES += (matrix,)
        fastdl.convert(x, array, copy=copy, device=device)


def expect(x, also=None, **spec):
    """fastdl_expect of an argument `x`, and perhaps of a second one, `y`."""
    second = [] if also is None else [(also[0], "y", also[1])]
    installed.expect([(x, "x", spec), *second])


def borrow_as(x, dtype, rules=specs.CONVERT):
    """An argument that may be converted."""
    installed.borrow_as(x, "x", {"dtypes": [dtype], "rules": rules})


def ask(kind=ALONE.Lending, *, device=CPU, before=None, silent=False, **keywords):
    """Of a type that fastdl_publish made a producer."""
    given(kind, X, device=device, before=before, silent=silent).__dlpack__(**keywords)


# ---- calls on a simulated driver --------------------------------------------------------------


def simulate(act, kind="cuda", **settings):
    """`act(sim)`; the driver is checked when what was raised leaves no tensors in its frames."""
    caught = None
    with frameworks.simulated(kind, **settings) as sim:
        try:
            act(sim)
        except Exception as error:
            caught = error.with_traceback(None)
            caught.__cause__ = caught.__context__ = None
    if caught is not None:
        raise caught


def in_another_context(sim):
    """Than the primary one of the array's device."""
    array = Array(sim)
    with sim.context(0):
        fastdl.from_dlpack(Plain(array), stream=1)


def within(act, memory="device"):
    """`act` on a tensor that was imported while its stream captures a graph, so that its work is a
    part of that, and on the stream."""

    def run(sim):
        stream = sim.side()
        array = Array(sim, stream=stream, memory=memory)
        with sim.capturing(stream), current_stream(stream):
            act(fastdl.from_dlpack(Protocol(array), stream=stream), stream)

    simulate(run)


def before(act, kind="cuda", blocking=False, **settings):
    """The same on a tensor that was imported before, with work in flight."""

    def run(sim):
        array = Array(sim, stream=sim.side())
        array.write()
        tensor = fastdl.from_dlpack(Protocol(array))
        stream = sim.side(blocking=blocking)
        with sim.capturing(stream):
            act(tensor, stream)

    simulate(run, kind, **settings)
