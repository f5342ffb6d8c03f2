# SPDX-License-Identifier: Apache-2.0
"""convert_tree: rare containers in trees, and errors that name a place in a tree."""

from operator import is_

from fastdl._convert.asarray import check_copy
from fastdl._convert.targets import bridge_for, named_library, target_bridge, target_of
from fastdl._core import exchange
from fastdl._core.device import Device
from fastdl._core.errors import CopyRequiredError, is_own, type_name


def target(like):
    """A target equivalent to `like` for convert, but faster if `like` is a name. The exceptions are
    those of convert."""
    if not isinstance(like, str):
        target_bridge(target_of(like), like)
        return like
    bridge, module = named_library(like)
    cls = getattr(module, bridge.name.rpartition(".")[2], None)
    return cls if isinstance(cls, type) and bridge_for(cls) is bridge else like


def is_tensor(x) -> bool:
    """Whether convert_tree converts an object, by its type."""
    cls, names = type(x), ("__dlpack__", "__cuda_array_interface__")
    if any(getattr(cls, name, None) is not None for name in names):
        return True
    return bool(exchange.facts_of(cls) & exchange.TYPE_NATIVE) or bridge_for(cls) is not None


def is_container(x) -> bool:
    """Whether convert_tree looks for tensors in an object that is neither a list nor a tuple."""
    return isinstance(x, dict) or (isinstance(x, tuple) and (is_named(x) or is_sequence_of_c(x)))


def is_named(x) -> bool:
    """Whether a tuple is a named one."""
    return hasattr(type(x), "_fields") and hasattr(type(x), "_make")


def is_sequence_of_c(x) -> bool:
    """Whether a tuple is a C struct sequence, all of whose fields are items."""
    cls = type(x)
    return getattr(cls, "n_fields", None) == getattr(cls, "n_sequence_fields", 0)


def check(device, copy) -> None:
    """Raises the exceptions of convert for these arguments."""
    check_copy(copy)
    if device is not None:
        Device(device)


def rebuilt(x, contents, steps):
    """A container of the class of `x`, a named tuple or a subclass of dict, with other contents."""
    cls, cause = type(x), None
    if isinstance(x, tuple):
        try:
            return cls._make(contents) if is_named(x) else cls(contents)
        except Exception as error:
            raise placed(error, steps)  # noqa: B904  # the same exception
    try:
        made = cls(list(contents.items()))
        # A Counter, for instance, counts the pairs.
        is_same = type(made) is cls and [*made] == [*contents]
        if is_same and all(map(is_, made.values(), contents.values())):
            return made
    except Exception as error:
        cause = error
    raise TypeError(
        f"{place(steps)}: expected a subclass of dict that, made of a list of pairs, has exactly "
        f"those, got {type_name(x)!r}: pass dict(x) instead"
    ) from cause


def cycle(x, steps) -> ValueError:
    """The exception for a container that contains itself."""
    return ValueError(
        f"{place(steps)}: expected a tree, got a {type_name(x)} that contains itself: convert its "
        f"tensors one by one"
    )


def placed(error: Exception, steps) -> Exception:
    """`error` of convert, with the place of the tensor: before the message, or as a note if the
    exception is another library's."""
    if is_own(error) or type(error) is CopyRequiredError:
        error.args = (f"{place(steps)}: {error}",)
    elif hasattr(error, "add_note"):  # from Python 3.11 on
        error.add_note(f"converting {place(steps)}")
    return error


def place(steps) -> str:
    """The expression for a place in a tree."""
    text = "tree"
    for container, key in steps:
        fields = getattr(container, "_fields", ()) if isinstance(container, tuple) else ()
        if key in range(len(fields)):
            text += f".{fields[key]}"
        elif isinstance(key, str) and key.isprintable() and not {'"', "\\"} & {*key}:
            text += f'["{key}"]'
        else:
            text += f"[{shown(key)}]"
    return text


def shown(key) -> str:
    try:
        return repr(key)
    except Exception:  # the error at the place is more important
        return f"a {type_name(key)}"
