# SPDX-License-Identifier: Apache-2.0
"""Calls to higher layers, and imports that would otherwise be circular.

No layer imports a higher one. A module that calls a higher layer receives this module once, on
import, as `policy`. In C the lower layer declares a pointer, or a table of them, and the higher one
sets it.

The attributes are modules, which are loaded at first use, so that `import fastdl` is fast.
"""

import atexit
import sys

from fastdl._convert import convert as convert
from fastdl._core import exchange, foreign, tensor
from fastdl._devices import driver as driver  # sets pointers of the core

_CONVERT = "asarray codec complete pickling producing refusals targets trees values"
_MODULES = {
    **dict.fromkeys(("lookup", "numpy"), "_bridges"),
    **dict.fromkeys(_CONVERT.split(), "_convert"),
    **dict.fromkeys("consumer cuda_array placement pointer producer streams".split(), "_protocol"),
}


def __getattr__(name):
    """Loads a module. Concurrent threads wait for the first one."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = globals()[name] = __import__(f"fastdl.{_MODULES[name]}.{name}", fromlist=["*"])
    return module


def unpickle(*arguments):
    """The function whose name is in pickles."""
    from fastdl._convert import pickling

    return pickling.unpickle(*arguments)


unpickle.__module__, unpickle.__qualname__ = "fastdl", "_unpickle"


def at_exit() -> None:
    """Loads the module of Tensor.record: objects that end later may call it, but cannot import."""
    if driver.is_loaded():
        __getattr__("streams")


def connect() -> None:
    """Called once, on import."""
    atexit.register(at_exit)
    for layer in (foreign, tensor, exchange, convert):
        layer.install(sys.modules[__name__])
    if "multiprocessing.reduction" in sys.modules:
        __getattr__("pickling")  # registers with its pickler, before one is in progress
