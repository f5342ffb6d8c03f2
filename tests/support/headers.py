# SPDX-License-Identifier: Apache-2.0
"""tests/capi/header.c, compiled in the ways and used in the worlds that users of fastdl.h have."""

import sysconfig

import pytest

import fastdl
from fastdl._protocol import consumer
from tests.support.build import CPLUSPLUS, extension

LIMITED = "-DPy_LIMITED_API=0x030a0000"
if sysconfig.get_config_var("Py_GIL_DISABLED"):  # CPython has no limited API there
    LIMITED = "-DNOT_LIMITED"


def load(name, *flags, installed, source="header"):
    """A module of its own, of tests/capi/SOURCE.c. Unless `installed` it never calls fastdl_import,
    so that fastdl might as well not be there."""
    api = extension(source, f"{source}_{name}", *flags)
    if installed:
        api.import_runtime()
    return api


ALONE = {
    "alone": load("alone", installed=False),
    "alone, limited API, C++": load("alone_limited", *CPLUSPLUS, LIMITED, installed=False),
}
INSTALLED = {
    "installed": load("installed", installed=True),
    "installed, limited API, C++": load("limited", *CPLUSPLUS, LIMITED, installed=True),
}


def worlds(apis):
    return pytest.mark.parametrize("api", apis.values(), ids=apis)


every_world = worlds({**ALONE, **INSTALLED})
alone = worlds(ALONE)
installed = worlds(INSTALLED)


def owning(api):
    """A way in like from_dlpack, by fastdl_own of a header."""
    return lambda x: fastdl.from_dlpack(api.own(x))


# Whoever speaks to a producer: the functions of the package, and the header in each world.
ENTRIES = {
    "compiled": fastdl.from_dlpack,
    "python": consumer.from_dlpack,
    **{f"header, {name}": owning(api) for name, api in {**ALONE, **INSTALLED}.items()},
}
every_entry = pytest.mark.parametrize("enter", ENTRIES.values(), ids=ENTRIES)
#: Those that negotiate in Python, which knows the draft of 2022.
DRAFTING = {name: enter for name, enter in ENTRIES.items() if "alone" not in name}
every_drafting_entry = pytest.mark.parametrize("enter", DRAFTING.values(), ids=DRAFTING)
