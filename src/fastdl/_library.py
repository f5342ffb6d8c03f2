"""Loads the compiled modules: they are one shared library, so Python cannot find them by name."""

import sys

from fastdl import _native


def load(name: str):
    """Imports the module `name`, "fastdl.package.module", of the shared library."""
    if name in sys.modules:
        return sys.modules[name]
    here = _native.__spec__
    loader = type(here.loader)(name, here.origin)
    spec = type(here)(name, loader, origin=here.origin)
    spec.has_location = True
    module = loader.create_module(spec)
    module.__spec__, module.__loader__ = spec, loader
    module.__file__, module.__package__ = here.origin, name.rpartition(".")[0]
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    package, _, short = name.rpartition(".")
    setattr(sys.modules[package], short, module)
    return module
