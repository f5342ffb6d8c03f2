# SPDX-License-Identifier: Apache-2.0
"""Producers over hostile managed tensors, and the ways in which a tensor enters fastdl."""

import gc

import pytest

import fastdl
from dlpack_conformance import producers as _producers
from dlpack_conformance.producers import (  # noqa: F401 - for those who import this
    CPU,
    CUDA,
    Owner,
    Tabled,
    changed_table,
    hostile,
    new_table,
)
from dlpack_conformance.structs import managed_at
from fastdl._protocol import consumer as _consumer

OPENCL = (4, 0)
ONEAPI = (14, 0)
FLOAT32 = (2, 32, 1)


class Given(_producers.Given):
    """A managed tensor of the suite, and what is asserted of it."""

    def mutate(self, shape, strides):
        """What some producers do under a live capsule."""
        tensor = managed_at(self.address, self.versioned).tensor
        for field, numbers in ((tensor.shape, shape), (tensor.strides, strides)):
            for i, number in enumerate(numbers):
                field[i] = number

    def assert_alive(self):
        assert (self.deleted, self.destroyed) == (0, 0)
        assert self.owner() is not None

    def assert_released(self, *, by_destructor=False):
        """The deleter ran exactly once, called by the consumer or else by the capsule."""
        if self.owner() is not None:
            gc.collect()  # an inspected exception may hold frames in a cycle
        assert (self.deleted, self.destroyed) == (1, int(by_destructor))
        assert self.owner() is None


class Producer:
    """Implements the protocol of DLPack 1.x for a managed tensor; records the keywords of each
    call.

    `act(self)`, if given, is called instead.
    """

    def __init__(self, managed, device=CPU, act=None, **attributes):
        self.managed = managed
        self.device = device
        self.act = act or (lambda self: self.managed.capsule())
        self.asked = []
        vars(self).update(attributes)

    def answer(self, asked):
        # A tuple: when memory runs out, `append` of CPython 3.15 frees what it is given twice
        # (python/cpython#151818), and making a list without a GIL frees another's items (#152125).
        self.asked += (asked,)
        return self.act(self)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        return self.answer((stream, max_version, dl_device, copy))

    def __dlpack_device__(self):
        return self.device


class OldProducer(Producer):
    """The previous generation: only `stream`."""

    def __dlpack__(self, stream=None):
        return self.answer(stream)


class BareProducer(Producer):
    """No argument at all, like TensorFlow."""

    def __dlpack__(self):
        return self.answer(())


class DraftProducer(Producer):
    """The draft of 2022: an info method, and one more argument."""

    info = 130

    def __dlpack_info__(self):
        return self.info

    def __dlpack__(self, stream=None, version=None):
        return self.answer(version)


class AnyProducer(Producer):
    """Takes every keyword."""

    def __dlpack__(self, **keywords):
        return self.answer(keywords)


class Wrapper:
    """Hands all keywords on to another producer."""

    def __init__(self, inner):
        self.inner = inner

    def __dlpack__(self, **keywords):
        return self.inner.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.inner.__dlpack_device__()


def handing(what):
    """A producer that hands this very object over, a capsule or not."""
    return Producer(None, act=lambda self: what)


def raises(error):
    """What a producer may do instead of an answer."""

    def act(self):
        raise error

    return act


class Lending(Tabled):
    """Has a table with a borrowing slot, and nothing else. It keeps ownership of what it lends."""

    __dlpack_c_exchange_api__ = hostile.table_capsule(new_table(lends=True))


class TabledProducer(Producer):
    """Has a table beside `__dlpack__`, and `mode` as Tabled has."""

    __dlpack_c_exchange_api__ = Tabled.__dlpack_c_exchange_api__
    mode = "give"


class LendingProducer(TabledProducer):
    __dlpack_c_exchange_api__ = Lending.__dlpack_c_exchange_api__


def new(kind, **members):
    """A type like `kind` of which fastdl knows nothing yet."""
    return type(kind.__name__, (kind,), {"__module__": kind.__module__, **members})


