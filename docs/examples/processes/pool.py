# SPDX-License-Identifier: Apache-2.0
"""Workers prepare batches in bfloat16, and torch uses them: python pool.py"""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import torch

import fastdl


def prepare(number):
    """In a worker: one batch."""
    batch = torch.full((1000, 1000), number, dtype=torch.bfloat16)
    return fastdl.from_dlpack(batch)


if __name__ == "__main__":
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=spawn) as pool:
        for tensor in pool.map(prepare, range(4)):
            batch = fastdl.convert(tensor, torch.Tensor, copy=False)
            print(batch.dtype, batch.mean().item())
