# SPDX-License-Identifier: Apache-2.0
"""python -m fastdl inspect: what is said of an array, and of what is none."""

import json
import os
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import fastdl
from fastdl.__main__ import main
from fastdl._cli import capsules, drawing
from tests.support.fake_libraries import ARRAY, install, run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("empty")


@pytest.fixture
def inspect(monkeypatch, capsys):
    """What the command says as JSON. It runs in this process, and starts others."""

    def inspect(folder, expression, *arguments, status=0):
        with monkeypatch.context() as here:
            here.chdir(folder)
            here.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
            command = ["inspect", expression, "--json", "--quiet", *arguments]
            assert main(command) == status
        return json.loads(capsys.readouterr().out)

    return inspect


QUICK = ("--quick", "--only", "numpy,tvm_ffi")


# ---- what crosses ---------------------------------------------------------------------------


def test_fields_of_an_array(inspect, folder):
    found = inspect(folder, "numpy:arange(24, dtype='int16').reshape(4, 6)[1:, ::2].T", *QUICK)
    assert found["type"] == "numpy.ndarray"
    assert found["import_path"]["kind"] == "bridge"
    assert found["dlpack"]["capsule"] == "dltensor_versioned"
    managed = found["managed"]
    assert managed["form"] == "versioned" and managed["flags"] == 0
    assert managed["shape"] == [3, 3] and managed["strides"] == [2, 6]
    assert managed["dtype"] == {"code": 0, "bits": 16, "lanes": 1}
    assert managed["device"] == [1, 0]
    assert managed["data"] % managed["alignment"] == 0
    assert managed["by_library"]
    assert dict(drawing.managed(managed))[""] == "(4, 12) bytes"
    assert found["tensor"]["itemsize"] == 2 and not found["tensor"]["readonly"]
    assert found["error"] == ""


def test_read_only_is_a_flag(inspect, folder):
    found = inspect(folder, "numpy:broadcast_to(numpy.zeros(3), (2, 3))", *QUICK)
    assert (found["managed"]["flags"], found["managed"]["flag_names"]) == (1, ["READ_ONLY"])
    assert found["tensor"]["readonly"]
    cell = found["consumers"]["tvm_ffi"]
    assert cell["outcome"] == "copy" and "read-only" in cell["reason"]
    assert found["consumers"]["numpy"] == {"outcome": "zero-copy", "reason": "the same object"}


def test_a_legacy_capsule(inspect, tmp_path):
    install(
        tmp_path,
        "older",
        "import numpy\n"
        "class Array:\n"
        "    array = numpy.ones((2, 3), 'f4')\n"
        "    def __dlpack__(self, stream=None): return self.array.__dlpack__()\n"
        "    def __dlpack_device__(self): return 1, 0\n",
    )
    found = inspect(tmp_path, "older:Array()", *QUICK)
    assert found["import_path"]["kind"] == "__dlpack__"
    assert found["dlpack"] == {"keywords": ["stream"], "capsule": "dltensor", "raises": ""}
    assert found["managed"]["form"] == "legacy" and found["managed"]["version"] is None


def test_an_exchange_table(inspect, folder):
    found = inspect(folder, "fastdl:empty((2, 2))", *QUICK)
    assert found["import_path"]["kind"] == "table"
    assert found["import_path"]["table"] == {
        "version": "1.3",
        "lends": True,
        "allocates": True,
        "current_stream": True,
    }
    assert found["managed"]["alignment"] >= 256


def planned(inspect, folder, module, device):
    """The plan for an array of `module`, whose data says that it is on `device`, and its lines."""
    source = (
        "class nb_ndarray(bytearray):\n"
        "    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):\n"
        "        raise BufferError('not now')\n"
        f"    def __dlpack_device__(self): return {device}\n"
    )
    install(folder, module, source)
    found = inspect(folder, f"{module}:nb_ndarray(3)", *QUICK, status=1)
    assert found["dlpack"]["capsule"] == "" and found["dlpack"]["raises"] == "BufferError"
    lines = dict(drawing.facts(found))
    assert lines["__dlpack__"].endswith("; raises BufferError")
    return found["plan"], [lines[name] for name in ("plan", "stream", "copy=True")]


def test_an_array_with_a_table_is_tried_and_planned(inspect, folder):
    found = inspect(folder, "numpy:zeros(3)", "--only", "numpy,tvm_ffi")
    assert found["consumers"] == {
        "numpy": {"outcome": "zero-copy", "reason": "the same object"},
        "tvm_ffi": {"outcome": "zero-copy", "reason": ""},
    }
    plan = {"path": "table", "otherwise": "__dlpack__", "keywords": {}}
    assert found["plan"] == {**plan, "stream": None, "copies": ["fastdl"]}
    assert dict(drawing.facts(found))["plan"] == "its C API, otherwise __dlpack__"


