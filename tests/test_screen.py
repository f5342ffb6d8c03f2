"""The command line's output fits the terminal."""

import io
import re

import pytest

from fastdl._cli import drawing, report, screen

NAMES = ["numpy", "torch", "tensorflow", "array_api_strict", *(f"library_{n}" for n in range(12))]
REASON = "CUDARuntimeError: cudaErrorInsufficientDriver: CUDA driver version is insufficient"


def library(name, **more):
    return {
        "name": name,
        "version": "2026.4.1-22982-e213a147257-releases/2026/4",
        "import_path": {"text": "exchange table 1.3"},
        "import_ns": 39.2,
        "numpy_ns": 151.0,
        "dlpack": {
            "keywords": ["max_version", "dl_device", "copy", "stream"],
            "capsule": "dltensor_versioned",
            "raises": "",
        },
        "tensor": {"zero_copy": True, "readonly": True, "device": "cpu:0", "right": True},
        "outcome": "works",
        "reason": "",
        "defects": [
            {
                "title": "Read-only data becomes writable",
                "seen": "2.13.0",
                "certain": False,
                "remedy": "`convert` copies such data.",
            }
        ],
        **more,
    }


def doctor_report():
    broken = library("cupy", outcome="fails", reason=REASON, tensor=None, way=None, dlpack=None)
    return {
        "fastdl": {
            "version": "0.1.0",
            "dlpack": "1.3",
            "folder": "/a/rather/long/path/to/an/environment/lib/python3.11/site-packages/fastdl",
            "library": "_native.cpython-311-x86_64-linux-gnu.so",
        },
        "python": {
            "implementation": "CPython",
            "version": "3.11.7",
            "free_threaded": True,
            "gil": True,
        },
        "platform": {
            "system": "Linux",
            "release": "6.18.44",
            "machine": "x86_64",
            "libc": "glibc 2.36",
            "cpus": 2,
        },
        "clashes": ["another package"],
        "devices": [
            {"title": "CUDA", "found": False, "reason": "no CUDA driver: libcuda was not found"}
        ],
        "libraries": [*map(library, NAMES), broken],
        "not_installed": ["mxnet"],
        "seconds": 8.6,
    }


def array_report():
    shape, strides = [3, 4], [1, 3]
    tensor = {
        "text": "a float32 tensor of shape (3, 4) on cpu:0",
        "itemsize": 4,
        "shape": shape,
        "strides": strides,
        "readonly": False,
        "immutable": False,
        "is_copied": False,
    }
    return {
        "expression": "numpy:arange(12, dtype='float32').reshape(4, 3).T[0:3, 0:4]",
        "type": "numpy.ndarray",
        "import_path": {"kind": "bridge", "text": "bridge"},
        "dlpack": library("")["dlpack"],
        "plan": {
            "path": "__dlpack__",
            "otherwise": None,
            "keywords": {"max_version": [1, 3], "stream": 1},
            "stream": 1,
            "copies": ["its library", "fastdl"],
        },
        "tensor": tensor,
        "managed": {
            "by_library": True,
            "form": "versioned",
            "version": "1.0",
            "flags": 0,
            "flag_names": [],
            "data": 0x55D0C9B7EA80,
            "alignment": 128,
            "byte_offset": 0,
            "device": [1, 0],
            "device_name": "kDLCPU:0",
            "dtype_name": "kDLFloat 32",
            "dtype": {"code": 2, "bits": 32, "lanes": 1},
            "ndim": 2,
            "shape": shape,
            "strides": strides,
            "deleter": True,
            "manager_ctx": True,
        },
        "consumers": {name: {"outcome": "copy", "reason": REASON} for name in NAMES},
    }


SCREENS = {"doctor": (report.show, doctor_report), "inspect": (drawing.show, array_report)}


def shown(command, columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    show, made = SCREENS[command]
    output = screen.Screen(io.StringIO())
    show(made(), output)
    return output.file.getvalue()


@pytest.mark.parametrize("columns", [40, 41, 60, 80, 100, 200])
@pytest.mark.parametrize("command", SCREENS)
def test_plain_text_fits(command, columns, monkeypatch):
    text = shown(command, columns, monkeypatch)
    assert max(map(len, text.splitlines())) <= columns
    assert "\n\n\n" not in text
    for name in NAMES:
        assert re.search(rf"\b{name}\b", text)
    assert "driver" in text and "insufficient" in text


def test_a_narrow_table_is_a_list(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    output = screen.Screen(io.StringIO())
    headers = ("library", "version", "import path", "import", "result")
    output.table(headers, [("numpy", "2.4.6", "bridge", "39 ns", "zero-copy, read-only")])
    assert output.file.getvalue().splitlines() == [
        "numpy",
        "  version       2.4.6",
        "  import path   bridge",
        "  import        39 ns",
        "  result        zero-copy, read-only",
    ]
