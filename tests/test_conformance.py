"""The conformance suite on fastdl, as its command runs it for any library."""

import json
import subprocess
import sys

from dlpack_conformance.suite import DEVIATES, PASSED


def test_the_suite_finds_one_deviation(tmp_path):
    """By its own command and adapter; nothing is not applicable."""
    path = tmp_path / "report.json"
    command = [sys.executable, "-m", "dlpack_conformance", "run", "fastdl", "--report", str(path)]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=600).returncode == 0
    results = json.loads(path.read_text())["results"]
    others = {one["id"]: one["outcome"] for one in results if one["outcome"] != PASSED}
    assert others == {"hostile.code-unknown": DEVIATES}
