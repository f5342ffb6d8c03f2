# SPDX-License-Identifier: Apache-2.0
"""The libraries that fastdl knows, and the file here for each.

Adding a library is a file in this folder and a row in LIBRARIES. The file has BRIDGES, one for each
type that convert makes, and SAMPLE, the array that the command line examines: float32 0 to 5 on the
host, as MODULE:EXPRESSION (see _cli/expression.py). What else it may have:

- RELEASE: the distribution and the release for which all this holds; the tests install it, by
  itself if ALONE.
- DEFECTS: what happens, as a sentence without a full stop -> what fastdl does, or cannot do; FIXED:
  such a sentence -> the first release without the defect.
- TYPES: peculiarities of the library as a producer: "package:qualified name" of a class, which
  applies to subclasses too -> TYPE_* of _core/exchange.pyx.
- refuse(x): raises BufferError for an object of a type with TYPE_REFUSES that its library would
  export wrongly, or end the process. With TYPE_BUFFER, only for integers that stand for something
  else.
- explain(x): the exception to raise after `__dlpack__` of `x` failed, if it is more specific than
  the library's; otherwise None.
- table(): the exchange table, if fastdl makes one because the library publishes none.
- DTYPE_OF, DEVICE_OF: the name of a class of dtypes or devices -> the function that reads one, for
  dtype_name and device_name of _core/foreign.py.

Facts that safety requires even without the package are in include/fastdl/impl/libraries.c.
Everything else follows the protocol.
"""

import sys
from collections import namedtuple

from fastdl._core import exchange
from fastdl._core.foreign import module_of, package_of

TYPE_CHECKING = False  # instead of typing's: `import fastdl` need not load that
if TYPE_CHECKING:
    from types import ModuleType

    from fastdl._bridges.bridge import Bridge

#: An exchange table that fastdl made for a type without one. table: a capsule
#: "dlpack_exchange_api"; type: the type it is for, since others may look alike; borrow: a capsule
#: "fastdl_borrower" (see fastdl.h).
Table = namedtuple("Table", "table type borrow")

#: The top-level package of a type or module -> a module of this folder. Loaded when the first of
#: its instances is seen. In the order in which commands show them.
LIBRARIES = {
    "numpy": "numpy",
    "torch": "torch",
    "jax": "jax",
    "jaxlib": "jax",
    "cupy": "cupy",
    "tensorflow": "tensorflow",
    "paddle": "paddle",
    "mxnet": "mxnet",
    "mlx": "mlx",
    "tvm_ffi": "tvm_ffi",
    "tvm": "tvm",
    "pyarrow": "pyarrow",
    "onnxruntime": "onnxruntime",
    "openvino": "openvino",
    "warp": "warp",
    "drjit": "drjit",
    "tinygrad": "tinygrad",
    "dpnp": "dpnp",
    "array_api_strict": "array_api_strict",
    "cuda": "cuda",
    "pandas": "pandas",
    "polars": "polars",
    "fastdl": "fastdl",
}


#: Libraries of labelled or lazy data, whose objects hold arrays of other libraries: package -> the
#: function that makes an object of an array.
MAKERS = {
    "dask": "dask.array.from_array",
    "pandas": "pandas.DataFrame",
    "polars": "polars.DataFrame",
    "xarray": "xarray.DataArray",
}


def load(package: str):
    """The file on the library of a package; None if there is none."""
    name = LIBRARIES.get(package)
    if name is None:
        return None
    from importlib import import_module  # not needed by `import fastdl`

    return import_module(f"fastdl._bridges.{name}")


def bridges_of(package: str) -> "tuple[Bridge, ...]":
    """The bridges of the library of a package; none if there are none."""
    return load(package).BRIDGES if package in LIBRARIES else ()


def stated(cls: type) -> "tuple[type, int, ModuleType | None]":
    """The facts that a library's file states about a class or its nearest base: (that base, its
    facts, the file); (cls, 0, None) if no file names any."""
    for base in mro(cls):
        file = load(package_of(own_module(base)))
        for row, facts in getattr(file, "TYPES", {}).items():
            if is_row(row, base):
                return base, facts, file
    return cls, 0, None


def table_of(file: "ModuleType | None") -> "Table | None":
    """The exchange table that the file of a library makes; None if it makes none."""
    table = getattr(file, "table", None)
    return None if table is None else Table(*table())


#: mro(cls) and the like, ignoring overrides in the metaclass of `cls`.
mro = type.__dict__["__mro__"].__get__
_module, _name = type.__dict__["__module__"].__get__, type.__dict__["__qualname__"].__get__


def own_module(cls: type) -> str:
    """The module of `cls`, ignoring overrides in its metaclass; "" if it has none."""
    try:
        module = _module(cls)
    except AttributeError:
        return ""
    return module if isinstance(module, str) else ""


def is_row(row: str, cls: type) -> bool:
    """Whether "package:qualified name" names this class itself, not only a base of it."""
    package, _, own = row.partition(":")
    module = own_module(cls)
    return own == _name(cls) and (module == package or module.startswith(f"{package}."))


def bridge_of_class(cls: type):
    """The bridge of a class or of its nearest base that has one; None if none has."""
    for base in mro(cls):
        for bridge in bridges_of(package_of(own_module(base))):
            if any(is_row(row, base) for row in bridge.classes):
                return bridge
    return None


def is_of_library(bridge, cls: type) -> bool:
    """Whether a class is the library's own, and not a user's subclass."""
    package = package_of(module_of(cls))
    return any(package == package_of(name.partition(":")[0]) for name in bridge.classes)


def bridge_of_module(module):
    """The bridge of a module's library; None if there is none."""
    bridges = bridges_of(package_of(module.__name__))
    for bridge in bridges:
        if any(name.startswith(f"{module.__name__}:") for name in bridge.classes):
            return bridge
    return bridges[0] if bridges else None


def bridge_of_name(name: str):
    """The bridge whose type has that name, as its users write it, or the first bridge of the
    package or module of that name; None if there is none."""
    for bridge in bridges_of(package_of(name)):
        if bridge.name == name or bridge.name.startswith(f"{name}."):
            return bridge
    return None


def published_table(module: str, name: str):
    """The exchange table that the class `name` of a loaded module publishes, or None."""
    cls = getattr(sys.modules.get(module), name, None)
    if isinstance(cls, type) and exchange.facts_of(cls) & exchange.TYPE_NATIVE:
        return exchange.exchange_api(cls)
    return None
