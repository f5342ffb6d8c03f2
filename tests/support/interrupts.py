# SPDX-License-Identifier: Apache-2.0
"""Delivers an interrupt at every point of an operation where Python code runs for it: of fastdl, of
a producer, of a table that asks its object."""

import gc
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))


class Interrupt(BaseException):
    """What nobody but the sweep may catch: like KeyboardInterrupt no Exception."""


class Tracer:
    """Raises `interrupt` at the k-th event of the frames that it traces: calls, lines, returns
    and exceptions."""

    def __init__(self, k: int, interrupt: Interrupt):
        self.left, self.interrupt, self.point = k, interrupt, None

    def __call__(self, frame, event, argument):
        name = frame.f_code.co_filename
        if "fastdl" not in name and not name.startswith(ROOT):
            return None  # another library may do with an interrupt what it likes
        self.left -= 1
        if self.left == 0:
            self.point = f"{event} in {frame.f_code.co_name}, {name}:{frame.f_lineno}"
            sys.settrace(None)
            raise self.interrupt
        return self


def interrupted(k: int, prepare: Callable, operate: Callable):
    """operate(prepare()), interrupted at its k-th point: where that was, None if there is none.
    AssertionError if the interrupt did not come out of the operation."""
    argument, error, interrupt = prepare(), None, Interrupt()
    tracer = Tracer(k, interrupt)
    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        operate(argument)
    except BaseException as caught:
        error = caught
    finally:
        sys.settrace(before)
    if tracer.point is None:
        if error is not None and not isinstance(error, Exception):
            raise error
        return None
    assert error is interrupt, f"point {k}, {tracer.point}: became {error!r}"
    error.__traceback__ = None
    return tracer.point


def outcome(prepare: Callable, operate: Callable):
    """What the operation does uninterrupted: the type of its result, or of its exception."""
    argument = prepare()
    try:
        return type(operate(argument))
    except Exception as error:
        return type(error)


def sweep(prepare: Callable, operate: Callable) -> int:
    """Interrupts an operation at each of its points in turn; returns how many there are. Every
    interrupt comes out unchanged, is reported by nobody else, and leaves the operation as it was.

    In a thread of its own: after a trace function has raised in an `except` clause, CPython 3.11
    and newer count the exception there as one that is being handled, as long as the thread lives.
    """
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(_sweep, prepare, operate).result()


def _sweep(prepare: Callable, operate: Callable) -> int:
    reports = []
    hook, sys.unraisablehook = sys.unraisablehook, reports.append
    # A collection in the middle may run a finalizer of other tests, which swallows the interrupt.
    gc.collect()
    gc.disable()
    try:
        expected = outcome(prepare, operate)  # imports and caches, too
        assert outcome(prepare, operate) == expected
        k = 1
        while interrupted(k, prepare, operate) is not None:
            k += 1
        gc.collect()
        assert outcome(prepare, operate) == expected
    finally:
        gc.enable()
        sys.unraisablehook = hook
    assert [report.exc_type for report in reports] == []
    return k - 1


# ---- objects that run Python when they are asked -----------------------------------------------


class Meta(type):
    """A metaclass whose attributes are looked up in Python."""

    def __getattribute__(cls, name):
        return super().__getattribute__(name)


class Descriptor:
    def __init__(self, value):
        self.value = value

    def __get__(self, instance, owner):
        return self.value


def chatty(kind):
    """A type like `kind` of which fastdl knows nothing yet and which runs Python at each look."""

    def __getattribute__(self, name):
        return super(made, self).__getattribute__(name)

    attributes = {"__getattribute__": __getattribute__, "__module__": kind.__module__}
    table = vars(kind).get("__dlpack_c_exchange_api__")
    if table is not None:
        attributes["__dlpack_c_exchange_api__"] = Descriptor(table)
    made = Meta("Chatty", (kind,), attributes)
    return made


class Index:
    def __init__(self, value):
        self.number = value

    def __index__(self):
        return self.number
