# SPDX-License-Identifier: Apache-2.0
"""What fastdl costs before it does anything: the time of its import."""

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import fastdl

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
