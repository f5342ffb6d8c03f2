"""How the arrays of a type reach fastdl, as fastdl's own record of the type has it."""

from fastdl._convert import asarray
from fastdl._core import exchange
from fastdl.bridges import convert
from fastdl.cli import structs


def way_of(x) -> dict:
    """How the arrays of the type of `x` reach fastdl, by fastdl's own record of the type.

    kind: "table" (the library's own exchange table), "bridge" (fastdl's, over the C API of the
        library), "buffer", "__dlpack__", "reader" (its bridge knows how), or the name of
        another interface; None if there is none.
    text: the same in words. For a library with `__dlpack__`, see also `keywords_of`.
    """
    name, _ = asarray.interface(x)
    if name is None:
        bridge = convert.known_bridge(type(x))
        if bridge is None or bridge.read is None:
            return {"kind": None, "text": "nothing that fastdl reads"}
        return {"kind": "reader", "text": f"what {bridge.title} offers, by asarray"}
    if name != "__dlpack__":
        return {"kind": name, "text": f"{name}, by asarray"}
    facts = exchange.facts_of(type(x))
    if facts & exchange.TYPE_NATIVE:
        table = structs.table_of(exchange.exchange_api(type(x)))
        return {"kind": "table", "text": f"exchange table {table['version']}", "table": table}
    if not facts & exchange.TYPE_PROTOCOL:
        return {"kind": "bridge", "text": "bridge"}
    kind = "buffer" if facts & exchange.TYPE_BUFFER else "__dlpack__"
    return {"kind": kind, "text": kind}


def keywords_of(x) -> "dict | None":
    """Which keywords the `__dlpack__` of `x` takes, and the name of the capsule that it gives if it
    is asked for the newest, or the type of the exception that it raises: tried. None if there is no
    such method."""
    method = exchange.special(x, "__dlpack__")
    if method is None:
        return None
    values = {"stream": None, "max_version": exchange.MAX_VERSION, "copy": None, "version": 60}
    device = exchange.special(x, "__dlpack_device__")
    try:
        values["dl_device"] = device()
    except Exception:
        values["dl_device"] = None
    by_signature = exchange.refused_by(type(x))
    taken = []
    for name in ("max_version", "dl_device", "copy", "stream", "version"):
        if by_signature & exchange.KEYWORDS[name] or not takes(method, name, values[name]):
            continue
        taken.append(name)
    asked = {"max_version": exchange.MAX_VERSION} if "max_version" in taken else {}
    capsule = raised = ""
    try:
        capsule = structs.capsule_name(method(**asked))
    except Exception as error:
        raised = type(error).__name__
    return {"keywords": taken, "capsule": capsule, "raises": raised}


def takes(method, name: str, value) -> bool:
    """Whether a method takes a keyword: an error about anything else says that it does."""
    try:
        method(**{name: value})
    except TypeError as error:
        return not exchange.refusal(error, (name,), frames=1)
    except Exception:
        return True
    return True


def immutable(x) -> bool:
    """Whether the values of the type of `x` never change, by fastdl's table of libraries."""
    return bool(exchange.facts_of(type(x)) & exchange.TYPE_IMMUTABLE)
