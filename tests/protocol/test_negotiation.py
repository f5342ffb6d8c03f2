# SPDX-License-Identifier: Apache-2.0
"""How a producer is asked: the three generations of the protocol, and what is remembered."""

import pytest

import fastdl
from tests.support.ctypes_dlpack import CUDA, capsule_of
from tests.support.producers import DraftProducer, Given, Wrapper
from tests.support.recorder import new_type

# What DLPack itself calls the refusal of a keyword, library by library. {} is the keyword.
WORDINGS = {
    "def": "Array.__dlpack__() got an unexpected keyword argument '{}'",
    "def of an inner class": "f.<locals>.A.__dlpack__() got an unexpected keyword argument '{}'",
    "Cython": "__dlpack__() got an unexpected keyword argument '{}'",
    "METH_NOARGS": "Array.__dlpack__() takes no keyword arguments",
    "METH_VARARGS": "__dlpack__() takes no keyword arguments",
    "Argument Clinic": "__dlpack__() got an unexpected keyword argument '{}'",
    "Argument Clinic before 3.13": "'{}' is an invalid keyword argument for __dlpack__()",
    "PyArg_ParseTupleAndKeywords": "'{}' is an invalid keyword argument for this function",
    "PyArg_ParseTupleAndKeywords 3.13": "this function got an unexpected keyword argument '{}'",
    "PyArg_ParseTupleAndKeywords, many": "__dlpack__() takes at most 1 keyword argument (2 given)",
    "PyArg_ParseTupleAndKeywords, no name": "function takes at most 1 keyword argument (2 given)",
    "pybind11": "__dlpack__(): incompatible function arguments. The following argument types are "
    "supported:\n    1. (self: m.Array, stream: object = None) -> capsule\n\nInvoked with: "
    "<m.Array object at 0x7f>; kwargs: {}=(1, 3)",
    "nanobind": "__dlpack__(): incompatible function arguments. The following argument types are "
    "supported:\n    1. __dlpack__(self, stream: object | None = None) -> types.CapsuleType\n\n"
    "Invoked with types: m.Array, kwargs = {{ {}: tuple }}",
}


# ---- keyword fallback -----------------------------------------------------------------------


@pytest.mark.parametrize("wording", WORDINGS.values(), ids=WORDINGS)
def test_a_keyword_that_is_refused_is_left_out(wording):
    def asked(takes, device=(1, 0), **keywords):
        def export(self, **_):
            return capsule_of((3,), device=device)

        producer = new_type(takes=takes, wording=wording, export=export)(device=device)
        assert fastdl.from_dlpack(producer, **keywords).device == device
        return producer.calls

    newest, copy = {"max_version": (1, 3)}, {"copy": False}
    assert asked(("stream",)) == [newest, {}]
    # The last one shows whether it has copied.
    assert asked(("stream", "max_version"), **copy) == [newest | copy, newest, newest]
    assert asked((), **copy)[-1] == {}
    # The default stream is what a producer assumes when it is not told.
    assert asked((), (CUDA, 0)) == [newest | {"stream": 1}, {"stream": 1}, {}]


@pytest.mark.parametrize(
    ("takes", "asked", "keyword", "words"),
    [
        *(((), {"stream": n}, "stream", "does not accept a stream") for n in (-1, 2, 4096)),
        (("stream", "max_version"), {"device": "cpu"}, "dl_device", "cannot be copied to cpu:0"),
        (("stream", "max_version"), {"copy": True}, "copy", "on cuda:0 cannot be copied to cuda:0"),
    ],
)
def test_a_keyword_that_matters_is_not_dropped(takes, asked, keyword, words):
    producer = new_type(takes=takes)(device=(CUDA, 0))
    with pytest.raises(BufferError, match=words):
        fastdl.from_dlpack(producer, **asked)
    assert all(keyword in call for call in producer.calls)


@pytest.mark.parametrize(
    "error", [BufferError, RuntimeError, AssertionError, ValueError], ids=lambda cls: cls.__name__
)
def test_a_device_that_neither_has(error):
    """What fastdl lacks is the reason; the producer's own words are the cause."""

    def refuse(self, **keywords):
        raise error("unsupported device requested")

    producer = new_type(export=refuse)()
    with pytest.raises(
        BufferError, match="on cpu:0 cannot be copied to cuda:0.*to ordinary host memory only"
    ) as caught:
        fastdl.from_dlpack(producer, device="cuda")
    assert type(caught.value.__cause__) is error
    assert str(caught.value.__cause__) == "unsupported device requested"


@pytest.mark.parametrize("enter", [fastdl.from_dlpack, fastdl.asarray])
def test_a_draft_whose_signature_takes_every_keyword(enter):
    """That it does not know `max_version` shows in the call."""
    kind = type("Draft", (Wrapper,), {"__dlpack_info__": lambda self: 130})
    for _ in range(2):
        inner = DraftProducer(Given(flags=1))
        assert enter(kind(inner)).readonly
        assert inner.asked == [130]


def test_a_wrong_delivery_is_no_refusal():
    """The producer took the device, so what it delivered is at fault."""
    producer = new_type(export=lambda self, **keywords: capsule_of((-1,)))()
    with pytest.raises(BufferError, match="negative dimension"):
        fastdl.from_dlpack(producer, device="cuda")


def test_a_real_c_builtin():
    class Builtin:
        __dlpack__ = len  # METH_O: "len() takes no keyword arguments"

        def __dlpack_device__(self):
            return (1, 0)

    with pytest.raises(TypeError):
        fastdl.from_dlpack(Builtin())


# ---- errors that are not refusals -----------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "unsupported operand type(s) for +: 'int' and 'str'",
        "helper() got an unexpected keyword argument 'max_version'",
        "Other.export() got an unexpected keyword argument 'copy'",
        "my_function() got an unexpected keyword argument 'max_version'",
        "some_method() got an unexpected keyword argument 'x'",
        "'flag' is an invalid keyword argument for sort()",
        "Array.__dlpack__() cannot export a float8 array",
        "__dlpack__ is not supported on this device",
        "Array.__dlpack_device__() got an unexpected keyword argument 'x'",
        "Array.__dlpack__() got an unexpected keyword argument 'color'",
        "",
    ],
)
@pytest.mark.parametrize("copy", [None, False])
def test_a_type_error_from_inside_propagates(text, copy):
    error = TypeError(text)

    def fail(self, **keywords):
        raise error

    producer = new_type(export=fail)()
    for times in (1, 2):
        with pytest.raises(TypeError) as caught:
            fastdl.from_dlpack(producer, copy=copy)
        assert caught.value is error
        assert len(producer.calls) == times


def test_a_refused_copy_is_asked_again():
    # Whether copy=False is taken matters each time: a new release may start to copy.
    cls = new_type(takes=("stream", "max_version"))
    fastdl.from_dlpack(cls(), copy=False)
    producer = cls()
    fastdl.from_dlpack(producer, copy=False)
    assert {"max_version": (1, 3), "copy": False} in producer.calls


# ---- the draft of 2022 ----------------------------------------------------------------------


def test_max_version_is_preferred_to_the_draft():
    producer = new_type(__dlpack_info__=lambda self: 1 / 0)()
    fastdl.from_dlpack(producer)
    assert producer.calls == [{"max_version": (1, 3)}]


def test_a_draft_that_takes_no_version_after_all():
    producer = new_type(takes=("stream",), __dlpack_info__=lambda self: 130)()
    assert fastdl.from_dlpack(producer).shape == (3,)
    assert producer.calls[-1] == {}
