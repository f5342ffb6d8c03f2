# SPDX-License-Identifier: Apache-2.0
"""One command for each verb: nox -s test, lint, typing, ... `.ci/run --all` runs them all.

Arguments after `--` go to the tool: nox -s test -- -k stride.
"""

import contextlib
import os
import re
import shutil
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

import nox

nox.needs_version = ">=2025.5"
nox.options.default_venv_backend = "uv|venv"  # uv, if it is installed: twenty seconds less each
# Sessions that install with pip: its configuration, which uv ignores, may say where torch comes
# from, or the session runs pip itself.
WITH_PIP = {"venv_backend": "venv"}
nox.options.sessions = ["lint", "typing", "test"]

PYTHONS = ["3.10", "3.11", "3.12", "3.13", "3.14", "3.15"]

SLOWEST = "--durations=20"  # for the longest sessions

# Set by .ci/run before a landing, which runs no slow tests.
LANDING = os.environ.get("FASTDL_LANDING") == "1"
NOT_SLOW = ("-m", "not slow")

# Stops at the first undefined behaviour; address errors always stop.
SANITIZE = {"FASTDL_SANITIZE": "address,undefined"}
# Tests on a GPU, of compiling the headers and the examples, and of pages, reports, benchmarks and
# the tests themselves: they do not depend on the environment, so only the stages `readme` and
# `peers` run them.
RUN_ONCE = (
    *("examples", "gpu", "mutants", "processes", "cli/test_doctor.py", "cli/test_inspect.py"),
    *("docs/test_claims.py", "docs/test_docs.py", "header/test_abi.py", "header/test_clang.py"),
    *("header/test_inclusion.py", "header/test_refused_code.py", "interop/test_benchmarks.py"),
    *("interop/test_command_line.py", "interop/test_matrix.py", "interop/test_notebook.py"),
    *("package/test_layers.py", "package/test_wheel.py", "protocol/test_conformance.py"),
)
# Tests of simulated drivers, other libraries, processes, commands, and builds, also in C++ and
# Cython: only the oldest and the newest CPython run them. The slow tests run only on the newest,
# and under the sanitizers.
AT_THE_ENDS = (
    *("cli", "devices", "installed", "interop", "reliability"),
    *("docs/test_readme.py", "docs/test_streams_guide.py", "header/test_build.py"),
    *("header/test_c_order.py", "header/test_cpp_producers.py", "header/test_cython.py"),
    *("header/test_releases.py", "package/test_release.py", "protocol/test_streams.py"),
    "protocol/test_unordered.py",
)
# Tests that do not exercise our own compiled code.
NOT_SANITIZED = (
    *RUN_ONCE,
    *("cli", "installed", "interop", "devices/test_scenarios.py", "docs/test_readme.py"),
    *("docs/test_streams_guide.py", "header/test_build.py", "header/test_cython.py"),
    *("header/test_releases.py", "package/test_release.py"),
)
# Last, so that they find its exceptions, which the casters throw.
PRELOADED = ("libasan.so", "libubsan.so", "libstdc++.so")

# Compiler warnings for our own C files.
WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror"]
# Warnings that users of the headers may also enable; clang does not have all of them.
USERS = ["-Wredundant-decls", "-Wmissing-declarations"]
USERS_CXX = ["-Wold-style-cast"]
USERS_GXX = ["-Wuseless-cast"]

LIMITED = ("-DPy_LIMITED_API=0x030a0000", "-DPy_LIMITED_API=0x030b0000")  # 3.11 has buffers
# How public headers are compiled: languages, further flags, and the library that they need.
C, CXX17, CXX20 = ("c", "c99"), ("c++", "c++17"), ("c++", "c++20")
HEADERS = {
    "dlpack.h": ((C, CXX17), ("",), None),
    "fastdl.h": ((C, CXX17), ("", *LIMITED, "-DFASTDL_NO_PYTHON"), None),
    "fastdl.c": ((C, CXX17), ("", *LIMITED), None),
    "tensor.h": ((CXX17, CXX20), ("",), None),
    "mdspan.h": ((CXX17, CXX20), ("",), None),
    "nanobind.h": ((CXX17, CXX20), ("",), "nanobind"),
    "pybind11.h": ((CXX17, CXX20), ("",), "pybind11"),
}


