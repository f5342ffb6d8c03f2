# SPDX-License-Identifier: Apache-2.0
"""The support table of docs/interop.md: see docs/quote.py."""

import re
from collections.abc import Iterator
from pathlib import Path

CLASSIFIERS = (Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8")
#: The CPythons that the package is for. CI runs the tests on each.
CPYTHONS = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', CLASSIFIERS)

COMPILED = "**only compiled**, with all headers"
#: (platform, CPythons, libraries, how it is tested).
PLATFORMS = [
    (
        "Linux x86-64, glibc",
        f"{CPYTHONS[0]} to {CPYTHONS[-1]}; 3.15 without a GIL",
        "NumPy; on 3.11 [all](#library-by-library)",
        "**natively**: all tests on 3.11; elsewhere, those that depend on CPython",
    ),
    (
        "Windows x86-64",
        "3.13",
        "NumPy",
        "**under wine 8**, built by MinGW: the wheel, `demo`, `doctor`, all tests not marked "
        "`slow`, except [these](../tests/windows/skipped.py); never built by MSVC",
    ),
    ("Linux x86-64, musl", "3.11", "", f"**natively**: `demo`; the rest {COMPILED}"),
    ("macOS arm64, x86-64", "", "", f"{COMPILED}, by zig's clang"),
    (
        "CUDA, ROCm",
        "as on Linux",
        "stand-ins for torch and CuPy",
        "**simulated** drivers; never run on hardware",
    ),
    (
        "Linux i386, arm64",
        "3.11",
        "",
        "not supported: no test runs there regularly; tried once: 63 of 2,009 tests failed on "
        "i386, 46 were not collected; some ran on arm64 in qemu",
    ),
]


def as_markdown() -> Iterator[str]:
    yield "| platform | CPython | libraries | how it is tested |"
    yield "|---|---|---|---|"
    for row in PLATFORMS:
        yield f"| {' | '.join(row)} |"
