# SPDX-License-Identifier: Apache-2.0
"""Runs the scripts given as arguments under LeakSanitizer, and fails if one of them leaks.

For a fastdl that was built with FASTDL_SANITIZE=address,undefined. CPython 3.10 and 3.11 give
everything back at exit, and then any leak counts. Later ones do not, and then those count that
were allocated under a function of fastdl or by ctypes, which stands for a foreign producer.
"""

import os
import re
import subprocess
import sys

OURS = re.compile(r"fastdl|ffi_call|_ctypes")
CANARY = "import ctypes; ctypes.CDLL(None).malloc(4321)"


def runtime(name):
    """The path of a sanitizer's library. It has to be in the process before anything else."""
    command = ["gcc", f"-print-file-name={name}"]
    path = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if not os.path.isabs(path):
        sys.exit(f"gcc has no {name}: install it")
    return path


def leaks(*arguments):
    """The leaks of a Python process, each with its stack. It must end well otherwise."""
    options = "detect_leaks=1:allocator_may_return_null=1:fast_unwind_on_malloc=0:exitcode=66"
    result = subprocess.run(
        [sys.executable, *arguments],
        env={
            **os.environ,
            "LD_PRELOAD": f"{runtime('libasan.so')}:{runtime('libubsan.so')}",
            "PYTHONMALLOC": "malloc",
            "ASAN_OPTIONS": options,
        },
        capture_output=True,
        text=True,
    )
    parts = result.stderr.split("\n\n")
    found = [part for part in parts if re.match(r"(In)?[Dd]irect leak of", part)]
    if result.returncode != (66 if found else 0):
        sys.exit(f"{arguments} ended with {result.returncode}:\n{result.stdout}{result.stderr}")
    return found


def main(scripts):
    if not scripts:
        sys.exit("expected scripts as arguments")
    base = leaks("-c", "import array, ctypes, gc, re")
    print(f"{sys.version.split()[0]} by itself: {len(base)} leaks")

    def counted(*arguments):
        found = leaks(*arguments)
        return [leak for leak in found if OURS.search(leak)] if base else found

    if not any("4321 byte" in leak for leak in counted("-c", CANARY)):
        sys.exit("LeakSanitizer does not see a leak made on purpose")
    status = 0
    for script in scripts:
        found = counted(script)
        print(f"{script}: {len(found)} leaks", *found, sep="\n\n" if found else "")
        status |= bool(found)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
