# SPDX-License-Identifier: Apache-2.0
"""Tensors in Dask: its sizes, tokens and frames, with real workers."""

import textwrap

import dask
import numpy as np
import pytest
from dask.sizeof import sizeof
from dask.tokenize import TokenizationError, tokenize
from distributed import Client, LocalCluster
from distributed.protocol import deserialize, serialize
from numpy.lib.stride_tricks import as_strided

import fastdl
import fastdl.dask
from fastdl._native import dtype_facts
from tests.processes.work import facts, made, total
from tests.support.ctypes_dlpack import capsule_of
from tests.support.isolate import run_isolated, run_python
from tests.support.memory import filled

NAMES = [row[0] for row in dtype_facts()]
LONG = 120


@pytest.fixture(scope="module")
def client():
    cluster = LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, preload="fastdl.dask"
    )
    with cluster, Client(cluster) as client:
        yield client


# ---- sizes and tokens -----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", NAMES)
def test_the_size_is_that_of_the_elements(dtype):
    assert sizeof(filled(dtype)) == filled(dtype).nbytes


def test_the_size_counts_whoever_owns_the_memory():
    for tensor in (
        fastdl.from_dlpack(np.zeros((64, 1024))), fastdl.empty((64, 1024), "float64"),
        fastdl.from_dlpack(np.zeros((64, 2048)))[:, ::2],
    ):  # fmt: skip
        assert sizeof(tensor) == 64 * 1024 * 8
        assert sizeof(tensor) == sizeof(tensor.numpy())


@pytest.mark.parametrize("shape", [(1000, 5), (5, 1000, 5), (2, 0, 5)])
def test_a_broadcast_dimension_counts_once(shape):
    array = np.broadcast_to(np.zeros(5), shape)
    assert sizeof(fastdl.from_dlpack(array)) == sizeof(array)
    assert sizeof(fastdl.from_dlpack(capsule_of((3, 4), device=(2, 0), strides=(0, 1)))) == 16


def test_dask_alone_registers_it():
    """By an entry point that imports neither fastdl nor distributed before there is a tensor."""
    found = run_isolated("""
        import sys, dask.sizeof
        print("fastdl" in sys.modules)
        import fastdl
        print(dask.sizeof.sizeof(fastdl.empty(1 << 20)), "distributed" in sys.modules)
    """)
    assert found == f"False\n{4 << 20} False\n"


def test_a_token_of_device_memory():
    tensor = fastdl.from_dlpack(capsule_of((3,), device=(2, 0)))
    assert tokenize(tensor) != tokenize(tensor)
    with (
        dask.config.set({"tokenize.ensure-deterministic": True}),
        pytest.raises(TokenizationError, match="float32 tensor of shape"),
    ):
        tokenize(tensor)
    on_host = fastdl.from_dlpack(np.arange(3.0))
    with dask.config.set({"tokenize.ensure-deterministic": True}):
        assert tokenize(on_host) == tokenize(on_host.copy())


# ---- frames ---------------------------------------------------------------------------------


def test_memory_of_a_device_is_no_frame():
    tensor = fastdl.from_dlpack(capsule_of((3,), device=(2, 0)))
    with pytest.raises(TypeError) as raised:
        serialize(tensor, on_error="raise")
    assert "cupy.ndarray) with Dask" in str(raised.value.__cause__)


LAYOUTS = {
    "column-major": np.asfortranarray,
    "gaps": lambda a: a[:, ::2],
    "broadcast": lambda a: np.broadcast_to(a[:1], (4, 6)),
    "writable and broadcast": lambda a: as_strided(a, (4, 6), (0, 8)),
    "broadcast and gaps": lambda a: np.broadcast_to(a[:, None, ::2], (4, 7, 3)),
    "empty": lambda a: a[:0],
    "scalar": lambda a: a[1, 1],
}


