"""Tensors from process to process: copies, peaks and times beside an ndarray and a torch tensor.

    python -m benchmarks.clusters            # all, in a few minutes; writes docs/processes.json
    python -m benchmarks.clusters pool dask  # some ways; the rest of the file stays

`copies.c` counts the bytes of large calls in all processes; peaks are sampled from PSS, which
counts memory that several processes share once. Neither is measured together with a time.
"""

LARGE = 1 << 26  # the bytes of a payload whose peak and time are measured
