"""Several releases of a library, each in an environment of its own."""

import argparse
import os
import shutil
import subprocess
import tempfile
import venv
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from fastdl._testing import runner
from fastdl._testing.suite import CRASHED, FAILED

Report = dict[str, Any]


def parse(spec: str) -> tuple[str, list[str]]:
    """'warp-lang==1.18.0,1.19.0' as a name and its versions. ArgumentTypeError if it is
    malformed."""
    name, found, versions = spec.partition("==")
    chosen = [version.strip() for version in versions.split(",") if version.strip()]
    if not found or not chosen or not name.strip():
        raise argparse.ArgumentTypeError(
            f"expected NAME==VERSION,VERSION for the releases, not {spec!r}"
        )
    return name.strip(), chosen


def environment(folder: Path, requirement: str) -> str:
    """The Python of a new environment with one distribution, and the kit of this process.
    CannotStart if there is no such distribution."""
    venv.create(folder, with_pip=True)
    scripts = folder / ("Scripts" if os.name == "nt" else "bin")
    python = str(scripts / "python")
    command = [python, "-m", "pip", "install", "-q", requirement, "numpy"]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise runner.CannotStart(f"{requirement} cannot be installed: {done.stderr.strip()}")
    (site,) = folder.glob("Lib/site-packages" if os.name == "nt" else "lib/python*/site-packages")
    package = Path(runner.__file__).parents[1]  # needs nothing but Python
    shutil.copytree(package, site / "fastdl", ignore=shutil.ignore_patterns("__pycache__"))
    return python


def measure(
    adapter: str,
    spec: tuple[str, list[str]],
    checks: list[str],
    measured: Callable[..., Report],
) -> list[Report]:
    """A report for each release. CannotStart if one cannot be installed."""
    name, versions = spec
    made = []
    for version in versions:
        with tempfile.TemporaryDirectory(prefix="fastdl-testing-") as folder:
            python = environment(Path(folder), f"{name}=={version}")
            made.append(measured(adapter, checks, python))
    return made


def changes(made: list[Report]) -> Iterator[str]:
    """The checks that began or ceased to hold from one release to the next."""
    for report in made:
        library, bad = report["library"], runner.failures(report["results"])
        yield f"{library.get('title', library['name'])} {library['version']}: {len(bad)} failures"
    for before, after in pairwise(made):
        first = {result["id"]: result["outcome"] for result in before["results"]}
        for result in after["results"]:
            was, now = first.get(result["id"]), result["outcome"]
            bad = was in (CRASHED, FAILED), now in (CRASHED, FAILED)
            if bad[0] != bad[1]:
                word = "begins to hold" if bad[0] else "ceases to hold"
                yield f"{after['library']['version']}: {result['id']} {word} ({was}, then {now})"
