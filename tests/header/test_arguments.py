# SPDX-License-Identifier: Apache-2.0
"""fastdl_borrow_as and fastdl_borrow_all: arguments by name, with one cleanup for all of them."""

import array
import mmap
import sys
import types
import weakref

import numpy as np
import pytest

from tests.support.headers import every_world
from tests.support.producers import (
    CUDA,
    BareProducer,
    Given,
    Lending,
    OldProducer,
    Producer,
    Tabled,
    new,
    raises,
)
from tests.support.specs import ANY_DEVICE, FLOAT32, FLOAT64, WRITABLE

DETACHED = 8


@every_world
@pytest.mark.parametrize("kind", [Producer, OldProducer, BareProducer, Tabled, Lending])
@pytest.mark.parametrize("strides", [None, (3, 1), (1, 2), (-3, -1)])
def test_what_fits_is_borrowed(api, kind, strides):
    given = Given(strides=strides, byte_offset=40 if strides == (-3, -1) else 4, shape=(2, 2))
    view = api.borrow_as(kind(given), "x", {"dtypes": [FLOAT32], "ndim": 2})
    assert (view["shape"], view["owned"]) == ((2, 2), kind is not Lending)
    assert (view["strides"], view["byte_offset"]) == (strides or (2, 1), 0)
    if kind is Lending:
        given.assert_alive()
    else:
        given.assert_released()


@every_world
@pytest.mark.parametrize("kind", [Producer, OldProducer, Tabled])
def test_what_does_not_fit_is_released(api, kind):
    given = Given()
    with pytest.raises(TypeError, match="^x: expected float64, got float32"):
        api.borrow_as(kind(given), "x", {"dtypes": [FLOAT64]})
    given.assert_released()


# ---- the name in the message ----------------------------------------------------------------


class Thing:
    class Inner:
        pass


NAMELESS = type("Mine", (), {"__module__": 5})
WITH_ARRAY = type("Series", (), {"__array__": lambda self: np.ones(3), "__module__": "builtins"})
#: What is no tensor, the name of its type, which is that of its module too unless that is
#: builtins, and what the message ends with.
NO_TENSORS = [
    *((x, type(x).__name__, r"nor __dlpack__") for x in (None, "text", {})),
    (np.ndarray, "type", r"nor __dlpack__"),
    (Thing(), f"{__name__}.Thing", "nor __dlpack__.*"),
    (Thing.Inner(), f"{__name__}.Thing.Inner", "nor __dlpack__.*"),
    (NAMELESS(), "Mine", "nor __dlpack__.*"),
    (WITH_ARRAY(), "Series", r"__array__ .* fastdl\.asarray\(.*"),
    *((x, type(x).__name__, r"__dlpack__: pass an array, such as numpy.asarray\(x\)")
      for x in ([1.0], (1, 2), range(3), 1, 1.5, True, 1j)),
    *((x, f".*{type(x).__name__}", r".* fastdl\.asarray\(.*")
      for x in (b"bytes", bytearray(4), array.array("f", [1.0]), memoryview(b"1234"),
                mmap.mmap(-1, 16))),
]  # fmt: skip


@every_world
@pytest.mark.parametrize(("candidate", "name", "end"), NO_TENSORS)
def test_what_is_no_tensor(api, candidate, name, end):
    for _ in range(2):
        words = f"expected a tensor, got '{name}', which has .*{end}$"
        with pytest.raises(TypeError, match=f"^weights: {words}") as caught:
            api.borrow_as(candidate, "weights", {})
        for enter in (api.borrow, api.own):
            with pytest.raises(TypeError, match=f"^{words}"):
                enter(candidate)
        assert ("fastdl.asarray" in str(caught.value)) is ("asarray" in end and "numpy" not in end)


FAULTS = {
    "shape": (lambda: Tabled(Given(shape=(2, -1))), "the tensor has a negative dimension"),
    "version": (lambda: Tabled(Given(version=(2, 0))), "expected DLPack"),
    "silent table": (lambda: Tabled(Given(), "fail"), "without setting an exception"),
    "capsule": (lambda: new(Producer)(Given(), act=lambda self: 5), "capsule"),
    "device": (lambda: new(Producer)(Given(), device="cpu"), "__dlpack_device__"),
    "delivery": (lambda: new(Producer)(Given(device=CUDA), device=(1, 0)), "announced"),
}


@every_world
@pytest.mark.parametrize(("make", "words"), FAULTS.values(), ids=FAULTS)
def test_what_fastdl_refuses_in_its_own_words(api, make, words):
    """Those of the header, and of the package."""
    with pytest.raises((BufferError, TypeError)) as caught:
        api.borrow_as(make(), "weights", {"device": ANY_DEVICE})
    assert str(caught.value).startswith("weights: "), str(caught.value)
    assert words in str(caught.value)
    assert str(caught.value).count("weights: ") == 1
    assert not getattr(caught.value, "__notes__", [])


@every_world
def test_an_array_that_dlpack_cannot_describe(api):
    """The words are fastdl's or, without the package, NumPy's."""
    with pytest.raises(BufferError) as caught:
        api.borrow_as(np.ones(3, dtype=">f4"), "weights", {})
    text = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
    assert "weights" in text or not hasattr(caught.value, "add_note")


