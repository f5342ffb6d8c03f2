# SPDX-License-Identifier: Apache-2.0
"""Finds the adapter of a library, and says what is wrong with it before any check runs: a fault of
the adapter must not look like one of the library."""

import difflib
import importlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from dlpack_conformance import adapters
from dlpack_conformance.checks.producers import VIEWS
from dlpack_conformance.elements import DTYPES, in_shape, sample
from dlpack_conformance.outcomes import DATA
from dlpack_conformance.suite import Check, Failed, Library, all_checks, told

#: The names of an adapter, by what they are: see Library.
FUNCTIONS = (
    *("make", "from_dlpack", "values", "to_dlpack", "address", "write", "read_only"),
    *("is_read_only", "from_capsule", "exchange_api", "prepare", "conjugated"),
)
MAPPINGS = ("views", "deviations")
OTHERS = ("dtypes", "title", "distribution", "min_ndim", "max_ndim", "forks", "takes_tables")
NAMES = (*FUNCTIONS, *MAPPINGS, *OTHERS)


class WrongAdapter(Exception):
    """What is wrong with it."""


def load(name: str) -> Library:
    """A library by the name of an adapter: an included one, "module", or "module:object".
    WrongAdapter if the adapter cannot be used."""
    module, _, attribute = name.partition(":")
    parts = [*module.split("."), *(attribute.split(".") if ":" in name else ())]
    if not all(part.isidentifier() for part in parts):
        raise WrongAdapter(f"expected the name of one module, or module:object, not {name!r}")
    included = f"{adapters.__name__}.{module.replace('.', '_')}"
    source: Any = importlib.import_module(included if find_spec(included) else module)
    if isinstance(source, ModuleType) and attribute:
        source = getattr(source, attribute)
    if isinstance(source, type):
        source = source()
    refuse(source)
    return Library(source, name)


def refuse(source: Any) -> None:
    """WrongAdapter if nothing could be checked with it, or not what its author means."""
    if not hasattr(source, "make") and not hasattr(source, "from_dlpack"):
        raise WrongAdapter("the adapter has neither make nor from_dlpack: see README.md")
    for name in FUNCTIONS:
        if not callable(getattr(source, name, refuse)):
            raise WrongAdapter(f"{name} of the adapter is not a function")
    for name in MAPPINGS:
        if not isinstance(getattr(source, name, {}), Mapping):
            raise WrongAdapter(f"{name} of the adapter is not a dictionary")
    dtypes = getattr(source, "dtypes", ())
    if isinstance(dtypes, str) or not isinstance(dtypes, Collection):
        raise WrongAdapter(f"dtypes of the adapter is not a list of names: {dtypes!r}")
    if unknown := {*getattr(source, "deviations", {})} - all_checks().keys():
        raise WrongAdapter(f"deviations of checks that do not exist: {sorted(unknown)}")


def doubts(source: Any) -> Iterator[str]:
    """What is probably a mistake, in sentences."""
    own = [name for name in dir(source) if not name.startswith("_")]
    for name in own:
        if name not in NAMES and not isinstance(getattr(source, name), (ModuleType, type)):
            for meant in close(name, NAMES):
                if meant not in own:
                    yield f"the adapter has {name}, which is not used: is {meant} meant?"
    for name, known in (("views", VIEWS), ("dtypes", DTYPES)):
        for one in getattr(source, name, ()):
            if one not in known:
                meant = ", ".join(close(one, known) or known)
                yield f"{name} of the adapter has {one!r}, which is not used: is {meant} meant?"


def close(name: Any, known: Iterable[str]) -> list[str]:
    return difflib.get_close_matches(str(name), [*known], 1, 0.8)


# ---- the trial --------------------------------------------------------------------------------


def trial(lib: Library) -> None:
    """Failed if the adapter cannot make an array that exports, or does not give its values back."""
    if not hasattr(lib.source, "make") or not lib.dtypes:
        return
    dtype = "float32" if "float32" in lib.dtypes else lib.dtypes[0]
    if dtype not in DTYPES:
        return
    rows = in_shape(sample(dtype), lib.shape)
    made = f"make({rows}, {dtype!r})"
    array = of_adapter(made, lambda: lib.make(rows, dtype))
    try:
        lib.either(array)
    except Exception as error:
        raise Failed(
            f"the export of the adapter's {made} raised {told(error)}: leave out `make` if the "
            "library does not export, or write to_dlpack(array, **keywords)"
        ) from error
    if not hasattr(lib.source, "values"):
        return
    found = of_adapter(f"values(array) of {made}", lambda: lib.values(array))
    if other := other_kinds(found):
        raise Failed(
            f"the adapter's values(array) returned {other}: nested lists of numbers are due, "
            "such as tolist() gives"
        )
    if found != rows:
        raise Failed(f"the adapter's values(array) of {made} returned {found}")


def of_adapter(what: str, function: Any) -> Any:
    try:
        return function()
    except Exception as error:
        raise Failed(f"the adapter's {what} raised {told(error)}") from error


def other_kinds(values: Any) -> str:
    """The kind of what is neither a list nor a number; "" if there is nothing else."""
    if isinstance(values, list):
        return next(filter(None, map(other_kinds, values)), "")
    return type(values).__name__ if isinstance(values, Collection) else ""


TRIAL = Check("adapter.works", DATA, "The adapter makes arrays.", "README.md", trial)
