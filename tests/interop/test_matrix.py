"""The matrix itself: it must see what goes wrong, and its results must be whole and published."""

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fastdl

from .arrays import numpy_pointer
from .harness import describe, run_python
from .matrix import __main__ as runner
from .matrix import measure, report, rows, sources
from .matrix.cells import BY_FASTDL, COPY, DIES, OUTCOMES, REFUSED, WRONG, ZERO_COPY, Cell, worse
from .matrix.particular import ROWS
from .peers import LIBRARIES, Peer

ROOT = Path(__file__).parents[2]
REQUIREMENTS = Path(runner.__file__).parent / "requirements"


@pytest.fixture(scope="module")
def results():
    return runner.load()


# ---- the results that are committed -----------------------------------------------------------


def test_they_are_written_as_they_are_read(results, tmp_path):
    path = tmp_path / "results.json"
    runner.dump(results, path)
    assert runner.load(path) == results
    assert path.read_bytes() == runner.RESULTS.read_bytes()


def test_the_page_shows_each_row():
    page = "\n".join([*report.refusals(), *report.sections()])
    assert page.count("<summary>") == len(LIBRARIES) + len(ROWS)
    assert "| refused: `" in page


def test_every_row_has_results(results):
    assert results.keys() == {"grid", *ROWS, *(peer.name for peer in LIBRARIES)}
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
    assert peers.items() <= main.items()


# ---- worse ------------------------------------------------------------------------------------


def test_outcomes_are_ordered():
    for good, bad in itertools.pairwise(OUTCOMES):
        assert worse({"a": good}, {"a": f"{bad}: why"})
        assert not worse({"a": bad}, {"a": good})
        assert not worse({"a": good}, {"a": f"{good}: another note"})


def test_a_cell_that_is_gone_is_worse():
    assert worse({"a": COPY}, {}) == ["a: was 'copy', is gone"]
    assert not worse({}, {"a": COPY})


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


def test_with_newest_releases_only_fastdls_own_failure_fails(monkeypatch, capsys):
    cells = {"version": "3", "to/bool": f"{REFUSED}: RuntimeError: changed its mind"}
    monkeypatch.setattr(runner, "measure", lambda names: ({"numpy": cells}, []))
    monkeypatch.setattr(
        runner, "load", lambda path: {"numpy": {"version": "2", "to/bool": ZERO_COPY}}
    )
    monkeypatch.setenv("FASTDL_BLAME", "")  # put back afterwards
    assert runner.main(["main", "numpy", "--newest"]) == 0
    said = capsys.readouterr().out
    assert "| numpy | 2 | 3 |" in said
    assert "changed its mind' | to be looked at |" in said
    cells["to/bool"] = f"{REFUSED}: {BY_FASTDL}: AttributeError: no attribute '_old'"
    assert runner.main(["main", "numpy", "--newest"]) == 1
    assert "'_old'\" | fastdl |" in capsys.readouterr().out
    trace = 'File "{}", line 3, in f\nAttributeError: no'
    for file, status in ((fastdl.__file__, 1), (np.__file__, 0)):
        errors = [trace.format(file)]
        monkeypatch.setattr(runner, "measure", lambda names, errors=errors: ({}, errors))
        assert runner.main(["main", "numpy", "--newest"]) == status


def test_only_other_releases_are_measured_as_newest(monkeypatch):
    measured = {"numpy": {"version": "3"}, "jax": {"version": "2"}, "memory": {}}
    installed = {"numpy": "3", "jax": "2.1", "memory": ""}
    monkeypatch.setattr(runner, "rows_of", lambda environment: ["grid", *installed])
    monkeypatch.setattr(runner, "version_of", installed.get)
    assert runner.rows_of_others("main", measured) == ["jax"]


def test_whose_fault_an_error_is():
    def raised(file, error):
        code = compile("def f(error): raise error", file, "exec")
        exec(code, space := {})
        with pytest.raises(type(error)) as caught:
            space["f"](error.with_traceback(None))
        return measure.by_fastdl(caught.value)

    bridge = str(Path(fastdl.__file__).parent / "_bridges/numpy.py")
    gone = AttributeError("'OrtValue' object has no attribute '_private'")
    assert raised(bridge, gone)
    assert raised("src/fastdl/_convert/convert.pyx", gone)
    assert not raised(np.__file__, gone)
    told = BufferError("a float32 tensor cannot be converted: the library refused it")
    for file, error, own in (
        (bridge, TypeError("incompatible arguments"), True),
        (bridge, RuntimeError("no such kernel"), False),
        (np.__file__, TypeError("incompatible arguments"), False),
    ):
        raised(file, error)
        told.__cause__ = error
        assert measure.by_fastdl(told) is own
    with pytest.raises(TypeError) as refused:
        fastdl.convert(object(), np.ndarray)
    assert not measure.by_fastdl(refused.value)
    assert not raised(bridge, refused.value)


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


