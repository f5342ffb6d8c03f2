# SPDX-License-Identifier: Apache-2.0
"""The C interface as Cython sees it: src/fastdl/__init__.pxd.

Its names are used in tests/capi/names.pyx, so the C compiler holds the types against the header.
"""

import ctypes
import re
import sys
import sysconfig

import numpy as np
import pytest

import fastdl
from tests.examples.building import run
from tests.support.build import ROOT, SOURCES, folder, load_module
from tests.support.c_producers import given
from tests.support.ctypes_dlpack import FakeProducer, Table
from tests.support.dlpack_h import enumerators
from tests.support.every_producer import cythonized
from tests.support.isolate import run_isolated
from tests.support.producers import CUDA, Given, Producer, Tabled

DECLARATIONS = ROOT / "src" / "fastdl" / "__init__.pxd"
HEADER = ROOT / "include" / "fastdl" / "fastdl.h"
DTYPES = re.findall(r"^#define FASTDL_(\w+) FASTDL_DTYPE\(kDL", HEADER.read_text(), re.M)
ENUMERATORS = enumerators("DLDeviceType") | enumerators("DLDataTypeCode")

SETUP = """
import fastdl
from Cython.Build import cythonize
from setuptools import Extension, setup

include = [fastdl.get_include()]
module = Extension("{0}", ["{0}.pyx"], include_dirs=include, language="{1}")
setup(name="{0}", ext_modules=cythonize([module]))
"""


def documented_example():
    """The module in the documentation of the declarations."""
    lines = DECLARATIONS.read_text().partition("\n\n")[2].splitlines()
    lines = lines[: next(i for i, line in enumerate(lines) if line.startswith("Compile with"))]
    return "\n".join(line.removeprefix("    ") for line in lines)


@pytest.fixture(scope="module")
def place():
    """The folder of the modules `names`, of names.pyx and the example, and `names_cpp`, in C++,
    which is not built yet."""
    made = folder() / "cython"
    made.mkdir(exist_ok=True)  # a worker of pytest-xdist may come back to this module
    source = (SOURCES / "names.pyx").read_text()
    for table, names in (("DTYPES", DTYPES), ("ENUMERATORS", ENUMERATORS)):
        source += f"{table} = {{{', '.join(f'{name!r}: fastdl.{name}' for name in names)}}}\n"
    (made / "names.pyx").write_text(source + documented_example().replace("cimport fastdl\n", ""))
    (made / "names_cpp.pyx").write_text(source)
    build(made, "names", "c")
    return made


def build(place, name, language):
    (place / "setup.py").write_text(SETUP.format(name, language))
    run("python setup.py -q build_ext --inplace", place, CFLAGS="-O0")


def load(place, name):
    if name not in sys.modules:
        path = place / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
        if not path.exists():
            build(place, name, "c++")
        sys.modules[name] = load_module(name, path)
        sys.modules[name].import_fastdl()
    return sys.modules[name]


@pytest.fixture(params=["names", pytest.param("names_cpp", marks=pytest.mark.slow)])
def names(place, request):
    return load(place, request.param)


def test_all_that_the_header_offers_is_declared():
    """A function of the header that Cython's users do not see is a function they lack."""
    manual, found, _ = HEADER.read_text().partition(" * What is known about types")
    assert found
    offered = set(re.findall(r"^static inline [^;{(]*?\b(fastdl_\w*[a-z])\(", manual, re.M))
    offered |= set(re.findall(r"^#define (FASTDL_[A-Z0-9_]*[A-Z0-9])\b", manual, re.M))
    offered |= set(re.findall(r"^    (FASTDL_[A-Z_]*[A-Z]) = ", manual, re.M))
    offered |= set(re.findall(r"^} (fastdl_\w*[a-z]);", manual, re.M))
    assert {"fastdl_borrow", "FASTDL_FLOAT32", "FASTDL_WRITABLE", "fastdl_spec"} <= offered
    left_out = {
        *("fastdl_find_dtype", "fastdl_dtype_exists", "fastdl_dtype_family"),  # for reflection
        *("fastdl_devices", "fastdl_stream_kind"),
        *("FASTDL_ABI_MAJOR", "FASTDL_ABI_MINOR"),  # fastdl_import compares them
        *("FASTDL_FLOAT16_TYPE", "FASTDL_BFLOAT16_TYPE"),
    }
    # Macros around a block, and lists of types: Cython has fused types.
    left_out |= {name for name in offered if re.match("FASTDL_(DISPATCH|EACH|LIST)_", name)}
    declared = DECLARATIONS.read_text()
    missing = {name for name in offered if not re.search(rf"\b{name}\b", declared)}
    named_alike = {"FASTDL_DIM", "FASTDL_SIZE"}  # functions, since C's are initialisers
    assert missing - named_alike == left_out
    assert "dim DIM(" in declared
    assert "dim SIZE(" in declared


