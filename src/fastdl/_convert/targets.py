# SPDX-License-Identifier: Apache-2.0
"""The bridge for a target of convert: a type, a module, an example or a name."""

from functools import partial
from types import ModuleType

from fastdl._bridges import lookup
from fastdl._bridges.bridge import ANYWHERE, POSITIVE, Bridge
from fastdl._convert import convert as front
from fastdl._convert.refusals import casting
from fastdl._core import exchange
from fastdl._core.device import Device
from fastdl._core.dtype import DType
from fastdl._core.errors import name_of, nearest, type_name
from fastdl._core.foreign import module_of, package_of

#: Common abbreviations of package names.
ALIASES = {
    "tf": "tensorflow",
    "np": "numpy",
    "jnp": "jax",
    "cp": "cupy",
    "mx": "mlx",
    "pytorch": "torch",
    "pa": "pyarrow",
    "pd": "pandas",
    "pl": "polars",
}


def bridge_for(cls: type):
    """The bridge of a class, cached for the next call; None if its library is unknown."""
    bridge = front.cached(cls)
    if bridge is not None:
        return bridge
    bridge = lookup.bridge_of_class(cls)
    if bridge is not None and lookup.is_of_library(bridge, cls):  # kept alive by it
        front.remember(cls, bridge)
    return bridge


def target_of(like):
    """A class or module itself, and the class of anything else. Decided by the type of `like`,
    since a proxy may pretend to be a class."""
    return like if issubclass(type(like), type | ModuleType) else type(like)


def target_bridge(target, like) -> Bridge:
    """The bridge of a class or module. TypeError if it does not belong to a library."""
    if isinstance(target, ModuleType):
        bridge = lookup.bridge_of_module(target)
        if bridge is not None:
            front.remember(target, bridge)
            return bridge
        importer = getattr(target, "from_dlpack", None)
    else:
        bridge = bridge_for(target)
        if bridge is not None:
            return bridge
        importer = importer_of_class(target, like)
    if callable(importer):
        # A module may re-export the function of a library that fastdl knows: use that library's
        # bridge.
        known = lookup.bridges_of(package_of(module_of(importer)))
        bridge = known[0] if known else unknown_library(target, importer)
        if isinstance(target, ModuleType) and not isinstance(importer, type):
            front.remember(importer, bridge)  # which convert looks up in the module
        return bridge
    if isinstance(target, type) and exchange.facts_of(target) & exchange.TYPE_NATIVE:
        return unknown_library(target, None)
    got = (
        f"expected the type, the module, the name or an object of a tensor library as `like`, got "
        f"{describe_like(like)}"
    )
    check_like(like, package_of(module_name(target)), got, TypeError)
    if hasattr(target, "__dlpack__"):
        got += ", which exports tensors and cannot be made of one"
    raise TypeError(
        f"{got}: pass a module with from_dlpack, a type with a DLPack exchange table, or one of "
        f"{', '.join(known_names())}"
    )


def named_library(name: str) -> tuple[Bridge, ModuleType]:
    """The bridge for a name, and the module of its type, which is imported: naming a library
    requests that. ValueError for an unknown name."""
    from importlib import import_module  # not needed by `import fastdl`

    bridge = lookup.bridge_of_name(name)
    if bridge is not None:
        try:
            return bridge, import_module(bridge.name.rpartition(".")[0])
        except ModuleNotFoundError as error:
            if package_of(error.name or "") != package_of(bridge.name):
                raise  # it is installed, but a dependency is missing
            raise ModuleNotFoundError(
                f"expected an installed library, got {name!r}: {bridge.title} is not installed. "
                f"Install it, or convert to another library",
                name=error.name,
            ) from error
    package = package_of(name)
    got = f"expected the name of a tensor library, got {name!r}"
    check_like(name, package, got, ValueError)
    names = known_names()
    meant = ALIASES.get(package.lower(), package.lower())
    own = [known for known in names if package_of(known) == meant]
    hint = nearest(name, own or [*map(package_of, names), *names], {})
    if own and not hint:
        hint = f": did you mean {meant!r}?"
    raise ValueError(got + (hint or f": pass one of {', '.join(names)}"))


def check_like(like, package: str, got: str, kind: type[Exception]) -> None:
    """Raises `kind` with advice if `like` is of a library that wraps arrays of others, an element
    type, or a device."""
    maker = lookup.MAKERS.get(package, "")
    name = like if isinstance(like, str) else getattr(target_of(like), "__qualname__", "")
    is_made = maker.rpartition(".")[2] == name.rpartition(".")[2]  # but no other of the library
    if maker and (package not in lookup.LIBRARIES or is_made):
        raise kind(f"{got}: {maker}(fastdl.convert(x, numpy.ndarray)) makes one from an array")
    try:
        line = casting(DType(like))
        hint = f"convert does not change element types{f': {line} does' if line else ''}"
    except (TypeError, ValueError):
        try:
            hint = f"the device is an argument, device={str(Device(like))!r}"
        except (TypeError, ValueError):
            return
    raise kind(f"{got}: {hint}")


def module_name(target):
    """The name of a module, or of the module of a class."""
    return target.__name__ if isinstance(target, ModuleType) else module_of(target)


def importer_of_class(cls, like):
    """The from_dlpack that belongs to a class; None if there is none."""
    importer = getattr(cls, "from_dlpack", None)
    if importer is None and like is not cls:
        namespace = getattr(like, "__array_namespace__", None)  # from the array API standard
        importer = getattr(namespace(), "from_dlpack", None) if callable(namespace) else None
    return importer


def unknown_library(target, importer=None) -> Bridge:
    """A bridge to an unknown library. The library's own checks decide; but negative strides are
    copied, since libraries built on torch abort on them."""
    name = target.__name__ if isinstance(target, ModuleType) else name_of(target)

    def make(tensor, like):
        if importer is None:
            raise BufferError("its exchange table has no streams for this device")
        return importer(tensor)

    quick = None
    if isinstance(target, type) and exchange.facts_of(target) & exchange.TYPE_NATIVE:
        quick = partial(exchange.exchange_api, target)
    return Bridge(
        name,
        title=name,
        classes=(),
        make=make,
        quick=quick,
        strides=POSITIVE,
        devices=ANYWHERE,
    )


def known_names() -> list[str]:
    """The types that convert knows, as their users write them."""
    return sorted(
        {bridge.name for package in lookup.LIBRARIES for bridge in lookup.bridges_of(package)},
        key=str.lower,
    )


def describe_like(like) -> str:
    if isinstance(like, ModuleType):
        return f"the module {like.__name__!r}"
    if issubclass(type(like), type):
        return f"the type {like.__qualname__!r}"
    return f"an object of type {type_name(like)!r}"