def c_files() -> list[str]:
    folders = ("include", "src", "conformance", "tests", "benchmarks", "docs")
    files = (p for folder in folders for p in sorted(Path(folder).rglob("*.*")))
    # Not the headers of the last release, which stay as they were, or the site.
    files = (p for p in files if {"released", "_build"}.isdisjoint(p.parts))
    return [str(p) for p in files if p.suffix in (".c", ".h", ".cpp")]


SUITE = "./conformance"  # which the extra `test` requires, and no index has


def extra(name: str) -> list[str]:
    """The requirements of an extra, for sessions that do not need fastdl itself."""
    return nox.project.load_toml("pyproject.toml")["project"]["optional-dependencies"][name]


def package(*extras: str) -> str:
    """fastdl as a requirement: the wheel of FASTDL_PREBUILT, which was built from these sources by
    the Python that runs nox, or else the sources."""
    wanted = f"[{','.join(extras)}]" if extras else ""
    prebuilt = os.environ.get("FASTDL_PREBUILT")
    return f"fastdlpack{wanted} @ {Path(prebuilt).as_uri()}" if prebuilt else f".{wanted}"


def existing(*patterns: str) -> list[str]:
    """The files that match these patterns; each pattern must match one."""
    found = {pattern: sorted(map(str, Path().glob(pattern))) for pattern in patterns}
    missing = [pattern for pattern, files in found.items() if not files]
    if missing:
        raise FileNotFoundError(f"no file for {', '.join(missing)}")
    return [file for files in found.values() for file in files]


def without(names: tuple[str, ...]) -> list[str]:
    """The options of pytest that leave out these files and folders of tests."""
    return [f"--ignore={path}" for name in names for path in existing(f"tests/{name}")]


@nox.session
def test(session: nox.Session) -> None:
    """The tests that need no large library."""
    session.install(SUITE, ".[test]")
    session.run("pytest", *session.posargs)


@nox.session(python=PYTHONS, name="pythons")
def pythons(session: nox.Session) -> None:
    """The tests that depend on the version of CPython: nox -s pythons-3.12."""
    between = session.python not in (PYTHONS[0], PYTHONS[-1])
    # Versions in between are built without optimisation, which halves the time to compile, and with
    # C assertions; the oldest is built by clang, the compiler of macOS.
    env = {"FASTDL_DEBUG": "1"} if between else {}
    if session.python == PYTHONS[0] and shutil.which("clang"):
        env = {"CC": "clang", "CXX": "clang++"}
    session.install(SUITE, ".[test]", env=env)
    some = without(AT_THE_ENDS) if between else []
    if between:
        some += ["-k", "not nanobind and not pybind11 and not Cython"]  # in any case of letters
    if LANDING or session.python != PYTHONS[-1]:
        some += NOT_SLOW
    session.run("pytest", SLOWEST, *without(RUN_ONCE), *some, *session.posargs)


# Tests of the limited API, which a CPython without a GIL lacks; of modules of nanobind, pybind11
# and Cython that do not declare that they run without a GIL; of builds; and of commands and
# scenarios with several libraries, most of which have no wheels for it.
WITH_A_GIL = (
    *RUN_ONCE,
    *("cli", "installed", "interop", "devices/test_scenarios.py", "docs/test_readme.py"),
    *("docs/test_streams_guide.py", "header/test_build.py", "header/test_casters.py"),
    *("header/test_cpp_producers.py", "header/test_cython.py", "header/test_releases.py"),
    *("header/test_views.py", "package/test_release.py"),
    "core/test_interrupts.py",  # single-threaded; its tracing takes ten times as long here
)
# A CPython without a GIL, by name or path.
FREE_THREADED = os.environ.get("FASTDL_FREE_THREADED") or "3.15t"


def install_free_threaded(session: nox.Session, **options: Any) -> None:
    """fastdl, and those of the `test` extra that have wheels for this CPython; tests of others
    skip."""
    look = "import sysconfig; assert sysconfig.get_config_var('Py_GIL_DISABLED'), 'it has a GIL'"
    session.run("python", "-c", look)
    for requirement in extra("test"):
        with contextlib.suppress(nox.command.CommandFailed):
            session.install("--only-binary=:all:", requirement)
    # The newest releases may have no wheel, and their sources take ten minutes to compile.
    wheels = [f"--only-binary={name}" for name in ("numpy", "Cython")]
    session.install(*wheels, SUITE, ".", **options)


