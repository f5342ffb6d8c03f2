"""What fastdl costs before it does anything: the time of its import and the size of its wheel."""

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import fastdl
from benchmarks import ROOT

PROGRAM = """\
from time import perf_counter
start = perf_counter()
import {}
print(perf_counter() - start)
"""


def import_seconds(module: str, cache: str) -> float:
    """The time of one import in a fresh interpreter, which has imported nothing but site, with byte
    code in the folder `cache`."""
    path = str(Path(fastdl.__file__).parents[1])
    environment = os.environ | {"PYTHONPATH": path, "PYTHONPYCACHEPREFIX": cache}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    answer = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(module)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        cwd=tempfile.gettempdir(),  # not where a module of that name may lie
    )
    return float(answer.stdout)


def imports(modules: list[str], rounds: int) -> dict[str, float]:
    """Median milliseconds of each import, taken in turns."""
    seconds: dict[str, list[float]] = {module: [] for module in modules}
    with tempfile.TemporaryDirectory() as cache:
        for module in modules:
            import_seconds(module, cache)  # compiles to byte code, brings the files to memory
        for _ in range(rounds):
            for module in modules:
                seconds[module].append(import_seconds(module, cache))
    return {module: statistics.median(taken) * 1e3 for module, taken in seconds.items()}


def wheel_bytes() -> int | str:
    """The size of a wheel built from this tree with the tools installed here, or what is wrong."""
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "pip", "wheel", str(ROOT), "--no-deps"]
        command += ["--no-build-isolation", "--quiet", "--wheel-dir", directory]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return "the wheel does not build: " + " ".join(done.stderr.split())[-300:]
        (wheel,) = Path(directory).glob("*.whl")
        return wheel.stat().st_size
