# SPDX-License-Identifier: Apache-2.0
"""The notebook of the documentation, in a process of its own: its assertions, and no warning."""

import json
from pathlib import Path

from tests.support.isolate import describe, run_python

from .peers import require

NOTEBOOK = Path(__file__).parents[2] / "docs" / "five-libraries.ipynb"


def test_notebook():
    for library in ("numpy", "torch", "jax", "pyarrow", "matplotlib"):
        require(library)
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert len(code) >= 6 and sum("assert" in cell for cell in code) >= 6
    child = run_python("-W", "error", "-c", "\n".join(code))
    assert child.returncode == 0, describe(child)
    assert "takes no negative ones" in child.stdout
