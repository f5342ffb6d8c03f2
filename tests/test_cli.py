"""python -m fastdl, as a user runs it."""

import subprocess
import sys

import fastdl


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "fastdl", *arguments], capture_output=True, text=True, timeout=120
    )


def test_version():
    done = run("--version")
    assert done.returncode == 0
    assert done.stdout == f"fastdl {fastdl.__version__}, DLPack 1.3\n"


def test_no_command_is_an_error():
    done = run()
    assert done.returncode == 2
    assert "usage" in done.stderr


def test_demo_with_numpy_alone():
    """The claims of the demo, each checked by the demo itself."""
    done = run("demo", "--framework", "numpy")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("  ok ") == 4
    assert "FAILED" not in done.stdout
    assert "import: fastdl" in done.stdout


def test_demo_of_an_unknown_framework():
    done = run("demo", "--framework", "nonsense")
    assert done.returncode == 2
    assert "expected one of numpy, torch" in done.stderr


def test_demo_of_another_framework():
    done = run("demo", "--framework", "tvm_ffi")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("tvm_ffi ")
    assert "and back" in done.stdout
