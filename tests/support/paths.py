# SPDX-License-Identifier: Apache-2.0
"""fastdl's paths as libraries of the suite (conformance/README.md says what an adapter has): each
way in, through and out, in Python, C, C++ and Cython.

The suite's own adapter of fastdl is the path that users take: from_dlpack, compiled, and
fastdl.empty. `deviations` are what a path does otherwise, and why; `refuses` the checks that leave
it the choice, of which it takes the lesser one; `unasked` those that say nothing of it.
"""

from functools import partial
from types import SimpleNamespace

import ml_dtypes  # NumPy knows bfloat16 from then on
import numpy as np

import fastdl
from dlpack_conformance.adapters import fastdl as of_fastdl
from dlpack_conformance.adapters import numpy as of_numpy
from dlpack_conformance.producers import Tabled
from dlpack_conformance.suite import Failed, Held, NotApplicable
from fastdl._protocol import consumer
from tests.support.every_producer import PRODUCERS, bound, cythonized
from tests.support.headers import ALONE, INSTALLED, owning
from tests.support.producers import Lending, Wrapper, hostile

COMPILED = fastdl.from_dlpack
FUNCTIONS = {"compiled": COMPILED, "Python": consumer.from_dlpack}
VERSION = (1, 3)
#: These take seconds, and see by the memory in use what other tests see by weak references.
GROWTH = {
    *("ownership.released", "ownership.small-exports", "ownership.refused-exports"),
    *("table.allocated-is-released", "threads.release"),
}
#: Of what fastdl.Tensor exports, whichever way in made it: consumer.round-trip runs for each.
EXPORTS = {
    *("producer.values", "ownership.export-keeps-memory", "ownership.deleter-any-thread"),
    *("ownership.destructor-keeps-error", "ownership.exports-are-apart"),
}
#: Half of the time of all checks, so not for ways that differ before or after what threads meet at.
THREADS = {f"threads.{name}" for name in ("export", "import", "one-capsule", "release")}
OPEN = {"hostile.code-unknown": "An element type that is not known yet is described all the same."}


def like(adapter, from_dlpack, **changes):
    """An adapter that takes arrays in another way, and capsules only if it is told how."""
    found = {**vars(adapter), "from_dlpack": from_dlpack, **changes}
    if "from_capsule" not in changes:
        del found["from_capsule"]
    return SimpleNamespace(**found)


def entering(from_dlpack, deviations=(), unasked=(), **changes):
    """What makes the adapter of a way in."""
    changes |= {"deviations": OPEN | dict(deviations), "unasked": (GROWTH | EXPORTS).union(unasked)}
    return lambda: like(of_fastdl, from_dlpack, **changes)


# ---- ways in --------------------------------------------------------------------------------

ASKED_ONCE = dict.fromkeys(
    ("failure.stream-only-producer",),
    "a versioned capsule is asked for, and nothing else",
)
#: Such a path calls the producer itself.
ITS_CALL = {"copy.import-is-passed-on"}
GIVEN = {"copy.import-false-error": "a flagged copy that the caller made is taken as it is"}
OF_CAPSULES = {
    "legacy": ({}, {"versions.asks-for-one": "a legacy capsule is asked for"}),
    "versioned": ({"max_version": VERSION}, ASKED_ONCE | GIVEN),
}


def by_capsule(enter, asked):
    """fastdl sees no more of a producer than its capsule."""
    return lambda x, **keywords: enter(x.__dlpack__(**asked), **keywords)


def by_table(enter, kind):
    """What a producer gave comes from the table of a type without `__dlpack__`."""

    def take(x, **keywords):
        taken = hostile.take(x.__dlpack__(max_version=VERSION))
        if not taken.versioned:
            raise NotApplicable("a table gives versioned tensors only")
        taken.forget()  # it is the caller's of the table
        return enter(kind(taken.address), **keywords)

    return entering(take, ASKED_ONCE, unasked=THREADS | ITS_CALL, takes_tables=False)


def borrowed(api):
    """A view, gone when the call returns: nothing can be read, and nothing is made."""
    return lambda: SimpleNamespace(
        from_dlpack=api.borrow,
        takes_tables=True,
        deviations=OPEN,
        refuses={"consumer.write-is-seen"},
        unasked=THREADS | GROWTH | {"consumer.far"},
    )


def compiled(name):
    """What the module is given and may keep, it returns. fastdl::owned<> is on the host."""
    same = COMPILERS[name]().same
    specified = {"streams.device-is-not-read", "readonly.passes-through"}
    specified |= {"layout.misaligned", "offset.offset"}
    specified |= {"copy.import-of-another"}
    returned = dict.fromkeys(
        ("consumer.values", "consumer.released-once"),
        "the result is of the argument's type, whose table makes none, and owns what it refused",
    )
    more = {} if name == "Cython" else {"refuses": specified, "deviations": returned}
    return entering(lambda x: COMPILED(same(x)), **more)()


def converted(x, **keywords):
    return fastdl.convert(x, fastdl.Tensor, **keywords)


