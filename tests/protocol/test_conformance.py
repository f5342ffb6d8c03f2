# SPDX-License-Identifier: Apache-2.0
"""The conformance suite on fastdl, as its command runs it for any library."""

import json

import pytest

from dlpack_conformance.outcomes import DEVIATES, PASSED, SKIPPED
from tests.support.isolate import run_python


@pytest.mark.slow  # test_paths_conform.py makes the checks in this process
def test_the_suite_finds_one_deviation(tmp_path):
    """By its own command and adapter; a Tensor has no conjugate views."""
    path = tmp_path / "report.json"
    command = ("-m", "dlpack_conformance", "run", "fastdl", "--report", path)
    assert run_python(*command, cwd=tmp_path, timeout=600).returncode == 0
    results = json.loads(path.read_text())["results"]
    others = {one["id"]: one["outcome"] for one in results if one["outcome"] != PASSED}
    assert others == {"hostile.code-unknown": DEVIATES, "layout.export-conjugated": SKIPPED}
