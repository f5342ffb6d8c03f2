# SPDX-License-Identifier: Apache-2.0
"""The table of docs/comparison.md: what becomes of an array that each tool imports."""

import re
from typing import NamedTuple

import numpy as np
import pytest

import fastdl
from tests.support.build import ROOT
from tests.support.isolate import describe, run_python

PAGE = ROOT / "docs/comparison.md"


class Tool(NamedTuple):
    """One column, as code."""

    module: str
    start: str
    take: str  # imports x
    values: str  # of x, or of the result y
    is_readonly: str
    made: str  # an object of its own


TOOLS = {
    "fastdl": Tool(
        "fastdl",
        "import fastdl",
        "fastdl.asarray(x)",
        "y.tolist()",
        "y.readonly",
        "fastdl.empty(3)",
    ),
    "NumPy": Tool(
        "numpy",
        "",
        "np.from_dlpack(x)",
        "y.tolist()",
        "not y.flags.writeable",
        "np.ones(3)",
    ),
    "torch": Tool(
        "torch",
        "import torch",
        "torch.from_dlpack(x)",
        "y.tolist()",
        "(y.fill_(5), x[0])[1] != 5",
        "torch.ones(3)",
    ),
    "tvm-ffi": Tool(
        "tvm_ffi",
        "import tvm_ffi",
        "tvm_ffi.from_dlpack(x)",
        "np.from_dlpack(y).tolist()",
        "not np.from_dlpack(y).flags.writeable",
        "tvm_ffi.from_dlpack(np.ones(3))",
    ),
    "nanobind": Tool(
        "nanobind",
        "from tests.support.cxx import binding\n"
        "with_nanobind = binding('with_nanobind', 'nanobind')",
        "with_nanobind.take(x)",
        "with_nanobind.values(x)",
        "refuses(with_nanobind.take_writable)",
        "with_nanobind.make()",
    ),
    "cuda.core": Tool(
        "cuda",
        "from cuda.core.utils import StridedMemoryView",
        "StridedMemoryView.from_any_interface(x, stream_ptr=-1)",
        "np.from_dlpack(y).tolist()",
        "y.readonly",
        "StridedMemoryView.from_any_interface(np.ones(3), stream_ptr=-1)",
    ),
}

#: A row: the code that makes x, and that of what the page says.
ROWS = {
    "a read-only `ndarray`": (
        "x = np.zeros(2)\nx.flags.writeable = False",
        '"read-only" if IS_READONLY else "**becomes writable**"',
    ),
    "negative strides": ("x = np.arange(3.0)[::-1]", "compared([2, 1, 0])"),
    "bfloat16 of torch": ("import torch\nx = torch.ones(3, dtype=torch.bfloat16)", '"accepted"'),
    "a lazy view of torch": (
        "import torch\nx = torch.tensor([1 + 2j], dtype=torch.complex128).conj().imag",
        "compared([-2])",
    ),
    "a `memoryview`": ("x = memoryview(np.arange(3.0))", "compared([0, 1, 2])"),
    "calls the exchange table of a type": (
        "x = OfferByTable(np.ones(3).tobytes(), shape=(3,), dtype=(2, 64, 1))",
        '"yes" if _dlpack.table_calls() else "no"',
    ),
    "has an exchange table itself": ("x = np.ones(3)", '"yes" if hasattr(MADE, NAME) else "no"'),
}

PROGRAM = """
import numpy as np
from dlpack_conformance import _dlpack
from dlpack_conformance.producers import OfferByTable
START

NAME = "__dlpack_c_exchange_api__"

def refuses(function):
    try:
        function(x)
    except TypeError:
        return True

def compared(expected):
    return "accepted" if VALUES == expected else "**other values**"

X
try:
    y = TAKE
except (AttributeError, BufferError, RuntimeError, TypeError, SystemError):
    print("refused")
else:
    print(RESULT)
"""


def measured(tool, before, result):
    parts = {"START": tool.start, "TAKE": tool.take, "RESULT": result, "X": before}
    names = {"VALUES": tool.values, "IS_READONLY": tool.is_readonly, "MADE": tool.made}
    program = PROGRAM
    for part in (parts, names):
        for word, code in part.items():
            program = re.sub(rf"\b{word}\b", lambda _, code=code: code, program)
    child = run_python("-W", "ignore", "-c", program)
    if child.returncode < 0:
        return "**the process dies**"
    assert child.returncode == 0, describe(child)
    return child.stdout.strip()


def cells():
    """What the page says, by row and column."""
    lines = re.search(r"(?m)^\| imports? \|.*\n(?:\|.*\n)+", PAGE.read_text())[0].splitlines()
    head, _, *rows = ([cell.strip() for cell in line.split("|")[1:-1]] for line in lines)
    return {(row[0], tool): cell for row in rows for tool, cell in zip(head, row, strict=True)}


@pytest.mark.slow  # the first of nanobind compiles it
@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("row", ROWS)
def test_cell(row, tool):
    for module in {TOOLS[tool].module, *(["torch"] if "torch" in row else [])}:
        pytest.importorskip(module)
    if tool == "cuda.core":
        pytest.importorskip("cuda.core")
    assert cells()[row, tool] == measured(TOOLS[tool], *ROWS[row])


def test_every_cell_is_measured():
    known = {key for key in cells() if key[1] != "imports"}
    assert known == {(row, tool) for row in ROWS for tool in TOOLS}


def test_array_api_compat_exchanges_nothing():
    compat = pytest.importorskip("array_api_compat")
    torch = pytest.importorskip("torch")
    array = np.ones(3)
    for arrays in ([array, torch.ones(3)], [fastdl.from_dlpack(array)]):
        with pytest.raises(TypeError):
            compat.array_namespace(*arrays)
