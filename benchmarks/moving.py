"""One kernel, bound by the tools that people move from and by fastdl: the time to compile, the
size, and what a call costs. Writes docs/moving.json, which docs/move.md shows.

    python -m benchmarks.moving [--rounds N]

The sources are in docs/examples/moving. torch.utils.cpp_extension compiles its own with ninja, the
others are one command; all with -O2. The time is the user time of the compilers. The size is that
of the stripped module, without the libraries that it needs.
"""

import argparse
import contextlib
import os
import resource
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks import ROOT, bindings, load_module, machine, processes
from benchmarks.timing import Subject, in_python, middle
from fastdl._testing import json_rows

SOURCES = ROOT / "docs/examples/moving"
BUILT = ROOT / "build/benchmarks/moving"

#: Module -> the tool, as readers know it.
TOOLS = {
    "norm_torch": "torch/extension.h",
    "norm_tvm_ffi": "tvm-ffi",
    "norm_fastdl": "fastdl/pybind11.h",
}
ARGUMENTS = ("torch tensors", "ndarrays")


def target(name: str) -> Path:
    return BUILT / name / f"{name}{'.so' if name == 'norm_torch' else bindings.SUFFIX}"


def build(name: str) -> float:
    """The seconds of user time that the compilers took."""
    shutil.rmtree(BUILT / name, ignore_errors=True)
    (BUILT / name).mkdir(parents=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    source = str(SOURCES / f"{name}.cpp")
    if name == "norm_torch":
        from torch.utils.cpp_extension import load as compiled

        with contextlib.redirect_stdout(sys.stderr):
            compiled(name, [source], extra_cflags=["-O2"], build_directory=str(BUILT / name))
    else:
        library = bindings.of_tvm_ffi if name == "norm_tvm_ffi" else bindings.of_pybind11
        include, link = library()
        command = ["g++", "-std=c++17", *bindings.FLAGS, "-shared", *include]
        command += [*bindings.python_include(), source, *link, "-o", str(target(name))]
        subprocess.run(command, check=True)
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    stripped = target(name).with_suffix(".stripped")  # torch has loaded the file as it is
    subprocess.run(["strip", "-o", str(stripped), str(target(name))], check=True)
    stripped.replace(target(name))
    return seconds


def load(name: str) -> Callable:
    if name == "norm_tvm_ffi":
        import tvm_ffi

        return tvm_ffi.load_module(target(name)).norm
    return load_module(name, target(name)).norm


def groups() -> dict[str, list[Subject]]:
    """Kind of argument -> the functions that take it."""
    import numpy as np
    import torch

    x, weight = np.arange(8, dtype=np.float32).reshape(1, 8), np.ones(8, np.float32)
    expected = x / np.sqrt((x**2).mean() + 0.25)
    kinds = dict(zip(ARGUMENTS, (torch.from_numpy, lambda array: array), strict=True))
    found: dict[str, list[Subject]] = {kind: [] for kind in kinds}
    for name, tool in TOOLS.items():
        function = load(name)
        for kind, make in kinds.items():
            out = np.zeros_like(x)
            arguments = (make(out), make(x), make(weight))
            try:
                function(*arguments, 0.25)
            except TypeError:
                continue  # torch takes its own tensors only
            np.testing.assert_allclose(out, expected, rtol=1e-6)
            names = dict(zip(("out", "x", "weight"), arguments, strict=True))
            found[kind].append(in_python(tool, "f(out, x, weight, 0.25)", f=function, **names))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.moving", description=__doc__.partition("\n\n")[0]
    )
    parser.add_argument("--rounds", type=int, default=3, help="compilations of each (3)")
    parser.add_argument("--workers", type=int, default=3, help="processes that time calls (3)")
    options = parser.parse_args()
    facts, versions = machine.facts(), machine.versions()
    times: dict[str, list[float]] = {name: [] for name in TOOLS}
    for _ in range(options.rounds):
        for name, taken in times.items():
            print(name, file=sys.stderr, flush=True)
            taken.append(build(name))
    runs = [processes.run("moving", rounds=30) for _ in range(options.workers)]
    tools = {}
    for name, tool in TOOLS.items():
        seconds = round(statistics.median(times[name]), 1)
        tools[tool] = {"seconds": seconds, "bytes": os.path.getsize(target(name))}
        for kind in ARGUMENTS:
            samples = [one[kind] for one in runs]
            tools[tool][kind] = round(middle(samples, tool)) if tool in samples[0] else None
    print(json_rows.dumps(tools))
    data = {"machine": facts, "versions": versions, "tools": tools}
    (ROOT / "docs/moving.json").write_text(json_rows.dumps(data) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
