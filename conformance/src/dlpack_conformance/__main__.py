# SPDX-License-Identifier: Apache-2.0
"""python -m dlpack_conformance"""

import sys

from dlpack_conformance.command import main

if __name__ == "__main__":
    sys.exit(main())