CONVERTS = dict.fromkeys(
    ("failure.any-error-passes", "failure.device-error-passes", "failure.typeerror-is-told"),
    "convert says what it could not convert, in a BufferError with the words of the other",
)
HEADERS = {**ALONE, **INSTALLED}
COMPILERS = {
    "nanobind": lambda: bound("nanobind"),
    "pybind11": lambda: bound("pybind11"),
    "Cython": cythonized,
}

IN = {
    **{name: entering(enter, from_capsule=enter) for name, enter in FUNCTIONS.items()},
    **{
        f"{form} capsule, {name}": entering(
            by_capsule(enter, asked), deviations, unasked=ITS_CALL, takes_tables=False
        )
        for form, (asked, deviations) in OF_CAPSULES.items()
        for name, enter in FUNCTIONS.items()
    },
    **{f"table, {name}": by_table(enter, Tabled) for name, enter in FUNCTIONS.items()},
    **{f"table that lends, {name}": by_table(enter, Lending) for name, enter in FUNCTIONS.items()},
    **{f"header {name}": entering(owning(api)) for name, api in HEADERS.items()},
    **{f"header {name}, table": by_table(owning(api), Tabled) for name, api in HEADERS.items()},
    **{f"header {name}, lent": by_table(owning(api), Lending) for name, api in HEADERS.items()},
    **{f"header {name}, borrowed": borrowed(api) for name, api in HEADERS.items()},
    **{name: partial(compiled, name) for name in COMPILERS},
    "asarray": entering(fastdl.asarray, unasked=THREADS),
    "convert": entering(converted, deviations=CONVERTS, unasked=THREADS),
}


# ---- through NumPy --------------------------------------------------------------------------


def through_numpy():
    return like(
        of_numpy,
        lambda x, **keywords: fastdl.convert(x, np.ndarray, **keywords),
        from_capsule=lambda capsule: fastdl.convert(capsule, np.ndarray),
        to_dlpack=lambda array, **keywords: COMPILED(array).__dlpack__(**keywords),
        exchange_api=lambda: fastdl.exchange_api(np.ndarray),
        takes_tables=True,
        deviations=CONVERTS,
        unasked=GROWTH,
        # NumPy has no memory of devices, and no such size even of nothing; complex32 is only in
        # newer releases of ml_dtypes.
        refuses={
            *("streams.device-is-not-read", "layout.empty-of-any-size", "readonly.passes-through"),
            *("offset.offset", "dtype.import-others"),
            *(() if hasattr(ml_dtypes, "complex32") else ("dtype.import-complex32",)),
        },
    )


# ---- ways out -------------------------------------------------------------------------------


MAKES = {"table.makes-an-array": "only its author could make one: the table makes fastdl.Tensors"}
ALONE_MAKES = dict.fromkeys(
    ("table.makes-an-array", "table.allocates", "table.allocates-without-the-gil"),
    "without the package its table makes nothing",
)
ROOMY = dict.fromkeys(
    ("table.borrows", "table.borrow-owns-nothing"),
    "this author says that shapes are stored, stores none, and is told so",
)
SAID = {
    "fastdl.Tensor": {},
    "from_pointer": {},
    "Python": {"deviations": MAKES},
    "C, with the package": {"deviations": MAKES | ROOMY, "unasked": GROWTH},
    **{name: {"deviations": MAKES, "unasked": GROWTH} for name in COMPILERS},
}


def values_on_the_host(x):
    if x.__dlpack_device__() != (1, 0):
        raise BufferError("values of another device")
    try:
        return Held(x.__dlpack__(max_version=VERSION)).values()
    except Failed as error:  # an element type that the suite does not read
        raise TypeError(str(error)) from None


ALONE_SAID = {"deviations": ALONE_MAKES, "unasked": GROWTH}


def producing(produce, **more):
    """Producers on the memory of NumPy's arrays. NumPy reads them, and has the views of them."""

    def viewing(view):
        return lambda x: produce(view(np.from_dlpack(x)))

    return SimpleNamespace(
        make=lambda values, dtype: produce(np.array(values, dtype)),
        values=values_on_the_host,
        views={name: viewing(view) for name, view in of_numpy.views.items()},
        read_only=viewing(of_numpy.read_only),
        is_read_only=lambda x: of_numpy.is_read_only(np.from_dlpack(x)),
        write=lambda x, value: of_numpy.write(np.from_dlpack(x), value),
        address=lambda x: of_numpy.address(np.from_dlpack(x)),
        refuses={"dtype.import-int4", "dtype.import-lanes"},  # the suite reads neither
        **more,
    )


def of_producer(name):
    if name in COMPILERS:
        COMPILERS[name]().same(np.zeros(1))  # which imports the package
    said = SAID.get(name, ALONE_SAID)
    return producing(PRODUCERS[name](), **{"unasked": GROWTH, **said})


OUT = {
    **{name: partial(of_producer, name) for name in PRODUCERS},
    "plain": lambda: producing(
        lambda array: Wrapper(COMPILED(array)),  # whose table fastdl makes
        exchange_api=lambda: fastdl.exchange_api(Wrapper),
        deviations=MAKES,
        unasked=GROWTH,
    ),
}

PATHS = {
    **{f"in: {name}": make for name, make in IN.items()},
    "through NumPy": through_numpy,
    **{f"out: {name}": make for name, make in OUT.items()},
}
