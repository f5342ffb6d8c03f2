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

from dlpack_conformance import reports, runner
from dlpack_conformance.suite import BAD

Report = dict[str, Any]


def parse(spec: str) -> list[str]:
    """The requirements in 'warp-lang==1.18.0,1.19.0', one for each version. ArgumentTypeError if
    it is malformed."""
    name, found, versions = spec.partition("==")
    chosen = [version.strip() for version in versions.split(",") if version.strip()]
    if not found or not chosen or not name.strip():
        raise argparse.ArgumentTypeError(
            f"expected NAME==VERSION,VERSION for the releases, not {spec!r}"
        )
    return [f"{name.strip()}=={version}" for version in chosen]


def environment(folder: Path, requirement: str) -> str:
    """The Python of a new environment with one distribution, and the suite of this process.
    CannotStart if there is no such distribution."""
    venv.create(folder, with_pip=True)
    scripts = folder / ("Scripts" if os.name == "nt" else "bin")
    python = str(scripts / "python")
    command = [python, "-I", "-m", "pip", "install", "-q", requirement, "numpy"]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise runner.CannotStart(f"{requirement} cannot be installed: {done.stderr.strip()}")
    (site,) = folder.glob("Lib/site-packages" if os.name == "nt" else "lib/python*/site-packages")
    package = Path(runner.__file__).parent  # needs nothing but Python
    shutil.copytree(package, site / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    return python


def measure(requirement: str, measured: Callable[[str], Report]) -> Report:
    """The report on a release, which `measured` makes with the Python it is given. CannotStart if
    the release cannot be installed."""
    with tempfile.TemporaryDirectory(prefix="dlpack-conformance-") as folder:
        return measured(environment(Path(folder), requirement))


def changes(made: list[Report]) -> Iterator[str]:
    """The checks that pass or fail other than in the release before."""
    for report in made:
        library, bad = report["library"], runner.failures(report["results"])
        name = f"{library.get('title', library['name'])} {library.get('version', '')}"
        yield f"{name}: {reports.counted(len(bad), 'failure')}"
    for before, after in pairwise(made):
        first = {result["id"]: result["outcome"] for result in before["results"]}
        for result in after["results"]:
            was, now = first.get(result["id"]), result["outcome"]
            if (was in BAD) != (now in BAD):
                word = "passes" if was in BAD else "fails"
                version = after["library"]["version"]
                yield f"{version}: {result['id']} now {word} ({was}, then {now})"
