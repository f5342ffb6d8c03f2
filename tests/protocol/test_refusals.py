# SPDX-License-Identifier: Apache-2.0
"""What is concluded from a `__dlpack__` that refuses a keyword: for whom, and for how long.

A type is never judged by what one of its objects raised. So no result depends on what was imported
before, and no read-only tensor becomes writable.
"""

import functools
import itertools
import sys

import numpy as np
import pytest

import fastdl
from fastdl._protocol import consumer as _consumer
from tests.support import consumer
from tests.support.build import compile_source, load_module, run_compiler
from tests.support.headers import ALONE, INSTALLED
from tests.support.producers import (
    CPU,
    CUDA,
    AnyProducer,
    Given,
    OldProducer,
    Producer,
    Wrapper,
    new,
)
from tests.support.recorder import Native, forward, new_type

READ_ONLY = 1


def frozen():
    array = np.arange(3.0)
    array.flags.writeable = False
    return array


def of_old():
    """An array of the first generation: `stream` alone."""
    return OldProducer(None, act=lambda self: np.arange(3.0).__dlpack__())


# ---- ways to ask whether an object comes read-only ------------------------------------------


def through_table(x):
    """As a consumer in C does that has the table of the type alone."""
    held = consumer.from_object(fastdl.exchange_api(type(x)), x)
    flags = consumer.fields(held)["flags"]
    held.release()
    return bool(flags & READ_ONLY)


def borrowed(api):
    return lambda x: bool(api.borrow(x)["flags"] & READ_ONLY)


WAYS = {
    "compiled": lambda x: fastdl.from_dlpack(x).readonly,
    "python": lambda x: _consumer.from_dlpack(x).readonly,
    "on the cpu": lambda x: fastdl.from_dlpack(x, device="cpu").readonly,
    "table": through_table,
    **{name: borrowed(api) for name, api in (ALONE | INSTALLED).items()},
}
every_way = pytest.mark.parametrize("is_readonly", WAYS.values(), ids=WAYS)


# ---- ways to wrap a producer ----------------------------------------------------------------


def forwarding():
    return new(Wrapper)


def decorated():
    def logged(function):
        @functools.wraps(function)
        def call(*arguments, **keywords):
            return function(*arguments, **keywords)

        return call

    class Decorated(Wrapper):
        @logged
        def __dlpack__(self, **keywords):
            return self.inner.__dlpack__(**keywords)

    return Decorated


def partial():
    class Partial(Wrapper):
        def export(self, way, **keywords):
            return self.inner.__dlpack__(**keywords)

        __dlpack__ = functools.partialmethod(export, "C")

    return Partial


def in_c():
    class InC(Wrapper):
        takes = ("stream", "max_version", "dl_device", "copy", "version")
        calls: list = []
        __dlpack__ = Native(forward)

    return InC


def partial_in_c():
    class PartialInC(Wrapper):
        @property
        def __dlpack__(self):
            return functools.partial(forward, self)

    return PartialInC


def proxy():
    class Proxy:
        def __init__(self, inner):
            self.inner = inner

        def __getattr__(self, name):
            return getattr(self.inner, name)

    return Proxy


def on_the_instance():
    class OnTheInstance:
        def __init__(self, inner):
            self.__dlpack__ = inner.__dlpack__
            self.__dlpack_device__ = inner.__dlpack_device__

    return OnTheInstance


MAKERS = [forwarding, decorated, partial, in_c, partial_in_c, proxy, on_the_instance]
every_wrapper = pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)


@every_way
@every_wrapper
def test_what_one_object_refuses_is_not_held_against_its_type(make, is_readonly):
    """In each order of two objects that speak the newest protocol and two that do not."""
    if is_readonly is through_table and make in (proxy, on_the_instance):
        pytest.skip("these types have no table: their objects have __dlpack__")
    old, newest = of_old(), frozen()
    for order in itertools.permutations([old, newest, old, newest]):
        wrap = make()
        assert [is_readonly(wrap(x)) for x in order] == [x is newest for x in order]


