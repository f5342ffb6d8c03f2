# SPDX-License-Identifier: Apache-2.0
"""from_dlpack in Python: version negotiation and the stream handshake, as a consumer.

It has two steps. `plan` decides how to get the tensor, from the facts about the type, the result of
`__dlpack_device__`, and the arguments of the caller. `carry_out` executes the plan, and decides
only what is unknown before: the next step if a path refuses, or if the data is on another device.

`from_dlpack` here handles every case, and serves as the specification. `fastdl.from_dlpack` is a
compiled entry in front of it that handles the plain call on a type with an exchange table; it
differs only in speed.
"""

from collections import namedtuple

from fastdl._core import exchange
from fastdl._core import tensor as core
from fastdl._core.device import CPU, Device, DeviceType
from fastdl._core.errors import CopyRequiredError, refusal, type_name
from fastdl._devices import driver
from fastdl._protocol.placement import copy_obstacle, make_copy, mark_unless_shared, satisfies
from fastdl._protocol.streams import consumer_stream

Capsule = type(core.Tensor.__dlpack_c_exchange_api__)

MAX_VERSION = exchange.MAX_VERSION
DRAFT_VERSION = MAX_VERSION[0] * 100 + MAX_VERSION[1] * 10  # in the numbering of __dlpack_info__
DRAFT_OLDEST = 60  # the last version of the draft with the layout of "dltensor"


def from_dlpack(x, /, *, device=None, copy=None, stream=None):
    """A fastdl.Tensor on the memory of any DLPack producer or capsule. See fastdl.from_dlpack."""
    target = None if device is None else Device(device)
    if copy is not None and not isinstance(copy, bool):
        raise TypeError(f"expected copy=None, True or False, got {copy!r}")
    return carry_out(x, plan(x, target, copy, stream))


# ---- the plan -------------------------------------------------------------------------------

CAPSULE, COPY, TABLE, PROTOCOL, REFUSED = "capsule", "copy", "table", "__dlpack__", "refused"


#: How to get the tensor of an object.
#:
#: path: CAPSULE: a capsule. COPY: a Tensor, which fastdl copies. TABLE: through the exchange table
#:     of the type. PROTOCOL: through `__dlpack__`. REFUSED: an error, since the library would not
#:     order the work.
#: target, copy: the arguments of from_dlpack. fastdl copies if the exchange has not.
#: order: for TABLE: ordered by the table for the work stream (1), for `stream`, the argument of
#:     from_dlpack (0), or by the caller (-1).
#: producer, keywords: for PROTOCOL: the function, and its arguments. With `dl_device` or
#:     `copy=True` its own library copies.
#: otherwise: the plan if the library does not copy to the host: an import from the device of the
#:     data.
#: source, where: the device of the data, and the requested one. None if `__dlpack_device__`
#:     refused.
#: ready_on: the number of the stream that waits, and on which the result is ready; -1: the caller
#:     orders; None: nothing is ordered.
#:
#: If a table refuses, `__dlpack__` follows, which is planned only then.
Plan = namedtuple(
    "Plan",
    "path target copy order stream producer keywords otherwise source where ready_on",
    defaults=[None, None, None, None, None, None, None, None, None, None],
)

PLAIN = {copy: Plan(TABLE, copy=copy, order=1) for copy in (None, False, True)}


def plan(x, target, copy, stream):
    """The Plan of from_dlpack(x, device=target, copy=copy, stream=stream)."""
    if isinstance(x, Capsule):
        if stream is not None:
            raise TypeError(
                "expected no stream with a capsule: the exchange was ordered when its producer "
                "made it"
            )
        return Plan(CAPSULE, target, copy)
    ours = type(x) is core.Tensor  # isinstance is true for a proxy
    if ours and (copy or not satisfies(x.device, target)):
        consumer_stream(stream, x.device if target is None else target)  # ValueError: not its own
        return Plan(COPY, target, copy)
    is_plain = target is None and stream is None
    if exchange.facts_of(type(x)) & exchange.TYPE_PROTOCOL or (ours and not is_plain):
        return plan_protocol(x, target, copy, stream)  # a Tensor's table orders for the work stream
    # A table never copies, so it is right for copy=False as well.
    return PLAIN[copy] if is_plain and not copy else plan_table(x, target, copy, stream)


