"""Bindings of three released extensions, written anew with fastdl: `python -m benchmarks.ports`.

What stands here is ours. Their own code is downloaded with pip, and stays in build/ports.
"""

from dataclasses import dataclass

from benchmarks import ROOT

FOLDER = ROOT / "build/ports"
RESULTS = ROOT / "docs/ports.json"
FORMS = ("before", "after")
ARGUMENTS = ("ndarray", "torch tensor")


@dataclass(frozen=True)
class Port:
    name: str  #: of the distribution
    version: str
    tool: str  #: with which it binds; and what fastdl offers instead
    ours: str  #: file in this folder
    theirs: str  #: file of the sdist that it replaces
    module: str
    tests: tuple[str, ...]  #: for pytest: a module that is installed, or a folder of the sdist
    call: str  #: what is timed


PORTS = (
    Port(
        name="fast-histogram",
        version="0.14",
        tool="C: NumPy's C API, now fastdl.h",
        ours="histogram_core.c",
        theirs="fast_histogram/_histogram_core.c",
        module="fast_histogram._histogram_core",
        tests=("--pyargs", "fast_histogram"),
        call="histogram of 100 doubles",
    ),
    Port(
        name="soxr",
        version="1.1.0",
        tool="C++: nb::ndarray, now fastdl/nanobind.h",
        ours="soxr_ext.cpp",
        theirs="src/soxr_ext.cpp",
        module="soxr.soxr_ext",
        tests=("tests",),
        call="64 frames of a stream",
    ),
    Port(
        name="pykdtree",
        version="1.4.3",
        tool="Cython: cimport numpy, now cimport fastdl",
        ours="kdtree.pyx",
        theirs="pykdtree/kdtree.pyx",
        module="pykdtree.kdtree",
        tests=("--pyargs", "pykdtree"),
        call="query of one point in 1,000",
    ),
)
