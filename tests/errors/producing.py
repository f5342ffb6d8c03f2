"""A type that fastdl_publish made a producer: tests/capi/producer.c."""

import sys
from unittest import mock

import numpy as np

import fastdl
from tests.errors.row import Group, Row
from tests.support import headers
from tests.support.c_producers import ALONE, given

X = np.ones((2, 3), "float32")
FROZEN = np.frombuffer(b"abcd", "float32")
CPP = "tests/test_cpp_producers.py"


def asking(x=X, kind=ALONE.Lending, *, device=(1, 0), before=None, silent=False, **keywords):
    """A call of `__dlpack__`, as a consumer makes it."""
    x = given(kind, x, device=device, before=before, silent=silent)
    return lambda: x.__dlpack__(**keywords)


def wrapped():
    """By the table of the type; fastdl_wrap of its own module ends there, too."""
    api = headers.ALONE["alone"]
    api.wrap(api.own(X), ALONE.Lending)


def without_package(act):
    def do():
        with mock.patch.dict(sys.modules, {"fastdl": None}):
            act()

    return do


def publishing(kind, api=ALONE, name="spare"):
    return lambda: api.publish(kind, name)


def published():
    kind = ALONE.new_type(False)
    ALONE.publish(kind, "spare")
    return kind


GROUP = Group(
    "Making a type a producer",
    "What `fastdl_publish`, and the types that it made producers, raise: "
    "[Make your type a producer](make-a-producer.md). Of such a type the messages of other "
    "sections come from its own `__dlpack__`, too.",
    [
        Row(
            publishing(published(), name="exporting"),
            TypeError,
            "'…' has … already: publish one producer in a type, and define nothing of the "
            "protocol in it yourself",
            "Remove what the class has of `__dlpack__`, or publish a subclass.",
        ),
        Row(
            "tests/test_c_producer.py: is immutable, and the limited API",
            TypeError,
            "'…' is immutable, and the limited API cannot add __dlpack__ to such a type: make it "
            "without Py_TPFLAGS_IMMUTABLETYPE, or compile fastdl.c without Py_LIMITED_API",
            "Either; what the full API adds is in the dictionary of the type.",
        ),
        Row(
            publishing(int),
            TypeError,
            "expected a type of your own to publish, got '…', which is Python's",
            "Publish a subclass of your own.",
        ),
        Row(
            lambda: fastdl.producer(int),
            TypeError,
            "expected the name of an attribute, as in @fastdl.producer('data'), got …",
            "The decorator is called with the name.",
        ),
        Row(
            lambda: fastdl.producer("data")(5),
            TypeError,
            "expected a class to make a producer, got …",
            "Decorate a class.",
        ),
        Row(
            lambda: fastdl.producer("data")(type("A", (), {"__dlpack__": None})),
            TypeError,
            "… has … already: remove it, or decorate a subclass",
            "Either.",
        ),
        Row(
            asking(before=lambda x: None, silent=True),
            BufferError,
            "the function that describes '…' failed without giving a reason",
            "The function has to set an exception when it returns -1.",
        ),
        Row(
            f"{CPP}: expected an object that was initialised",
            TypeError,
            "expected an object that was initialised",
            "Call `__init__` of the base class in that of the subclass.",
        ),
        Row(
            lambda: ALONE.lend(given(ALONE.Lending, FROZEN)),
            BufferError,
            "a tensor of '…' is read-only or padded, which a borrowed DLTensor cannot express: "
            "call __dlpack__(max_version=(1, 0))",
            "As it says; fastdl does so itself.",
        ),
        Row(
            lambda: ALONE.lend(given(ALONE.Roomy, X)),
            BufferError,
            "'…' does not store shape and strides to be lent: its author has to store them, or "
            "to publish it without FASTDL_LENDS",
            "Either.",
        ),
        Row(
            (lambda: ALONE.make(ALONE.Lending), wrapped),
            TypeError,
            "results of a producer's type are fastdl.Tensors, which its module can make only after "
            "fastdl_import(): install or upgrade fastdlpack, and call fastdl_import() in that "
            "module",
            "The module that published the type is meant.",
        ),
        Row(
            lambda: given(ALONE.Lending, X).__dlpack__(None),
            TypeError,
            "__dlpack__() takes no positional arguments, got …",
            "Pass keywords.",
        ),
        Row(
            asking(device_id=1),
            TypeError,
            "__dlpack__() got an unexpected keyword argument '…'",
            "The keywords are `stream`, `max_version`, `dl_device`, `copy` and `version`.",
        ),
        Row(
            asking(version="1"),
            TypeError,
            "expected an int in version, got …",
            "Pass 100 * major + 10 * minor.",
        ),
        Row(
            asking(dl_device=(1, None)),
            TypeError,
            "expected ints in dl_device, got …",
            "Pass what `__dlpack_device__` of an array returns.",
        ),
        Row(
            asking(dl_device=(1, 1)),
            BufferError,
            "cannot export to dl_device …: expected the one CPU, 'cpu' or (1, 0)",
            "There is one CPU.",
        ),
        Row(
            asking(dl_device=(0, 0)),
            BufferError,
            "cannot export to dl_device …: there is no such device",
            "The first number is a DLDeviceType, from 1 on.",
        ),
        Row(
            asking(kind=ALONE.Roomy, device=(2, 0), stream=1),
            BufferError,
            "the producer cannot tell its stream",
            "The function that gives the stream failed without an exception.",
        ),
        Row(
            without_package(asking(device=(2, 0), stream=4096)),
            BufferError,
            "a tensor on … is ready only on its producer's stream, and nothing here orders "
            "streams or copies there: import fastdl first (pip install fastdlpack), which does, "
            "or pass stream=-1 and order the work yourself",
            "Either.",
        ),
        Row(
            without_package(asking(dl_device=(2, 0))),
            BufferError,
            "a tensor on … cannot be copied to … by its producer: import fastdl first (pip "
            "install fastdlpack), or ask for the data where it is",
            "Either.",
        ),
    ],
)