def plan_table(x, target, copy, stream):
    """The Plan for a type with an exchange table. `__dlpack__` is preferable if its library may
    copy better than fastdl, or if there is no driver to order a tensor from the table."""
    if stream == -1 and target is None and not copy:
        return Plan(TABLE, None, copy, -1, stream)
    source = exchange.where(x)
    if source is not None and not (source.is_host and satisfies(source, target)):
        has_driver = driver.has_driver(source.type)
        copies = copy or not satisfies(source, target)  # then the stream may be of the target
        orders = copies or has_driver or consumer_stream(stream, source) in (None, -1)
        if exchange.special(x, "__dlpack__") is not None and (copies or not orders):
            over_protocol = plan_protocol(x, target, copy, stream, source)
            if over_protocol.path != REFUSED or not has_driver:
                return over_protocol
    if stream is None:
        return PLAIN[copy] if target is None else Plan(TABLE, target, copy, 1, source=source)
    where = target or source
    if where is not None:
        consumer_stream(stream, where)  # ValueError: not its own
    return Plan(TABLE, target, copy, -1 if stream == -1 else 0, stream, source=source)


def may_share(source, where) -> bool:
    """Whether a producer might answer a request for data on `where` with its memory on `source`."""
    return source == where or DeviceType.CUDA_MANAGED in (source.type, where.type)


def plan_protocol(x, target=None, copy=None, stream=None, source=None):
    """The Plan for an import through `__dlpack__`. `source`: the device of the data, if known."""
    producer = exchange.producer(x)
    if producer is None:
        raise TypeError(
            f"expected a DLPack producer or capsule, got {type_name(x)!r}, which has neither "
            f"__dlpack__ nor an exchange table{_remedy(x)}"
        )
    keywords: dict[str, object] = {"max_version": MAX_VERSION}
    if source is None:
        try:
            source = exchange.announced_device(x)
        except Exception:
            if exchange.facts_of(type(x)) & exchange.TYPE_NATIVE:  # whose table refused
                return Plan(PROTOCOL, target, copy, producer=producer, keywords=keywords)
            raise
    facts = exchange.facts_of(type(x))
    where = source
    elsewhere = not satisfies(source, target)
    if elsewhere:
        if copy is False:
            raise CopyRequiredError(
                f"data of {type_name(x)!r} on {source} needs a copy to be on {target}, "
                f"and copy=False"
            )
        where = target
        keywords["dl_device"] = target.__dlpack_device__()
    if copy is False or (copy and not where.is_host and may_share(source, where)):
        keywords["copy"] = copy  # fastdl makes host copies itself, reliably; a move is a copy

    ready_on = consumer_stream(stream, where)
    if facts & exchange.TYPE_UNORDERED and ready_on is not None and ready_on != -1:
        return Plan(REFUSED)
    otherwise = None
    if elsewhere and where == CPU:  # the stream is of another device, but may be -1
        theirs = -1 if stream == -1 else None
        if facts & exchange.TYPE_PROTOCOL:
            otherwise = plan_protocol(x, None, None, theirs, source)
        else:
            otherwise = Plan(TABLE, order=theirs or 1, stream=theirs, source=source)
    # Otherwise the producer would pass -1 to the driver.
    waits = ready_on == -1 and facts & exchange.TYPE_STREAM_NONE_SYNCS
    if ready_on is not None and not waits and not (stream is None and source.is_host):
        keywords["stream"] = ready_on  # host data to a device: a missing stream means None there
    if type(x) is core.Tensor:
        ready_on = None  # it synchronises itself
    return Plan(
        *(PROTOCOL, target, copy, None, None, producer, keywords, otherwise),
        *(source, where, ready_on),
    )


# ---- carrying it out ------------------------------------------------------------------------


def carry_out(x, plan):
    """The tensor of `x`, as planned."""
    return ensure_placement(acquire(x, plan), plan)


def acquire(x, plan):
    """The tensor of `x` by the path of `plan` or, if that refuses, by the next plan."""
    if plan.path == TABLE:
        return acquire_from_table(x, plan)
    if plan.path == PROTOCOL:
        try:
            return acquire_from_producer(x, plan)
        except Exception as error:
            raise exchange.explained(x, error)  # noqa: B904  # which is its cause
    if plan.path == CAPSULE:
        return core.import_capsule(x)
    if plan.path == COPY:
        return x  # the copy orders it, for its own stream
    raise refusal(
        BufferError,
        f"{type_name(x)!r} ignores `stream`, so its pending work is not ordered: "
        f"synchronize first, then call fastdl.from_dlpack(x, stream=-1)",
    )


def acquire_from_table(x, plan):
    """The tensor from the exchange table of `x`, ready on the stream of `plan`."""
    tensor = exchange.acquire(x, order=plan.order)
    if tensor is None:  # it refused
        return acquire(x, plan_protocol(x, plan.target, plan.copy, plan.stream, plan.source))
    if plan.order == 0:
        is_there = satisfies(tensor.device, plan.target)  # else the stream is of the target device
        ready_on = consumer_stream(plan.stream if is_there else None, tensor.device)
        if ready_on is not None and ready_on != -1:
            driver.ready_for(tensor, ready_on)
    return tensor


