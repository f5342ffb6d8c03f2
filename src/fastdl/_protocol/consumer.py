"""from_dlpack in Python: version negotiation and the stream handshake, as a consumer.

This function is complete by itself and is meant to be read as the specification of what fastdl
does. `fastdl.from_dlpack` is a compiled entry in front of it that serves the plain call on a type
with an exchange table; it differs only in speed.
"""

from fastdl._core import exchange
from fastdl._core import tensor as core
from fastdl._core.device import CPU, Device, DeviceType, normalised
from fastdl._core.errors import CopyRequiredError, type_name
from fastdl._devices import driver
from fastdl._protocol.placement import copy_obstacle, make_copy, satisfies
from fastdl._protocol.streams import DEFAULT, consumer_stream, ordering

Capsule = type(core.Tensor.__dlpack_c_exchange_api__)

MAX_VERSION = exchange.MAX_VERSION
DRAFT_VERSION = MAX_VERSION[0] * 100 + MAX_VERSION[1] * 10  # in the numbering of __dlpack_info__
DRAFT_OLDEST = 60  # the last version of the draft with the layout of "dltensor"


def from_dlpack(x, /, *, device=None, copy=None, stream=None):
    """A fastdl.Tensor on the memory of any DLPack producer or capsule. See fastdl.from_dlpack."""
    target = None if device is None else Device(device)
    if copy is not None and not isinstance(copy, bool):
        raise TypeError(f"expected copy=None, True or False, got {copy!r}")

    if isinstance(x, Capsule):
        if stream is not None:
            raise TypeError(
                "expected no stream with a capsule: the exchange was ordered when its producer "
                "made it"
            )
        # copy=False binds fastdl, not what the producer did to make the capsule.
        tensor = core.import_capsule(x)
        return ensure_placement(tensor, target, copy or None, None, tensor.is_copied)

    # A table never copies, so it serves copy=False as well.
    ours = isinstance(x, core.Tensor) and (copy or not satisfies(x.device, target))
    if ours:
        tensor = x  # which the copy orders, for its own stream alone
    elif target is None and stream is None:
        tensor = exchange.acquire(x)
    else:
        tensor = acquire_over_table(x, target, stream)
    if tensor is None or (
        not ours
        and (not satisfies(tensor.device, target) or (copy and not tensor.device.is_host))
        and has_dlpack_method(x)  # its own library may copy better than fastdl
    ):
        tensor = acquire_over_protocol(x, target, copy, stream)
    return ensure_placement(tensor, target, copy, stream, not ours and tensor.is_copied)


def acquire_over_table(x, target, stream):
    """The tensor of `x` by way of its library's exchange table, ready on `stream`.

    None if there is no table, or if it is better to ask `x` itself: the data is not on `target`, or
    there is no driver to order it.
    """
    if isinstance(x, core.Tensor):
        return None  # its table orders for the work stream
    tensor = exchange.acquire(x, order=-1 if stream == -1 else 0)
    return None if tensor is None else order_table_import(x, tensor, target, stream)


def order_table_import(x, tensor, target, stream):
    """The second half of acquire_over_table."""
    if not satisfies(tensor.device, target):
        if has_dlpack_method(x):
            return None
        stream = -1 if stream == -1 else None  # otherwise it is one of the target's
    passed = consumer_stream(stream, tensor.device)
    if passed is None or passed == -1:
        return tensor
    if not driver.has_driver(tensor.device.type) and has_dlpack_method(x):
        return None
    driver.ready_for(tensor, passed)
    return tensor


def finish_table_import(x, tensor, device, stream):
    """The rest of from_dlpack(x, device=device, stream=stream), once the compiled entry has
    `tensor` from the table of `x`; None if the table refused."""
    target = None if device is None else Device(device)
    if tensor is not None:
        tensor = order_table_import(x, tensor, target, stream)
    if tensor is None:
        tensor = acquire_over_protocol(x, target, None, stream)
    return ensure_placement(tensor, target, None, stream, tensor.is_copied)


def ensure_placement(tensor, target, copy, stream, is_copied):
    """`tensor` on `target`, copied if `copy` says so and the exchange has not done it already
    (`is_copied`): what fastdl does after the exchange."""
    if satisfies(tensor.device, target):
        if copy is False and is_copied:
            raise CopyRequiredError(
                f"{core.describe(tensor)} was copied by its producer in spite of copy=False: pass "
                f"copy=None to accept the copy"
            )
        if not copy or is_copied:
            return tensor
    elif copy is False:
        raise CopyRequiredError(
            f"{core.describe(tensor)} needs a copy to be on {target}, and copy=False"
        )
    if target is None or satisfies(tensor.device, target):
        target = CPU if tensor.device.is_host else tensor.device
    number = None if stream is None else consumer_stream(stream, target)
    return make_copy(tensor, target, number)


