# SPDX-License-Identifier: Apache-2.0
"""Finds the compiled modules, which are one shared library, `fastdl._native`.

Each has a placeholder module in Python, which replaces itself with the compiled one.
"""

import sys

from fastdl import _native

TYPE_CHECKING = False  # instead of typing's: `import fastdl` need not load that
if TYPE_CHECKING:
    from typing import Any


def load(name: str) -> None:
    """Replaces the module `name`, which is being imported, with the compiled module of that
    name."""
    library: Any = _native.__spec__
    loader = type(library.loader)(name, library.origin)
    spec: Any = sys.modules[name].__spec__  # tells other threads that it is not ready
    spec.loader, spec.origin = loader, library.origin
    module = loader.create_module(spec)
    module.__spec__ = spec
    sys.modules[name] = module
    loader.exec_module(module)
