"""The ways by which an object gets to another process: each runs in a process of its own, which
prints what it measured: python -m benchmarks.clusters.ways WAY OBJECT BYTES."""

import json
import multiprocessing
import os
import pickle
import struct
import subprocess
import sys
import threading
import time

import numpy as np

OBJECTS = ("ndarray", "Tensor", "torch")
LEAST = 1 << 14  # bytes of a call that is counted: a pipe takes 64 kB at a time, often less


def made(kind, nbytes):
    array = np.ones(nbytes // 4, "float32")
    if kind == "ndarray":
        return array
    if kind == "Tensor":
        import fastdl

        return fastdl.from_dlpack(array)
    import torch

    return torch.from_numpy(array)


def size(x):
    return x.nbytes


def result(kind, nbytes):
    return made(kind, nbytes)


# ---- counting -------------------------------------------------------------------------------


def counted(do, nbytes):
    """Copies of the payload that `do` causes in all processes; None without the shim."""
    path = os.environ.get("FASTDL_COPIES")
    if path is None:
        do()
        return None
    with open(path, "r+b") as file:
        file.write(struct.pack("=QQQ", LEAST, 0, 0))
    do()
    with open(path, "rb") as file:
        return round(struct.unpack("=QQQ", file.read(24))[1] / nbytes, 1)


def family(pid):
    """A process and all that it started, and so on."""
    found = [pid]
    for one in found:
        try:
            for task in os.listdir(f"/proc/{one}/task"):
                with open(f"/proc/{one}/task/{task}/children") as file:
                    found += map(int, file.read().split())
        except OSError:
            continue
    return found


def pss(pid, leave_out):
    total = 0
    for one in family(pid):
        if one in leave_out:
            continue
        try:
            with open(f"/proc/{one}/smaps_rollup") as file:
                total += next(int(line.split()[1]) for line in file if line.startswith("Pss:"))
        except (OSError, StopIteration):
            continue
    return total << 10


SAMPLER = """
import os, sys, threading
from benchmarks.clusters.ways import pss
most, done = 0, threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), done.set()), daemon=True).start()
print(pss(int(sys.argv[1]), {os.getpid()}), flush=True)
while not done.is_set():
    most = max(most, pss(int(sys.argv[1]), {os.getpid()}))
print(most)
"""


def peak(do, nbytes):
    """Payloads that all processes need at most besides what they had, source included there."""
    sampler = subprocess.Popen(
        [sys.executable, "-c", SAMPLER, str(os.getpid())],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    before = int(sampler.stdout.readline())
    do()
    most, _ = sampler.communicate()
    return round((int(most) - before) / nbytes, 2)


def timed(do, times=9):
    """The least of several times: whatever else runs makes it longer."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        do()
        found.append(time.perf_counter() - start)
    return min(found)


def measured(do, nbytes):
    do()  # whatever happens once
    if "FASTDL_COPIES" in os.environ:
        return {"copies": counted(do, nbytes)}
    return {"peak": max(peak(do, nbytes) for _ in range(3)), "seconds": timed(do)}


# ---- the ways -------------------------------------------------------------------------------


def pool(kind, nbytes):
    x = made(kind, nbytes)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        pool.apply(size, (x[:1],))
        return {
            "pool: argument": measured(lambda: pool.apply(size, (x,)), nbytes),
            "pool: result": measured(lambda: pool.apply(result, (kind, nbytes)), nbytes),
        }


def answer(queue, answers):
    while (x := queue.get()) is not None:
        answers.put(size(x))


def queue(kind, nbytes):
    x, ctx = made(kind, nbytes), multiprocessing.get_context("spawn")
    queue, answers = ctx.Queue(), ctx.Queue()
    process = ctx.Process(target=answer, args=(queue, answers))
    process.start()
    found = measured(lambda: (queue.put(x), answers.get()), nbytes)
    queue.put(None)
    process.join()
    return {"queue": found}


def shared_pipe(kind, nbytes):
    """A pipe, with memory that is shared by fastdl, or by torch."""
    ctx, x = multiprocessing.get_context("spawn"), made(kind, nbytes)
    if kind == "ndarray":
        send = x
    elif kind == "Tensor":
        import fastdl

        send = fastdl.share(x)
    else:
        import torch.multiprocessing

        ctx, send = torch.multiprocessing.get_context("spawn"), x.share_memory_()
    queue, answers = ctx.SimpleQueue(), ctx.SimpleQueue()
    process = ctx.Process(target=answer, args=(queue, answers))
    process.start()
    found = measured(lambda: (queue.put(send), answers.get()), nbytes)
    queue.put(None)
    process.join()
    return {"pipe, shared memory": found}


def dask(kind, nbytes):
    import distributed

    import fastdl.dask  # noqa: F401

    cluster = distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, dashboard_address=None, preload="fastdl.dask"
    )
    x = made(kind, nbytes)
    with cluster, distributed.Client(cluster) as client:
        future = client.submit(result, kind, nbytes, pure=False)
        client.submit(size, future).result()
        return {
            "Dask: scatter": measured(lambda: client.scatter(x, hash=False), nbytes),
            "Dask: submit": measured(
                lambda: client.submit(size, future, pure=False).result(), nbytes
            ),
            "Dask: gather": measured(lambda: client.gather(future), nbytes),
        }


def ray(kind, nbytes):
    import logging

    import ray

    ray.init(
        num_cpus=1, include_dashboard=False, object_store_memory=600 << 20,
        logging_level=logging.ERROR, log_to_driver=False,
    )  # fmt: skip
    x = made(kind, nbytes)
    found = measured(lambda: ray.get(ray.put(x)), nbytes)
    ray.shutdown()
    return {"Ray: put and get": found}


MPI = """
import sys, time
from mpi4py import MPI
from mpi4py.util import pkl5
from benchmarks.clusters.ways import made, measured
kind, nbytes, world = sys.argv[1], int(sys.argv[2]), MPI.COMM_WORLD
both = pkl5.Intracomm(world)
def buffers(x):
    (world.Send if world.rank == 0 else world.Recv)(x, 1 - world.rank)
    world.Barrier()
def pickles(x):
    both.send(x, 1) if world.rank == 0 else both.recv(source=0)
    world.Barrier()
def least(do):
    # Of the object and of an ndarray, in turns.
    objects = [made(kind, nbytes), made("ndarray", nbytes)]
    found = [[], []]
    for _ in range(30):
        for x, times in zip(objects, found):
            start = time.perf_counter()
            do(x)
            times.append(time.perf_counter() - start)
    return {"seconds": min(found[0]), "over ndarray": min(found[0]) / min(found[1])}
found = {"MPI: Send": least(buffers), "MPI: pkl5": least(pickles)}
if world.rank == 0:
    import json
    print(json.dumps(found))
"""


def mpi(kind, nbytes):
    if "FASTDL_COPIES" in os.environ:
        return {}
    from benchmarks.clusters.mpi import two_ranks

    return json.loads(two_ranks("-c", MPI, kind, str(nbytes)).splitlines()[-1])


def in_band(kind, nbytes):
    x = made(kind, nbytes)
    return {
        "pickle 5: bytes in band": {"bytes": len(pickle.dumps(x, 5, buffer_callback=[].append))}
    }


WAYS = {
    function.__name__: function for function in (pool, queue, shared_pipe, dask, ray, mpi, in_band)
}


if __name__ == "__main__":
    way, kind, nbytes = sys.argv[1:]
    threading.excepthook = lambda *_: None
    print(json.dumps(WAYS[way](kind, int(nbytes))))
    sys.stdout.flush()
