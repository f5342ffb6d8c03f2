"""What it costs to include the headers: bytes that each further file adds to a module, and the time
that the compiler takes for the casters beside nanobind's own.

    python -m benchmarks.inclusion [--rounds N]
"""

import argparse
import importlib.util
import os
import resource
import shutil
import statistics
import subprocess
import sysconfig
import tempfile
from pathlib import Path

from benchmarks import ROOT

LIMITED = "-DPy_LIMITED_API=0x030a0000"
FILES = 11  # of which ten are further ones

#: A file of a module in C: one function that takes a vector.
BORROWER = """
#include <fastdl/fastdl.h>
PyObject *total_NUMBER(PyObject *module, PyObject *argument);
PyObject *total_NUMBER(PyObject *module, PyObject *argument)
{
    static const uint32_t types[] = {FASTDL_FLOAT32};
    const fastdl_spec spec = {.dtypes = types, .dtype_count = 1, .ndim = 1};
    fastdl_view x;
    float sum = 0;
    (void)module;
    if (fastdl_borrow(argument, &x) < 0 || fastdl_expect(&x, "x", &spec) < 0) {
        fastdl_release(&x);
        return NULL;
    }
    for (int64_t i = 0; i < x.dl.shape[0]; i++)
        sum += ((const float *)x.dl.data)[i * x.dl.strides[0]];
    fastdl_release(&x);
    return PyFloat_FromDouble(sum);
}
"""

#: One function of a matrix, bound by nanobind, with each kind of argument.
SUM = """
    double sum = 0;
    for (int64_t i = 0; i < int64_t(x.shape(0)); i++)
        for (int64_t j = 0; j < int64_t(x.shape(1)); j++)
            sum += double(x(i, j));
    return sum;
"""
BOUND = {
    "nothing": 'NB_MODULE(bound, m) { m.def("total", [](double x) { return x; }); }',
    "nb::ndarray": "#include <nanobind/ndarray.h>\n"
    'NB_MODULE(bound, m) { m.def("total", [](const nanobind::ndarray<const float, '
    f"nanobind::ndim<2>, nanobind::device::cpu> &x) {{ {SUM} }}); }}",
    "fastdl::tensor": "#include <fastdl/nanobind.h>\n"
    'NB_MODULE(bound, m) { m.def("total", [](const fastdl::tensor<const float, '
    f"fastdl::ndim<2>> &x) {{ {SUM} }}); }}",
}


def linked_bytes(folder: Path, count: int, *flags: str) -> int:
    """Code and data of a module of so many files."""
    python = sysconfig.get_path("include")
    sources = []
    for number in range(count):
        sources.append(folder / f"file_{number}.c")
        sources[-1].write_text(BORROWER.replace("NUMBER", str(number)))
    output = folder / "module.so"
    sources.append(ROOT / "include/fastdl/fastdl.c")
    command = ["gcc", "-std=c99", "-O2", "-fPIC", "-shared", f"-I{ROOT / 'include'}", f"-I{python}"]
    subprocess.run([*command, *flags, *sources, "-o", output], check=True)
    answer = subprocess.run(["size", output], check=True, capture_output=True, text=True).stdout
    text, data, *_ = answer.splitlines()[1].split()
    return int(text) + int(data)


def compile_seconds(source: Path) -> float:
    """The compiler's user time."""
    nanobind = Path(importlib.util.find_spec("nanobind").origin).parent / "include"  # type: ignore
    command = ["g++", "-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", "-c", str(source)]
    command += [f"-I{ROOT / 'include'}", f"-isystem{sysconfig.get_path('include')}"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run([*command, f"-isystem{nanobind}", "-o", os.devnull], check=True)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def compile_times(folder: Path, rounds: int) -> dict[str, float]:
    """Median seconds for each file of BOUND, taken in turns."""
    taken: dict[str, list[float]] = {name: [] for name in BOUND}
    for _ in range(rounds):
        for number, (name, code) in enumerate(BOUND.items()):
            source = folder / f"bound_{number}.cpp"
            source.write_text(f"#include <nanobind/nanobind.h>\n{code}\n")
            taken[name].append(compile_seconds(source))
    return {name: statistics.median(times) for name, times in taken.items()}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.inclusion", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="compilations of each kind (7)")
    options = parser.parse_args()
    if not all(map(shutil.which, ("gcc", "g++", "size"))):
        print("needs gcc and binutils")
        return 1
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for api, flags in (("full API", ()), ("limited API", (LIMITED,))):
            one, all_ = (linked_bytes(folder, count, *flags) for count in (1, FILES))
            further = (all_ - one) / (FILES - 1)
            print(f"{api:12s} first file {one:6d} bytes, each further one {further:6.0f} (<= 4000)")
        times = compile_times(folder, options.rounds)
    own = times["nb::ndarray"]
    for what, seconds in times.items():
        print(
            f"{what:15s} {seconds:6.3f} s to compile, {seconds / own:5.2f}x nb::ndarray (<= 1.5x)"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
