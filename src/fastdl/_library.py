"""Finds the compiled modules, which are one shared library, `fastdl._native`.

Each has a placeholder module in Python, which replaces itself with the compiled one.
"""

import sys

from fastdl import _native


def load(name):
    """Replaces the module `name`, which is being imported, with the compiled module of that
    name."""
    library = _native.__spec__
    loader = type(library.loader)(name, library.origin)
    module = loader.create_module(type(library)(name, loader, origin=library.origin))
    module.__spec__ = sys.modules[name].__spec__  # tells other threads that it is not ready
    sys.modules[name] = module
    loader.exec_module(module)
