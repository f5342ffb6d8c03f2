"""How a producer is asked: the three generations of the protocol, and what is remembered."""

import types

import pytest

import fastdl
from tests.support.ctypes_dlpack import CUDA, capsule_of, name_of
from tests.support.fresh import in_fresh_process
from tests.support.recorder import Recorder, array_of, new_type

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


# ---- generations ----------------------------------------------------------------------------


def test_the_newest_generation():
    producer = new_type()()
    tensor = fastdl.from_dlpack(producer)
    assert producer.calls == [{"max_version": (1, 3)}]
    assert tensor.data_ptr == producer.array.ctypes.data
    assert not tensor.readonly


def test_the_newest_generation_says_read_only():
    array = array_of()
    array.flags.writeable = False
    assert fastdl.from_dlpack(new_type()(array)).readonly


def test_the_oldest_generation():
    class Old:
        calls = 0

        def __init__(self):
            self.array = array_of()

        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, stream=None):
            assert stream is None
            Old.calls += 1
            return self.array.__dlpack__()

    producer = Old()
    tensor = fastdl.from_dlpack(producer)
    assert tensor.tolist() == [0.0, 1.0, 2.0]
    assert not tensor.readonly  # the legacy form cannot say so; NumPy refuses instead
    assert fastdl.from_dlpack(producer).tolist() == [0.0, 1.0, 2.0]
    assert Old.calls == 2


def test_a_producer_without_parameters():
    class Bare:
        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self):
            return array_of().__dlpack__()

    assert fastdl.from_dlpack(Bare()).shape == (3,)


@pytest.mark.parametrize(
    "signature", ["self, *, stream=None", "self, /, stream=None", "self, stream=None, **_"]
)
def test_signatures_in_the_field(signature):
    space = {"array_of": array_of}
    exec(f"def __dlpack__({signature}): return array_of().__dlpack__()", space)
    members = {"__dlpack__": space["__dlpack__"], "__dlpack_device__": lambda self: (1, 0)}
    assert fastdl.from_dlpack(type("Array", (), members)()).shape == (3,)


# ---- keyword fallback -----------------------------------------------------------------------


@pytest.mark.parametrize("wording", WORDINGS)
def test_max_version_refused(wording):
    producer = new_type(takes=("stream",), wording=WORDINGS[wording])()
    assert fastdl.from_dlpack(producer).shape == (3,)
    assert producer.calls == [{"max_version": (1, 3)}, {}]


@pytest.mark.parametrize("wording", WORDINGS)
def test_copy_refused(wording):
    producer = new_type(takes=("stream", "max_version"), wording=WORDINGS[wording])()
    assert fastdl.from_dlpack(producer, copy=False).shape == (3,)
    # The last one shows whether it has copied.
    asked = {"max_version": (1, 3)}
    assert producer.calls == [{**asked, "copy": False}, asked, asked]


@pytest.mark.parametrize("wording", WORDINGS)
def test_everything_refused(wording):
    producer = new_type(takes=(), wording=WORDINGS[wording])()
    assert fastdl.from_dlpack(producer, copy=False).shape == (3,)
    assert producer.calls[-1] == {}


@pytest.mark.parametrize("wording", WORDINGS)
def test_stream_refused(wording):
    # The default stream is what a producer assumes when it is not told.
    producer = new_type(
        takes=(), wording=WORDINGS[wording], export=lambda self: capsule_of((1,), device=(CUDA, 0))
    )(device=(CUDA, 0))
    assert fastdl.from_dlpack(producer).device == (CUDA, 0)
    assert producer.calls == [{"max_version": (1, 3), "stream": 1}, {"stream": 1}, {}]


@pytest.mark.parametrize("stream", [-1, 2, 4096])
def test_a_stream_that_matters_is_not_dropped(stream):
    producer = new_type(takes=())(device=(CUDA, 0))
    with pytest.raises(BufferError, match="does not take a stream"):
        fastdl.from_dlpack(producer, stream=stream)
    assert all("stream" in call for call in producer.calls)


@pytest.mark.parametrize(
    "error", [BufferError, RuntimeError, AssertionError, ValueError], ids=lambda cls: cls.__name__
)
def test_a_device_that_neither_has(error):
    """What fastdl lacks is the reason; the producer's own words are the cause."""

    def refuse(self, **keywords):
        raise error("unsupported device requested")

    producer = new_type(export=refuse)()
    with pytest.raises(
        BufferError, match="on cpu:0 cannot be copied to cuda:0.*no CUDA driver"
    ) as caught:
        fastdl.from_dlpack(producer, device="cuda")
    assert type(caught.value.__cause__) is error
    assert str(caught.value.__cause__) == "unsupported device requested"


