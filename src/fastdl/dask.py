# SPDX-License-Identifier: Apache-2.0
"""Sends a fastdl.Tensor between Dask's processes as frames, like ndarrays.

Import it in the client and preload it in the workers: `import fastdl.dask`, and
`dask worker --preload fastdl.dask`, or `LocalCluster(preload="fastdl.dask")`. A process that has
not imported it pickles Tensors, with more copies, since the connections of the scheduler use
protocol 4. It cannot receive Tensors from a process that has imported it, so import it in the
client and all workers, or in none of them: see docs/processes.md.

Needs the package `distributed`.
"""

from distributed.protocol import dask_deserialize, dask_serialize

from fastdl._convert.pickling import check_host, compact, once, unpickle
from fastdl._core.tensor import Tensor, from_memory


@dask_serialize.register(Tensor)
def _serialize(tensor):
    check_host(tensor)
    memory, *described = compact(once(tensor))
    header = {"tensor": described, "shape": tensor.shape, "writeable": [not tensor.readonly]}
    return header, [memoryview(memory)]


@dask_deserialize.register(Tensor)
def _deserialize(header, frames):
    (frame,), (writeable,) = frames, header["writeable"]
    dtype, shape, order, padded = header["tensor"]
    memory = frame if writeable else memoryview(frame).toreadonly()
    tensor = unpickle(memory, tuple(dtype), tuple(shape), order, padded)
    whole = tuple(header["shape"])
    if tensor.shape == whole:
        return tensor
    # Not by expand, whose result is read-only.
    sizes = zip(tensor.strides, tensor.shape, whole, strict=True)
    strides = tuple(stride if size == n else 0 for stride, size, n in sizes)
    return from_memory(memory, whole, tuple(dtype), strides, padded=padded)