def acquire_from_producer(x, plan):
    """The tensor from `__dlpack__` of `x`, ready on the stream of `plan`.

    Follows the next plan if the library of `x` cannot copy.
    """
    facts, where, ready_on = exchange.facts_of(type(x)), plan.where, plan.ready_on
    if plan.source is None:
        capsule = plan.producer(**plan.keywords)  # a local, so that it outlives an exception
        tensor = core.import_capsule(capsule, producer=x)
        core.check_values(x, tensor, facts)
        return tensor
    if ready_on is not None and ready_on != -1:
        driver.check_stream(where.type, where.id, ready_on)
    capsule = None
    try:
        capsule, passed = negotiate(x, plan)
        is_copy = passed.get("copy") or not (where.is_host or may_share(plan.source, where))
        tensor = core.import_capsule(  # a copy is not immutable, whatever x is
            capsule, facts=0 if is_copy else facts, producer=x, unordered=False
        )
        exchange.check_delivery(x, where.type, where.id, tensor)
    except (BufferError, RuntimeError, AssertionError, ValueError) as error:
        # Other types are raised by torch, JAX, and NumPy before 2.3.
        if plan.where == plan.source and not plan.keywords.get("copy"):
            raise
        obstacle = copy_obstacle(plan.source, where)
        if obstacle is None:
            return acquire(x, plan.otherwise)
        if capsule is not None:
            raise  # it delivered an invalid tensor
        raise BufferError(
            f"data of {type_name(x)!r} on {plan.source} cannot be copied to {where} by its own "
            f"library, nor by fastdl: {obstacle}"
        ) from error
    if ready_on is not None:
        if ready_on == -1 or tensor.device.id == where.id:
            driver.ready_on(tensor, ready_on, ready_on)
        else:
            driver.ready_on_other_device(tensor, where.id, ready_on)
    if not (where.is_host or tensor.is_copied) and (plan.copy or where != plan.source):
        confirm_copy(x, plan, tensor, passed)
    core.check_values(x, tensor, facts)
    if may_share(plan.source, where) and not passed.get("copy"):
        core.keep_memory(x, tensor, facts)
    if plan.copy is False and "copy" not in passed:  # it was dropped
        mark_unless_shared(tensor, lambda: in_place(x, plan, passed))
    return tensor


def in_place(x, plan, passed):
    """The tensor of `x` once more, without a copy or move."""
    if plan.where != plan.source:
        return acquire_from_producer(x, plan_protocol(x, stream=-1, source=plan.source))
    keywords = {name: value for name, value in passed.items() if name != "copy"}
    return acquire_from_producer(x, plan._replace(keywords=keywords, copy=None))


def confirm_copy(x, plan, tensor, passed) -> None:
    """Marks `tensor` as a copy: its producer moved it or accepted copy=True, but did not mark it.
    If it shares the memory of `x` instead: BufferError if copy=True."""
    is_shared = may_share(plan.source, plan.where) and tensor.size != 0
    try:
        is_shared = is_shared and in_place(x, plan, passed).data_ptr == tensor.data_ptr
    except Exception:  # it exports only copies
        is_shared = False
    if not is_shared:
        core.mark_copied(tensor)
    elif plan.copy:
        raise BufferError(
            f"{type_name(x)!r} shared its memory on {plan.where} in spite of copy=True, and fastdl "
            f"copies to the host only: copy it with its own library"
        )


def ensure_placement(tensor, plan):
    """`tensor` on the target of `plan`, copied by fastdl if `plan` requires a copy and the exchange
    has not made one."""
    target, copy = plan.target, plan.copy
    is_copied = tensor.is_copied and plan.path != COPY
    if satisfies(tensor.device, target):
        # copy=False restricts fastdl, not a producer that made a capsule before.
        if copy is False and is_copied and plan.path != CAPSULE:
            raise CopyRequiredError(
                f"{core.describe(tensor)} was copied in spite of copy=False: its source could not "
                f"be shared. Pass copy=None to accept the copy"
            )
        if not copy or is_copied:
            return tensor
    elif copy is False:
        raise CopyRequiredError(
            f"{core.describe(tensor)} needs a copy to be on {target}, and copy=False"
        )
    if target is None or satisfies(tensor.device, target):
        target = CPU if tensor.device.is_host else tensor.device
    return make_copy(tensor, target)


