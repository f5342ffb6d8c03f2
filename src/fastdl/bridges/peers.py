"""What fastdl must know about particular libraries. One table; everything else is protocol.

A row applies to the class of that name in that top-level package, and to its subclasses. Rows
are found by name, so that no library is imported to recognise its types; a bridge checks the
type itself.
"""

from collections import namedtuple

from fastdl._core import exchange

Peer = namedtuple(
    "Peer",
    "package name immutable lazy_bits unordered_is_none keep_producer bridge",
    defaults=(False, False, False, False, None),
)

#: A row for the libraries that need none.
NO_FACTS = Peer("", "")

# immutable: its legacy capsules are read-only, though they cannot say so: the library shares
#     the values among arrays.
# lazy_bits: may be an unresolved conjugate or negative, which its exchange table exports raw.
# unordered_is_none: hands stream=-1 to the driver as a handle; None blocks the host instead.
# keep_producer: its capsules do not keep the memory alive, so the object has to be.
# bridge: the module with the exchange table for it.
PEERS = (
    Peer("numpy", "ndarray", bridge="fastdl.bridges._numpy"),
    Peer("torch", "Tensor", lazy_bits=True),
    Peer("jaxlib", "ArrayImpl", immutable=True, unordered_is_none=True),
    Peer("jax", "Array", immutable=True, unordered_is_none=True),
    Peer("tensorflow", "EagerTensor", immutable=True),
    Peer("pyarrow", "Array", immutable=True),
    Peer("pyarrow", "Tensor", immutable=True),
    Peer("onnxruntime", "OrtValue", keep_producer=True),
)

_BY_NAME = {(peer.package, peer.name): peer for peer in PEERS}


def find(cls: type) -> "Peer | None":
    """The row of `cls` or of its nearest base that has one."""
    for base in cls.__mro__:
        package = base.__module__.partition(".")[0] if isinstance(base.__module__, str) else ""
        peer = _BY_NAME.get((package, base.__qualname__))
        if peer is not None:
            return peer
    return None


def describe(cls: type):
    """(facts, None or (a bridge's exchange table, the type it is for)), for the core."""
    peer = find(cls)
    if peer is None:
        return 0, None
    facts = (
        exchange.TYPE_IMMUTABLE * peer.immutable
        | exchange.TYPE_ASK_BITS * peer.lazy_bits
        | exchange.TYPE_KEEP * peer.keep_producer
    )
    if peer.bridge is None:
        return facts, None
    from importlib import import_module

    return facts, import_module(peer.bridge).BRIDGE