def test_a_description_that_raises():
    """All else is asked of it, as of every producer, by test_producer.py."""

    def fails(x):
        raise LookupError("gone")

    kind = cythonized().Given
    for export in (kind.__dlpack__, fastdl.from_dlpack):
        with pytest.raises(LookupError, match="gone"):
            export(given(kind, np.ones(3), before=fails))
    with pytest.raises(TypeError):
        kind.__dlpack__(1)


def test_types_that_one_function_describes():
    """Their tables differ where they were published with other rules or another stream."""
    slot = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int32, ctypes.c_void_p)
    found = []
    for kind in (cythonized().Given, cythonized().OnStream, cythonized().Alike):
        table, stream = Table.from_address(kind.__c_dlpack_exchange_api__), ctypes.c_void_p(1)
        assert slot(table.current_work_stream)(*CUDA, ctypes.addressof(stream)) == 0
        found.append((table.dltensor_from_py_object_no_sync is not None, stream.value))
    assert found == [(True, None), (True, 7), (False, None)]


def test_a_result_on_a_stream(names):
    made = names.filled_on(np.zeros(3), np.ndarray, 77)
    assert isinstance(made, np.ndarray)
    assert made.shape == (3,)
    given, in_use = Given(), Given(device=CUDA)
    for x in (Producer(given), Tabled(in_use)):
        with pytest.raises(TypeError, match="expected a type or None"):
            names.wrap_on(x, 5)
    given.assert_released()
    in_use.assert_alive()


def test_all_numbers_of_dlpack_are_declared():
    declared = set(re.findall(r"^        (kDL\w+)$", DECLARATIONS.read_text(), re.M))
    assert declared ^ set(ENUMERATORS) == set(), "__init__.pxd and dlpack.h differ in these"


def test_enumerators(names):
    assert names.ENUMERATORS == ENUMERATORS


def test_element_types(names):
    for name, number in names.DTYPES.items():
        dtype = fastdl.DType(name.lower())
        assert number == dtype.code | dtype.bits << 8 | dtype.lanes << 16, name


def test_devices(names):
    for name, device in fastdl.DeviceType.__members__.items():
        assert names.name_of(device) == name.lower()


def test_a_view(names):
    array = np.zeros((4, 6), np.int16)[1::2, ::-3]
    assert names.describe(array) == {
        "address": array.__array_interface__["data"][0],
        "dtype": names.DTYPES["INT16"],
        "same dtype": names.DTYPES["INT16"],
        "itemsize": 2,
        "packed": False,
        "shape": [2, 2],
        "strides": [12, -3],
        "compact strides": [2, 1],
        "C": False,
        "F": False,
        "device": (1, 0),
        "on host": True,
        "read-only": False,
        "copied": False,
        "fault": None,
        "size": 4,
        "nbytes": 8,
        "low": -6,
        "high": 26,
        "stream": 0,
        "ordered": (0, 0),
    }
    assert names.describe(np.ones(3).T)["C"] is True
    assert names.describe(np.ones((2, 3)).T)["F"] is True
    assert names.describe(np.broadcast_to(1.0, 3))["read-only"] is True
    assert names.describe(FakeProducer((2, 1)))["on host"] is False
    assert names.borrow(array)
    with pytest.raises(TypeError, match="'list'"):
        names.borrow([1.0])


def test_what_an_argument_must_be(names):
    points, weights = np.zeros((5, 3), np.float32), np.zeros(5, np.float32)
    assert names.expect(points, weights) == 5
    for bad, error, match in [
        ((points.astype("d"), weights), TypeError, "points: expected float32, got float64"),
        ((points[:, :2], weights), ValueError, r"points: expected shape \(n=?5?, 3\)"),
        ((points[::2], weights[:3]), BufferError, "points: expected a row-major"),
        ((points[0], weights), ValueError, "points: expected 2 dimensions"),
        ((points, weights[:4]), ValueError, "n is 5 in points"),
        ((points, weights.astype("d")), TypeError, "weights: expected float32, as points has"),
        ((points, points[:, 0]), ValueError, "weights: expected no memory shared with points"),
        ((points, np.broadcast_to(weights[:1], 5)), BufferError, "weights: expected a writable"),
    ]:
        with pytest.raises(error, match=match):
            names.expect(*bad)


def test_arguments_by_name(names):
    x, y = np.zeros(5, np.float32), np.ones(5, np.float32)
    assert names.sizes(x, y) == (5, 5)
    with pytest.raises(TypeError, match="^y: expected a tensor, got 'list'"):
        names.sizes(x, [1.0])
    with pytest.raises(TypeError, match="^y: expected float32, as x has"):
        names.sizes(x, y.astype("d"))


def test_copies(names):
    assert names.total_as_double(np.arange(4, dtype=np.int8)) == 6
    assert names.total_as_double(np.arange(6.0)[::-2]) == 9
    with pytest.raises(TypeError, match="^argument: expected float64, got complex128"):
        names.total_as_double(np.ones(3) * 1j)
    assert names.meets(np.ones((2, 3)).T, layout=names.C, rules=names.COPY) == (2, True)
    assert names.meets(np.ones((2, 3)), layout=names.C, rules=names.COPY) == (2, False)
    half = np.array([1.5, 2.0], np.float16)
    names.first_doubled(half)
    assert half.tolist() == [3.0, 2.0]
    assert names.zeros(np.ones((2, 3), np.int16)).tolist() == [[0, 0, 0], [0, 0, 0]]


