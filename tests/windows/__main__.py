# SPDX-License-Identifier: Apache-2.0
"""Runs tests of this repository on a Python for Windows that .ci/windows made:

    python -m tests.windows FOLDER [ARGUMENTS-OF-PYTEST...]

without those that skipped.py lists. Their C sources are compiled on this side, by mingw, as the
tests ask for it.
"""

import os
import subprocess
import sys
import tempfile
import threading
from multiprocessing.connection import Connection, Listener
from pathlib import Path

from tests.windows import skipped

COMPILERS = {"cc": "x86_64-w64-mingw32-gcc-posix", "c++": "x86_64-w64-mingw32-g++-posix"}


def unix(path):
    """A path as wine writes it, or another word."""
    return path.replace("Z:", "").replace("\\", "/") if "Z:" in path else path


def compile_for(client: Connection):
    """Answers a call of tests.support.build.run_compiler."""
    with client:
        (name, *words), folder = client.recv()
        command = [COMPILERS[name], *map(unix, words)]
        result = subprocess.run(
            command, cwd=unix(folder) if folder else None, capture_output=True, text=True
        )
        client.send((result.returncode, result.stderr))


def serve(listener: Listener):
    while True:
        threading.Thread(target=compile_for, args=[listener.accept()], daemon=True).start()


folder, *arguments = sys.argv[1:]
with Listener(("localhost", 0)) as listener, tempfile.TemporaryDirectory() as compiled:
    threading.Thread(target=serve, args=[listener], daemon=True).start()
    env = {"FASTDL_TEST_COMPILER": str(listener.address[1]), "FASTDL_TEST_BUILD": f"Z:{compiled}"}
    command = [Path(folder, "run"), "-m", "pytest", f"--basetemp=Z:{compiled}/tmp"]
    command += [*skipped.left_out(), *arguments]
    sys.exit(subprocess.run(command, env=os.environ | env).returncode)
