# SPDX-License-Identifier: Apache-2.0
"""Libraries for the tests of convert and of fastdl_wrap: types with bridges, and with tables."""

import ctypes
import sys
import types

import fastdl
from fastdl._bridges import lookup
from fastdl._bridges.bridge import Bridge
from tests.support.ctypes_dlpack import Table, address_in, capsule
from tests.support.producers import Wrapper


class Array(Wrapper):
    """An array of the library "fakelib": it keeps the Tensor that it was made of."""

    def __init__(self, tensor):
        self.inner = self.tensor = tensor


def libraries(monkeypatch):
    """A function that makes types of libraries whose bridges have given facts."""
    count = 0

    def make_library(
        make=lambda tensor, like: like(tensor), members=(), base=Array, name=None, **facts
    ):
        nonlocal count
        count += 1
        package, title = name or f"fakelib{count}", (name or "fakelib").capitalize()
        members = {"__module__": f"{package}.core", **dict(members)}
        cls = type("Array", (base,), members)
        bridge = Bridge(
            f"{package}.Array", title=title, classes=(f"{package}:Array",), make=make, **facts
        )
        file = types.ModuleType(f"fastdl._bridges.{package}")
        file.BRIDGES = (bridge,)
        monkeypatch.setitem(sys.modules, file.__name__, file)
        monkeypatch.setitem(lookup.LIBRARIES, package, package)
        return cls

    return make_library


def showing_table():
    """A new exchange table, that of no library, in a capsule. It makes fastdl.Tensors of what it
    gets, which show what that was."""
    own = Table.from_address(address_in(fastdl.exchange_api(fastdl.Tensor)))
    table = Table.from_buffer_copy(own)
    _TABLES.append(table)
    return capsule(ctypes.addressof(table), b"dlpack_exchange_api")


_TABLES = []  # which live until the process ends, as tables must