def there_and_back(x):
    header, frames = serialize(x, serializers=["dask"])
    assert header["serializer"] == "dask"
    return deserialize(header, [bytearray(frame) for frame in frames]), frames


@pytest.mark.parametrize("dtype", [*NAMES, "float32x4"])
def test_frames_of_every_type(dtype):
    tensor = filled(dtype)
    loaded, (frame,) = there_and_back(tensor)
    assert facts(loaded) == facts(tensor) and not loaded.readonly
    assert frame.nbytes == tensor.nbytes


@pytest.mark.parametrize(
    "expand", [lambda x: x.unsqueeze(0), lambda x: x.unsqueeze(1).expand(-1, 1)]
)
def test_packed_elements_with_strides_of_0(expand):
    tensor = expand(
        fastdl.from_dlpack(capsule_of((5,), dtype=(0, 4, 1), data=bytearray(b"\x21\x43\5")))
    )
    assert 0 in tensor.strides and sizeof(tensor) == 3
    loaded, (frame,) = there_and_back(tensor)
    assert (loaded.tolist(), frame.nbytes) == (tensor.tolist(), 3)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_frames_of_every_layout(layout):
    array = np.asarray(LAYOUTS[layout](np.arange(24.0).reshape(4, 6)))
    tensor = fastdl.from_dlpack(array)
    loaded, (frame,) = there_and_back(tensor)
    assert loaded.tolist() == array.tolist() and loaded.shape == array.shape
    assert loaded.readonly == tensor.readonly
    assert frame.nbytes == sizeof(array)


def test_frames_share_the_memory():
    tensor = fastdl.from_dlpack(np.zeros(1000))
    _, (frame,) = serialize(tensor, serializers=["dask"])
    assert fastdl.asarray(frame).data_ptr == tensor.data_ptr


# ---- a cluster ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e5m2", "int4"])
def test_scatter_submit_gather(client, dtype):
    tensor = filled(dtype)
    (future,) = client.scatter([tensor])
    assert client.submit(facts, future).result(LONG) == facts(tensor)
    assert facts(future.result(LONG)) == facts(tensor)


def test_results_and_workers_that_send_to_each_other(client):
    first, second = list(client.scheduler_info()["workers"])
    future = client.submit(made, 3, workers=[first], pure=False)
    assert client.submit(total, future, workers=[second]).result(LONG) == 3 * (1 << 16)
    found = client.gather([client.submit(made, n) for n in range(4)])
    assert [tensor.tolist()[0] for tensor in found] == [0, 1, 2, 3]
    assert not any(tensor.readonly for tensor in found)


ONE_SIDE = """
    import sys
    import numpy as np
    from distributed import Client, LocalCluster
    from tests.processes.work import made, total
    import fastdl

    if __name__ == "__main__":
        here, there = sys.argv[1:]
        if here == "registered":
            import fastdl.dask
        options = {"preload": "fastdl.dask"} if there == "registered" else {}
        cluster = LocalCluster(
            n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None, **options)
        with cluster, Client(cluster) as client:
            for name, do in {
                "send": lambda: client.submit(total, *client.scatter([made(2)])).result(60),
                "get": lambda: total(client.submit(made, 3).result(60)),
            }.items():
                try:
                    print(name, do())
                except Exception as error:
                    print(name, error)
"""


@pytest.mark.parametrize(
    ("here", "there", "send", "get"),
    [
        ("no", "no", "131072.0", "196608.0"),
        ("registered", "no", "No dispatch for <class 'fastdl.Tensor'>", "196608.0"),
        ("no", "registered", "131072.0", "No dispatch for <class 'fastdl.Tensor'>"),
    ],
)
def test_one_end_that_has_not_registered(here, there, send, get, tmp_path):
    """It can send, in pickles, and cannot receive from one that has: docs/processes.md."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(ONE_SIDE))
    done = run_python(script, here, there)
    lines = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert send in lines["send"] and get in lines["get"], done.stderr
