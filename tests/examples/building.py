# SPDX-License-Identifier: Apache-2.0
"""Builds what is in docs/examples, by the commands that the files there tell their readers."""

import functools
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.support.build import ROOT, folder

EXAMPLES = ROOT / "docs" / "examples"


def run(command, where, **environment):
    """Runs a line of shell in a folder, with this interpreter as `python`; returns what it printed.

    AssertionError, with the whole output, if it fails.
    """
    environment = {**os.environ, **environment}
    environment["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), environment["PATH"]])
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    environment.pop("VIRTUAL_ENV", None)  # CMake would take the Python of that one
    environment.setdefault("CMAKE_GENERATOR", "Ninja")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=where,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"$ {command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def documented_command(file, what="Build"):
    """What follows `Build:` in the comment at the head of a file, up to the first line that does
    not end in a backslash."""
    lines = iter(Path(file).read_text().partition(f"{what}:")[2].splitlines())
    command = []
    for line in lines:
        text = re.sub(r"^( \*|#)?\s*", "", line)
        command.append(text.removesuffix("\\").strip())
        if text and not text.endswith("\\"):
            break
    assert any(command), f"{file} has no line that begins with {what}:"
    return " ".join(command).strip()


@functools.cache
def built(example, file):
    """The folder with the module that docs/examples/EXAMPLE/FILE tells how to build."""
    place = folder() / "examples" / f"{example}-{file}"
    shutil.copytree(EXAMPLES / example, place)
    run(documented_command(place / file), place)
    modules = list(place.rglob(f"*{sysconfig.get_config_var('EXT_SUFFIX')}"))
    modules = [path for path in modules if "temp" not in str(path.relative_to(place))]
    # setuptools keeps another copy in its own folder.
    return min(modules, key=lambda path: len(path.parts)).parent
