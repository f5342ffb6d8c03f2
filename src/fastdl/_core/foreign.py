"""Other libraries' objects, recognised by name without importing those libraries: their packages,
dtypes and devices.

A library whose objects have `__dlpack_data_type__` or `__dlpack_device__` needs no row here.
"""

import sys

TYPE_CHECKING = False  # instead of typing's: `import fastdl` need not load that
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# ---- packages -------------------------------------------------------------------------------


def module_of(x: object) -> str:
    """The `__module__` of a class or function; "" if it is not a str."""
    name = getattr(x, "__module__", None)
    return name if isinstance(name, str) else ""


def package_of(name: str) -> str:
    """The top-level package of a module by its name."""
    return name.partition(".")[0]


def release(version: str) -> tuple[int, ...]:
    """The leading numbers of a version: (2, 13, 0) of "2.13.0+cpu"."""
    import re  # not needed by `import fastdl`

    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(number) for number in found[0].split(".")) if found else ()


def loaded_version(name: str) -> str:
    """The version of the library of a type by its name, such as "mlx.core.array"; "" if it is not
    loaded or has no version."""
    parts = name.split(".")
    modules = (sys.modules.get(".".join(parts[:end])) for end in range(1, len(parts)))
    versions = (getattr(module, "__version__", None) for module in modules)
    return next((version for version in versions if isinstance(version, str)), "")


# ---- dtypes ---------------------------------------------------------------------------------


def dtype_name(x: object) -> "tuple[str, int] | None":
    """The name or typestr of one lane of `x`, a dtype of another library, and the number of lanes.

    None if `x` is not a dtype that fastdl recognises. The name need not be one that DLPack has.
    """
    cls = type(x)
    if (module_of(cls), cls.__qualname__) in _NAMED_BY_STR:
        name = str(x).rpartition(".")[2]
        return ("float4_e2m1fn", 2) if name == "float4_e2m1fn_x2" else (name, 1)
    np = sys.modules.get("numpy")
    if np is None:
        return None
    if isinstance(x, np.dtype):
        return _of_numpy(x)
    if isinstance(x, type):
        if issubclass(x, np.generic):  # numpy.float32, ml_dtypes.bfloat16
            return _of_numpy(np.dtype(x))
        inner = getattr(x, "dtype", None)  # jax.numpy.float32
        return _of_numpy(inner) if isinstance(inner, np.dtype) else None
    return None


#: Types of dtypes whose str() ends in a name as in fastdl: "torch.float32".
_NAMED_BY_STR = {("torch", "dtype"), ("mlx.core", "Dtype")}


def _of_numpy(dtype) -> tuple[str, int]:
    if dtype.subdtype is not None and len(dtype.subdtype[1]) == 1:  # ("f4", (4,)): four lanes
        base, (lanes,) = dtype.subdtype
        return _of_numpy(base)[0], lanes
    if dtype.type.__module__ == "ml_dtypes" and dtype.isnative:
        return dtype.type.__name__, 1
    return dtype.str, 1


# ---- devices --------------------------------------------------------------------------------


def device_name(x: object) -> "tuple[str | int, int] | None":
    """The name of the type of `x`, a device of another library, and its number.

    None if `x` is not a device that fastdl recognises; ValueError if DLPack has none like it.
    """
    cls = type(x)
    recognise = _DEVICES.get((package_of(module_of(cls)), cls.__qualname__))
    return None if recognise is None else recognise(x)


def _of_torch(device) -> tuple[str, int]:
    kind = device.type
    if kind == "cuda" and sys.modules["torch"].version.hip:
        kind = "hip"
    if kind not in _TORCH:
        raise ValueError(f"expected a device that DLPack has, got torch's {kind!r}")
    return _TORCH[kind], device.index or 0


_TORCH = {
    "cpu": "cpu",
    "cuda": "cuda",
    "hip": "rocm",
    "xpu": "oneapi",
    "mps": "metal",
    "maia": "maia",
    "privateuseone": "ext_dev",
}


def _of_jax(device) -> tuple[str, int]:
    if device.platform == "cpu":  # several of them are one host
        return "cpu", 0
    for name in ("cuda", "rocm"):
        if name in device.client.platform_version:
            return name, device.local_hardware_id
    raise ValueError(f"expected a device that DLPack has, got JAX's {device}")


def _of_cupy(device) -> tuple[str, int]:
    return "rocm" if sys.modules["cupy"].cuda.runtime.is_hip else "cuda", device.id


#: By package and name of the type.
_DEVICES: "dict[tuple[str, str], Callable[[Any], tuple[str | int, int]]]" = {
    ("torch", "device"): _of_torch,
    ("jaxlib", "Device"): _of_jax,
    ("cupy", "Device"): _of_cupy,
    ("cuda", "Device"): lambda device: ("cuda", device.device_id),  # cuda.core
    ("tvm_ffi", "Device"): lambda device: (int(device.dlpack_device_type()), device.index),
}