def test_the_plan_for_a_type_with_nothing_but_dlpack(inspect, tmp_path):
    """On the host, on a device, and there of a library that does not order its work."""
    plan, lines = planned(inspect, tmp_path, "hosted", (1, 0))
    assert (plan["keywords"], plan["stream"]) == ({"max_version": [1, 3]}, None)
    called = "__dlpack__(max_version=(1, 3))"
    assert lines == [called, "no stream waits", "copied by fastdl"]
    plan, lines = planned(inspect, tmp_path, "on_device", (2, 0))
    assert (plan["stream"], plan["copies"]) == (1, ["its library", "fastdl"])
    called = "__dlpack__(max_version=(1, 3), stream=1)"
    assert lines == [called, "stream 1 waits", "copied by its library, otherwise fastdl"]
    plan, lines = planned(inspect, tmp_path, "nanobind", (2, 0))
    assert (plan["path"], lines[0]) == ("refused", "refused")


def test_a_buffer_has_no_managed_tensor_of_its_own(inspect, folder):
    found = inspect(folder, "builtins:bytearray(b'abc')", *QUICK)
    assert found["plan"] is None
    assert found["import_path"]["kind"] == "buffer" and found["dlpack"] is None
    assert not found["managed"]["by_library"]


def test_nothing_is_left_behind(inspect, folder):
    """The managed tensors that are looked at are released."""
    code = (
        "builtins:__import__('sys').modules.setdefault('kept', type('M', (), {'a': "
        "numpy.zeros(3)})).a"
    )
    assert inspect(folder, code, *QUICK)["tensor"]["shape"] == [3]
    array = bytearray(8)
    tensor = fastdl.asarray(array)
    capsules.describe_export(fastdl.exchange_api(fastdl.Tensor), tensor)
    capsules.describe_capsule(tensor.__dlpack__(max_version=(1, 0)))
    del tensor
    array.append(1)  # BufferError as long as anything holds the buffer


# ---- what becomes of it ---------------------------------------------------------------------


def test_a_consumer_that_ends_the_process_is_an_answer(tmp_path):
    source = ARRAY + "import os\ndef from_dlpack(x): os.abort()\n"
    install(tmp_path, "array_api_strict", source)
    only = "numpy,array_api_strict"
    done = run(tmp_path, "inspect", "numpy:arange(3.)", "--json", "--only", only)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["consumers"]["array_api_strict"] == {
        "outcome": "crashed",
        "reason": "SIGABRT, in: convert",
    }
    assert found["consumers"]["numpy"]["outcome"] == "zero-copy"


def test_a_consumer_that_is_quick_is_not_imported(tmp_path):
    install(tmp_path, "torch", "import os\nos.abort()\n")
    arguments = ["--json", "--quick", "--only", "torch"]
    done = run(tmp_path, "inspect", "numpy:arange(6.)[::-1]", *arguments)
    assert done.returncode == 0, done.stderr
    cell = json.loads(done.stdout)["consumers"]["torch"]
    assert cell["outcome"] == "copy" and "no negative ones" in cell["reason"]


def test_what_asarray_copies_is_predicted_as_a_copy(inspect, folder):
    found = inspect(folder, "numpy:arange(6, dtype='>f4')", *QUICK)
    assert found["consumers"]["tvm_ffi"]["outcome"] == "copy"
    assert not found["managed"]["by_library"] and found["error"] == ""


# ---- what cannot be imported ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "status", "words"),
    [
        ("numpy:array(['text'])", 1, "<U4"),
        ("builtins:3", 1, "got 'int'"),
        ("numpy:arange(", 2, "SyntaxError"),
        ("numpy:nonsense_", 2, "module 'numpy' has no attribute 'nonsense_'"),
        ("nonsense_:1", 2, "No module named 'nonsense_'"),
        ("numpy", 2, "expected MODULE:EXPRESSION"),
        ("os:abort()", 2, "the process crashed (SIGABRT) while evaluating the expression"),
        ("builtins:exit(3)", 2, "SystemExit: 3"),
    ],
)
def test_what_is_no_tensor_is_explained(inspect, folder, expression, status, words):
    found = inspect(folder, expression, *QUICK, status=status)
    assert words in found["error"]
    assert found["tensor"] is None and (found["type"] is None) == (status == 2)


def test_errors_are_those_of_fastdl(folder):
    with pytest.raises(BufferError) as caught:
        fastdl.asarray(np.array(["text"]))
    done = run(folder, "inspect", "numpy:array(['text'])", *QUICK)
    assert done.stderr == f"python -m fastdl inspect: BufferError: {caught.value}\n"
    assert "(numpy.ndarray)" in done.stdout


# ---- as text --------------------------------------------------------------------------------


SAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "commands" / "inspect.txt"


def test_the_sample_of_the_documentation(folder):
    """Its first line is a command, which prints the others, but for what NumPy chooses: where the
    array is, and the version of its capsule."""
    command, expected = SAMPLE.read_text("utf-8").split("\n", 1)
    prompt, python, _, module, *arguments = shlex.split(command)
    assert (prompt, python, module) == ("$", "python", "fastdl")
    done = run(folder, *arguments)
    assert done.returncode == 0, done.stderr
    chosen = r"(?m)^(  form +version|  data ).*$"
    assert re.sub(chosen, r"\1", done.stdout) == re.sub(chosen, r"\1", expected)
