"""Builds three released extensions as they are and with fastdl's bindings, runs their own tests on
both, counts lines, and times calls. Writes docs/ports.json, which docs/move.md shows.

    python -m benchmarks.ports [--rebuild] [--only NAME]

Downloads their sdists, and what these need to be built, with pip: minutes, most of them for soxr.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

import fastdl
from benchmarks import machine, processes
from benchmarks.ports import ARGUMENTS, FOLDER, FORMS, PORTS, RESULTS, Port
from benchmarks.timing import middle, ratio
from fastdl._testing import json_rows

HERE = Path(__file__).parent


def run(*command: str, **options) -> None:
    subprocess.run([sys.executable, "-m", *command], check=True, **options)


# ---- building -------------------------------------------------------------------------------


def source(port: Port) -> Path:
    """The unpacked sdist."""
    place = FOLDER / port.name
    if not (place / "source").exists():
        wanted = ("--no-binary", port.name, f"{port.name}=={port.version}")
        run("pip", "download", "-q", "--no-deps", "--dest", str(place), *wanted)
        (archive,) = place.glob("*.tar.gz")
        shutil.unpack_archive(archive, place / "unpacked", filter="data")
        (unpacked,) = (place / "unpacked").iterdir()
        unpacked.rename(place / "source")
    return place / "source"


def build(port: Port, form: str) -> Path:
    """The folder in which the extension is installed; "after" has our file in place of theirs."""
    place = FOLDER / port.name / form
    if place.exists():
        return place
    tree = place.with_suffix(".tree")
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(source(port), tree)
    flags = {}
    if form == "after":
        shutil.copy(HERE / port.ours, tree / port.theirs)
        # Both forms are in one process when calls are timed: nanobind keeps their classes apart.
        words = f"-I{fastdl.get_include()} -DNB_DOMAIN=ported"
        flags = {"CPPFLAGS": words, "CXXFLAGS": words}  # CFLAGS would replace the optimisation
        # Cython finds declarations in the tree that it compiles, whatever is installed.
        (tree / "fastdl").mkdir()
        shutil.copy(Path(fastdl.__file__).with_name("__init__.pxd"), tree / "fastdl")
    partial = place.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    words = ("-q", "--no-deps", "--disable-pip-version-check", "--target", str(partial), str(tree))
    run("pip", "install", *words, env={**os.environ, **flags})
    return partial.rename(place)


# ---- counting -------------------------------------------------------------------------------

COMMENTS = (
    r"/\*.*?\*/",  # of C, also within Cython
    r"//[^\n]*",
    r"(?m)^\s*#(?!\s*(?:include|define|if|ifdef|ifndef|else|elif|endif|undef|error)\b)[^\n]*",
    r'(?<!from \*):\n\s*""".*?"""',  # documentation of functions and classes
    r'\A\s*""".*?"""',
)


def lines(file: Path) -> int:
    """Of code: without empty lines, comments and documentation."""
    text = file.read_text()
    for pattern in COMMENTS[:3] if file.suffix != ".pyx" else (COMMENTS[0], *COMMENTS[2:]):
        text = re.sub(pattern, "", text, flags=re.DOTALL)
    return sum(bool(line.strip()) for line in text.splitlines())


# ---- testing --------------------------------------------------------------------------------


def test(port: Port, form: str) -> str:
    """Runs the extension's own tests; the counts, as "352 passed, 2 skipped"."""
    report = FOLDER / port.name / f"{form}.xml"
    report.unlink(missing_ok=True)
    tests = [str(source(port) / t) if t == "tests" else t for t in port.tests]
    environment = {**os.environ, "PYTHONPATH": str(build(port, form))}
    words = ("-q", "-p", "no:cacheprovider", "-o", "addopts=", f"--junitxml={report}")
    # The same examples before and after; with some seeds NumPy's own histogram refuses one.
    words += ("--hypothesis-seed=2",)
    shutil.rmtree(FOLDER / port.name / ".hypothesis", ignore_errors=True)
    command = [sys.executable, "-m", "pytest", *words, *tests]
    subprocess.run(command, cwd=FOLDER / port.name, env=environment)
    suite = xml.parse(report).getroot().find("testsuite")
    names = {"failures": "failed", "errors": "errors", "skipped": "skipped"}
    counts = {name: int(suite.get(key)) for key, name in names.items()}
    counts = {"passed": int(suite.get("tests")) - sum(counts.values()), **counts}
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)


# ---- the command ----------------------------------------------------------------------------


def result(port: Port, calls: list[dict]) -> dict:
    known = {"version": port.version, "tool": port.tool, "call": port.call}
    known["lines"] = [lines(source(port) / port.theirs), lines(HERE / port.ours)]
    known["tests"] = [test(port, form) for form in FORMS]
    for kind in ARGUMENTS:
        samples = [one[f"{port.name}/{kind}"] for one in calls]
        known[kind] = [round(middle(samples, f)) if f in samples[0] else None for f in FORMS]
        if None not in known[kind]:
            known[kind].append(round(ratio(samples, "after", "before"), 2))
    return known


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ports", description=__doc__.partition("\n\n")[0]
    )
    parser.add_argument("--rebuild", action="store_true", help="nothing from an earlier run")
    parser.add_argument("--only", choices=[port.name for port in PORTS], help="writes nothing")
    parser.add_argument("--workers", type=int, default=3, help="processes that time calls (3)")
    options = parser.parse_args()
    chosen = [port for port in PORTS if options.only in (None, port.name)]
    for port in chosen:
        if options.rebuild:
            shutil.rmtree(FOLDER / port.name, ignore_errors=True)
        for form in FORMS:
            built, ours = FOLDER / port.name / form, HERE / port.ours
            if form == "after" and built.exists() and ours.stat().st_mtime > built.stat().st_mtime:
                shutil.rmtree(built)
            print(f"{port.name} {port.version}, {form}", file=sys.stderr, flush=True)
            build(port, form)
    names = [port.name for port in chosen]
    facts, versions = machine.facts(), machine.versions()
    calls = [processes.run("ports", rounds=30, names=names) for _ in range(options.workers)]
    ports = {port.name: result(port, calls) for port in chosen}
    for name, known in ports.items():
        print(name, *(f"{key}: {value}" for key, value in known.items()), sep="\n    ")
    if options.only is None:
        data = {"machine": facts, "versions": versions, "ports": ports}
        RESULTS.write_text(json_rows.dumps(data) + "\n")
    return int(any(before != after for before, after in (p["tests"] for p in ports.values())))


if __name__ == "__main__":
    sys.exit(main())