class TorchDtype:
    """A dtype of torch, as far as fastdl asks it: by its name."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return self.name


class Nulls:
    """The storage of an array of PyArrow's tensors, as far as fastdl asks it."""

    def __init__(self, null_count):
        self.null_count = null_count

    def flatten(self):
        return self


def tensors_of_pyarrow(kind):
    """A type like `kind`, named as PyArrow's array of tensors."""
    return type("FixedShapeTensorArray", (kind,), {"__module__": "pyarrow.lib"})


for _kind in (Producer, OldProducer, BareProducer, DraftProducer):
    fastdl.from_dlpack(_kind(Given()))  # described, and known from now on

# Both states of a type: `kind = of_type(Producer)`.
types = pytest.mark.parametrize("of_type", [new, lambda kind: kind], ids=["new", "known"])
entries = pytest.mark.parametrize(
    "enter", [fastdl.from_dlpack, _consumer.from_dlpack], ids=["compiled", "python"]
)


def _protocol(enter, of_type, kind=Producer):
    return lambda managed: enter(of_type(kind)(managed))


#: The kinds that differ in what they speak, by name.
KINDS = {
    "producer": Producer,
    "old producer": OldProducer,
    "bare producer": BareProducer,
    "draft": DraftProducer,
    "table": Tabled,
    "table that lends": Lending,
}


# Every way in: name -> function of a Given that returns the Tensor.
_BY_CAPSULE = {
    "capsule": lambda managed: fastdl.from_dlpack(managed.capsule()),
    "capsule, python": lambda managed: _consumer.from_dlpack(managed.capsule()),
    "address": lambda managed: fastdl.from_managed(
        managed.address, versioned=bool(managed.versioned)
    ),
    "protocol": _protocol(fastdl.from_dlpack, new),
    "protocol, python": _protocol(_consumer.from_dlpack, new),
    "protocol, known": _protocol(fastdl.from_dlpack, lambda kind: kind),
    "old protocol": _protocol(fastdl.from_dlpack, new, OldProducer),
    "old protocol, known": _protocol(fastdl.from_dlpack, lambda kind: kind, OldProducer),
}
_BY_TABLE = {
    "table": lambda managed: fastdl.from_dlpack(Tabled(managed)),
    "table, python": lambda managed: _consumer.from_dlpack(Tabled(managed)),
}


class Way:
    """One way into fastdl, and the form of managed tensor that travels it."""

    def __init__(self, name, bring, versioned):
        self.name = name
        self.bring = bring
        self.versioned = versioned

    def given(self, **fields):
        return Given(versioned=self.versioned, **fields)

    def __repr__(self):
        return f"{self.name}, {'versioned' if self.versioned else 'legacy'}"


WAYS = [
    *(Way(name, bring, versioned) for name, bring in _BY_CAPSULE.items() for versioned in (1, 0)),
    *(Way(name, bring, True) for name, bring in _BY_TABLE.items()),
]
VERSIONED_WAYS = [way for way in WAYS if way.versioned]
BY_NAME = {repr(way): way for way in WAYS}

every_way = pytest.mark.parametrize("way", WAYS, ids=repr)
every_versioned_way = pytest.mark.parametrize("way", VERSIONED_WAYS, ids=repr)


def assert_refused(way, error, match, **fields):
    """`way` refuses a tensor of these fields with exactly `error`, and gives it back once."""
    given = way.given(**fields)
    with pytest.raises(error, match=match) as caught:
        way.bring(given)
    assert caught.type is error
    assert given.destroyed == 0
    del caught
    given.assert_released()


def assert_accepted(way, check, **fields):
    """`way` accepts a tensor of these fields, `check` holds for it, and it is given back once."""
    given = way.given(**fields)
    tensor = way.bring(given)
    given.assert_alive()
    check(tensor)
    given.assert_alive()
    del tensor
    given.assert_released()
