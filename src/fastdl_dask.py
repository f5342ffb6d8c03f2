# SPDX-License-Identifier: Apache-2.0
"""The entry point of the group `dask.sizeof`. It is a separate module because Dask loads it on
import; a module inside the package would import fastdl too. (Frames for Dask: fastdl/dask.py.)
"""


def register(sizeof):
    """Dask calls this on import, and the inner function for the first object of fastdl."""

    @sizeof.register_lazy("fastdl")
    def _():
        from fastdl._convert.pickling import nbytes
        from fastdl._core.tensor import Tensor

        sizeof.register(Tensor, nbytes)