@every_wrapper
def test_no_way_in_teaches_another(make):
    wrap = make()
    ways = [way for way in WAYS.values() if way is not through_table]
    for first in ways:
        first(wrap(of_old()))
        assert [way(wrap(frozen())) for way in ways] == [True] * len(ways)


CYTHON = """
cdef class Forwarding:
    cdef public object inner

    def __dlpack__(self, **keywords):
        return self.inner.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.inner.__dlpack_device__()

cdef class Old(Forwarding):
    def __dlpack__(self, stream=None):
        return self.inner.__dlpack__()

cdef class Bare(Forwarding):
    def __dlpack__(self):
        return self.inner.__dlpack__()

cdef class New(Forwarding):
    def __dlpack__(self, *, stream=None, max_version=None):
        return self.inner.__dlpack__(max_version=max_version)
"""


@pytest.fixture(scope="module", params=[True, False], ids=["functions", "methods of C"])
def cython(request, tmp_path_factory):
    """A module of Cython, whose methods are functions with a signature, or builtin ones."""
    place = tmp_path_factory.mktemp("cython")
    name = f"wrappers_{request.param}"
    (place / f"{name}.pyx").write_text(CYTHON)
    options = ("-3", f"-Xbinding={request.param}", "-Xfreethreading_compatible=True")
    run_compiler([sys.executable, "-m", "cython", *options, f"{name}.pyx"], cwd=place)
    output = place / f"{name}.so"
    compile_source(place / f"{name}.c", output, "-Wno-error")
    return load_module(name, output)


@every_way
def test_wrappers_of_cython(cython, is_readonly):
    def wrapped(kind, inner):
        made = type("Mine", (kind,), {})()
        made.inner = inner
        return made

    for kind, order in itertools.product(
        (cython.Forwarding, cython.New), ([0, 1, 0, 1], [1, 0, 1, 0])
    ):
        objects = [wrapped(kind, frozen() if newest else np.arange(3.0)) for newest in order]
        assert [is_readonly(x) for x in objects] == [bool(newest) for newest in order]
    old = of_old()
    for order in ([old, frozen()], [frozen(), old]):
        objects = [wrapped(cython.Forwarding, inner) for inner in order]
        assert [is_readonly(x) for x in objects] == [inner is not old for inner in order]
    for kind in (cython.Old, cython.Bare):
        for _ in range(2):
            assert not is_readonly(wrapped(kind, np.arange(3.0)))


# ---- what is no refusal ---------------------------------------------------------------------


def every_entry():
    entries = {"compiled": fastdl.from_dlpack, "python": _consumer.from_dlpack}
    entries |= {name: api.borrow for name, api in (ALONE | INSTALLED).items()}
    return pytest.mark.parametrize("enter", entries.values(), ids=entries)


def inner(stream=None):
    raise AssertionError("called without what it refused")


@every_entry()
def test_a_function_inside_that_takes_fewer_keywords(enter):
    """Its error is the producer's own: it is passed on, and nothing is asked again."""
    x = new(AnyProducer)(None, act=lambda self: inner(**self.asked[-1]))
    for times in (1, 2):
        with pytest.raises(TypeError, match=r"^inner\(\) got an unexpected keyword"):
            enter(x)
        assert x.asked == [{"max_version": (1, 3)}] * times


@every_entry()
@pytest.mark.parametrize("kind", [int, sorted, "".join, np.zeros])
def test_a_builtin_inside_that_takes_no_such_keyword(enter, kind):
    with pytest.raises(TypeError) as raised:
        kind(max_version=(1, 3))
    with pytest.raises(TypeError) as caught:
        enter(new(AnyProducer)(None, act=lambda self: kind(**self.asked[-1])))
    assert str(caught.value) == str(raised.value)


@every_entry()
def test_a_type_error_about_other_keywords(enter):
    wording = "__dlpack__() got an unexpected keyword argument 'color'"
    x = new_type(takes=("max_version",), wording=wording)(device=CUDA)
    with pytest.raises(TypeError, match="^__dlpack__.*'color'"):
        enter(x)
    assert len(x.calls) == 1


