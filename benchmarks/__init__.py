# SPDX-License-Identifier: Apache-2.0
"""The benchmarks of fastdl: `python -m benchmarks`. README.md says how to read them."""

import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]


def load_module(name: str, path: Path) -> ModuleType:
    """The module in a file; sys.modules does not know it."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