def test_rules(names):
    matrix = np.zeros((4, 4))
    names.meets(matrix, ndim=1, rules=names.TRAILING)
    names.meets(matrix.T, layout=names.F)
    names.meets(matrix[:, :2], layout=names.INNER)
    names.meets(matrix, layout=names.C, rules=names.WRITABLE | names.IN_PLACE, device=names.HOST)
    names.meets(np.array(1.0), ndim=names.SCALAR)
    names.meets(FakeProducer((2, 0)), device=names.ANY_DEVICE)
    for bad in [
        {"ndim": 1},
        {"ndim": 3, "rules": names.TRAILING},
        {"layout": names.C},
        {"layout": names.INNER},
        {"device": 2},
        {"ndim": names.SCALAR},
    ]:
        with pytest.raises((ValueError, BufferError), match="x: expected"):
            names.meets(matrix[:, ::2].T, **bad)


NUMBERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
NUMBERS += ["float32", "float64"]


@pytest.mark.parametrize("dtype", NUMBERS)
def test_typed_pointers(names, dtype):
    first = names.first[{"float32": "float", "float64": "double"}.get(dtype, f"{dtype}_t")]
    assert first(np.array([5, 6], dtype), 0) == 5
    for other in {*NUMBERS, "bool", "complex64"} - {dtype}:
        with pytest.raises(TypeError, match=f"x: expected {dtype}, got {other}"):
            first(np.array([1, 0], other), 0)
    elsewhere = FakeProducer((2, 0), dtype=fastdl.DType(dtype).__dlpack_data_type__())
    with pytest.raises(BufferError, match="host memory"):
        first(elsewhere, 0)


def test_owning(names):
    array = np.arange(3.0)
    count = sys.getrefcount(array)
    kept = names.Kept(array[::2])
    assert sys.getrefcount(array) > count
    assert kept.numbers() == (1, [0.0, 2.0])
    result = kept.give(np.ndarray)
    del kept
    assert type(result) is np.ndarray
    result[1] = 7
    assert array.tolist() == [0.0, 1.0, 7.0]
    del result
    assert sys.getrefcount(array) == count
    names.Kept(array)  # and dropped
    assert sys.getrefcount(array) == count
    with pytest.raises(TypeError):
        names.Kept(3)


def test_results(names):
    array = np.zeros((2, 3), np.int16)
    result = names.empty(array, np.ndarray)
    assert (type(result), result.shape, result.dtype) == (np.ndarray, (2, 3), np.int16)
    assert sys.getrefcount(result) <= 2  # the variable, and the argument of the call
    assert type(names.empty(array, None)) is fastdl.Tensor
    count = sys.getrefcount(array)
    assert type(names.empty(array, bytes)) is fastdl.Tensor
    with pytest.raises(TypeError, match="a type or None, got an object of type 'int'"):
        names.empty(array, 3)
    with pytest.raises(TypeError, match="a type or None, got an object of type 'int'"):
        names.Kept(array).give(3)  # is taken all the same
    assert sys.getrefcount(array) == count


@pytest.mark.library("torch")
def test_results_of_torch(place):
    printed = run_isolated(
        f"""
        import sys; sys.path.insert(0, {str(place)!r})
        import names, torch
        result = names.empty(torch.zeros(2, 3), torch.Tensor)
        print(type(result).__name__, tuple(result.shape), result.dtype)
        print(names.describe(torch.zeros(2, 3))["shape"])
        """
    )
    assert printed == "Tensor (2, 3) torch.float32\n[2, 3]\n"


def test_tables(names):
    address, *version = names.exchange_api(np.ndarray)
    assert address and version == [1, 3]
    assert names.exchange_api(fastdl.Tensor) != names.exchange_api(np.ndarray)
    for bad, match in [(list, "'list'"), (None, "a type, got None"), (3, "'int'")]:
        with pytest.raises(TypeError, match=match):
            names.exchange_api(bad)


def test_the_example_in_the_documentation(place):
    total = load(place, "names").total
    assert total(np.arange(12, dtype=np.float32)[::-3]) == 11 + 8 + 5 + 2
    with pytest.raises(TypeError, match="argument: expected float32, got float64"):
        total(np.zeros(3))
    with pytest.raises(ValueError, match="one dimension"):
        total(np.zeros((3, 3), np.float32))


def test_private_declarations_stay_private(place):
    """Cython finds what is installed, and that is one file; in a source tree there are more."""
    if fastdl.get_include() == str(ROOT / "include"):
        pytest.skip("a source tree")
    (place / "private.pyx").write_text("from fastdl._core.native cimport fdl_block\n")
    with pytest.raises(AssertionError, match=r"'fastdl[./]_core[./]native(\.pxd)?' not found"):
        run("cython -3 private.pyx", place)