@nox.session(name="free-threaded", python=FREE_THREADED)
def free_threaded(session: nox.Session) -> None:
    """The tests without a GIL, except the slow ones, and except fresh interpreters that find
    nothing more than forked ones. Threads under ThreadSanitizer: nox -s free-threaded -- --races
    INSTRUMENTED-PYTHON, of the same release."""
    if session.posargs[:1] == ["--races"]:
        install_free_threaded(
            session, env={"FASTDL_SANITIZE": "thread", "CFLAGS": "-fsanitize=thread"}
        )
        threads = "tests/core/test_threads.py"
        session.run("python", "tests/races/check.py", *session.posargs[1:], threads)
        return
    install_free_threaded(session)
    with_a_gil = {Path("tests", name) for name in WITH_A_GIL}
    files = [Path(file) for file in existing("tests/**/test_*.py")]
    files = [file for file in files if with_a_gil.isdisjoint({file, *file.parents})]
    failed = 0
    # Without a GIL each garbage collection scans all loaded tests, so they run in six parts, which
    # share what they compile.
    folder = Path(session.create_tmp(), "compiled").absolute()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    compiled = {"FASTDL_TEST_BUILD": str(folder)}
    for i in range(6):
        try:
            options = (SLOWEST, *NOT_SLOW, "-k", "not spawn", *files[i::6])
            session.run("pytest", *options, *session.posargs, env=compiled)
        except nox.command.CommandFailed:
            failed += 1
    if failed:
        session.error(f"{failed} of 6 parts failed")


# Tests of libraries that are in `matrix` but not in `peers`.
OF_THE_MATRIX = ("test_other_libraries.py", "test_upstream.py", "test_comparison.py")
REQUIRE_PEERS = {"FASTDL_REQUIRE_PEERS": "1"}


@nox.session(**WITH_PIP)
def peers(session: nox.Session) -> None:
    """Tests of libraries, with all of them installed: none may be skipped for a missing one. Except
    before a landing, also the slow tests of RUN_ONCE, of which README's command runs the others,
    and tensors in Dask, Ray, MPI, joblib and files, with real workers: five minutes at most."""
    session.install("torch==2.13.0")  # first, in a separate step: whichever build the index prefers
    session.install(SUITE, package("test", "peers", *([] if LANDING else ["processes"])))
    of_the_matrix = tuple(f"interop/{name}" for name in OF_THE_MATRIX)
    once = existing("tests/interop", *(f"tests/{name}" for name in RUN_ONCE if name != "processes"))
    marks = ["library and not slow"] * 2 if LANDING else ["slow or library", "library"]
    once += ["-m", marks[0], *without(of_the_matrix), *session.posargs]
    others = ["-m", marks[1], *without(("interop", *RUN_ONCE)), *session.posargs]
    for some in (once, others):
        session.run("pytest", SLOWEST, *some, env=REQUIRE_PEERS)
    if not LANDING:
        env = {"FASTDL_REQUIRE_ENGINES": "1", **REQUIRE_PEERS}
        session.run("pytest", SLOWEST, *existing("tests/processes"), *session.posargs, env=env)


MATRIX = Path("tests/interop/matrix")


def releases(environment: str) -> list[str]:
    """What an environment of the matrix installs: in main also the libraries of
    src/fastdl/_bridges, in the release that is known best."""
    lines = Path(MATRIX, f"requirements/{environment}.txt").read_text().splitlines()
    if environment == "main":
        texts = [path.read_text() for path in sorted(Path("src/fastdl/_bridges").glob("*.py"))]
        together = "\n".join(text for text in texts if "\nALONE = " not in text)
        lines += re.findall('^RELEASE = "(.+)"$', together, re.MULTILINE)
    return [line for line in lines if not line.startswith("#")]


