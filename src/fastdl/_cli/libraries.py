"""The libraries that the command line knows."""

from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple


class Library(NamedTuple):
    name: str  # of the package, as imported
    sample: str  # an array of float32 0 to 5 on the host: MODULE:EXPRESSION, see expression.py

    @property
    def module(self) -> str:
        """The module of its arrays: what fastdl.convert is told to make."""
        return self.sample.partition(":")[0]

    @property
    def version(self) -> str:
        """Its version, or "" if it has none; imports the library."""
        modules = (import_module(name) for name in (self.name, self.module))
        versions = (getattr(module, "__version__", None) for module in modules)
        return next((str(version) for version in versions if version), "")

    @property
    def installed(self) -> bool:
        """Whether it can be found; it is not imported. A folder of its name is not enough."""
        spec = find_spec(self.name)
        if spec is not None and spec.origin is None:  # a folder, or a namespace package like mlx
            return self.module != self.name and find_spec(self.module) is not None
        return spec is not None


# In the order in which they are shown.
LIBRARIES = (
    Library("numpy", "numpy:arange(6, dtype='float32')"),
    Library("torch", "torch:arange(6, dtype=float32)"),
    Library("jax", "jax.numpy:arange(6, dtype='float32')"),
    Library("cupy", "cupy:arange(6, dtype='float32')"),
    Library("tensorflow", "tensorflow:range(6, dtype=float32)"),
    Library("paddle", "paddle:arange(6, dtype='float32')"),
    Library("mxnet", "mxnet:nd.arange(6)"),
    Library("mlx", "mlx.core:arange(6, dtype=float32)"),
    Library("tvm_ffi", "tvm_ffi:from_dlpack(fastdl.asarray(numpy.arange(6, dtype='float32')))"),
    Library("tvm", "tvm:runtime.tensor(numpy.arange(6, dtype='float32'))"),
    Library("pyarrow", "pyarrow:array(range(6), float32())"),
    Library("onnxruntime", "onnxruntime:OrtValue.ortvalue_from_numpy(numpy.arange(6, dtype='f'))"),
    Library("openvino", "openvino:Tensor(numpy.arange(6, dtype='float32'))"),
    Library("warp", "warp:array(range(6), dtype=float32, device='cpu')"),
    Library("drjit", "drjit.scalar:ArrayXf(range(6))"),
    Library("tinygrad", "tinygrad:Tensor(list(range(6)), dtype='float32').realize()"),
    Library("dpnp", "dpnp:arange(6, dtype='float32')"),
    Library("array_api_strict", "array_api_strict:arange(6, dtype=float32)"),
    Library("pandas", "pandas:Series(range(6), dtype='float32')"),
    Library("polars", "polars:Series(range(6), dtype=Float32)"),
    Library("xarray", "xarray:DataArray(numpy.arange(6, dtype='float32'))"),
)
BY_NAME = {library.name: library for library in LIBRARIES}


def installed() -> list[Library]:
    """Those that are installed here."""
    return [library for library in LIBRARIES if library.installed]
