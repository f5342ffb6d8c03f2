# SPDX-License-Identifier: Apache-2.0
"""Builds the compiled part; everything else is in pyproject.toml.

Switches, from the environment:
    FASTDL_SANITIZE=address,undefined   build with these sanitizers
    FASTDL_COVERAGE=1                   build for gcov
    FASTDL_DEBUG=1                      no optimisation, C asserts on
"""

import os
import re
import runpy
import shlex
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from glob import glob
from hashlib import sha256
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

from setuptools import Distribution, Extension, find_packages, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.errors import CompileError, PlatformError

if sys.implementation.name != "cpython":
    sys.exit(f"fastdl needs CPython: {sys.implementation.name} is not supported")
if sys.byteorder != "little":
    sys.exit("fastdl needs a little-endian machine: DLPack data is in native byte order")

runpy.run_path("include/fastdl/impl/join.py")["write"]()

# The place of the C headers in an installation. An editable one puts src itself on the path, where
# Cython also finds what it needs; with a package from elsewhere, setuptools would use a finder.
headers = {} if "editable_wheel" in sys.argv else {"fastdl.include.fastdl": "include/fastdl"}

flags = ["-std=c11", "-O3", "-fvisibility=hidden"]
link_flags: list[str] = []
macros = [("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION"), ("FASTDL_LINKED", "1")]

if sanitizers := os.environ.get("FASTDL_SANITIZE"):
    flags += [f"-fsanitize={sanitizers}", "-fno-omit-frame-pointer", "-g1", "-O1"]
    flags += ["-fno-sanitize-recover=undefined", "-fno-wrapv"]  # CPython's flags define overflow
    if "fuzzer" not in sanitizers:  # the fuzzer's runtime comes with atheris, and is preloaded
        link_flags += [f"-fsanitize={sanitizers}"]
if sanitizers or sysconfig.get_config_var("Py_GIL_DISABLED"):
    macros += [("FDL_NO_SPARES", "1")]  # see block.h
if os.environ.get("FASTDL_COVERAGE"):
    flags += ["--coverage", "-O0", "-fprofile-update=atomic"]  # one counter for all threads
    link_flags += ["--coverage"]
if os.environ.get("FASTDL_DEBUG"):
    flags += ["-UNDEBUG", "-O0", "-g"]
elif not sanitizers:
    flags += ["-g0"]  # Python's own flags ask for debug information, ten times the code
flags += ["-MMD"]  # a dependency file for each object


MODULES = [
    "fastdl._core.tensor",
    "fastdl._core.exchange",
    "fastdl._devices.driver",
    "fastdl._bridges._numpy",
    "fastdl._convert.convert",
]


#: C source -> the module that Cython makes it from.
TRANSLATED = {f"build/src/{name.replace('.', '/')}.c": name for name in MODULES}


def translate(module: str) -> None:
    """Translates a Cython module to C, if the C is older than its sources."""
    from Cython.Build import cythonize  # slow, and pip runs this file twice for the metadata

    cythonize(
        [Extension(module, [f"src/{module.replace('.', '/')}.pyx"])],
        build_dir="build",
        include_path=["src"],
        language_level=3,
        compiler_directives={
            "binding": False,
            "boundscheck": False,
            "wraparound": False,
            "embedsignature": True,
            "embedsignature.format": "clinic",
            "auto_pickle": False,  # its methods would only refuse
            "freethreading_compatible": True,  # importing fastdl leaves the GIL off
        },
    )


def is_current(target: str) -> bool:
    """Whether an object file is newer than everything it was compiled from."""
    try:
        made = os.path.getmtime(target)
        rule = Path(target).with_suffix(".d").read_text().replace("\\\n", " ")
        return all(os.path.getmtime(path) < made for path in shlex.split(rule)[1:])
    except OSError:  # never compiled, compiled by MSVC, or a source was removed
        return False


