# SPDX-License-Identifier: Apache-2.0
"""The report of doctor for a terminal."""

from collections.abc import Iterable, Iterator
from typing import Any

from fastdl._cli.libraries import BY_NAME
from fastdl._cli.screen import Screen, counted


def show(report: dict[str, Any], screen: Screen) -> None:
    for line in facts(report):
        screen.line(line)
    for sentence in report["clashes"]:
        screen.line(f"Name clash: {sentence}")
    for sentence in missing(report):
        screen.line(sentence)
    show_libraries(report, screen)
    show_defects(report, screen)
    screen.line()
    screen.line(
        f"Examined in {report['seconds']:g} s. For a bug report, attach the output of --json."
    )


def facts(report: dict[str, Any]) -> Iterator[str]:
    """Lines on fastdl, Python, the machine and its drivers."""
    own, python, machine = report["fastdl"], report["python"], report["platform"]
    yield f"fastdl {own['version']}, DLPack {own['dlpack']}, in {own['folder']} ({own['library']})"
    threads = "free-threaded" if python["free_threaded"] else ""
    gil = "GIL enabled" if python["free_threaded"] and python["gil"] else ""
    yield ", ".join(
        word
        for word in (
            f"{python['implementation']} {python['version']}",
            threads,
            gil,
            f"{machine['system']} {machine['release']} {machine['machine']}",
            machine["libc"],
            counted(machine["cpus"], "CPU") if machine["cpus"] else "",
        )
        if word
    )
    for device in report["devices"]:
        yield f"{device['title']}: {driver_summary(device)}"


def driver_summary(device: dict[str, Any]) -> str:
    if not device["found"]:
        return device["reason"]
    devices = counted(device["devices"], "device")
    return f"{device['name']}, version {device['version']}, {devices}"


def missing(report: dict[str, Any]) -> Iterable[str]:
    """Sentences about what is not installed."""
    if report["not_installed"]:
        yield f"Not installed: {', '.join(report['not_installed'])}."
    elif not report["libraries"]:
        yield "No tensor library that fastdl knows is installed: pip install numpy, for example."
    if report["libraries"] and not BY_NAME["numpy"].installed:
        yield (
            "NumPy is not installed: other libraries work without it, but tensor.numpy() and the "
            "sample arrays of some libraries need it."
        )


# ---- libraries ------------------------------------------------------------------------------


def nanoseconds(value: "float | None") -> str:
    if value is None:
        return ""
    return f"{value:.0f} ns" if value < 10_000 else f"{value / 1000:.0f} us"


def memory_summary(library: dict[str, Any]) -> str:
    """The result of an import in short; the reason if there is none."""
    tensor = library["tensor"]
    if tensor is None:
        return library["reason"] or "none"
    words = ["zero-copy" if tensor["zero_copy"] else "copy"]
    if tensor["readonly"]:
        words.append("read-only")
    if not tensor["device"].startswith("cpu"):
        words.append(tensor["device"])
    if tensor["right"] is False:
        words.append("WRONG VALUES")
    if library["outcome"] != "works":
        words.append(library["reason"])
    return ", ".join(words)


def yardstick(libraries: list[dict[str, Any]]) -> "float | None":
    """The cost of np.from_dlpack(ndarray): the median over the processes."""
    measured = sorted(library["numpy_ns"] for library in libraries if library["numpy_ns"])
    return measured[len(measured) // 2] if measured else None


def protocol_lines(libraries: list[dict[str, Any]]) -> Iterator[str]:
    """The signatures of `__dlpack__`, each with the libraries that have it."""
    found: dict[tuple[str, str], list[str]] = {}
    for library in libraries:
        asked = library["dlpack"]
        if asked:
            call = f"__dlpack__({', '.join(asked['keywords'])})"
            forms = {"dltensor": "legacy", "dltensor_versioned": "versioned"}
            form = forms.get(asked["capsule"], asked["capsule"])
            if asked["raises"]:
                form = f"raises {asked['raises']}"
            found.setdefault((call, form), []).append(library["name"])
    for (call, form), names in found.items():
        yield f"{call}, {form}: {', '.join(names)}"


def show_libraries(report: dict[str, Any], screen: Screen) -> None:
    libraries = report["libraries"]
    if not libraries:
        return
    count = counted(len(libraries), "library", "libraries")
    screen.heading(f"Import paths of {count}")
    rows = []
    for library in libraries:
        path = library["import_path"]
        rows.append(
            (
                library["name"],
                library["version"],
                path["text"] if path else "",
                nanoseconds(library["import_ns"]),
                memory_summary(library),
            )
        )
    screen.table(("library", "version", "import path", "import", "result"), rows, right=(3,))
    for line in protocol_lines(libraries):
        screen.line(line)
    middle = yardstick(libraries)
    if middle:
        screen.line(f"For comparison: np.from_dlpack(ndarray) costs {middle:.0f} ns here.")


# ---- defects --------------------------------------------------------------------------------


def show_defects(report: dict[str, Any], screen: Screen) -> None:
    rows = [(library, defect) for library in report["libraries"] for defect in library["defects"]]
    if not rows:
        return
    screen.heading("Known defects of these versions, and what fastdl does")
    for library, defect in rows:
        seen = "" if defect["certain"] else f" (seen in {defect['seen']})"
        screen.line(f"{library['name']}: {defect['title']}{seen}. {defect['remedy']}", indent=2)
