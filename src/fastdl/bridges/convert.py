"""convert: finding the bridge, reading any object, and what errors say.

The part that every call runs is in fastdl/_convert/convert.pyx.
"""

from types import ModuleType

from fastdl._convert import convert as front
from fastdl._convert.asarray import asarray
from fastdl._convert.convert import ANYWHERE, HOST, IMMUTABLE, POSITIVE, Bridge
from fastdl._core import exchange
from fastdl._core import tensor as core
from fastdl._core.errors import CopyRequiredError, name_of, type_name
from fastdl._core.foreign import module_of, package_of
from fastdl._protocol import placement
from fastdl.bridges import lookup


def convert(x, like, copy):
    """fastdl.convert: what the compiled front does not serve."""
    if copy is not None and not isinstance(copy, bool):
        raise TypeError(f"expected copy=None, True or False, got {copy!r}")
    target = like if isinstance(like, type | ModuleType) else type(like)
    bridge = target_bridge(target, like)
    own = known_bridge(type(x))
    is_one = own is bridge
    if own is None:  # of a library that fastdl does not know
        is_one = isinstance(target, type) and isinstance(x, target)
    if is_one and not copy:
        return x
    try:
        tensor = asarray(x)
        tensor = exchange.from_dlpack(x) if tensor is x else tensor  # one of convert's own
    except Exception as error:
        found = explain(error, x, None, bridge)
        if found is error:
            raise
        raise found from error
    immutable = bool(exchange.facts_of(type(x)) & exchange.TYPE_IMMUTABLE)
    return front.make(tensor, bridge, x, target, immutable, copy)


def read(x):
    """The tensor of an object of a library that fastdl knows; None for any other."""
    own = known_bridge(type(x))
    if own is None or (own.read is None and not exchange.is_producer(x)):
        return None
    return front.read(x, own)


# ---- which library --------------------------------------------------------------------------


def known_bridge(cls: type):
    """The bridge of a class, remembered for the next call; None if its library is not known."""
    bridge = front.known(cls)
    if bridge is not None:
        return bridge
    bridge = lookup.bridge_of_class(cls)
    if bridge is not None and lookup.is_of_library(bridge, cls):  # which keeps its classes
        front.remember(cls, bridge)
    return bridge


def target_bridge(target, like) -> Bridge:
    """The bridge of a class or module. TypeError if it is not that of a library."""
    if isinstance(target, ModuleType):
        bridge = lookup.bridge_of_module(target)
        if bridge is not None:
            front.remember(target, bridge)
            return bridge
        importer = getattr(target, "from_dlpack", None)
    else:
        bridge = known_bridge(target)
        if bridge is not None:
            return bridge
        importer = importer_of_class(target, like)
    if callable(importer):
        # A module may pass on the function of a library that fastdl knows: then that one's.
        known = bridges_of(package_of(module_of(importer)))
        return known or unknown_library(target, importer)
    if isinstance(target, type) and exchange.facts_of(target) & exchange.TYPE_NATIVE:
        return unknown_library(target, None)
    got = (
        f"expected the type, the module or an object of a tensor library as `like`, got "
        f"{describe_like(like)}"
    )
    maker = lookup.MAKERS.get(package_of(module_name(target)))
    if maker is not None:
        raise TypeError(f"{got}: {maker}(fastdl.convert(x, numpy.ndarray)) makes one of an array")
    raise TypeError(
        f"{got}: pass one of {', '.join(known_names())}, a type with a DLPack exchange table, or a "
        f"module with from_dlpack"
    )


def module_name(target):
    """The name of a module, or of that of a class."""
    return target.__name__ if isinstance(target, ModuleType) else module_of(target)


def importer_of_class(cls, like):
    """The from_dlpack that belongs to a class; None if there is none."""
    importer = getattr(cls, "from_dlpack", None)
    if importer is None and like is not cls:
        namespace = getattr(like, "__array_namespace__", None)  # of the array API standard
        importer = getattr(namespace(), "from_dlpack", None) if callable(namespace) else None
    return importer


def unknown_library(target, importer=None) -> Bridge:
    """A bridge to a library that fastdl knows nothing of. Its own refusals are final; but negative
    strides are copied, since libraries built on torch abort at them."""
    name = target.__name__ if isinstance(target, ModuleType) else name_of(target)

    def make(tensor, like):
        if importer is None:
            raise BufferError("its exchange table has no streams for this device")
        return importer(tensor)

    bridge = Bridge(name, title=name, classes=(), make=make, strides=POSITIVE, devices=ANYWHERE)
    if isinstance(target, type) and exchange.facts_of(target) & exchange.TYPE_NATIVE:
        bridge.speed_up(exchange.exchange_api(target))
    return bridge


def bridges_of(package: str):
    bridges = getattr(lookup.load(package), "BRIDGES", ())
    return bridges[0] if bridges else None


def known_names() -> list[str]:
    """The types that convert knows, as their users write them."""
    return sorted(
        {bridge.name for package in lookup.LIBRARIES for bridge in lookup.load(package).BRIDGES},
        key=str.lower,
    )


def describe_like(like) -> str:
    if isinstance(like, ModuleType):
        return f"the module {like.__name__!r}"
    if isinstance(like, type):
        return f"the type {like.__qualname__!r}"
    return f"an object of type {type_name(like)!r}"


# ---- errors ---------------------------------------------------------------------------------


def describe_source(x, tensor) -> str:
    """What was to be converted, in words."""
    if tensor is None:
        return f"an object of type {type_name(x)!r}"
    what = core.describe(tensor)
    return what if isinstance(x, core.Tensor) else f"{what}, of type {type_name(x)!r},"