@every_world
@pytest.mark.parametrize(
    "error", [ValueError("mine"), BufferError("mine"), TypeError("mine"), KeyError("mine"),
              LookupError, KeyboardInterrupt],
    ids=repr,
)  # fmt: skip
def test_what_a_producer_raises_is_unchanged_but_for_a_note(api, error):
    """One, also if the same object is raised again. The last two by a table; an interrupt is left
    alone."""
    if isinstance(error, Exception):
        source, kind = new(Producer)(Given(), act=raises(error)), type(error)
    else:
        kind = error
        source = Tabled(Given(), "raise" if error is LookupError else "interrupt")
    for _ in range(2):
        with pytest.raises(kind) as caught:
            api.borrow_as(source, "weights", {})
    notes = [note for note in getattr(caught.value, "__notes__", []) if "weights" in note]
    if kind is not error:
        assert caught.value is error and error.args == ("mine",)
        assert len(notes) == hasattr(error, "add_note")
    assert not (notes and error is KeyboardInterrupt)
    assert "weights" not in str(caught.value)


# ---- autograd -------------------------------------------------------------------------------


@every_world
@pytest.mark.parametrize("kind", [Lending, Producer])
def test_a_tensor_that_requires_grad_is_not_written_unseen(api, kind, monkeypatch):
    """Here torch is a name. The real one is in tests/interop."""
    torch = types.SimpleNamespace(is_grad_enabled=lambda: enabled)
    monkeypatch.setitem(sys.modules, "torch", torch)
    mine = type("Tensor", (kind,), {"__module__": "torch", "requires_grad": True,
                                    "is_neg": lambda self: False})  # fmt: skip
    other = type("Tensor", (kind,), {"__module__": "mine", "requires_grad": True})
    for enabled in (True, False):
        for rules in (0, WRITABLE, WRITABLE | DETACHED):
            given = Given()
            if enabled and rules == WRITABLE:
                with pytest.raises(BufferError, match=r"^x: expected .* torch\.no_grad\(\)"):
                    api.borrow_as(mine(given), "x", {"rules": rules})
            else:
                api.borrow_as(mine(given), "x", {"rules": rules})
            if kind is Producer:
                given.assert_released()
            api.borrow_as(other(Given()), "x", {"rules": rules})
        api.borrow_as(mine(Given(dtype=(0, 32, 1))), "x", {"rules": WRITABLE})


@every_world
def test_what_requires_grad_raises_comes_through(api):
    def requires_grad(self):
        raise LookupError("mine")

    kind = type("Tensor", (Lending,), {"__module__": "torch", "is_neg": lambda self: False,
                                       "requires_grad": property(requires_grad)})  # fmt: skip
    with pytest.raises(LookupError, match="mine"):
        api.borrow_as(kind(Given()), "x", {"rules": WRITABLE})


# ---- several --------------------------------------------------------------------------------


@every_world
def test_all_of_several(api):
    arguments = [
        (np.ones((3, 4)), "a", {"ndim": 2, "shape": ["m", "k"]}),
        (Producer(Given(shape=(4,))), "b", {"ndim": 1, "shape": ["k"]}),
        (np.ones(3), "out", {"ndim": 1, "shape": ["m"], "like": 0, "no_alias": [0, 1],
                             "rules": WRITABLE}),
    ]  # fmt: skip
    assert [view["shape"] for view in api.borrow_all(arguments)] == [(3, 4), (4,), (3,)]
    assert api.borrow_all([]) == []


@every_world
@pytest.mark.parametrize("failing", range(3))
@pytest.mark.parametrize("fault", ["no tensor", "mismatch", "producer"])
def test_one_failure_releases_all(api, failing, fault):
    givens = [Given() for _ in range(3)]
    arguments = [(Producer(given), f"argument {i}", {}) for i, given in enumerate(givens)]

    act = raises(LookupError("mine"))
    if fault == "no tensor":
        arguments[failing] = (5, f"argument {failing}", {})
    elif fault == "mismatch":
        arguments[failing] = (arguments[failing][0], f"argument {failing}", {"ndim": 1})
    else:
        arguments[failing] = (new(Producer)(Given(), act=act), f"argument {failing}", {})
    error = {"no tensor": TypeError, "mismatch": ValueError, "producer": LookupError}[fault]
    with pytest.raises(error) as caught:
        api.borrow_all(arguments)
    if fault != "producer":
        assert str(caught.value).startswith(f"argument {failing}: expected")
    for i, given in enumerate(givens):
        if i < failing or (i == failing and fault == "mismatch"):
            given.assert_released()
        else:
            assert given.handed == 0 or i == failing


@every_world
def test_a_failure_keeps_nothing_of_its_arguments_alive(api):
    array_ = np.ones(3)
    alive = weakref.ref(array_)
    with pytest.raises(TypeError):
        api.borrow_all([(array_, "x", {}), (5, "y", {})])
    del array_
    assert alive() is None