def test_a_device_that_neither_numpy_nor_fastdl_has():
    with pytest.raises(BufferError, match="'numpy.ndarray' on cpu:0 cannot .*no CUDA driver"):
        fastdl.from_dlpack(array_of(), device="cuda")


def test_a_wrong_delivery_is_no_refusal():
    """The producer took the device, so what it delivered is at fault."""
    producer = new_type(export=lambda self, **keywords: capsule_of((-1,)))()
    with pytest.raises(BufferError, match="negative dimension"):
        fastdl.from_dlpack(producer, device="cuda")


def test_dl_device_is_not_dropped():
    producer = new_type(takes=("stream", "max_version"))(device=(CUDA, 0))
    with pytest.raises(BufferError, match="cannot be copied to cpu:0"):
        fastdl.from_dlpack(producer, device="cpu")
    assert all("dl_device" in call for call in producer.calls)


def test_copy_true_is_not_dropped_on_devices():
    producer = new_type(takes=("stream", "max_version"))(device=(CUDA, 0))
    with pytest.raises(BufferError, match="on cuda:0 cannot be copied to cuda:0"):
        fastdl.from_dlpack(producer, copy=True)
    assert all("copy" in call for call in producer.calls)


def test_a_real_c_builtin():
    class Builtin:
        __dlpack__ = len  # METH_O: "len() takes no keyword arguments"

        def __dlpack_device__(self):
            return (1, 0)

    with pytest.raises(TypeError):
        fastdl.from_dlpack(Builtin())


def test_a_proxy_that_forwards_keywords():
    class Inner:
        def __init__(self):
            self.array = array_of()

        def __dlpack__(self, stream=None):
            return self.array.__dlpack__()

        def __dlpack_device__(self):
            return (1, 0)

    class Proxy:
        def __init__(self, inner):
            self.inner = inner

        def __dlpack__(self, **keywords):
            return self.inner.__dlpack__(**keywords)

        def __dlpack_device__(self):
            return self.inner.__dlpack_device__()

    assert fastdl.from_dlpack(Proxy(Inner())).shape == (3,)


def test_a_method_under_another_name():
    # Python names the function as it was defined, not as it was found.
    class Array:
        def _export(self, stream=None):
            return array_of().__dlpack__()

        __dlpack__ = _export

        def __dlpack_device__(self):
            return (1, 0)

    assert fastdl.from_dlpack(Array()).shape == (3,)


def test_a_lambda():
    members = {
        "__dlpack__": lambda self, stream=None: array_of().__dlpack__(),
        "__dlpack_device__": lambda self: (1, 0),
    }
    assert fastdl.from_dlpack(type("Array", (), members)()).shape == (3,)


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


@in_fresh_process
def test_a_type_error_after_learning_propagates():
    producer = new_type()()
    fastdl.from_dlpack(producer)
    producer.calls.clear()
    error = TypeError("can only concatenate str")
    producer.export = types.MethodType(lambda self, **_: (_ for _ in ()).throw(error), producer)
    with pytest.raises(TypeError) as caught:
        fastdl.from_dlpack(producer)
    assert caught.value is error
    assert len(producer.calls) == 1


@pytest.mark.parametrize(
    "kind",
    [BufferError, RuntimeError, ValueError, KeyError, NotImplementedError, KeyboardInterrupt],
)
def test_other_errors_propagate_unchanged(kind):
    error = kind("mine")

    def fail(self, **keywords):
        raise error

    producer = new_type(export=fail)()
    with pytest.raises(kind) as caught:
        fastdl.from_dlpack(producer)
    assert caught.value is error
    assert len(producer.calls) == 1


def test_errors_of_dlpack_device_propagate():
    def fail(self):
        raise BufferError("on two devices")

    producer = new_type(__dlpack_device__=fail)()
    with pytest.raises(BufferError, match="on two devices"):
        fastdl.from_dlpack(producer)
    assert producer.calls == []


# ---- memory ---------------------------------------------------------------------------------


def test_what_an_object_refuses_is_found_out_each_time():
    """Unless its method has a signature: another object of the type may take more."""
    cls = new_type(takes=("stream",))
    for _ in range(2):
        producer = cls()
        fastdl.from_dlpack(producer)
        assert producer.calls == [{"max_version": (1, 3)}, {}]
    second = cls()
    second.takes = Recorder.takes
    fastdl.from_dlpack(second)
    assert second.calls == [{"max_version": (1, 3)}]


def test_a_type_that_takes_less_after_a_while():
    cls = new_type()
    fastdl.from_dlpack(cls())
    cls.takes = ("stream",)
    for _ in range(2):
        producer = cls()
        assert fastdl.from_dlpack(producer).shape == (3,)
        assert producer.calls[-1] == {}