@nox.session(**WITH_PIP)
@nox.parametrize("environment", [path.stem for path in sorted(MATRIX.glob("requirements/*.txt"))])
def matrix(session: nox.Session, environment: str) -> None:
    """Every library with fastdl and with every other: fails if any result has become worse. nox -s
    matrix -- --write stores the new results; python docs/quote.py then updates the pages that quote
    them. Ends with the libraries' newest releases, a table of results that are worse with them,
    which fails only if fastdl's own code is at fault: alone by nox -s matrix -- --newest."""
    if environment == "main":
        session.install("--no-compile", "torch==2.13.0")  # first and alone, as above
    if "--newest" in session.posargs:
        if environment == "main":
            session.install("--no-deps", SUITE, package())
            measure_newest(session)
        return
    # Not compiled to bytecode: most modules of these libraries are never imported.
    session.install("--no-compile", *releases(environment))
    session.install("--no-deps", SUITE, package())
    session.run("python", "-m", "tests.interop.matrix", environment, *session.posargs)
    session.run("pytest", "tests/interop/test_upstream.py")
    if environment == "main":
        session.run("pytest", "tests/interop/test_comparison.py")  # its page names these releases
        session.run("pytest", "tests/interop/test_other_libraries.py", env=REQUIRE_PEERS)
    if environment == "main" and "--write" not in session.posargs:
        measure_newest(session)


@nox.session(**WITH_PIP)
def conformance(session: nox.Session) -> None:
    """The tests of the conformance suite. nox -s conformance -- scoreboard: what the suite finds in
    sixteen libraries, and each of them with each other, for conformance/scoreboard.md."""
    if session.posargs == ["scoreboard"]:
        session.install("--no-compile", "torch==2.13.0")  # first and alone, as above
        session.install("--no-compile", *releases("main"))
        session.install("--no-deps", SUITE, package())
        folder = session.create_tmp()
        with session.chdir(folder):
            suite = ("python", "-m", "dlpack_conformance")
            session.run(*suite, "run", "--report", "reports.json", success_codes=[0, 1])
            session.run(*suite, "pairs", "--output", "pairs.json")
        session.run("python", "conformance/scoreboard.py", folder)
    else:
        session.install(f"{SUITE}[test]")
        session.chdir("conformance")
        session.run("pytest", SLOWEST, *(NOT_SLOW if LANDING else ()), *session.posargs)


def measure_newest(session: nox.Session) -> None:
    """Upgrades the libraries of the matrix, and measures those that have a newer release."""
    names = [line.partition("==")[0] for line in releases("main") if line != "torch==2.13.0"]
    session.install("--no-compile", "--upgrade", "torch==2.13.0", *names)
    session.run("python", "-m", "tests.interop.matrix", "main", "--newest")


@nox.session
def mutants(session: nox.Session) -> None:
    """fastdl broken on purpose, in a hundred ways: tests must detect each. Prints the table. Takes
    a subject, or a part of a name or function."""
    session.install(SUITE, *extra("test"))  # build requirements: it is built in place
    session.run("python", "-m", "tests.mutants.run", *session.posargs)


@nox.session
def fuzz(session: nox.Session) -> None:
    """Coverage-guided fuzzers, and whether they find planted defects. An hour of each, keeping the
    findings: nox -s fuzz -- --seconds 3600 --keep. Needs clang."""
    session.install(SUITE, *extra("test"), "atheris")  # with which it is built, in a copy
    session.run("python", "-m", "tests.fuzz", *(session.posargs or ["--self-test"]))


def valgrind(session: nox.Session) -> None:
    """The scripts of tests/leaks under valgrind, which needs no special build."""
    command = [
        *("valgrind", "-q", "--leak-check=full", "--show-leak-kinds=definite"),
        *("--errors-for-leak-kinds=definite", "--error-exitcode=99"),
        "--undef-value-errors=no",  # otherwise int.from_bytes gives false positives
    ]
    env = {"PYTHONMALLOC": "malloc"}
    python = Path(session.bin, "python").resolve()  # not a wrapper script
    paths = session.run(
        *("python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"), silent=True
    )
    env["PYTHONPATH"] = paths.strip()
    with tempfile.TemporaryDirectory() as folder:
        # CPython's own errors are suppressed. They differ by version, so the list is made here.
        log, known = Path(folder, "log"), Path(folder, "known.supp")
        base = ["--gen-suppressions=all", f"--log-file={log}", python, "-c", "import array, ctypes"]
        session.run(*command, *base, env=env, external=True, success_codes=[0, 99])
        blocks = log.read_text().split("\n{\n")[1:]
        known.write_text("".join("{\n" + block.split("\n}")[0] + "\n}\n" for block in blocks))
        for script in existing("tests/leaks/exchange*.py"):
            supp = f"--suppressions={known}"
            session.run(*command, supp, python, script, env=env, external=True)


