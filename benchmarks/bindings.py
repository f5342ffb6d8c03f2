# SPDX-License-Identifier: Apache-2.0
"""One function of one tensor, bound by each tool: what a call costs, how long the module takes to
compile, and how large it is. Writes docs/bindings.json, which docs/comparison.md shows.

    python -m benchmarks.bindings [--rounds N]
    python -m benchmarks.bindings --eight    # only a file of eight functions of nanobind, see below

The sources are in benchmarks/smallest, all compiled with the same flags. The time is the user time
of the compilers, from the source to the module; of nanobind, which has code of its own to compile
once for each project, without that. The size is that of the stripped module.

eight.cpp is compiled with fastdl's caster and with nanobind's own, in turns, to an object file: the
ratio of the times, and that of what a module holds of each file. fastdl.c is not part of it.
"""

import argparse
import importlib.util
import os
import resource
import statistics
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

from benchmarks import ROOT, load_module, machine, processes
from benchmarks.limits import BUDGETS
from benchmarks.report import in_lines
from benchmarks.timing import Samples, Subject, in_python, middle

SOURCES = Path(__file__).parent / "smallest"
BUILT = ROOT / "build/benchmarks/smallest"
FLAGS = ["-O2", "-fPIC", "-fvisibility=hidden", f"-I{ROOT / 'include'}"]
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")

#: Module -> the tool, as readers know it.
TOOLS = {
    "with_fastdl.c": "fastdl.h",
    "with_fastdl_cython.pyx": "cimport fastdl",
    "with_fastdl_nanobind.cpp": "nanobind, fastdl's caster",
    "with_fastdl_pybind11.cpp": "pybind11, fastdl's caster",
    "with_nanobind.cpp": "nanobind, nb::ndarray",
    "with_pybind11.cpp": "pybind11, py::array",
    "with_tvm_ffi.cpp": "tvm-ffi",
    "with_torch.cpp": "torch, TORCH_LIBRARY",
}
ARGUMENTS = ("torch tensor", "ndarray")


# ---- building -------------------------------------------------------------------------------


def python_include() -> list[str]:
    return [f"-isystem{sysconfig.get_path('include')}"]


def of_nanobind() -> tuple[list[str], list[str]]:
    import nanobind

    own = Path(nanobind.source_dir())
    headers = [nanobind.include_dir(), str(own.parent / "ext/robin_map/include")]
    include = [f"-isystem{path}" for path in headers]
    library = BUILT / f"nanobind-{nanobind.__version__}.o"
    if not library.exists():
        command = ["g++", "-std=c++17", *FLAGS, "-fno-strict-aliasing", *include]
        source = str(own / "nb_combined.cpp")
        run([*command, *python_include(), "-c", source, "-o", str(library)])
    return include, [str(library)]


def of_pybind11() -> tuple[list[str], list[str]]:
    import pybind11

    return [f"-isystem{pybind11.get_include()}"], []


def of_tvm_ffi() -> tuple[list[str], list[str]]:
    from tvm_ffi import libinfo

    library = Path(libinfo.find_libtvm_ffi())
    return (
        [f"-isystem{path}" for path in libinfo.include_paths()],
        [f"-L{library.parent}", "-ltvm_ffi", f"-Wl,-rpath,{library.parent}"],
    )


def of_torch() -> tuple[list[str], list[str]]:
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise ImportError("No module named 'torch'")
    folder = Path(spec.origin).parent
    headers = (folder / "include", folder / "include/torch/csrc/api/include")
    return (
        [f"-isystem{path}" for path in headers],
        [f"-L{folder / 'lib'}", "-ltorch", "-ltorch_cpu", "-lc10"],
    )


LIBRARIES: dict[str, Callable[[], tuple[list[str], list[str]]]] = {
    "nanobind": of_nanobind,
    "pybind11": of_pybind11,
    "ffi": of_tvm_ffi,
    "torch": of_torch,
}


def run(command: list[str]) -> None:
    subprocess.run(command, check=True, cwd=ROOT)


def target(source: str) -> Path:
    return BUILT / f"{Path(source).stem}{SUFFIX}"