@in_fresh_process
def test_a_type_whose_method_is_replaced_after_it_was_learned():
    cls = new_type()
    producer = cls()
    fastdl.from_dlpack(producer)
    cls.__dlpack__ = lambda self, **_: capsule_of((7,), data=bytearray(28))
    assert fastdl.from_dlpack(producer).shape == (7,)


@pytest.mark.parametrize("gone", [None, "deleted"])
@in_fresh_process
def test_a_type_that_opts_out_after_it_was_learned(gone):
    class Array:
        def __dlpack__(self, **_):
            return array_of().__dlpack__()

        def __dlpack_device__(self):
            return (1, 0)

    producer = Array()
    fastdl.from_dlpack(producer)
    if gone is None:
        Array.__dlpack__ = None
    else:
        del Array.__dlpack__
    with pytest.raises(TypeError, match="expected a DLPack producer"):
        fastdl.from_dlpack(producer)


def test_a_refused_copy_is_asked_again():
    # Whether copy=False is taken matters each time: a new release may start to copy.
    cls = new_type(takes=("stream", "max_version"))
    fastdl.from_dlpack(cls(), copy=False)
    producer = cls()
    fastdl.from_dlpack(producer, copy=False)
    assert {"max_version": (1, 3), "copy": False} in producer.calls


# ---- the draft of 2022 ----------------------------------------------------------------------


class Draft:
    """A producer of the draft: `version` and `__dlpack_info__`."""

    info = 130

    def __init__(self):
        self.array = array_of()
        self.calls = []

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack_info__(self):
        return self.info

    def __dlpack__(self, stream=None, version=None):
        self.calls.append(version)
        return self.array.__dlpack__(max_version=(1, 0) if version and version >= 100 else None)


VERSIONS_ASKED = {
    60: 60, 65: 60, 70: 60, 80: 60, 99: 60, 100: 100, 110: 110, 130: 130, 131: 130, 140: 130,
    200: 130, 10**6: 130,
}  # fmt: skip


@in_fresh_process
def test_version_asked_of_the_draft():
    for info, asked in VERSIONS_ASKED.items():
        producer = type("Array", (Draft,), {"info": info})()
        for _ in range(2):  # the second call asks directly
            producer.calls.clear()
            assert fastdl.from_dlpack(producer).tolist() == [0.0, 1.0, 2.0]
            assert producer.calls == [asked]


@pytest.mark.parametrize("info", [0, 10, 59, -1])
def test_drafts_that_are_too_old(info):
    producer = type("Array", (Draft,), {"info": info})()
    with pytest.raises(BufferError, match="no version in common"):
        fastdl.from_dlpack(producer)
    assert producer.calls == []


@pytest.mark.parametrize("info", [None, "130", 1.3, (1, 3), {"version": 130}, True])
def test_drafts_with_other_answers(info):
    with pytest.raises(TypeError, match="expected an int from __dlpack_info__"):
        fastdl.from_dlpack(type("Array", (Draft,), {"info": info})())


@pytest.mark.parametrize("info", [100, 130])
@in_fresh_process
def test_an_old_name_for_a_new_layout_is_dropped_unconsumed(info):
    capsules = []

    class Array(Draft):
        def __dlpack__(self, stream=None, version=None):
            self.calls.append(version)
            capsules.append(self.array.__dlpack__())  # "dltensor", whatever was asked
            return capsules[-1]

    Array.info = info
    producer = Array()
    assert fastdl.from_dlpack(producer).shape == (3,)
    assert producer.calls == [info, 60]
    assert [name_of(capsule) for capsule in capsules] == ["dltensor", "used_dltensor"]
    producer.calls.clear()
    fastdl.from_dlpack(producer)
    assert producer.calls == [info, 60]  # another object may answer otherwise


@in_fresh_process
def test_an_old_name_for_a_new_layout_after_learning():
    producer = type("Array", (Draft,), {})()
    fastdl.from_dlpack(producer)
    legacy = array_of().__dlpack__()
    type(producer).__dlpack__ = lambda self, stream=None, version=None: (
        legacy if version >= 100 else self.array.__dlpack__()
    )
    assert fastdl.from_dlpack(producer).tolist() == [0.0, 1.0, 2.0]
    assert name_of(legacy) == "dltensor"


def test_max_version_is_preferred_to_the_draft():
    producer = new_type(__dlpack_info__=lambda self: 1 / 0)()
    fastdl.from_dlpack(producer)
    assert producer.calls == [{"max_version": (1, 3)}]


def test_a_draft_that_takes_no_version_after_all():
    producer = new_type(takes=("stream",), __dlpack_info__=lambda self: 130)()
    assert fastdl.from_dlpack(producer).shape == (3,)
    assert producer.calls[-1] == {}
