# SPDX-License-Identifier: Apache-2.0
"""The matrix itself: it must see what goes wrong, and its results must be whole and published."""

from dataclasses import replace
from pathlib import Path

import pytest

import fastdl
from fastdl._bridges import lookup
from tests.support.isolate import describe, run_python

from .arrays import numpy_make, numpy_pointer, sample
from .matrix import __main__ as runner
from .matrix import measure, report, rows, sources
from .matrix.cells import COPY, DIES, OUTCOMES, REFUSED, WRONG, ZERO_COPY, Cell, worse
from .matrix.particular import ROWS
from .peers import LIBRARIES, Peer

ROOT = Path(__file__).parents[2]
REQUIREMENTS = Path(runner.__file__).parent / "requirements"
MEASURE = "to measure a new row of peers.py: nox -s matrix -- --write"


@pytest.fixture(scope="module")
def results():
    return runner.load()


# ---- the results that are committed -----------------------------------------------------------


def test_the_page_shows_each_row():
    page = "\n".join([*report.refusals(), *report.sections()])
    assert page.count("<summary>") == len(LIBRARIES) + len(ROWS), MEASURE
    assert "| refused: `" in page


def test_every_row_has_results(results):
    assert results.keys() == {"grid", *ROWS, *(peer.name for peer in LIBRARIES)}, MEASURE
    assert all(results.values())


def test_every_cell_has_an_outcome(results):
    for row, cells in results.items():
        for name, text in cells.items():
            assert name == "version" or Cell.parse(text).outcome in OUTCOMES, (row, name)


def test_convert_is_never_wrong_and_never_dies(results):
    bad = [
        (row, name)
        for row, cells in results.items()
        for name, text in cells.items()
        if name.partition("/")[0] in ("from", "to", "convert")
        and Cell.parse(text).outcome in (WRONG, DIES)
    ]
    assert not bad


def test_every_environment_has_requirements():
    assert {peer.environment for peer in LIBRARIES} == {p.stem for p in REQUIREMENTS.glob("*.txt")}


def test_the_stages_use_the_same_versions():
    tomllib = pytest.importorskip("tomllib")  # new in CPython 3.11

    def versions(lines):
        return dict(line.partition(";")[0].split("==") for line in lines if "==" in line)

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    peers = versions(project["optional-dependencies"]["peers"])
    main = versions((REQUIREMENTS / "main.txt").read_text().splitlines())
    files = map(lookup.load, lookup.LIBRARIES)
    main |= versions(file.RELEASE for file in files if hasattr(file, "RELEASE"))
    assert peers.items() <= main.items()


# ---- worse ------------------------------------------------------------------------------------


def test_a_worse_cell_fails_the_run(monkeypatch, capsys):
    measured = {"numpy": {"version": "2", "import/bool": COPY}}
    monkeypatch.setattr(runner, "measure", lambda names: (measured, []))
    monkeypatch.setattr(
        runner, "load", lambda path: {"numpy": {"version": "1", "import/bool": ZERO_COPY}}
    )
    assert runner.main(["main", "numpy"]) == 1
    assert "numpy/import/bool: was 'zero-copy', is 'copy'" in capsys.readouterr().out
    measured["numpy"]["import/bool"] = ZERO_COPY
    assert runner.main(["main", "numpy"]) == 0
    measured.clear()
    assert runner.main(["main", "numpy"]) == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("zero-copy: read-only", "zero-copy"),
        ("zero-copy: stays read-only", "zero-copy: read-only is lost"),
        ("zero-copy", "zero-copy: as uint8"),
        ("copy", "copy: one element in one dimension"),
        # Better by its rank, yet read-only memory can now be written to.
        ("refused: BufferError: it is read-only", "zero-copy: read-only is lost"),
    ],
)
def test_another_note_is_reported(before, after):
    assert worse({"a": before}, {"a": after}) == [f"a: was {before!r}, is {after!r}"]


