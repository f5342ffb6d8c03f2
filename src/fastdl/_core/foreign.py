# SPDX-License-Identifier: Apache-2.0
"""Recognises objects of other libraries by name, without importing those libraries: their packages,
dtypes and devices. Dtypes are NumPy's, which others use too, or are read by the file of their
library in _bridges/, as devices are.

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
    """The version of the library of a type named like "mlx.core.array"; "" if the library is not
    loaded or has no version."""
    parts = name.split(".")
    modules = (sys.modules.get(".".join(parts[:end])) for end in range(1, len(parts)))
    versions = (getattr(module, "__version__", None) for module in modules)
    return next((version for version in versions if isinstance(version, str)), "")


# ---- dtypes and devices ---------------------------------------------------------------------

policy: "Any" = None  # the module fastdl/_policy.py, for the files on libraries


def install(module) -> None:
    """Called once, on import."""
    global policy
    policy = module


def file_on(package: str) -> "Any":
    """The file on the library of a package; None if there is none."""
    return policy.lookup.load(package)


def dtype_name(x: object) -> "tuple[str, int] | None":
    """The name or typestr of one lane of `x`, a dtype of another library, and the number of lanes.

    None if `x` is not a dtype that fastdl recognises. DLPack need not have a type of that name.
    """
    read = None if isinstance(x, type) else _reader("DTYPE_OF", x)
    if read is not None:
        return read(x)
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


def _of_numpy(dtype) -> tuple[str, int]:
    if dtype.subdtype is not None and len(dtype.subdtype[1]) == 1:  # ("f4", (4,)): four lanes
        base, (lanes,) = dtype.subdtype
        return _of_numpy(base)[0], lanes
    if dtype.type.__module__ == "ml_dtypes" and dtype.isnative:
        return dtype.type.__name__, 1
    return dtype.str, 1


def values_of(array) -> str:
    """The code that reads the values of an array whose dtype DLPack cannot describe
    (`numpy.asarray(x)` of the imported object): the end of a message."""
    np = sys.modules["numpy"]
    array = np.asarray(array)  # without the overrides of a subclass
    x, dtype = "numpy.asarray(x)", array.dtype
    if dtype.names:
        return f"{x}[{dtype.names[0]!r}] has one of its fields"
    if dtype.kind == "O" and not (kinds := {type(value) for value in array.flat}) <= {str}:
        # Only these types: the comparison of another may raise.
        if kinds <= {int, float, complex, bool, *np.sctypeDict.values()}:
            found = np.array(array.tolist())
            is_known = found.dtype.kind in "biufc" and found.dtype.char not in "gG"
            if is_known and ((found == array) | (array != array)).all():
                return f"numpy.array({x}.tolist()) has a type that fits them"
        names = ", ".join(sorted(kind.__name__ for kind in kinds)[:3])
        missing = "fill or drop what is None, and " if type(None) in kinds else ""
        return f"{missing}convert its elements ({names}) to numbers first"
    if dtype.kind in "OTUS":
        return f"numpy.unique({x}, return_inverse=True)[1] has a number for each text"
    if dtype.kind in "mM":
        return f"{x}.astype('i8') has the underlying integers"
    if not dtype.isnative and dtype.char not in "gG":
        return f"{x}.astype({dtype.name!r}) has the byte order of this machine"
    saved = {"|V1": "ml_dtypes.float8_e4m3fn", "|V2": "ml_dtypes.bfloat16"}.get(dtype.str)
    if saved:
        return f"{x}.view({saved}) has the elements, if they were saved as that type"
    return f"numpy.frombuffer({x}.tobytes(), 'u1') has its bytes"


def device_name(x: object) -> "tuple[str | int, int] | None":
    """The name of the type of `x`, a device of another library, and its number.

    None if `x` is not a device that fastdl recognises; ValueError if DLPack has no such device.
    """
    read = _reader("DEVICE_OF", x)
    return None if read is None else read(x)


#: Table, module and name of a class of a library -> the function that reads its objects.
_readers: "dict[tuple[str, str, str], Callable[[Any], Any]]" = {}


def _reader(table: str, x: object) -> "Callable[[Any], Any] | None":
    """The function that reads `x`, in a table of the file on its library; None if there is none."""
    cls = type(x)
    key = table, module_of(cls), cls.__qualname__
    if key in _readers:
        return _readers[key]
    file = file_on(package_of(key[1]))
    if file is None:
        return None
    read = getattr(file, table, {}).get(key[2])
    return None if read is None else _readers.setdefault(key, read)
