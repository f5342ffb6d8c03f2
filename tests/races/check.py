# SPDX-License-Identifier: Apache-2.0
"""Runs tests of threads under ThreadSanitizer, and fails if code of ours races.

    python tests/races/check.py INSTRUMENTED-PYTHON TEST...

For a fastdl that was built with FASTDL_SANITIZE=thread for a free-threaded CPython, which runs this
script. INSTRUMENTED-PYTHON is the same release, itself built with ThreadSanitizer: without that its
locks and reference counts would order nothing. What races in CPython alone is no finding.
"""

import os
import re
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
OURS = re.compile(r"\b(src|include)/fastdl/|\btests/(capi|simulated)/")  # source files
ITS_OWN = re.compile(r"libtsan|<null>")  # frames above that of an access
# CPython 3.13 interns the name of a Cython function, for a traceback, beside another thread.
INTERNING = " intern_common <null> (python"
PLANTED = """
from tests.support.build import extension
from tests.support.threads import together
count = extension("racing").count
together(*[lambda i: count(3_000_000)] * 2, collect=False)  # long enough to overlap
"""


def is_ours(report):
    """Whether one of the accesses that a report is about is by code of ours."""
    for stack in report.split("\n\n"):
        frames = re.findall(r"^ +#\d+ .*", stack, re.MULTILINE)
        access = next((frame for frame in frames if not ITS_OWN.search(frame)), "")
        if any(INTERNING in frame for frame in frames):
            continue
        if re.search(r"^ .*(read|write) of size", stack, re.MULTILINE | re.I) and OURS.search(
            access
        ):
            return True
    return False


def run(python, *arguments):
    """What Python ends with, and the reports about code of ours."""
    with tempfile.TemporaryDirectory() as folder:
        options = f"log_path={folder}/log:exitcode=0:history_size=4"
        process = subprocess.run(
            [python, *arguments],
            cwd=ROOT,
            env={
                **os.environ,
                "TSAN_OPTIONS": options,
                "FASTDL_SANITIZE": "thread",  # what the tests compile is built likewise
                "FASTDL_TEST_ROUNDS": "20",
                "PYTHONPATH": os.pathsep.join([sysconfig.get_path("purelib"), str(ROOT)]),
                "PYTHONPYCACHEPREFIX": f"{folder}/bytecode",  # not that of another interpreter
            },
        )
        text = "".join(log.read_text() for log in sorted(Path(folder).glob("log.*")))
    return process.returncode, [report for report in text.split("=" * 18) if is_ours(report)]


def main(python, *tests):
    status, found = run(python, "-c", PLANTED)
    if status != 0 or not any("racing" in report for report in found):
        sys.exit("ThreadSanitizer does not see a race made on purpose")
    status, found = run(python, "-m", "pytest", "-p", "no:cacheprovider", *tests)
    print(f"{len(found)} races", *found, sep="\n\n")
    return status or bool(found)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("expected an interpreter with ThreadSanitizer, and tests, as arguments")
    sys.exit(main(*sys.argv[1:]))