def place(tensor, target, copy, stream):
    """Applies the keywords of from_dlpack to `tensor`, which was imported without DLPack and is not
    shared yet. `target`: a Device or None."""
    path = COPY if copy and tensor.readonly else PROTOCOL  # a requested copy is writable
    placed = ensure_placement(tensor, Plan(path, target, copy))
    number = None if stream is None else consumer_stream(stream, placed.device)
    if placed is tensor and number is not None and number != -1:
        driver.order(tensor, number)
    return placed


def acquire_over_protocol(x, source=None):
    """from_dlpack(x) without the table of its type, or after the table refused. `source`: the
    device of the data, if known."""
    return acquire(x, plan_protocol(x, source=source))


# ---- calling a producer ---------------------------------------------------------------------


def _remedy(x) -> str:
    """The end of a message about an object that is not a producer: the remedy."""
    if isinstance(x, OF_NUMBERS):
        return ": pass numpy.asarray(x)"
    if isinstance(x, dict):
        return ": fastdl.convert_tree(x, fastdl.Tensor) converts each tensor in it"
    try:
        if not isinstance(x, type):
            for name in _OLDER_PROTOCOLS:
                if hasattr(x, name):
                    return f": pass fastdl.asarray(x), which reads {name}"
        memoryview(x).release()
    except Exception:  # an unavailable buffer: a closed mmap, a released memoryview
        return ""
    return ": pass fastdl.asarray(x)"


#: Python's own numbers, and what may consist of them.
OF_NUMBERS = list, tuple, range, int, float, complex

_OLDER_PROTOCOLS = (
    "__cuda_array_interface__",
    "__array_interface__",
    "__arrow_c_array__",
    "__arrow_c_stream__",
    "__array__",
)


def negotiate(x, plan):
    """Calls `__dlpack__` of `x` with as many of the keywords of `plan` as it accepts; returns the
    capsule and the accepted keywords.

    The device of the data is current during the call: some producers record on the current device.

    Three generations are in use: only `stream`; `version`, with `__dlpack_info__`; and
    `max_version`, `dl_device`, `copy`. The newest is tried first. A keyword is dropped if the
    signature of the type's `__dlpack__` does not have it, or on a TypeError about the keywords of
    this very call, or of the call to another `__dlpack__` that they were forwarded to. Such an
    error holds only for this object, not for its type.
    """
    current = (plan.where if plan.source.is_host else plan.source).__dlpack_device__()
    orders = plan.ready_on is not None and plan.ready_on != -1
    passed = dict(plan.keywords)
    drop_unsupported_keywords(x, passed, exchange.refused_by(type(x)))
    while True:
        try:
            capsule = driver.call_on(current, orders, plan.producer, passed)
        except TypeError as error:
            refused = exchange.refusal(error, passed, frames=2)
            if not refused:
                raise
            drop_unsupported_keywords(x, passed, refused, error)
            continue
        if passed.get("version", 0) >= 100 and core.is_legacy_capsule(capsule):
            # The draft used the old name for a new layout, so this layout is unknown. The capsule
            # is dropped unconsumed; 60 is certainly the old layout.
            del capsule
            passed["version"] = DRAFT_OLDEST
            continue
        return capsule, passed


def drop_unsupported_keywords(x, passed, refused, error=None) -> None:
    """Removes the keywords `refused` (bits of KEYWORDS) from `passed`, if the call has the same
    meaning without them. `error`: the exception of `x` about them."""
    for name in [name for name in passed if exchange.KEYWORDS[name] & refused]:
        value = passed.pop(name)
        # Copies by a producer without `copy` are detected afterwards; one without `stream` uses the
        # default stream.
        if name == "dl_device" or (name == "copy" and value):
            raise refusal(BufferError, f"{type_name(x)!r} does not accept {name}") from error
        if name == "stream" and value not in (0, 1):
            raise refusal(
                BufferError, f"{type_name(x)!r} does not accept a stream: pass stream=None"
            ) from error
        if name == "max_version" and not refused & exchange.KEYWORDS["version"]:
            version = draft_version(x)
            if version:
                passed["version"] = version


def draft_version(x) -> int:
    """The argument `version`: 0 (not passed) unless `x` follows the draft of 2022."""
    info = exchange.special(x, "__dlpack_info__")
    if info is None:
        return 0
    theirs = info()
    if isinstance(theirs, bool) or not isinstance(theirs, int):
        raise refusal(
            TypeError, f"expected an int from __dlpack_info__ of {type_name(x)!r}, got {theirs!r}"
        )
    if theirs < DRAFT_OLDEST:
        raise refusal(
            BufferError,
            f"expected 60 or more from __dlpack_info__ of {type_name(x)!r}, got "
            f"{theirs!r}: no version in common",
        )
    return min(theirs, DRAFT_VERSION) if theirs >= 100 else DRAFT_OLDEST
