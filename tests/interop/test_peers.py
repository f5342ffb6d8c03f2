# SPDX-License-Identifier: Apache-2.0
"""Every peer as producer and as consumer, and what is particular to some. See cases/."""

import pytest

from fastdl._bridges import lookup
from tests.examples.building import EXAMPLES, built

from .harness import CASES, particular, run_cases
from .peers import BY_NAME, LIBRARIES, PEERS, require


@pytest.mark.parametrize("peer", PEERS, ids=repr)
def test_peer(peer):
    require(peer.module)
    require("numpy")
    run_cases("producer.py", "consumer.py", *particular(peer.name), peer=peer.name)


@pytest.mark.parametrize("peer", PEERS, ids=repr)
def test_convert(peer):
    require(peer.module)
    require("numpy")
    run_cases("convert.py", peer=peer.name)


@pytest.mark.parametrize("peer", ["mlx", "jax"])
def test_operations_in_place(peer):
    require(BY_NAME[peer].module)
    run_cases("in_place.py", peer=peer)


def test_memory_through_several_libraries():
    require("numpy")
    run_cases("pairs.py")


def test_dtypes_and_devices():
    for library in ("numpy", "torch", "jax", "tvm_ffi"):
        require(library)
    run_cases("dtypes_and_devices.py")


def test_tables():
    libraries = "numpy pyarrow pandas polars xarray dask matplotlib PIL nanoarrow narwhals"
    for library in libraries.split():
        require(library)
    run_cases("tables.py")


def test_the_lines_in_refusals():
    for library in ("numpy", "torch", "pyarrow", "nanoarrow", "pandas", "cffi"):
        require(library)
    run_cases("remedies.py")


def test_pointers():
    for library in ("numpy", "ctypes_dlpack", "cffi"):
        require(library)
    run_cases("pointers.py")


def test_c_header():
    for library in ("numpy", "torch", "jax", "tvm_ffi"):
        require(library)
    run_cases("c_header.py")


@pytest.mark.slow
def test_torch_compile():
    require("torch")
    run_cases(
        "torch_compile.py",
        FASTDL_EXAMPLE=str(built("c", "setup.py")),
        FASTDL_TORCH_COMPILE=str(EXAMPLES / "torch_compile"),
    )


def test_hazards():
    for library in ("numpy", "torch", "tvm_ffi", "jax", "mlx", "pyarrow"):
        require(library)
    run_cases("hazards.py")


def test_every_bridge_has_a_row():
    """But that of CuPy, which needs a GPU, and fastdl's own."""
    tested = {lookup.LIBRARIES.get(peer.module.partition(".")[0]) for peer in LIBRARIES}
    assert {*lookup.LIBRARIES.values()} - tested == {"cupy", "fastdl"}, (
        "add a row to tests/interop/peers.py, as docs/add-a-library.md says"
    )


def test_every_case_file_is_run():
    run = {"producer.py", "consumer.py", "convert.py", "pairs.py", "c_header.py"}
    run |= {
        "in_place.py",
        "dtypes_and_devices.py",
        "tables.py",
        "hazards.py",
        "torch_compile.py",
        "device_that_is_not_there.py",  # test_other_libraries.py
        "orders.py",
        "pointers.py",
        "remedies.py",
        "__init__.py",
        "common.py",
        "memoryless.py",
    }
    run.update(file for peer in LIBRARIES for file in particular(peer.name))
    assert run == {path.name for path in CASES.glob("*.py")}