# ---- what a cell sees -------------------------------------------------------------------------

KEPT = []
ARRAYS = Peer(
    name="arrays",
    title="",
    module="numpy",
    make=None,
    values=lambda x: x.tolist(),
    take=None,
    pointer=numpy_pointer,
)


def keeping(tensor):
    KEPT.append(tensor)
    return tensor.numpy()


def refusing(tensor):
    raise RuntimeError("-----\nC++ Traceback:\nno float at /usr/lib/a.cc, 0x7f00aa")


def failing(tensor):
    raise SystemError("error return without exception set")


def spoiling(tensor):
    tensor.numpy()[0, 0] = 5
    raise RuntimeError


@pytest.mark.parametrize(
    ("take", "cell"),
    [
        (lambda t: t.numpy(), ZERO_COPY),
        (lambda t: t.copy().numpy(), COPY),
        (lambda t: t.numpy() + 1, f"{WRONG}: other values arrive"),
        (keeping, f"{WRONG}: the memory is never freed"),
        (refusing, f"{REFUSED}: RuntimeError: no float at a.cc, ..."),
        (failing, f"{WRONG}: SystemError: error return without exception set"),
        (spoiling, f"{WRONG}: the tensor has changed after a refusal"),
        (lambda t: KEPT.append(t) or refusing(t), f"{WRONG}: leaks after RuntimeError: no float"),
    ],
)
def test_what_an_export_may_do(take, cell, monkeypatch):
    monkeypatch.setattr(measure, "freed", lambda alive: alive() is None)
    assert str(measure.exported(ARRAYS, take, sources.plane)).startswith(cell)
    KEPT.clear()


def borrowing(array):
    """A tensor that does not keep the array whose memory it has."""
    return fastdl.from_pointer(array.ctypes.data, array.shape, array.dtype.name)


def test_what_becomes_a_tensor_again_keeps_the_memory():
    peer = replace(ARRAYS, give=borrowing)
    cell = measure.exported(peer, lambda t: t.numpy(), sources.plane)
    assert str(cell) == f"{WRONG}: the memory was freed under the tensor that it became again"


@pytest.mark.parametrize("dtype", ["bool", "uint8", "float32", "float64"])
def test_what_an_import_must_keep(dtype):
    def build():
        return numpy_make(sample(dtype), dtype)

    peer = replace(ARRAYS, make=numpy_make)
    cell = measure.imported(peer, borrowing, build, sample(dtype), dtype)
    assert str(cell) == f"{WRONG}: the memory was freed under the tensor"
    assert str(measure.imported(peer, fastdl.asarray, build, sample(dtype), dtype)) == ZERO_COPY


# ---- processes --------------------------------------------------------------------------------


def test_a_death_belongs_to_its_cell(tmp_path):
    log = tmp_path / "log"
    program = (
        "import os, pathlib; from tests.interop.matrix.cells import Cell;"
        "from tests.interop.matrix.rows import measure;"
        "cells = [('a', lambda: Cell('copy')), ('b', os.abort), ('c', lambda: None)];"
        f"measure(iter(cells), pathlib.Path({str(log)!r}))"
    )
    child = run_python("-c", program)
    assert child.returncode < 0, describe(child)
    assert rows.results(log) == {"a": "copy"}
    assert rows.begun(log) == "b"
    with log.open("a") as file:
        file.write('["b", "dies"]\n')
    child = run_python("-c", program)
    assert child.returncode == 0, describe(child)
    assert rows.results(log) == {"a": "copy", "b": "dies", "c": None}
    assert rows.begun(log) is None


@pytest.mark.parametrize("row", ["numpy", "buffer"])
def test_a_row(row, tmp_path):
    cells = runner.measure_row(row, tmp_path)
    assert cells["import/float32"] == cells["export/float32"] == ZERO_COPY
    assert cells["export/readonly"] == f"{ZERO_COPY}: stays read-only"
    assert "other" not in " ".join(cells.values())