def explain(error, x, tensor, bridge) -> Exception:
    """The exception to raise in place of `error`, its cause: of fastdl's types, and in its words.

    `tensor` is None if `x` could not be read; otherwise the library of `bridge` refused it.
    """
    if isinstance(error, MemoryError | CopyRequiredError):
        return error
    words = f"{describe_source(x, tensor)} cannot be converted to {bridge.name}"
    if tensor is None:
        kind = TypeError if isinstance(error, TypeError) else BufferError
        return kind(f"{words}: {summary(error)}")
    reason = f"{bridge.title} refused it ({summary(error)})"
    return BufferError(f"{words}: {reason}. {remedy(tensor, bridge)}")


def summary(error) -> str:
    """The type and the first line of an exception's message, shortened."""
    try:
        lines = str(error).strip().splitlines()
    except Exception:  # an error that cannot say what it is
        lines = []
    text = lines[0] if lines else ""
    text = text if len(text) <= 200 else f"{text[:200]}..."
    if type(error) in (BufferError, TypeError, ValueError) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def refuse(x, tensor, bridge) -> BufferError:
    """The exception for data whose device, dimensions or element type the library does not have."""
    words = f"{describe_source(x, tensor)} cannot be converted to {bridge.name}: "
    host = tensor.device.is_host
    if host and bridge.devices not in (HOST, ANYWHERE):
        return BufferError(
            f"{words}{bridge.name} holds device memory only. Move it there first: "
            f"fastdl.from_dlpack(x, device='cuda:0')"
        )
    if not host and bridge.devices == HOST:
        return BufferError(
            f"{words}{bridge.name} holds host memory only. Copy it to the host first: "
            f"fastdl.from_dlpack(x, device='cpu')"
        )
    least, most = bridge.ndims
    if not least <= tensor.ndim <= most:
        expected = f"{least} dimension{'s' * (least != 1)}"
        if least != most:
            expected = f"{least} to {most} dimensions"
        others = [
            other.name
            for other in lookup.load(package_of(bridge.name)).BRIDGES
            if other.ndims[0] <= tensor.ndim <= other.ndims[1]
        ]
        hint = f"Convert to {others[0]} instead" if others else "Reshape it first"
        return BufferError(f"{words}{bridge.name} has {expected}. {hint}")
    return BufferError(
        f"{words}{bridge.name} has no {tensor.dtype}. {nearest_dtype(tensor.dtype, bridge.dtypes)}"
    )


#: Which elements another kind can hold, all of them if it is wider.
HELD_BY = {"bfloat": "float", "bool": "uint", "uint": "int"}


def nearest_dtype(dtype, dtypes) -> str:
    """What to do about an element type that a library does not have."""
    if dtype.lanes > 1:
        return "fastdl.convert(x, numpy.ndarray) has its lanes in a further dimension"
    kind = dtype.name.rstrip("0123456789")
    other = "float" if kind.startswith("float") else HELD_BY.get(kind, kind)
    same = of_family(kind, dtypes)
    for family, bits in ((kind, same), (other, of_family(other, dtypes))):
        least = dtype.bits + (family != kind != "bool")
        wider = [name for name in bits if bits[name] >= least]
        if wider:
            return f"Convert the elements to {min(wider, key=bits.__getitem__)} first"
    if same:
        return f"Convert the elements to {max(same, key=same.__getitem__)} first"
    return f"It has {', '.join(sorted(dtypes))}"


def of_family(family: str, dtypes) -> dict[str, int]:
    """The types of a family with their bits: float32 is of "float", but not float8_e5m2."""
    ends = {name: name[len(family) :] for name in dtypes if name.startswith(family)}
    return {name: int(bits) for name, bits in ends.items() if bits.isdecimal()}


#: What a type needs, by the words of REASONS.
NEEDS = {
    "read-only": "it is read-only, and arrays of {title} are always writable",
    "layout": "its strides are {strides}, and {name} takes {takes}",
    "alignment": "its address {address:#x} is not a multiple of {alignment}, as {name} needs",
}
TAKES = ("any", "no negative ones", "no gaps or negative strides", "row-major data without gaps")


def forbid(x, tensor, bridge, reason, copies) -> CopyRequiredError:
    """The exception where a copy is needed and copy=False."""
    if reason is not None:
        why = NEEDS[reason].format(
            name=bridge.name,
            title=bridge.title,
            strides=tensor.strides,
            takes=TAKES[bridge.strides],
            address=tensor.data_ptr,
            alignment=bridge.alignment,
        )
        if reason == "read-only" and bridge.readonly == IMMUTABLE:
            why = f"it is read-only, but may change, and values of {bridge.title} never do"
    elif copies:
        why = f"{bridge.name} always copies such data"
    else:
        why = "its producer copied it"
    return CopyRequiredError(
        f"{describe_source(x, tensor)} cannot be converted to {bridge.name} without a copy, and "
        f"copy=False: {why}"
    )


def remedy(tensor, bridge) -> str:
    """The nearest thing that works, for data that a library refused."""
    if bridge.name == "numpy.ndarray" or tensor.dtype.format is None or not tensor.device.is_host:
        return "fastdl.from_dlpack(x) gives a fastdl.Tensor on it"
    return "fastdl.convert(x, numpy.ndarray) gives an array on it"


def copy(tensor):
    """A compact writable copy on the same device."""
    return placement.make_copy(tensor, tensor.device, compact=True)


def connect() -> None:
    """Called once, on import."""
    front.install(
        convert=convert,
        explain=explain,
        refuse=refuse,
        forbid=forbid,
        copy=copy,
        find=known_bridge,
        unknown=unknown_library,
    )
