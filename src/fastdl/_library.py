"""Loads the compiled modules: they are one shared library, so Python cannot find them by name."""

import sys
from _thread import RLock
from types import ModuleType

from fastdl import _native

_loaded: dict[str, ModuleType] = {}  # complete ones
_loading = RLock()  # a thread that needs a module waits until another has completed it


def load(name: str) -> ModuleType:
    """The module `name`, "fastdl.package.module", of the shared library, imported at first use."""
    module = _loaded.get(name)
    if module is None:
        with _loading:
            module = sys.modules.get(name) or _load(name)
            _loaded[name] = module
    return module


def _load(name: str) -> ModuleType:
    package, _, short = name.rpartition(".")
    here = _native.__spec__
    loader = type(here.loader)(name, here.origin)
    spec = type(here)(name, loader, origin=here.origin)
    spec.has_location = True
    module = loader.create_module(spec)
    module.__spec__, module.__loader__ = spec, loader
    module.__file__, module.__package__ = here.origin, package
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    setattr(sys.modules[package], short, module)
    return module
