"""The table of platforms in docs/versioning.md: see docs/quote.py."""

from collections.abc import Iterator

from tests.windows.skipped import WINDOWS, WINE

COMPILED = "every C and C++ file, and the headers with their casters; the extension is linked."
HAND = "once, by hand, in November 2026:"
#: (platform, CPythons, how it was tested, what was not, and why: reason, files).
PLATFORMS = [
    (
        "Linux on x86-64, glibc",
        "3.10 to 3.15, 3.15 without a GIL",
        "**run natively**: all tests. 3.10 is built by clang, the others by GCC.",
        [],
    ),
    (
        "Windows on x86-64",
        "3.13",
        "**run under wine 8** by `nox -s windows`, built by MinGW's GCC 12: the wheel, the demo, "
        "`doctor`, and the light tests that need no other library.",
        [
            *WINDOWS,
            *WINE,
            ("wine cannot show what MSVC makes of the code, nor Windows' own loader", []),
            ("nor its limits of memory and drivers", []),
            ("nor how `doctor` ends a process with its children there", []),
        ],
    ),
    (
        "macOS on arm64 and x86-64",
        "",
        f"**compiled** by zig's clang, by `nox -s macos`: {COMPILED}",
        [("nothing is run, and CPython's headers are those of Linux", [])],
    ),
    (
        "Linux on x86-64, musl",
        "that of Debian",
        f"**run natively** by `nox -s musl`, built by GCC: the demo. **Compiled**: {COMPILED}",
        [("the tests, and NumPy: its wheels need a newer musl than Debian 12 has", [])],
    ),
    (
        "Linux on i386: Debian 12",
        "3.11",
        f"**run natively** {HAND} builds; of the light tests 1,946 passed.",
        [("63 tests failed, 46 were not collected; most were not looked at", [])],
    ),
    (
        "Linux on arm64: Debian 12",
        "3.11",
        f"**run under qemu** {HAND} cross-compiled by GCC 12, imports; some light tests ran.",
        [("the rest", [])],
    ),
]


def as_markdown() -> Iterator[str]:
    yield "| platform | CPython | how it was tested | what was not, and why |"
    yield "|---|---|---|---|"
    for platform, versions, how, lacking in PLATFORMS:
        reasons = []
        for reason, patterns in lacking:
            files = ", ".join(f"`{name}`" for name in patterns if "::" not in name)
            reasons.append(f"{reason}: {files}" if files else reason)
        yield f"| {platform} | {versions} | {how} | {'; '.join(reasons)} |"
