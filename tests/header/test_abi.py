# SPDX-License-Identifier: Apache-2.0
"""The C headers: the layout of DLPack 1.3, alone and beside what others declare.

Compile-only. The claims are in capi/check_abi.c.
"""

import ctypes
import importlib.util
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from dlpack_conformance import structs
from tests.support.dlpack_h import enumerators

CAPI = Path(__file__).parents[1] / "capi"
INCLUDE = CAPI.parents[1] / "include"

# Every compiler that is there, in both languages. One is enough, none is a failure.
COMPILERS = [
    pytest.param([compiler, "-x", language, f"-std={standard}"], id=f"{compiler}-{standard}")
    for compiler, language, standard in [
        ("gcc", "c", "c99"),
        ("g++", "c++", "c++17"),
        ("clang", "c", "c99"),
        ("clang++", "c++", "c++17"),
    ]
    if shutil.which(compiler)
]
# Warnings are errors in our headers, and no concern of ours in those of others.
FLAGS = ["-fsyntax-only", "-Wall", "-Wextra", "-pedantic", "-Werror", f"-I{INCLUDE}", f"-I{CAPI}"]

# Headers that declare the same names: package, its include folder, the header.
OFFICIAL = {
    "tvm_ffi": ("include", "dlpack/dlpack.h"),
    "torch": ("include", "ATen/dlpack.h"),
}
PACKAGES = ["tvm_ffi", pytest.param("torch", marks=pytest.mark.library("torch"))]
RELEASES = (80, 100, 110, 120, 130)


#: The enumerators of DLPack 1.3 in the order of their numbers, from 0: "-" is none.
DEVICES = (
    "- CPU CUDA CUDAHost OpenCL - - Vulkan Metal VPI ROCM ROCMHost ExtDev CUDAManaged OneAPI "
    "WebGPU Hexagon MAIA Trn"
)
CODES = (
    "Int UInt Float OpaqueHandle Bfloat Complex Bool Float8_e3m4 Float8_e4m3 Float8_e4m3b11fnuz "
    "Float8_e4m3fn Float8_e4m3fnuz Float8_e5m2 Float8_e5m2fnuz Float8_e8m0fnu Float6_e2m3fn "
    "Float6_e3m2fn Float4_e2m1fn Bcomplex"
)
NUMBERS = {
    f"kDL{name}": number
    for names in (DEVICES, CODES)
    for number, name in enumerate(names.split())
    if name != "-"
}
LAYOUTS = {
    "DLPackVersion": structs.Version,
    "DLTensor": structs.Tensor,
    "DLManagedTensor": structs.Legacy,
    "DLManagedTensorVersioned": structs.Versioned,
    "DLPackExchangeAPIHeader": structs.TableHeader,
    "DLPackExchangeAPI": structs.Table,
}
#: What dlpack.h calls the fields of the suite's structs that it names otherwise.
MEMBERS = {
    "DLTensor": {"code": "dtype.code", "bits": "dtype.bits", "lanes": "dtype.lanes",
                 "device_type": "device.device_type", "device_id": "device.device_id"},
    "DLManagedTensor": {"tensor": "dl_tensor"},
    "DLManagedTensorVersioned": {"tensor": "dl_tensor"},
    "DLPackExchangeAPI": {"version": "header.version", "prev_api": "header.prev_api"},
}  # fmt: skip


def claims(names):
    for name in names:
        yield f"CLAIM({name} == {NUMBERS[name]});"
    for kind, struct in LAYOUTS.items():
        yield f"SIZE({kind}, {ctypes.sizeof(struct)});"
        for name, *_ in struct._fields_:
            field, member = getattr(struct, name), MEMBERS.get(kind, {}).get(name, name)
            yield f"FIELD({kind}, {member}, {field.offset}, {field.size});"


def run(compiler, source, *flags):
    return subprocess.run(
        [*compiler, *FLAGS, *flags, str(source)], capture_output=True, text=True, timeout=60
    )


def check(compiler, *flags, names=tuple(NUMBERS)):
    result = run(compiler, CAPI / "check_abi.c", f"-DCLAIMS={''.join(claims(names))}", *flags)
    assert result.returncode == 0, result.stderr


def official(package):
    """The flag for the include folder of an installed package, and the header in quotes."""
    spec = importlib.util.find_spec(package)
    folder, header = OFFICIAL[package]
    include = Path(spec.submodule_search_locations[0], folder)
    assert (include / header).is_file()
    return f"-isystem{include}", f"<{header}>"


@pytest.mark.parametrize("compiler", COMPILERS)
def test_alone(compiler):
    check(compiler)


