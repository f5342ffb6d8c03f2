# SPDX-License-Identifier: Apache-2.0
"""A conformance suite for DLPack, for any array library: see README.md.

    pytest --dlpack=mylib.dlpack_adapter
    python -m dlpack_conformance run numpy --report page.html

The parts may serve other tests: `producers` (managed tensors and tables of any contents),
`structs`, `suite` (the checks, one by one) and `adapters`.
"""
