# SPDX-License-Identifier: Apache-2.0
"""The conformance suite has moved from here to a project of its own."""

import sys

MOVED = (
    "fastdl.testing is now the distribution dlpack-conformance: install it (`pip install "
    "./conformance` in a clone of fastdl), then import dlpack_conformance, or run "
    "python -m dlpack_conformance"
)
if __name__ == "__main__":
    sys.exit(MOVED)
raise ModuleNotFoundError(MOVED, name=__name__)