@pytest.mark.parametrize("order", ["BEFORE", "AFTER"])
@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_beside_an_official_header(compiler, package, order):
    include, header = official(package)
    check(compiler, include, f"-D{order}={header}")


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_official_headers_agree(compiler, package):
    """Without ours: the frozen numbers are theirs too, of the names that they have by now."""
    include, header = official(package)
    text = Path(include.removeprefix("-isystem"), header.strip("<>")).read_text()
    names = {*re.findall(r"\bkDL\w+", text)} & NUMBERS.keys()
    assert len(names) >= len(NUMBERS) - 1
    check(compiler, include, f"-DBEFORE={header}", "-DWITHOUT_OURS", names=sorted(names))


@pytest.mark.parametrize("order", ["BEFORE", "AFTER"])
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_beside_the_header_of_each_release(compiler, release, order):
    check(compiler, f"-DOFFICIAL_RELEASE={release}", f'-D{order}="official.h"')


@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_the_consumer_interface_beside_the_header_of_each_release(
    compiler, release, order, tmp_path
):
    names = ["official.h", "fastdl/fastdl.h"]
    source = tmp_path / "includes_both.c"
    source.write_text(
        "".join(f"#include <{name}>\n" for name in names[:: 1 if order == "before" else -1])
        + "int use(PyObject *x, DLManagedTensorVersioned **out);\n"
        + "int use(PyObject *x, DLManagedTensorVersioned **out) { return fastdl_own(x, out); }\n"
    )
    flags = (f"-isystem{sysconfig.get_path('include')}", f"-DOFFICIAL_RELEASE={release}")
    result = run(compiler, source, *flags)
    assert result.returncode == 0, result.stderr


# Public headers in C++ alone, and the library that each is for.
CASTERS = {"tensor.h": None, "mdspan.h": None, "nanobind.h": "nanobind", "pybind11.h": "pybind11"}


@pytest.mark.slow
@pytest.mark.parametrize("header", sorted(INCLUDE.glob("fastdl/*.h")), ids=lambda path: path.name)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_each_public_header_stands_alone(compiler, header, tmp_path):
    flags = [f"-isystem{sysconfig.get_path('include')}", "-Wconversion", "-Wshadow"]
    if header.name in CASTERS:
        compiler = [word.replace("c99", "c++17") for word in compiler]
        compiler[2] = "c++"
        if library := CASTERS[header.name]:
            folder = Path(importlib.util.find_spec(library).origin).parent / "include"
            flags.append(f"-isystem{folder}")
    source = tmp_path / "includes_it.c"
    source.write_text(f"#include <fastdl/{header.name}>\n#include <fastdl/{header.name}>\n")
    result = run(compiler, source, *flags)
    assert result.returncode == 0, result.stderr


@pytest.mark.skipif(shutil.which("g++") is None, reason="words of gcc")
@pytest.mark.slow
def test_users_of_strict_flags_see_no_warning(tmp_path):
    """Neither in the headers nor where macros of theirs are used."""
    source = tmp_path / "user.cpp"
    source.write_text(
        "#include <fastdl/pybind11.h>\n"
        "uint32_t known(const fastdl::tensor<fastdl::any_of<float, int64_t>> &x);\n"
        "uint32_t known(const fastdl::tensor<fastdl::any_of<float, int64_t>> &x)\n{\n"
        "    static const uint32_t types[] = {FASTDL_FLOAT32, FASTDL_DTYPE(kDLInt, 64, 1)};\n"
        '    fastdl_dim n = FASTDL_DIM("n"), two = FASTDL_SIZE(2);\n'
        "    fastdl_dim *const shape[] = {&n, &two};\n"
        "    fastdl_spec spec{};\n"
        "    spec.dtypes = types;\n    spec.dtype_count = 2;\n    spec.shape = shape;\n"
        "    spec.layout = FASTDL_C | FASTDL_F;\n"
        '    return fastdl_expect(x.view(), "x", &spec) == 0 ? x.dtype() : types[1];\n}\n'
    )
    folder = Path(importlib.util.find_spec("pybind11").origin).parent / "include"
    flags = ["-Wold-style-cast", "-Wuseless-cast", "-Wredundant-decls", "-Wmissing-declarations"]
    flags += ["-Wconversion", "-Wshadow", "-isystem", folder]
    flags += ["-isystem", sysconfig.get_path("include"), "-I", INCLUDE, "-fsyntax-only"]
    command = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", *flags, source]
    result = subprocess.run([*map(str, command)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_names_of_numbers_are_those_of_the_suite():
    header = (INCLUDE / "fastdl/dlpack.h").read_text()
    found = {name: int(n) for name, n in re.findall(r"(kDL\w+) = (\d+)U?[,\s]", header)}
    assert found == NUMBERS
    assert found == enumerators("DLDeviceType") | enumerators("DLDataTypeCode")