@nox.session
def reliability(session: nox.Session) -> None:
    """Threads, exits, forks, out of memory, growth: a hundredth of the full counts; and leaks under
    valgrind. The full counts, for the table in docs: nox -s reliability -- --share 1 --write. The
    lines of C and Cython that the tests execute, a quarter of an hour, so not part of CI: nox -s
    reliability -- --coverage."""
    if session.posargs[:1] == ["--coverage"]:
        session.install(SUITE, *extra("test"), "pyperf")  # with which it is built, in a copy
        session.run("python", "-m", "tests.reliability.coverage", *session.posargs[1:])
        return
    session.install(SUITE, package("test"), *(["pyperf"] if "--write" in session.posargs else []))
    session.run("python", "-m", "tests.reliability", *session.posargs)
    if not session.posargs:
        valgrind(session)


@nox.session
def lint(session: nox.Session) -> None:
    """Style of Python, Cython and C; a licence in every file."""
    session.install(*extra("dev"))
    # First: outside a git repository, as in .ci/run, it would also read what the others leave.
    session.run("reuse", "lint", "--lines")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("cython-lint", "src", "tests", "docs", "benchmarks")
    session.run("clang-format", "--dry-run", "-Werror", *c_files(), log=False)  # 140 names


@nox.session
def docs(session: nox.Session) -> None:
    """The site, in docs/_build/html, without warnings and broken links."""
    session.install(SUITE, package("docs", "test"))  # for generated pages
    site = "docs/_build/html"
    session.run("sphinx-build", "-W", "--keep-going", "-E", "-q", "docs", site, *session.posargs)
    session.run("python", "docs/links.py", site)


def path_of(session: nox.Session, name: str) -> str:
    """A path of the session's Python, by sysconfig's name."""
    look = f"import sysconfig; print(sysconfig.get_path({name!r}))"
    return session.run("python", "-c", look, silent=True).strip()


def check_headers(session: nox.Session, compilers: list[str], *flags: str) -> None:
    """The public headers in every way of HEADERS, without warnings."""
    assert {Path(header).name for header in existing("include/fastdl/*.[ch]")} == HEADERS.keys()
    packages = path_of(session, "purelib")
    for header, (languages, variants, library) in HEADERS.items():
        found = [f"-isystem{packages}/{library}/include"] if library else []
        for compiler, (language, standard), variant in product(compilers, languages, variants):
            # Included, since a static function is not unused in a header.
            options = [f"-std={standard}", "-pedantic", *flags, *found, *variant.split()]
            options += ["-Iinclude", *WARNINGS, *USERS, *(USERS_CXX if language == "c++" else [])]
            options += USERS_GXX if (compiler, language) == ("gcc", "c++") else []
            options += ["-include", f"fastdl/{header}", "-x", language, "/dev/null"]
            session.run(*compiler.split(), *options, external=True)


def check_c(session: nox.Session) -> None:
    """Our C files and the public headers without warnings. Generated C is not checked."""
    flags = ["-fsyntax-only", f"-isystem{path_of(session, 'include')}"]
    session.run("python", "include/fastdl/impl/join.py")
    sources = {
        "-std=c11": existing("src/fastdl/*.c", "src/fastdl/*/*.c", "conformance/src/*/*.c"),
        "-std=c99": existing("include/fastdl/impl/fastdl.c", "docs/examples/c/*.c"),
    }
    for standard, files in sources.items():
        for source in files:
            options = [
                standard,
                *WARNINGS,
                *flags,
                *"-Iinclude -Isrc/fastdl -Iinclude/fastdl".split(),
            ]
            session.run("gcc", *options, source, external=True)
    # clang, if installed, has other warnings.
    check_headers(session, [name for name in ("gcc", "clang") if shutil.which(name)], *flags)