# ---- signatures -----------------------------------------------------------------------------


class NewestAlone(Producer):
    """Takes no stream, but the newest version."""

    def __dlpack__(self, *, max_version=None):
        self.asked.append(max_version)
        return self.act(self)


class NewestAloneInC(Producer):
    takes = ("max_version",)
    wording = "__dlpack__() got an unexpected keyword argument '{}'"
    __dlpack__ = Native(lambda self, max_version=None: NewestAlone.__dlpack__(
        self, max_version=max_version))  # fmt: skip

    @property
    def calls(self):
        return []


@every_entry()
@pytest.mark.parametrize("kind", [NewestAlone, NewestAloneInC])
def test_the_version_survives_that_a_stream_is_not_taken(enter, kind):
    """A keyword that is named is the one that is given up: the flag stays."""
    for _ in range(2):
        source = kind(Given(device=CUDA, flags=READ_ONLY), CUDA)
        result = enter(source)
        assert result["flags"] & READ_ONLY if isinstance(result, dict) else result.readonly
        assert source.asked == [(1, 3)]


SIGNATURES = {
    "self, *, stream=None, max_version=None": (True, True),
    "self, stream=None, max_version=None, dl_device=None, copy=None": (True, True),
    "self, stream=None, **others": (True, True),
    "self, *, stream=None": (False, True),
    "self, max_version=None": (True, False),
    "self": (False, False),
    "self, *args": (False, False),
    "self, max_version=None, /, stream=None": (False, True),
    "self, max_version=None, stream=None, /": (False, False),
}


@every_entry()
@pytest.mark.parametrize("signature", SIGNATURES)
def test_signatures(enter, signature):
    """A function is called once, with what it takes."""
    takes_version, takes_stream = SIGNATURES[signature]
    space = {}
    exec(f"def export({signature}): return dict(locals())", space)
    calls = []

    class Array(Producer):
        def __dlpack_device__(self):
            return self.device

    def act(self):
        return self.managed.capsule()

    def watched(frame, event, argument):
        if event == "call" and frame.f_code is space["export"].__code__:
            calls.append(dict(frame.f_locals))

    exec(f"def export({signature}): return act({signature.split(',')[0]})", {"act": act}, space)
    Array.__dlpack__ = space["export"]
    for device in (CPU, CUDA):
        calls.clear()
        source = Array(Given(device=device), device)
        sys.setprofile(watched)
        try:
            enter(source)
        finally:
            sys.setprofile(None)
        assert len(calls) == 1
        seen = {**calls[0], **calls[0].pop("others", {})}
        assert (seen.get("max_version") == (1, 3)) is takes_version
        assert (seen.get("stream") == 1) is (takes_stream and device == CUDA)


# ---- methods that change under way ----------------------------------------------------------


@every_entry()
@pytest.mark.parametrize("known", [False, True])
def test_a_method_that_vanishes_while_the_device_is_asked(enter, known):
    """It was found before, and is called."""

    class Vanishing(Producer):
        vanishes = False

        def __dlpack_device__(self):
            if type(self).vanishes:
                del type(self).__dlpack__
            return super().__dlpack_device__()

    Vanishing.__dlpack__ = Producer.__dlpack__
    Base = Vanishing.__mro__[1]
    export = Base.__dlpack__
    if known:
        enter(Vanishing(Given()))
    Vanishing.vanishes = True
    del Base.__dlpack__
    try:
        given = Given()
        result = enter(Vanishing(given))
        assert (result["shape"] if isinstance(result, dict) else result.shape) == (2, 3)
    finally:
        Base.__dlpack__ = export


@every_entry()
def test_a_method_that_is_replaced(enter):
    """By one that takes the newest version, after one that does not."""
    kind = new(OldProducer)
    enter(kind(Given(versioned=False)))
    kind.__dlpack__ = Producer.__dlpack__
    for _ in range(2):
        source = kind(Given(flags=READ_ONLY))
        result = enter(source)
        assert result["flags"] & READ_ONLY if isinstance(result, dict) else result.readonly