# ---- asking a producer ----------------------------------------------------------------------


def has_dlpack_method(x) -> bool:
    """Whether `x` has the protocol's methods, and not just an exchange table."""
    return exchange.special(x, "__dlpack__") is not None


def _remedy(x) -> str:
    """The end of a message about an object that is not a producer: what to do."""
    try:
        if not isinstance(x, type):
            for name in _OLDER_PROTOCOLS:
                if hasattr(x, name):
                    return f": pass fastdl.asarray(...) of it, which reads {name}"
        memoryview(x).release()
    except Exception:  # a buffer that cannot be had: of a closed mmap, a released memoryview
        return ""
    return ": pass fastdl.asarray(...) of it, which shares its memory"


_OLDER_PROTOCOLS = (
    "__cuda_array_interface__",
    "__array_interface__",
    "__arrow_c_array__",
    "__array__",
)


def acquire_over_protocol(x, target=None, copy=None, stream=None, announced=None):
    """The tensor of `x` by way of `__dlpack_device__` and `__dlpack__`. `announced`: what the first
    returned, if it was called already."""
    producer = exchange.special(x, "__dlpack__")
    if producer is None:
        raise TypeError(
            f"expected a DLPack producer or capsule, got {type_name(x)!r}, which has neither "
            f"__dlpack__ nor an exchange table{_remedy(x)}"
        )
    try:
        source = announced_device(x) if announced is None else normalised(*announced)
    except Exception:
        if exchange.has_native_table(x):  # `__dlpack__` decides what that refused
            return core.import_capsule(producer(max_version=MAX_VERSION), producer=x)
        raise
    facts = exchange.facts_of(type(x))
    where = source
    keywords: dict[str, object] = {"max_version": MAX_VERSION}

    if not satisfies(source, target):
        if copy is False:
            raise CopyRequiredError(
                f"data of {type_name(x)!r} on {source} needs a copy to be on {target}, "
                f"and copy=False"
            )
        where = target
        keywords["dl_device"] = target.__dlpack_device__()
    if copy is False or (copy and not where.is_host):
        keywords["copy"] = copy  # host copies are made here, where they certainly happen
    passed = consumer_stream(stream, where)
    if facts & exchange.TYPE_UNORDERED and passed is not None and passed != -1:
        tensor = acquire_over_table(x, None, stream if source == where else None)
        if tensor is not None:
            return tensor
        raise BufferError(
            f"{type_name(x)!r} ignores `stream`, so nothing orders its work: wait for that work, "
            f"and pass fastdl.from_dlpack(x, stream=-1)"
        )
    waits = passed == -1 and facts & exchange.TYPE_NONE_WAITS  # it passes -1 on to the driver
    if passed is not None and not waits and not (stream is None and source.is_host):
        keywords["stream"] = passed  # host data on its way to a device: the default is None there

    capsule = None
    unused = passed is None or waits or isinstance(x, core.Tensor)  # which asks by itself
    try:
        capsule = negotiate(x, producer, keywords, source, where, -1 if unused else passed)
        tensor = core.import_capsule(
            capsule, immutable=bool(facts & exchange.TYPE_IMMUTABLE), producer=x, unordered=False
        )
        check_delivery(x, where.__dlpack_device__(), tensor)
    except (BufferError, RuntimeError, AssertionError, ValueError) as error:
        # The others are torch's, JAX's and those of NumPy before 2.3.
        # fastdl may manage what the object's own library cannot; `stream` may belong to the other
        # device.
        asked = "dl_device" in keywords or keywords.get("copy")
        if not asked:
            raise
        obstacle = copy_obstacle(source, where)
        if obstacle is not None:
            if capsule is not None:
                raise  # what it delivered is at fault
            raise BufferError(
                f"data of {type_name(x)!r} on {source} cannot be copied to {where} by its own "
                f"library, nor by fastdl: {obstacle}"
            ) from error
        stream = stream if source == where or stream == -1 else None
        tensor = acquire_over_table(x, None, stream)
        return acquire_over_protocol(x, stream=stream) if tensor is None else tensor
    if passed is not None and not isinstance(x, core.Tensor):
        if passed == -1 or tensor.device.id == where.id:
            driver.ready_on(tensor, passed, passed)
        else:
            driver.ready_abroad(tensor, where.id, passed)
    if facts & exchange.TYPE_ASK_BITS:
        core.check_values(x, tensor)
    if facts & exchange.TYPE_KEEP:
        core.keep_alive(tensor, x)
    return tensor


