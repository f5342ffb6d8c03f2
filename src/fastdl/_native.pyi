# SPDX-License-Identifier: Apache-2.0
# The shared library of the compiled modules, and the C tables that Python's names are generated
# from.

def device_facts() -> list[tuple[int, str, bool, bool, int]]:
    """Rows (number, name, host, addresses, stream kind) of the devices of DLPack 1.3."""

def dtype_facts() -> list[tuple[str, int, int, str | None]]:
    """Rows (name, code, bits, PEP 3118 format or None) of the element types of DLPack 1.3."""
