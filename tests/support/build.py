# SPDX-License-Identifier: Apache-2.0
"""Compiles the C sources of tests/capi with the compiler that built the running interpreter.

One folder serves the whole session, its workers and child processes included: they find it in the
environment. Each file in it is compiled once.
"""

import atexit
import contextlib
import functools
import importlib.util
import os
import runpy
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from hashlib import sha256
from multiprocessing.connection import Client
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

ROOT = Path(__file__).resolve().parents[2]
runpy.run_path(str(ROOT / "include/fastdl/impl/join.py"))["write"]()
SOURCES = ROOT / "tests" / "capi"
_FOLDER = "FASTDL_TEST_BUILD"
#: What an extension module is linked with.
LIBRARIES = ["-ldl"]
if sys.platform == "win32":  # mingw's own libraries, which come last, belong in it
    LIBRARIES = [f"-L{sys.base_prefix}", f"-lpython{sysconfig.get_config_var('VERSION')}"]
    LIBRARIES += ["-static-libgcc", "-Wl,-Bstatic"]


def module_path(name, copy=None, *flags):
    """The file of the extension module of tests/capi/NAME.c, compiled at first use with these
    flags. Modules that share them are copies of one file, each with a state of its own."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    variant = sha256(repr(flags).encode()).hexdigest()[:8]
    made = _compiled(f"{name}-{variant}", suffix, SOURCES / f"{name}.c", *flags)
    path = folder() / f"{copy or name}-{variant}{suffix}"
    return compiled_once(path, lambda partial: shutil.copy(made, partial))


@functools.cache
def extension(name, copy=None, *flags):
    """The same, imported."""
    return load_module(name, module_path(name, copy, *flags))


def load_module(name, path):
    """The module in a file, a new one each time, which sys.modules does not have. But CPython puts
    an extension module that PyModule_Create made there, and makes it once for each file."""
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def embedding_program(name):
    """The path of a program made of tests/capi/NAME.c and the library of this Python, compiled at
    first use; None if there is no such library."""
    variable = sysconfig.get_config_var
    library = variable("LDLIBRARY") or ""
    places = [Path(variable(place) or "") for place in ("LIBDIR", "LIBPL")]
    place = next((place for place in places if (place / library).is_file()), None)
    if not library.startswith("libpython") or place is None:
        return None
    command = [*shlex.split(variable("CC") or "cc"), "-std=c11", "-Wall", "-Wextra", "-Werror"]
    command += [f"-I{sysconfig.get_path('include')}", SOURCES / f"{name}.c"]
    command += [f"-L{place}", f"-Wl,-rpath,{place}", f"-lpython{variable('LDVERSION')}"]
    for flags in ("LINKFORSHARED", "LIBS", "SYSLIBS"):
        command += shlex.split(variable(flags) or "")
    return compiled_once(folder() / name, lambda path: run_compiler([*command, "-o", path]))


def shared_library(name):
    """The path of a shared library made of tests/capi/NAME.c, compiled at first use."""
    return _compiled(name, ".so", SOURCES / f"{name}.c")


#: Flags for `extension`, to compile a C file as C++.
CPLUSPLUS = ("-x", "c++", "-std=c++17")


def compile_source(source, output, *more_flags):
    """Compiles one C file to a shared object; warnings are errors."""
    variable = sysconfig.get_config_var
    flags = [*shlex.split(variable("CFLAGS") or ""), *shlex.split(variable("CCSHARED") or "")]
    standard = [] if CPLUSPLUS[0] in more_flags else ["-std=c11"]
    command = [*shlex.split(variable("CC") or "cc"), *flags, *standard, "-Wall", "-Wextra"]
    command += ["-Werror", "-O1", "-g0", "-shared", f"-I{sysconfig.get_path('include')}"]
    command += [f"-I{ROOT / 'include'}", *more_flags]
    if sanitizers := os.environ.get("FASTDL_SANITIZE"):
        # Not optimised, with line numbers alone: half the time, which is minutes for the casters.
        command += [f"-fsanitize={sanitizers}", "-fno-omit-frame-pointer", "-O0", "-g1"]
        command += ["-fno-wrapv"]
    if os.environ.get("FASTDL_COVERAGE"):
        command += ["--coverage", "-O0", "-fprofile-update=atomic"]
    if sys.platform == "darwin":
        command += ["-undefined", "dynamic_lookup"]
    # What is not optimised, or sanitized, calls C++'s own library.
    plain = sanitizers or os.environ.get("FASTDL_COVERAGE")
    libraries = [*LIBRARIES, *(["-lstdc++"] if plain and not standard else [])]
    run_compiler([*command, source, "-o", output, *libraries])


def run_compiler(command, **options):
    """Runs it outside of the sanitizers that this process may run under.

    RuntimeError, with what the compiler said, if it fails.
    """
    port = os.environ.get("FASTDL_TEST_COMPILER")
    if port and command[0] in ("cc", "c++"):
        with Client(("localhost", int(port))) as server:  # tests/windows/__main__.py
            server.send(([*map(str, command)], options.get("cwd") and str(options["cwd"])))
            status, said = server.recv()
        if status != 0:
            raise RuntimeError(f"{shlex.join(map(str, command))} failed:\n{said}")
        return
    environment = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "ASAN_OPTIONS")}
    result = subprocess.run(
        [*map(str, command)], env=environment, capture_output=True, text=True, **options
    )
    if result.returncode != 0:
        raise RuntimeError(f"{shlex.join(map(str, command))} failed:\n{result.stderr}")


def folder():
    """Where this session's compiled files are; removed when the process that made it ends."""
    if _FOLDER not in os.environ:  # tests/conftest.py sees to it before there are workers
        made = tempfile.mkdtemp(prefix="fastdl-tests-")
        os.environ[_FOLDER] = made
        atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(os.environ[_FOLDER])


def compiled_once(output, make):
    """`output`, a path in `folder`, which `make(path)` writes if it is not there yet. Another
    process that needs the same file waits for it."""
    if not output.exists():
        with _alone(output):
            if not output.exists():
                partial = output.with_suffix(".partial")
                make(partial)
                partial.replace(output)  # whole or not at all, for processes that do not look here
    return output


@contextlib.contextmanager
def _alone(output):
    """No other process is in here for the same path."""
    with output.with_suffix(".lock").open("w") as lock:
        if sys.platform != "win32":
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
            return
        while True:
            try:
                msvcrt.locking(lock.fileno(), msvcrt.LK_LOCK, 1)  # tries for ten seconds
                break
            except OSError:
                continue
        yield
        msvcrt.locking(lock.fileno(), msvcrt.LK_UNLCK, 1)


def _compiled(name, suffix, source, *flags):
    return compiled_once(
        folder() / f"{name}{suffix}", lambda path: compile_source(source, path, *flags)
    )
