# SPDX-License-Identifier: Apache-2.0
"""The import path of a type (table, bridge, buffer, __dlpack__), and the plan of from_dlpack."""

from fastdl._cli.capsules import describe_table, name_of
from fastdl._convert import asarray
from fastdl._convert.targets import bridge_for
from fastdl._core import exchange
from fastdl._protocol import consumer


def import_path_of(x) -> dict:
    """The import path of the type of `x`.

    kind: "table" (the library's own exchange table), "bridge" (fastdl's table, over the C API of
        the library), "buffer", "__dlpack__", "reader" (a function of its bridge), or the name of
        another interface; None if there is none.
    text: a description of it. For a library with `__dlpack__`, see also `keywords_of`.
    """
    name, _ = asarray.interface(x)
    if name is None:
        bridge = bridge_for(type(x))
        if bridge is None or bridge.read is None:
            return {"kind": None, "text": "none"}
        return {"kind": "reader", "text": f"reader for {bridge.title} (asarray)"}
    if name != "__dlpack__":
        return {"kind": name, "text": f"{name} (asarray)"}
    facts = exchange.facts_of(type(x))
    if facts & exchange.TYPE_NATIVE:
        table = describe_table(exchange.exchange_api(type(x)))
        return {"kind": "table", "text": "its exchange table", "table": table}
    if not facts & exchange.TYPE_PROTOCOL:
        return {"kind": "bridge", "text": "its C API"}
    if facts & exchange.TYPE_BUFFER:
        return {"kind": "buffer", "text": "its buffer"}
    return {"kind": "__dlpack__", "text": "__dlpack__"}


def plan_of(x) -> "dict | None":
    """The plan of from_dlpack(x); None if planning raises, as the import then does.

    path: "table", "__dlpack__", "capsule" or "refused".
    otherwise: the path after a refusal.
    keywords: passed to `__dlpack__`, as far as it accepts them.
    stream: the number of the stream that waits, -1 for none; None if the data has no streams, or if
        only an export by the table shows its device.
    copies: who makes the copy with copy=True, in the order of attempts.
    """
    try:
        plan = consumer.plan(x, None, None, None)
        copying = consumer.plan(x, None, True, None)
        has_fallback = plan.path == consumer.TABLE and exchange.special(x, "__dlpack__") is not None
    except Exception:
        return None
    by_library = copying.keywords is not None and "copy" in copying.keywords
    return {
        "path": plan.path,
        "otherwise": consumer.PROTOCOL if has_fallback else None,
        "keywords": plan.keywords or {},
        "stream": plan.ready_on,
        "copies": ["its library", "fastdl"] if by_library else ["fastdl"],
    }


def keywords_of(x) -> "dict | None":
    """The keywords that the `__dlpack__` of `x` accepts, and the name of the capsule that it
    returns for the newest version, or the type of the exception that it raises; found by calling
    it. None if there is no such method."""
    method = exchange.producer(x)
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
        capsule = name_of(method(**asked))
    except Exception as error:
        raised = type(error).__name__
    return {"keywords": taken, "capsule": capsule, "raises": raised}


def takes(method, name: str, value) -> bool:
    """Whether a method accepts a keyword: any error except one about the keyword shows that it
    does."""
    try:
        method(**{name: value})
    except TypeError as error:
        return not exchange.refusal(error, (name,), frames=1)
    except Exception:
        return True
    return True