class BuildExt(build_ext):
    """Checks first whether this machine can compile. Then compiles on all cores what has changed
    since the last build, and meanwhile translates the Cython modules.

    The option `--parallel` of build_ext is for several libraries; fastdl is one library of many
    sources.
    """

    def build_extensions(self) -> None:
        import numpy  # see translate()

        self.try_compiler()
        (native,) = self.extensions
        if self.compiler.compiler_type == "msvc":
            native.extra_compile_args = ["/O2", "/std:c11"]
        elif self.compiler.compiler_type == "mingw32":  # its own libraries, which come last
            native.extra_link_args += ["-static-libgcc", "-Wl,-Bstatic"]
        native.include_dirs.append(numpy.get_include())
        native.sources += TRANSLATED
        compile_in_turn = self.compiler.compile
        command = repr(
            (getattr(self.compiler, "compiler_so", None), native.extra_compile_args, macros)
        )
        self.build_temp += f"-{sha256(command.encode()).hexdigest()[:8]}"

        def compile_one(source: str, **options) -> list[str]:
            targets = self.compiler.object_filenames([source], output_dir=options["output_dir"])
            return targets if is_current(targets[0]) else compile_in_turn([source], **options)

        def compile_at_once(sources: list[str], **options) -> list[str]:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                jobs = []
                for source in sources:
                    if source in TRANSLATED:
                        translate(TRANSLATED[source])
                    jobs.append(pool.submit(compile_one, source, **options))
                return [*chain(*(job.result() for job in jobs))]

        self.compiler.compile = compile_at_once
        super().build_extensions()

    def try_compiler(self) -> None:
        with TemporaryDirectory() as folder:
            probe = Path(folder, "probe.c")
            probe.write_text("#include <Python.h>\n")
            try:
                self.compiler.compile([str(probe)], folder, include_dirs=self.include_dirs)
            except (CompileError, PlatformError) as error:
                raise CompileError(
                    "fastdl has to be compiled here, but a C compiler or Python's C headers are "
                    f"missing ({error}): install gcc and python3-dev (Debian, Ubuntu), gcc and "
                    "python3-devel (Fedora), Xcode's command line tools (macOS: xcode-select "
                    "--install) or the C++ build tools of Visual Studio (Windows), or use a Python "
                    "and a platform for which fastdlpack has a wheel, which needs none of them"
                ) from None


class AbsoluteLinks(Distribution):
    """Makes the links of the README absolute, since package indexes show it outside the
    repository."""

    def parse_config_files(self, *args, **kwargs) -> None:
        super().parse_config_files(*args, **kwargs)
        metadata = self.metadata

        def absolute(found: re.Match) -> str:
            kind = "raw" if found["path"].endswith((".svg", ".png")) else "blob"
            base = f"{metadata.project_urls['Source']}/{kind}/v{metadata.version}"
            return f"{found['before']}{base}/{found['path']}"

        metadata.long_description = re.sub(
            r'(?P<before>]\(|\b(?:src|srcset|href)=")(?!\w+:|#)(?P<path>[^\s)"#]+)',
            absolute,
            metadata.long_description,
        )


class BuildPy(build_py):
    """Generates fastdl.pc, which cannot look up the version, and adds the docstrings to the
    stubs."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return  # it would stay in the source tree
        text = Path("src/fastdl/pkgconfig/fastdl.pc.in").read_text()
        target = Path(self.build_lib, "fastdl/pkgconfig/fastdl.pc")
        self.mkpath(str(target.parent))
        target.write_text(text.replace("@VERSION@", self.distribution.get_version()))
        written = runpy.run_path("docs/stubs.py")["with_docstrings"]
        for module in Path("src").rglob("*.pyx"):
            stub = module.with_suffix(".pyi")
            Path(self.build_lib, stub.relative_to("src")).write_text(written(stub))


setup(
    distclass=AbsoluteLinks,
    cmdclass={"build_py": BuildPy, "build_ext": BuildExt},
    packages=[*find_packages("src"), *headers],
    package_dir={"": "src", **headers},
    ext_modules=[
        # One library for all, so that each C function exists once: see src/fastdl/_native.c.
        Extension(
            "fastdl._native",
            [
                "src/fastdl/_native.c",
                *sorted(glob("src/fastdl/_memory/*.c")),
                *sorted(glob("src/fastdl/_core/*.c")),
                *sorted(glob("src/fastdl/_devices/*.c")),
            ],
            include_dirs=["include", "src/fastdl"],
            depends=[
                *glob("src/fastdl/*/*.h"),
                *glob("include/fastdl/*.[ch]"),
                *glob("src/fastdl/*/*.p[yx][xd]"),
            ],
            define_macros=macros,
            extra_compile_args=flags,
            extra_link_args=link_flags,
            export_symbols=[f"PyInit_{name.rpartition('.')[2]}" for name in MODULES],
        ),
    ],
    py_modules=["fastdl_dask"],
)
