# SPDX-License-Identifier: Apache-2.0
"""A conformance suite for DLPack, for any array library: see README.md.

    dlpack_conformance.inspect_capsule(x.__dlpack__())     shows a capsule
    dlpack_conformance.inspect_exchange_api(type(x))       shows an exchange table
    pytest --dlpack=mylib.dlpack_adapter                   the suite
    python -m dlpack_conformance run numpy --report page.html

The parts may serve other tests: `producers` (managed tensors and tables of any contents),
`structs`, `suite` (the checks, one by one) and `adapters`.
"""

from dlpack_conformance.inspector import Inspection, inspect_capsule, inspect_exchange_api

__all__ = ["Inspection", "inspect_capsule", "inspect_exchange_api"]