def forgetful(tensor):
    """Shares memory that it does not keep."""
    import ctypes

    return np.ctypeslib.as_array(
        (ctypes.c_float * tensor.size).from_address(tensor.data_ptr)
    ).reshape(tensor.shape)


def keeping(tensor):
    KEPT.append(tensor)
    return tensor.numpy()


def refusing(tensor):
    raise RuntimeError("-----\nC++ Traceback:\nno float at /usr/lib/a.cc, 0x7f00aa")


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
        (spoiling, f"{WRONG}: the tensor has changed after a refusal"),
        (lambda t: KEPT.append(t) or refusing(t), f"{WRONG}: leaks after RuntimeError: no float"),
    ],
)
def test_what_an_export_may_do(take, cell, monkeypatch):
    monkeypatch.setattr(measure, "freed", lambda alive: alive() is None)
    assert str(measure.exported(ARRAYS, take, sources.plane)).startswith(cell)
    KEPT.clear()


def test_a_write_that_raises_is_no_refusal():
    """It would hide that writes are not seen: it ends the row."""

    def write(array, value):
        raise NotImplementedError("no such kernel")

    peer = replace(ARRAYS, write=write)
    with pytest.raises(NotImplementedError, match="no such kernel"):
        measure.exported(peer, lambda t: t.numpy(), sources.plane)
    with pytest.raises(NotImplementedError, match="no such kernel"):
        measure.imported(peer, fastdl.from_dlpack, lambda: np.ones(3), [1.0] * 3, "float64")
    peer = replace(peer, unwritten=("float32", "float64"))
    assert measure.exported(peer, lambda t: t.numpy(), sources.plane) == (ZERO_COPY, "")
    cell = measure.imported(peer, fastdl.from_dlpack, lambda: np.ones(3), [1.0] * 3, "float64")
    assert cell == (ZERO_COPY, "")


def test_a_write_that_is_not_seen():
    peer = replace(ARRAYS, write=lambda array, value: None)
    assert measure.exported(peer, lambda t: t.numpy(), sources.plane).outcome == WRONG
    cell = measure.imported(peer, fastdl.from_dlpack, lambda: np.ones(3), [1.0] * 3, "float64")
    assert cell == (WRONG, "a write to the array is not seen in the tensor")


def test_a_lost_read_only_flag_is_noted():
    kept = measure.exported(ARRAYS, lambda t: t.numpy(), sources.PLANES["readonly"])
    lost = measure.exported(ARRAYS, forgetful, sources.PLANES["readonly"])
    assert kept == (ZERO_COPY, "stays read-only")
    assert lost.note == "read-only is lost" or lost.outcome == WRONG


def test_a_library_without_such_an_array_has_no_cell():
    def build():
        raise TypeError

    assert measure.imported(ARRAYS, None, build, [1.0], "float32") is None
    assert measure.imported(ARRAYS, None, lambda: np.zeros(1), [1.0], "float32") is None


def test_another_dtype_is_noted():
    cell = measure.imported(ARRAYS, fastdl.from_dlpack, lambda: np.array([1, 0]), [1, 0], "uint8")
    assert cell == (ZERO_COPY, "as int64")


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


def test_an_error_of_a_row_is_not_a_death(tmp_path, monkeypatch):
    with pytest.raises(RuntimeError, match="no_such_row"):
        runner.measure_row("no_such_row", tmp_path)


@pytest.mark.parametrize("row", ["numpy", "buffer"])
def test_a_row(row, tmp_path):
    cells = runner.measure_row(row, tmp_path)
    assert cells["import/float32"] == cells["export/float32"] == ZERO_COPY
    assert cells["export/readonly"] == f"{ZERO_COPY}: stays read-only"
    assert "other" not in " ".join(cells.values())
