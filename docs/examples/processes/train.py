# SPDX-License-Identifier: Apache-2.0
"""From files, through other processes, to torch: python train.py [pool | dask | ray]

Each worker reads a file and prepares a batch; this process trains on the batches as they come. The
three ways differ in the lines that start an engine. In a pool of multiprocessing, torch puts a
batch where this process maps it, and a few hundred bytes travel. Dask and Ray have ways of their
own, and take the data.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

import fastdl


def load(path):
    """In a worker: one batch."""
    images = np.load(path, mmap_mode="r")
    return fastdl.asarray(images.astype(np.float32) / 255)


def load_shared(path):
    return fastdl.convert(load(path), torch.Tensor).share_memory_()


def with_pool(paths):
    with torch.multiprocessing.get_context("spawn").Pool(2) as pool:
        yield from pool.imap(load_shared, paths)


def with_dask(paths):
    from distributed import Client, LocalCluster

    import fastdl.dask  # noqa: F401 - here, and in the workers: tensors travel as frames

    cluster = LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, preload="fastdl.dask"
    )
    with cluster, Client(cluster) as client:
        for future in client.map(load, paths):
            yield future.result()


def with_ray(paths):
    import ray

    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100 << 20)
    try:
        remote = ray.remote(load)
        for reference in [remote.remote(path) for path in paths]:
            yield ray.get(reference)
    finally:
        ray.shutdown()


def train(batches):
    """The loss of each batch. Those of a pool and of Dask are used where they are; what Ray returns
    is read-only, since others may read it too, so torch gets a copy."""
    model = torch.nn.Linear(64, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for batch in batches:
        x = fastdl.convert(batch, torch.Tensor)
        loss = (model(x) - x.mean(dim=1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield loss.item()


def main(engine="pool"):
    torch.manual_seed(0)
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"{n}.npy") for n in range(8)]
        for path in paths:
            np.save(path, random.integers(0, 256, (128, 64), np.uint8))
        make = {"pool": with_pool, "dask": with_dask, "ray": with_ray}[engine]
        losses = list(train(make(paths)))
    print(f"{len(losses)} batches, loss {losses[0]:.3f} to {losses[-1]:.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