def build(source: str) -> float:
    """Compiles and links a module; the seconds of user time that took."""
    BUILT.mkdir(parents=True, exist_ok=True)
    name, kind = Path(source).stem, Path(source).suffix
    library = LIBRARIES.get(name.rpartition("_")[2])
    include, link = library() if library else ([], [])
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    path = str(SOURCES / source)
    if kind == ".pyx":
        path = str(BUILT / f"{name}.c")
        run([sys.executable, "-m", "cython", "-3", str(SOURCES / source), "-o", path])
    standard = "-std=c++20" if name == "with_torch" else "-std=c++17"
    compiler = ["g++", standard] if kind == ".cpp" else ["gcc", "-std=c11"]
    command = [*compiler, *FLAGS, "-shared", "-s", *include, *python_include(), path, *link]
    run([*command, "-o", str(target(source))])
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def compile_eight(*flags: str) -> tuple[float, int]:
    """The seconds of user time, and the bytes of code and data."""
    BUILT.mkdir(parents=True, exist_ok=True)
    include, _ = of_nanobind()
    output = str(BUILT / "eight.o")
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    source = str(SOURCES.parent / "eight.cpp")
    command = ["g++", "-std=c++17", *FLAGS, *flags, *include, *python_include(), "-c", source]
    run([*command, "-o", output])
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    sizes = subprocess.run(["size", output], check=True, capture_output=True, text=True).stdout
    return seconds, sum(map(int, sizes.splitlines()[1].split()[:2]))


def eight(rounds: int) -> dict[str, float]:
    """A file of eight functions with fastdl's caster, as a multiple of one with nanobind's."""
    compile_eight()  # nanobind's own code, and a warm disk cache
    pairs = [(compile_eight("-DWITH_FASTDL"), compile_eight()) for _ in range(rounds)]
    known = {
        "seconds": round(statistics.median(ours[0] / own[0] for ours, own in pairs), 3),
        "bytes": round(pairs[0][0][1] / pairs[0][1][1], 3),
    }
    for name, value in known.items():
        limit = BUDGETS[f"eight/{name}"]
        print(f"eight functions: {name}", value, f"<= {limit}", "" if value <= limit else "MISSED")
    return known


def load(source: str) -> Callable:
    """The function of a module that was built."""
    name, path = Path(source).stem, target(source)
    if name == "with_torch":
        import torch

        torch.ops.load_library(str(path))
        return torch.ops.fastdl_benchmark.take.default
    if name == "with_tvm_ffi":
        import tvm_ffi

        return tvm_ffi.load_module(path).take
    return load_module(name, path).take


# ---- measuring ------------------------------------------------------------------------------


def groups() -> dict[str, list[Subject]]:
    """Kind of argument -> the functions that take it."""
    import torch  # noqa: F401 - before what links to it

    from benchmarks.exchanges import numpy_array, torch_tensor

    functions = {tool: load(source) for source, tool in TOOLS.items() if target(source).exists()}
    found = {}
    for kind, x in zip(ARGUMENTS, (torch_tensor(), numpy_array()), strict=True):
        found[kind] = [
            in_python(tool, "f(x)", f=function, x=x)
            for tool, function in functions.items()
            if takes(function, x)
        ]
    return found


def takes(function: Callable, x: object) -> bool:
    try:
        function(x)
    except (TypeError, RuntimeError):
        return False
    return True


def result(tool: str, source: str, seconds: list[float], calls: dict[str, Samples]) -> dict:
    known = {
        "seconds": round(statistics.median(seconds), 3),
        "bytes": os.path.getsize(target(source)),
    }
    for kind, samples in calls.items():
        known[kind] = round(middle(samples, tool), 1) if tool in samples[0] else None
    return known


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bindings", description=__doc__.partition("\n\n")[0]
    )
    parser.add_argument("--rounds", type=int, default=3, help="compilations of each (3)")
    parser.add_argument("--workers", type=int, default=5, help="processes that time calls (5)")
    parser.add_argument("--eight", action="store_true", help="only eight functions of nanobind")
    options = parser.parse_args()
    if options.eight:
        eight(3 * options.rounds)
        return 0
    facts, versions = machine.facts(), machine.versions()
    times: dict[str, list[float]] = {source: [] for source in TOOLS}
    for _ in range(options.rounds):
        for source, taken in times.items():
            print(source, file=sys.stderr, flush=True)
            taken.append(build(source))
    runs = [processes.run("bindings", rounds=30) for _ in range(options.workers)]
    calls = {kind: [one[kind] for one in runs] for kind in ARGUMENTS}
    tools = {tool: result(tool, s, times[s], calls) for s, tool in TOOLS.items()}
    for tool, known in tools.items():
        print(f"{tool:28}", *(f"{name} {value}" for name, value in known.items()), sep="  ")
    data = {"machine": facts, "versions": versions, "tools": tools}
    data["eight functions"] = eight(3 * options.rounds)
    (ROOT / "docs/bindings.json").write_text(in_lines(data) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