@nox.session
def typing(session: nox.Session) -> None:
    """The package, its stubs against the modules, and the types that users see; C without compiler
    warnings, of which most are about types, too."""
    session.install(SUITE, package("dev", "test"))
    session.run("mypy")
    session.run("mypy", "--strict", "--config-file=", "tests/typing/examples.py")
    session.run("basedpyright", "--project", "tests/typing/pyrightconfig.json")
    session.run("basedpyright", "--verifytypes", "fastdl", "--ignoreexternal")  # all public names
    session.run(
        *("python", "-m", "mypy.stubtest", "fastdl"),
        *("--mypy-config-file", "pyproject.toml"),
        *("--allowlist", "tests/typing/allowlist.txt", "--ignore-unused-allowlist"),
    )
    check_c(session)


def install_sanitized(session: nox.Session) -> None:
    flags = f"-fsanitize={SANITIZE['FASTDL_SANITIZE']} -fno-sanitize-recover=undefined -fno-wrapv"
    session.install(SUITE, env={"CFLAGS": flags})
    session.install(".[test]", env=SANITIZE)
    look = (
        "import fastdl._core.tensor as t, pathlib; code = pathlib.Path(t.__file__).read_bytes();"
        "assert b'__asan_' in code and b'__ubsan_' in code, 'built without sanitizers'"
    )
    session.run("python", "-c", look, env=preload(session))


def preload(session: nox.Session) -> dict[str, str]:
    """The environment in which Python runs with the sanitizers' libraries preloaded."""
    paths = [
        session.run("gcc", f"-print-file-name={name}", silent=True, external=True).strip()
        for name in PRELOADED
    ]
    return {
        **SANITIZE,  # also for modules that the tests compile
        "LD_PRELOAD": ":".join(paths),
        "PYTHONMALLOC": "malloc",  # a separate allocation for each object
        # Another session finds leaks; fastdl must report a failing malloc.
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }


@nox.session
def sanitize(session: nox.Session) -> None:
    """The tests with hostile producers under AddressSanitizer and UndefinedBehaviorSanitizer.
    Except before a landing, also scripts of exchanges under LeakSanitizer."""
    install_sanitized(session)
    canary = "import ctypes as c; l = c.CDLL(None); l.free(c.c_void_p(4096))"
    session.run("python", "-c", canary, env=preload(session), success_codes=[1], silent=True)
    existing("tests/*/test_faults_*.py")  # the main purpose; other tests run too
    # Only Python's own output is captured, so that a fatal report is visible.
    options = [SLOWEST, "--capture=sys", *without(NOT_SANITIZED), *(NOT_SLOW if LANDING else ())]
    session.run("pytest", *options, *session.posargs, env=preload(session))
    if not LANDING:
        session.run("python", "tests/leaks/check.py", *existing("tests/leaks/exchange*.py"))


# The oldest pip that knows the wheels of CPython 3.10, which itself brings 21.2 or newer.
OLDEST_PIP = "pip==20.3.4; python_version < '3.11'"
# Any fixed time.
REPRODUCIBLE = {"SOURCE_DATE_EPOCH": "1577836800"}


def try_installed(session: nox.Session, python: str) -> None:
    """The demo with only NumPy, and tests/installed in a folder without the repository."""
    session.run(python, "-m", "fastdl", "demo", external=True)
    session.run(python, "-m", "pip", "install", "-q", "pytest", "setuptools", external=True)
    with tempfile.TemporaryDirectory() as folder:
        for part in ("tests/installed", "docs/examples/c"):
            shutil.copytree(part, Path(folder, part))
        with session.chdir(folder):
            session.run(python, "-m", "pytest", "-q", "tests/installed", external=True)


