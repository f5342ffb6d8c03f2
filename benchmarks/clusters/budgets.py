"""What is promised of tensors between processes: python -m benchmarks.clusters.budgets NAME."""

import json
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from statistics import median

import numpy as np

MEGABYTE, GIGABYTE = 1 << 20, 1 << 30


# ---- measured in processes of their own -----------------------------------------------------


def answer_times(ctx_of, make, nbytes):
    """Seconds to hand over a shared tensor, until it is answered."""
    from benchmarks.clusters.ways import answer

    send = make(np.ones(nbytes // 4, "float32"))
    queue, answers = ctx_of.SimpleQueue(), ctx_of.SimpleQueue()
    process = ctx_of.Process(target=answer, args=(queue, answers))
    process.start()

    def once():
        start = time.perf_counter()
        queue.put(send)
        answers.get()
        return time.perf_counter() - start

    once()

    def end():
        queue.put(None)
        process.join()

    return once, end


def pipe():
    """Over a pipe: fastdl at 1 GB and 1 MB, and torch at 1 GB, in turns."""
    import torch.multiprocessing

    import fastdl

    spawn = multiprocessing.get_context("spawn")
    of_torch = torch.multiprocessing.get_context("spawn")
    subjects = {
        "large": answer_times(spawn, fastdl.share, GIGABYTE),
        "small": answer_times(spawn, fastdl.share, MEGABYTE),
        "torch": answer_times(of_torch, lambda x: torch.from_numpy(x).share_memory_(), GIGABYTE),
    }
    found = {name: [] for name in subjects}
    for _ in range(100):
        for name, (once, _) in subjects.items():
            found[name].append(once())
    for _, end in subjects.values():
        end()
    return {name: median(values) for name, values in found.items()}


def share():
    """1 GB into shared memory, in turns, torch on one thread and on all: the least of fifteen
    times."""
    import torch

    import fastdl

    array = np.ones(GIGABYTE // 4, "float32")
    found = {"fastdl": [], "torch": [], "torch, all threads": []}
    threads = torch.get_num_threads()
    for _ in range(15):
        start = time.perf_counter()
        fastdl.share(array)
        found["fastdl"].append(time.perf_counter() - start)
        for name, number in (("torch", 1), ("torch, all threads", threads)):
            torch.set_num_threads(number)
            x = torch.from_numpy(array)
            start = time.perf_counter()
            x.share_memory_()
            found[name].append(time.perf_counter() - start)
            del x
    return {name: min(values) for name, values in found.items()}


def make(n):
    import fastdl

    return fastdl.share(np.full(1000, n))


def short_lives():
    """Shared results of workers that end after each task: how many arrive."""
    with multiprocessing.get_context("fork").Pool(2, maxtasksperchild=1) as pool:
        found = pool.map(make, range(100), chunksize=1)
        return {"arrived": sum(one.tolist()[0] == n for n, one in enumerate(found))}


def receive(connection):
    while True:
        connection.recv()


def send(connection):
    import fastdl

    while True:
        connection.send(fastdl.share(np.ones(1000)))


def kills(times=500):
    """Receivers, and senders, that are killed at some moment: what is left."""
    import fastdl

    ctx, shared = multiprocessing.get_context("fork"), fastdl.share(np.ones(1000))
    random = np.random.default_rng(0)
    first, second = multiprocessing.Pipe()
    first.send(shared)
    second.recv()
    files = len(os.listdir("/proc/self/fd"))
    shm, lost = len(os.listdir("/dev/shm")), 0
    for _ in range(times):
        here, there = ctx.Pipe()
        process = ctx.Process(target=receive, args=(there,))
        process.start()
        there.close()
        end = time.monotonic() + random.uniform(0, 0.02)
        while time.monotonic() < end:
            here.send(shared)
            time.sleep(0.001)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        process.close()
        here.close()
    left = len(os.listdir("/proc/self/fd")) - files
    for _ in range(times):
        here, there = ctx.Pipe()
        process = ctx.Process(target=send, args=(there,))
        process.start()
        there.close()
        end = time.monotonic() + random.uniform(0, 0.02)
        while time.monotonic() < end and here.poll(0.001):
            here.recv()
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        process.close()
        try:
            while True:
                lost += "did not arrive" in repr(here.recv())
        except (EOFError, OSError):
            here.close()
    return {
        "kills": 2 * times, "descriptors": left / times, "lost": lost,
        "left in /dev/shm": len(os.listdir("/dev/shm")) - shm,
    }  # fmt: skip


def sizes():
    from dask.sizeof import sizeof

    import fastdl

    tensors = [fastdl.from_dlpack(np.zeros(n)) for n in (1 << 13, 1 << 20)]
    return {"ratio": min(sizeof(t) / t.nbytes for t in tensors)}


def imports():
    """Milliseconds of the processor for `import fastdl`, and for what Dask's entry point adds, from
    byte code: the least of 21."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}

    def times(statement):
        found = []
        for _ in range(21):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, "-c", statement], check=True, env=environment)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            used = after.ru_utime + after.ru_stime
            found.append(used - before.ru_utime - before.ru_stime)
        return 1e3 * min(found)

    instead = "import sys, types; sys.modules['fastdl_dask'] = types.ModuleType('fastdl_dask'); "
    instead += "sys.modules['fastdl_dask'].register = lambda _: None; "
    loud = "import dask.sizeof"
    quiet = instead + loud
    loaded = "import sys, fastdl; sys.exit('multiprocessing' in sys.modules)"
    subprocess.run([sys.executable, "-c", loaded], check=True)
    with tempfile.TemporaryDirectory() as cache:
        environment["PYTHONPYCACHEPREFIX"] = cache
        return {"dask": times(loud) - times(quiet), "fastdl": times("import fastdl") - times("")}


MEASURED = {
    function.__name__: function for function in (pipe, share, short_lives, kills, sizes, imports)
}


if __name__ == "__main__":
    print(
        json.dumps({key: float(f"{value:.3g}") for key, value in MEASURED[sys.argv[1]]().items()})
    )
