# SPDX-License-Identifier: Apache-2.0
# The shared library of the compiled modules, and the C tables from which Python generates names.

def device_facts() -> list[tuple[int, str, bool, bool, int]]:
    """Rows (number, name, host, addresses, stream kind) of the devices of DLPack 1.3."""

def dtype_facts() -> list[tuple[str, int, int, str | None]]:
    """Rows (name, code, bits, PEP 3118 format or None) of the element types of DLPack 1.3."""