def check_delivery(x, where, tensor) -> None:
    """Whether the stream that was chosen for `where`, (type, id) of a device, suits what came.

    The device in the capsule is the truth: pinned memory is announced as such and delivered as
    plain host memory by torch.
    """
    where = normalised(*where)
    if where == CPU and tensor.device.type == DeviceType.CUDA_MANAGED:
        return  # a CPU can read it, so the producer need not copy it
    kind = ordering(where)
    elsewhere = kind in DEFAULT and tensor.device.id != where.id
    if ordering(tensor.device) != kind or (elsewhere and where.type != DeviceType.CUDA_MANAGED):
        raise BufferError(
            f"{type_name(x)!r} announced data on {where} and delivered "
            f"{core.describe(tensor)}, where work is ordered in another way. Its producer is at "
            f"fault"
        )


def announced_device(x) -> Device:
    """What `x.__dlpack_device__()` says, made sense of: ids may be None, types may be enums."""
    method = exchange.special(x, "__dlpack_device__")
    if method is None:
        raise TypeError(
            f"expected a DLPack producer, got {type_name(x)!r}, which has __dlpack__ but "
            f"not __dlpack_device__"
        )
    answer = method()
    try:
        if isinstance(answer, dict) or len(answer) != 2:
            raise ValueError("not a pair")
        kind, ordinal = answer[0], answer[1]
        kind = kind if hasattr(kind, "__index__") else kind.value  # a member of an enum
        return normalised(kind, 0 if ordinal is None else ordinal)
    except (TypeError, ValueError, AttributeError, LookupError) as error:
        raise TypeError(
            f"expected (device type, device id) from __dlpack_device__ of "
            f"{type_name(x)!r}, got {answer!r}"
        ) from error


def negotiate(x, producer, keywords, source, where, stream):
    """Calls `producer`, whose data is on `source`, with as many of `keywords` as it takes, and
    returns its capsule, which should be on `where`.

    The device is current during the call: some producers record on the current one. They make
    `stream` wait, unless it is -1, so fastdl checks first whether a graph capture survives that.

    Three generations are in use: `stream` alone; `version`, with `__dlpack_info__`; and
    `max_version`, `dl_device`, `copy`. The newest is tried first. A keyword is dropped if the
    signature of the type's `__dlpack__` does not have it, or on a TypeError about the keywords of
    this very call, or of the call to another `__dlpack__` that they were forwarded to. Such an
    error says nothing about the next object of the type.
    """
    current = where if source.is_host else source
    asked = dict(keywords)
    give_up(x, asked, exchange.refused_by(type(x)))
    while True:
        try:
            capsule = driver.call_on(current.type, current.id, stream, producer, asked)
        except TypeError as error:
            refused = exchange.refusal(error, asked, frames=2)
            if not refused:
                raise
            give_up(x, asked, refused, error)
            continue
        if asked.get("version", 0) >= 100 and core.is_legacy_capsule(capsule):
            # The draft used the old name for a new layout, so this one is unknown. The capsule is
            # dropped untouched; 60 is certainly the old layout.
            del capsule
            asked["version"] = DRAFT_OLDEST
            continue
        return capsule


def give_up(x, asked, refused, error=None) -> None:
    """Removes the keywords `refused` (bits of KEYWORDS) from `asked`, if the call still means the
    same without them. `error`: what `x` raised about them."""
    for name in [name for name in asked if exchange.KEYWORDS[name] & refused]:
        value = asked.pop(name)
        # A producer without `copy` makes no copies, and one without `stream` uses the default
        # stream.
        if name == "dl_device" or (name == "copy" and value):
            raise BufferError(f"{type_name(x)!r} does not take {name}") from error
        if name == "stream" and value not in (0, 1):
            raise BufferError(
                f"{type_name(x)!r} does not take a stream: pass stream=None"
            ) from error
        if name == "max_version" and not refused & exchange.KEYWORDS["version"]:
            version = draft_version(x)
            if version:
                asked["version"] = version


def draft_version(x) -> int:
    """What to pass as `version`: 0 (nothing) unless `x` follows the draft of 2022."""
    info = exchange.special(x, "__dlpack_info__")
    if info is None:
        return 0
    theirs = info()
    if isinstance(theirs, bool) or not isinstance(theirs, int):
        raise TypeError(f"expected an int from __dlpack_info__ of {type_name(x)!r}, got {theirs!r}")
    if theirs < DRAFT_OLDEST:
        raise BufferError(
            f"expected 60 or more from __dlpack_info__ of {type_name(x)!r}, got "
            f"{theirs!r}: no version in common"
        )
    return min(theirs, DRAFT_VERSION) if theirs >= 100 else DRAFT_OLDEST
