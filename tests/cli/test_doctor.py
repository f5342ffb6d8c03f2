# SPDX-License-Identifier: Apache-2.0
"""python -m fastdl doctor, with real libraries and with some that fail in every way."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import fastdl
from fastdl._bridges import lookup
from fastdl._cli import defects, environment, libraries, options, probe
from fastdl._cli import report as words
from tests.support.fake_libraries import ARRAY, distribution, install, run
from tests.support.isolate import run_isolated
from tests.support.signals import interruptible

MAKES = "def array(x, dtype, device): return _array('f', x)\n"  # as warp does


def examine(folder: Path, *arguments: str, **environment: str) -> dict:
    done = run(folder, "doctor", "--json", "--quiet", *arguments, **environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def library_in(report: dict, name: str) -> dict:
    (found,) = (library for library in report["libraries"] if library["name"] == name)
    return found


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    return examine(tmp_path_factory.mktemp("empty"), "--only", "numpy,tvm_ffi,mxnet")


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    """A folder with a library that ends its process: cupy."""
    folder = tmp_path_factory.mktemp("broken")
    install(folder, "cupy", "import os\nos.abort()\n", "14.2.0", "cupy-cuda99x")
    return folder


# ---- what it says of real libraries ---------------------------------------------------------


def test_numpy(healthy):
    row = library_in(healthy, "numpy")
    assert row["outcome"] == "works", row["reason"]
    assert row["version"] == __import__("numpy").__version__
    assert row["import_path"]["kind"] == "bridge"
    assert row["import_path"]["type"] == "numpy.ndarray"
    assert row["tensor"] == {
        "device": "cpu:0",
        "dtype": "float32",
        "zero_copy": True,
        "readonly": False,
        "immutable": False,
        "right": True,
    }
    assert row["import_ns"] > 0 < row["numpy_ns"]
    assert row["defects"] and healthy["not_installed"] == ["mxnet"]


KEYS = {  # of the JSON: a change that a reader would notice needs another SCHEMA
    "fastdl": "version dlpack folder installed library",
    "python": "version implementation compiler free_threaded gil debug",
    "platform": "system release machine libc cpus",
}
LIBRARY = "name version sample outcome reason import_path dlpack tensor import_ns numpy_ns"


def test_schema(healthy):
    lists = {"clashes", "devices", "libraries", "not_installed"}
    assert healthy.keys() == {"schema", *KEYS, *lists, "seconds"} and healthy["schema"] == 1
    assert all(healthy[part].keys() == {*keys.split()} for part, keys in KEYS.items())
    for library in healthy["libraries"]:
        assert library.keys() == {*LIBRARY.split(), "defects", "seconds"}
    assert library_in(healthy, "tvm_ffi")["dlpack"] == {
        "keywords": ["max_version", "dl_device", "copy", "stream"],
        "capsule": "dltensor_versioned",
        "raises": "",
    }
    assert [device["title"] for device in healthy["devices"]] == ["CUDA", "ROCm"]
    for device in healthy["devices"]:
        assert device["found"] is True or device["reason"]
    assert healthy["fastdl"]["version"] == fastdl.__version__
    assert healthy["fastdl"]["library"].startswith("_native.")
    assert healthy["python"]["version"] == ".".join(map(str, sys.version_info[:3]))


# ---- libraries that fail --------------------------------------------------------------------


def test_a_library_that_ends_the_process_is_a_line(broken):
    report = examine(broken, "--only", "numpy,tvm_ffi,cupy")
    row = library_in(report, "cupy")
    assert (row["outcome"], row["reason"]) == ("crashed", "SIGABRT, in: import")
    assert row["version"] == "14.2.0"  # found without importing it
    assert row["tensor"] is row["import_path"] is row["import_ns"] is None
    assert library_in(report, "numpy")["outcome"] == "works"


@pytest.mark.slow
def test_a_library_that_hangs_is_a_line(tmp_path):
    install(tmp_path, "mxnet", "import time\nwhile True: time.sleep(1)\n")
    report = examine(tmp_path, "--only", "mxnet", "--limit", "2")
    row = library_in(report, "mxnet")
    assert (row["outcome"], row["reason"]) == ("hung", "no answer in 2 s, in: import")
    assert report["seconds"] < 60


@pytest.mark.slow
def test_libraries_that_cannot_be_imported_are_lines(tmp_path):
    """Nor the module of the arrays of one, for inspect."""
    install(tmp_path, "warp", "raise ImportError('libwarp.so: no such file')\n")
    install(tmp_path, "mlx", "")
    (tmp_path / "mlx" / "core.py").write_text("raise ImportError('libmlx.so: no such file')\n")
    report = examine(tmp_path, "--only", "numpy,warp,mlx")
    row = library_in(report, "warp")
    reason = "ImportError: libwarp.so: no such file"
    assert (row["outcome"], row["reason"]) == ("fails", f"import: {reason}")
    done = run(tmp_path, "inspect", "array:array('f', [1, 2])", "--only", "mlx", "--json")
    assert done.returncode == 0, done.stderr
    outcome = {"outcome": "none", "reason": "ImportError: libmlx.so: no such file"}
    assert outcome.items() <= json.loads(done.stdout)["consumers"]["mlx"].items()


def test_libraries_that_copy_or_give_other_values_are_said_to(tmp_path):
    source = "from array import array as _array\nfloat32 = 'f'\ndef init(): pass\n"
    source += "def from_dlpack(x): return _array('f', {})\n"
    install(tmp_path, "array_api_strict", source.format("x.tolist()") + ARRAY)
    install(tmp_path, "warp", source.format("[7] * 6") + MAKES)
    array = "numpy:arange(6, dtype='float32')"
    done = run(tmp_path, "inspect", array, "--only", "array_api_strict,warp", "--json")
    assert done.returncode == 0, done.stderr
    cells = json.loads(done.stdout)["consumers"]
    copy = {"outcome": "copy", "reason": "the consumer made the copy itself"}
    assert cells["array_api_strict"] == copy
    assert cells["warp"] == {"outcome": "wrong", "reason": "the values differ"}


# ---- known defects --------------------------------------------------------------------------


def test_known_defects():
    for version, certain in (("2.13.0", True), ("2.13.0+cpu", True), ("2.14.1", False)):
        found = defects.of("torch", version)
        assert "Negative strides end the process" in [defect["title"] for defect in found]
        assert {defect["certain"] for defect in found} == {certain}
        assert {defect["seen"] for defect in found} == {"2.13.0"}


def test_a_mended_defect_is_no_longer_known(monkeypatch):
    facts = {"RELEASE": "warp==1.2.0", "DEFECTS": {"It breaks": "Nothing."}}
    for name, fact in {**facts, "FIXED": {"It breaks": "1.3"}}.items():
        monkeypatch.setattr(lookup.load("warp"), name, fact, raising=False)
    assert [len(defects.of("warp", v)) for v in ("1.2.9", "1.3", "1.10.0", "")] == [1, 0, 0, 1]


def test_a_version_that_convert_does_not_serve():
    for version, expected in (("25.0.1", 1), ("26", 0), ("26.0.1", 0), ("", 0)):
        titles = [row["title"] for row in defects.of("pyarrow", version)]
        assert titles.count("`convert` makes its objects from version 26 on") == expected
    assert not any("from version" in row["title"] for row in defects.of("pandas", "0.1"))


def test_defects_are_those_of_libraries_that_are_known():
    known = {library.name for library in libraries.LIBRARIES} | {"cuda", *defects.OTHERS}
    assert defects.files().keys() <= known


# ---- which libraries ------------------------------------------------------------------------


def test_a_folder_of_that_name_is_not_the_library(tmp_path):
    for name in ("warp", "mlx"):  # of which the second is a namespace package
        (tmp_path / name).mkdir()
    printed = run_isolated(f"""
        import sys
        from fastdl._cli.libraries import BY_NAME
        sys.path[:] = [{str(tmp_path)!r}]
        print([BY_NAME[name].installed for name in ("warp", "mlx")])
        open({str(tmp_path / "mlx" / "core.py")!r}, "w").close()
        sys.path_importer_cache.clear()
        print([BY_NAME[name].installed for name in ("warp", "mlx")])
    """)
    assert printed == "[False, False]\n[False, True]\n"


def test_consumers_are_those_that_convert_makes():
    takers = {library.name for library in libraries.LIBRARIES if library.is_target}
    assert {"numpy", "torch", "tvm_ffi", "pandas"} <= takers
    assert not {"dask", "xarray"} & takers


def test_libraries_are_imported_in_an_order_in_which_they_get_along():
    order = libraries.in_order(["tensorflow", "numpy", "torch", "paddle", "dpnp"])
    assert order == ["dpnp", "paddle", "torch", "tensorflow", "numpy"]


# ---- names ----------------------------------------------------------------------------------


@pytest.mark.parametrize("metadata", [None, b"", b"Name: numpy\n", b"Name: caf\xe9\n"])
def test_a_distribution_with_broken_metadata(tmp_path, metadata):
    """It says that it installs NumPy, and no more: the library knows its version."""
    info = tmp_path / "numpy-1.0.dist-info"
    info.mkdir()
    (info / "top_level.txt").write_text("numpy\n")
    if metadata is not None:
        (info / "METADATA").write_bytes(metadata)
    report = examine(tmp_path, "--only", "numpy")
    assert library_in(report, "numpy")["version"] == __import__("numpy").__version__


def test_an_entry_of_the_path_that_cannot_be_read(monkeypatch):
    before = environment.name_clashes()
    monkeypatch.setattr(sys, "path", [*sys.path, "x" * 5000])
    assert environment.name_clashes() == before


def test_another_package_further_back(tmp_path, monkeypatch):
    (tmp_path / "fastdl").mkdir()
    (tmp_path / "fastdl" / "__init__.py").touch()
    before = environment.name_clashes()
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    (clash,) = [clash for clash in environment.name_clashes() if clash not in before]
    assert str(tmp_path) in clash


# ---- what a report does not tell ------------------------------------------------------------


def test_the_home_folder_has_no_name(tmp_path):
    home = tmp_path / "alice"
    home.mkdir()
    install(home / "site", "warp", f"raise ImportError('no {home}/a.so in {home}, {home}s')")
    homes = {"HOME": str(home), "USERPROFILE": str(home)}
    done = run(home / "site", "doctor", "--json", "--only", "warp", **homes)
    assert f"no ~/a.so in ~, {home}s" in json.loads(done.stdout)["libraries"][0]["reason"]
    assert done.stdout.count("alice") == 1


def test_the_end_of_another_folder_stays(monkeypatch, capsys):
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, "/home/alice")
    options.print_json({"a": "/home/alice/x, /mnt/home/alice/x"})
    assert "~/x, /mnt/home/alice/x" in capsys.readouterr().out


# ---- as text --------------------------------------------------------------------------------


def test_plain(broken):
    done = run(broken, "doctor", "--only", "numpy,tvm_ffi,cupy")
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert re.search(r"^numpy +[\d.]+ +its C API +\d+ ns +zero-copy$", done.stdout, re.MULTILINE)
    assert re.search(r"^cupy .*SIGABRT", done.stdout, re.MULTILINE)
    assert "np.from_dlpack(ndarray) costs" in done.stdout
    assert re.search(r"^\[\d/\d\] cupy [\d.]+ s: crashed in import, SIGABRT$", done.stderr, re.M)


def test_without_numpy(tmp_path, monkeypatch):
    """The others are still examined, and a sentence says what is missing, asked for or not."""
    code = "import sys; sys.modules['numpy'] = None\n"
    (tmp_path / "sitecustomize.py").write_text(code)
    install(tmp_path, "torch", ARRAY + "float32 = 'f'\n")
    done = run(tmp_path, "doctor", "--only", "numpy,torch")
    assert done.returncode == 0, done.stderr
    assert "NumPy is not installed" in done.stdout
    assert "Not installed: numpy." in done.stdout
    assert re.search(r"^torch .* zero-copy", done.stdout, re.MULTILINE)
    monkeypatch.setattr(libraries.Library, "installed", False)
    (sentence,) = words.missing({"not_installed": [], "libraries": ["torch"]})
    assert sentence.startswith("NumPy is not installed")


def test_what_was_asked_for_and_is_not_installed(tmp_path):
    """It is said, whatever else is; so is a package of the name of fastdl, and where this one is,
    to the user who wants to know which of several it is."""
    distribution(tmp_path, "fastdl", "0.3", "fastdl")
    arguments = ["--only", "mxnet"]
    done = run(tmp_path, "doctor", *arguments, COLUMNS="400")
    assert done.returncode == 0, done.stderr
    assert "Not installed: mxnet.\n" in done.stdout
    assert "No tensor library" not in done.stdout
    assert f", in {Path(fastdl.__file__).parent} (" in done.stdout
    assert re.search("^Name clash: .*'fastdl'.* uninstall it", done.stdout, re.MULTILINE)


def test_an_interrupt_ends_quietly(tmp_path):
    """With 130, in the middle of several jobs, in threads: that children are killed is not a
    finding."""
    waits = "open(__file__ + '.here', 'w').close(); import time; time.sleep(600)\n"
    install(tmp_path, "mxnet", waits)
    install(tmp_path, "cupy", waits)
    with interruptible():
        child = subprocess.Popen(
            [sys.executable, "-m", "fastdl", "doctor", "--only", "mxnet,cupy"],
            env={**os.environ, "PYTHONPATH": str(tmp_path), "COLUMNS": "80"},
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    here = tmp_path / "cupy" / "__init__.py.here"
    end = time.monotonic() + 120
    while not here.exists() and child.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=60)
    assert child.returncode == 130
    assert said.splitlines()[-1] == "python -m fastdl: interrupted"
    assert not re.search("Traceback|crashed|hung|SIG", said)


# ---- words ------------------------------------------------------------------------------------


def test_a_reason_is_the_same_whatever_the_data_is_called():
    """The description of the data, which differs, comes first: nothing behind it is cut."""
    reasons = set()
    for length in (1, 100, 300):
        words = f"an array of type {'t' * length} cannot be converted to a.B without a copy, and "
        reasons.add(probe.short(fastdl.CopyRequiredError(f"{words}copy=False: {'why ' * 90}end")))
    assert reasons == {f"{'why ' * 90}end"}