@nox.session(python=os.environ.get("FASTDL_OLDEST") or "3.10", **WITH_PIP)
def wheel(session: nox.Session) -> None:
    """The sdist and the wheel, their contents, and both installed by the oldest Python and pip. The
    tests of each wheel of a release, on this machine: nox -s wheel -- --installed."""
    if session.posargs == ["--installed"]:
        session.install(".", "numpy")
        try_installed(session, "python")
        return
    session.install("build", "twine", "pytest")
    folder = Path(session.create_tmp(), "dist")
    shutil.rmtree(folder, ignore_errors=True)
    session.run("python", "-m", "build", "--outdir", str(folder), silent=True, env=REPRODUCIBLE)
    (built,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    session.run("twine", "check", "--strict", str(built), str(sdist))
    session.install(SUITE, f"fastdlpack[test] @ {built.resolve().as_uri()}")
    session.run("pytest", "tests/package/test_wheel.py", env={"FASTDL_WHEEL": str(built)})
    again = folder / "again"
    for name, distribution in {"wheel": built, "sdist": sdist}.items():
        place = folder / f"from-{name}"
        session.run("python", "-m", "venv", str(place))
        python = str(place / ("Scripts" if os.name == "nt" else "bin") / "python")
        pip = (python, "-m", "pip")
        session.run(*pip, "install", "-q", OLDEST_PIP, external=True)
        if name == "sdist":
            arguments = ("wheel", "-q", "--no-deps", "-w", str(again), str(sdist))
            session.run(*pip, *arguments, env=REPRODUCIBLE, external=True)
            (distribution,) = again.glob("*.whl")
            if distribution.read_bytes() != built.read_bytes():
                session.error(f"two builds differ: {built} and {distribution}")
        session.run(*pip, "install", "-q", str(distribution), "numpy", external=True)
        try_installed(session, python)
    suite = folder / "suite"
    session.run("python", "-m", "build", SUITE, "--outdir", str(suite), silent=True)
    (built,), (sdist,) = suite.glob("*.whl"), suite.glob("*.tar.gz")
    session.run("twine", "check", "--strict", str(built), str(sdist))
    # As a maintainer of another library has it: without fastdl.
    session.run("python", "-m", "pip", "uninstall", "-qy", "fastdlpack", "dlpack-conformance")
    for distribution in (built.resolve(), sdist.resolve()):
        session.install("--force-reinstall", "--no-deps", str(distribution))
        with session.chdir(suite):
            session.run("python", "-m", "dlpack_conformance", "run", "numpy", "-k", "producer.")
            session.run("pytest", "--dlpack=numpy", "-k", "consumer.")


# macOS as zig names it, in the oldest versions that cibuildwheel builds for.
MACOS = ("aarch64-macos.11.0", "x86_64-macos.10.9")


def prepare(session: nox.Session) -> Path:
    """Installs what compiles for another platform, and returns an empty folder."""
    needed = ("setuptools>=77", "Cython>=3.1", "numpy>=2.1", "nanobind>=3.1", "pybind11>=3.0")
    session.install(*needed, "ziglang>=0.17")
    folder = Path(session.create_tmp(), "other").absolute()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def build_for(session: nox.Session, folder: Path, compiler: str, *link: str) -> None:
    """Compiles fastdl and the conformance suite into `folder`/lib."""
    linker = " ".join([compiler, "-shared", *link])
    env = {"CC": compiler, "LDSHARED": linker, "SETUPTOOLS_EXT_SUFFIX": ".so"}
    options = (f"--build-base={folder}/build", f"--build-lib={folder}/lib")
    for project in (".", SUITE):
        with session.chdir(project):
            session.run("python", "setup.py", "-q", "build", *options, env=env)
    for library in folder.glob("lib/*/*.so"):
        session.log(f"linked: {library}, {library.stat().st_size} bytes")


def check_headers_with_zig(session: nox.Session, folder: Path, target: str, include: str) -> None:
    flags = ("-c", "-o", f"{folder}/object.o", f"-isystem{include}")  # it lacks -fsyntax-only
    check_headers(session, [f"python-zig c++ -target {target}"], *flags)


@nox.session(**WITH_PIP)
def macos(session: nox.Session) -> None:
    """fastdl and the conformance suite, compiled and linked for macOS on arm64 and x86-64 by zig;
    and the public headers in C and C++. Nothing runs. NumPy's headers are those of its wheels for
    macOS; CPython's are this Python's, since none of macOS's can be had."""
    folder = prepare(session)
    wheel = ("--platform=macosx_14_0_arm64", "--only-binary=:all:", "--no-deps", "--no-compile")
    session.run("pip", "install", "-q", "--target", str(folder), *wheel, "numpy>=2.1")
    for target in MACOS:
        compiler = f"python-zig cc -target {target} -I{folder}/numpy/_core/include"
        compiler += " -Werror=unguarded-availability-new"
        build_for(session, folder / target, compiler, "-undefined", "dynamic_lookup")
        check_headers_with_zig(session, folder, target, path_of(session, "include"))


@nox.session(**WITH_PIP)
def musl(session: nox.Session) -> None:
    """fastdl and the conformance suite, compiled by the distribution's GCC for musl; the demo with
    them, on a CPython of the distribution's sources that is compiled by the same; and the public
    headers in C and C++, by zig. Without NumPy, whose wheels need musl 1.2.4; Debian 12 has 1.2.3.
    That CPython's ctypes has the distribution's libffi, which was compiled for glibc."""
    folder = prepare(session)
    gcc = folder / "gcc"  # Debian's says that it compiles for glibc
    gcc.write_text('#!/bin/sh\n[ "$1" = --print-multiarch ] || exec musl-gcc "$@"\n')
    gcc.chmod(0o755)
    (folder / "ffi").mkdir()
    for header in ("ffi.h", "ffitarget.h"):  # without their neighbours, which are glibc's
        shutil.copy(Path("/usr/include/x86_64-linux-gnu", header), folder / "ffi")
    ffi = session.run("gcc", "-print-file-name=libffi_pic.a", silent=True, external=True).strip()
    options = [f"CC={gcc}", "OPT=-O0 -g0 -DNDEBUG", "PKG_CONFIG=false", "--disable-test-modules"]
    options += [f"LIBFFI_CFLAGS=-I{folder}/ffi", f"LIBFFI_LIBS={ffi}"]
    places = (str(folder / "sources"), str(folder / "python"))
    session.run("bash", ".ci/cpython", *places, *options, external=True)
    python = str(folder / "python/bin/python3")
    (include,) = folder.glob("python/include/python3*")
    build_for(session, folder, f"{gcc} -I{include}")
    env = {"PYTHONPATH": str(folder / "lib")}
    session.run(python, "-m", "fastdl", "demo", env=env, external=True)
    check_headers_with_zig(session, folder, "x86_64-linux-musl", str(include))


@nox.session(**WITH_PIP)
def windows(session: nox.Session) -> None:
    """The wheel for Windows on x86-64, built by mingw; with it the demo, `doctor` and tests, on a
    CPython for Windows under wine; and the public headers, in C and C++ after <windows.h>. Needs
    what .ci/windows does. Arguments go to pytest."""
    folder = Path(session.create_tmp(), "windows").absolute()
    shutil.rmtree(folder, ignore_errors=True)
    session.run("bash", ".ci/windows", str(folder), external=True)
    python, run = folder / "python", str(folder / "run")
    site, wheels = python / "Lib/site-packages", folder / "wheels"
    (library,) = (path.stem for path in python.glob("python3??.dll"))
    tag = library.replace("python", "cp")
    config = folder / "setup.cfg"
    config.write_text(
        f"[build_ext]\ncompiler = mingw32\nlibraries = {library}\nlibrary_dirs = {python}\n"
        "[bdist_wheel]\nplat_name = win_amd64\n"
    )
    include = f"-I{python}/Include -I{site}/numpy/_core/include"
    env = {
        "CC": f"x86_64-w64-mingw32-gcc-posix {include}",
        "SETUPTOOLS_EXT_SUFFIX": f".{tag}-win_amd64.pyd",
        "DIST_EXTRA_CONFIG": str(config),
    }
    for project in (".", SUITE):
        session.run("pip", "wheel", "-q", "--no-deps", "-w", str(wheels), project, env=env)
    session.install("wheel", "nanobind>=3.1", "pybind11>=3.0")
    built = map(str, wheels.glob("*.whl"))
    session.run("wheel", "tags", "--remove", f"--python-tag={tag}", f"--abi-tag={tag}", *built)
    for path in wheels.glob("*.whl"):
        session.run("python", "-m", "zipfile", "-e", str(path), str(site))
    session.run(run, "-m", "fastdl", "demo", external=True)
    session.run(run, "-m", "fastdl", "doctor", external=True)
    flags = ["-fsyntax-only", f"-isystem{python}/Include", "-include", "windows.h"]
    check_headers(session, ["x86_64-w64-mingw32-g++-posix"], *flags)
    options = ["-n", "2", "--dist", "loadfile", "-m", "not slow and not library", SLOWEST]
    arguments = [*options, *(session.posargs or ["tests"])]
    session.run("python", "-m", "tests.windows", str(folder), *arguments)
