# SPDX-License-Identifier: Apache-2.0
"""python -m fastdl, as a user runs it."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import fastdl
from fastdl.__main__ import FACTS, main
from fastdl._cli import COMMANDS, demo
from fastdl._cli.libraries import LIBRARIES
from tests.support.build import compile_source
from tests.support.fake_libraries import install
from tests.support.fake_libraries import run as run_with
from tests.support.isolate import run_isolated, run_python

PACKAGE = Path(fastdl.__file__).parent
INSTALLED = Path(fastdl.get_include()).parent == PACKAGE  # or a source tree, built in place


def run(*arguments):
    return run_python("-m", "fastdl", *arguments)


def test_version():
    done = run("--version")
    assert done.returncode == 0
    assert done.stdout == f"fastdl {fastdl.__version__}, DLPack 1.3\n"


def test_folders():
    """One to a line, in the order asked for: $(python -m fastdl --include) is a folder."""
    done = run("--include")
    assert done.returncode == 0, done.stderr
    assert done.stdout == fastdl.get_include() + "\n"
    done = run("--cmakedir", "--include", "--cflags")
    assert done.returncode == 0, done.stderr
    cmake, include, cflags = done.stdout.splitlines()
    assert Path(cmake, "fastdl-config.cmake").is_file()
    assert Path(include, "fastdl", "fastdl.h").is_file()
    assert cflags == f"-I{Path(include).as_posix()}"


@pytest.mark.skipif(not INSTALLED, reason="a source tree has no fastdl.pc")
def test_folder_for_pkg_config():
    done = run("--pkgconfigdir")
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.rstrip("\n"), "fastdl.pc").is_file()


@pytest.mark.skipif(INSTALLED, reason="is installed")
def test_source_tree_has_no_folder_for_pkg_config():
    """Half an answer would end up on a compiler line."""
    done = run("--include", "--pkgconfigdir")
    assert (done.returncode, done.stdout) == (1, "")
    assert "install fastdl" in done.stderr


def test_folders_need_neither_compiler_nor_library():
    code = """
        import sys
        sys.modules["numpy"] = sys.modules["subprocess"] = sys.modules["distutils"] = None
        sys.modules["setuptools"] = None
        from fastdl.__main__ import main
        assert main(["--version", "--include", "--cflags", "--cmakedir"]) == 0
    """
    assert len(run_isolated(code, env={"PATH": ""}).splitlines()) == 4


def test_what_is_vendored_compiles_without_the_package(tmp_path):
    done = run("--vendor", str(tmp_path / "new" / "fastdl"))
    files = [Path(line) for line in done.stdout.splitlines()]
    assert sorted(file.name for file in files) == ["dlpack.h", "fastdl.c", "fastdl.h"]
    assert all(file.parent == tmp_path / "new" / "fastdl" for file in files)
    source = tmp_path / "module.c"
    source.write_text("#define FASTDL_IMPLEMENTATION\n#include <fastdl/fastdl.h>\n")
    compile_source(source, tmp_path / "module.so", f"-I{tmp_path / 'new'}")


def test_no_command_tells_what_there_is():
    done = run()
    assert done.returncode == 0
    assert "usage" in done.stdout
    for name in (*FACTS, *COMMANDS):
        assert name in done.stdout


@pytest.mark.parametrize("limit", ["nan", "inf", "0", "-1"])
def test_a_limit_is_a_time(limit, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["doctor", f"--limit={limit}"])
    assert f"a number of seconds above 0, got '{limit}'" in capsys.readouterr().err


# ---- where the output goes ------------------------------------------------------------------


def run_into(output, *arguments):
    """With another standard output, an open file; what it says on the standard error."""
    done = run_python("-m", "fastdl", *arguments, stdout=output)
    assert done.returncode == 1
    return done.stderr


@pytest.mark.parametrize("arguments", [["--version"], ["demo"]], ids=" ".join)
def test_a_pipe_that_nobody_reads(arguments):
    end, output = os.pipe()
    os.close(end)
    try:
        said = run_into(output, *arguments)
    finally:
        os.close(output)
    assert "Traceback" not in said and "Exception" not in said


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["--version"], ["demo"]], ids=" ".join)
def test_a_disk_that_is_full(arguments):
    with open("/dev/full", "wb") as output:
        assert run_into(output, *arguments) == (
            "python -m fastdl: [Errno 28] No space left on device\n"
        )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_no_descriptor_is_left_behind(monkeypatch):
    with open("/dev/full", "w") as output:
        monkeypatch.setattr(sys, "stdout", output)
        before = os.listdir("/proc/self/fd")
        assert main(["--version"]) == 1
        assert os.listdir("/proc/self/fd") == before


def test_progress_without_a_standard_error():
    """It does not go into the JSON."""
    command = [sys.executable, "-m", "fastdl", "inspect", "builtins:b'abc'", "--json"]
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" 2>&-', "sh", *command, "--only", "numpy"],
        stdout=subprocess.PIPE,
        timeout=120,
    )
    assert done.returncode == 0
    assert json.loads(done.stdout)["tensor"]["shape"] == [3]


def test_text_that_the_output_cannot_encode(monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    done = run("inspect", "builtins:[b'abc', '\xe9'][0]", "--quick", "--only", "numpy")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(r"builtins:[b'abc', '\xe9'][0]  (builtins.bytes)")


# ---- demo -----------------------------------------------------------------------------------


def test_demo_without_any_library(monkeypatch, capsys):
    """The claims of the demo, each checked by the demo itself: the first command that a newcomer
    types works, whatever is installed."""
    monkeypatch.setattr(demo, "installed", list)
    assert main(["demo"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("  ok ") == 4
    assert "FAILED" not in shown
    assert "pip install numpy" in shown


@pytest.mark.parametrize("columns", [40, 400])
def test_demo_with_numpy_alone(monkeypatch, capfd, columns):
    """It fits the terminal."""
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(demo, "installed", lambda: [LIBRARIES[0]])
    assert main(["demo"]) == 0
    shown = capfd.readouterr().out
    assert max(map(len, shown.splitlines())) <= columns
    assert shown.count("  ok ") == 6
    assert "FAILED" not in shown
    words = " ".join(shown.split())
    assert "ok to fastdl: the same memory" in words
    assert "ok from fastdl, and back: the same memory" in words
    assert "pip install" not in shown


def test_a_false_claim_ends_the_demo(capsys):
    with pytest.raises(SystemExit, match="not true here: two is three"):
        demo.check("two is three", 2 == 3)
    assert "FAILED" in capsys.readouterr().out


FAKES = {  # of a library that is installed in no environment of the tests
    "nd = None": (0, "cannot be used here: AttributeError"),
    "import sys; sys.exit('no licence')": (0, "cannot be used here: SystemExit: no licence"),
    r"import os; os.write(1, b'\xff\n'); 1 / 0": (0, "cannot be used here: ZeroDivisionError"),
    "import os; os.abort()": (1, "mxnet: ended with SIGABRT"),
    "import time; time.sleep(600)": (1, "mxnet: no answer in 2 seconds"),
    "class nd: arange = bytes": (1, "FAILED to fastdl"),  # other values
}


@pytest.mark.skipif(find_spec("mxnet") is not None, reason="MXNet is installed")
@pytest.mark.parametrize("source", FAKES)
def test_demo_of_a_library_that_fails(source, tmp_path, monkeypatch, capsys):
    """It is a row with the reason; only what fastdl may have a part in is a failure."""
    (tmp_path / "mxnet.py").write_text(source)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    monkeypatch.setattr(demo, "SECONDS", 2 if "sleep" in source else 120)
    (library,) = (known for known in LIBRARIES if known.name == "mxnet")
    status, words = FAKES[source]
    assert demo.show_others([library]) == status
    assert words in capsys.readouterr().out


def test_what_a_library_prints_is_not_part_of_the_demo(tmp_path):
    install(tmp_path, "mxnet", "print('hello'); import array; nd = None")
    done = run_with(tmp_path, "demo", "--library", "mxnet")
    assert done.stdout.startswith("mxnet: cannot be used here: AttributeError")
    assert "hello" in done.stderr
