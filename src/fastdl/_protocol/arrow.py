# SPDX-License-Identifier: Apache-2.0
"""Imports over the capsules of Arrow."""

from fastdl._core import tensor as core
from fastdl._core.errors import refusal, type_name
from fastdl._protocol.consumer import Capsule


def from_array(x):
    """The tensor of an object with `__arrow_c_array__`."""
    answer = x.__arrow_c_array__()
    try:
        schema, array = answer
    except (TypeError, ValueError):
        schema = array = None
    if not isinstance(schema, Capsule) or not isinstance(array, Capsule):
        raise refusal(
            TypeError,
            f"expected two capsules from __arrow_c_array__ of {type_name(x)!r}, got {answer!r}",
        )
    return _shaped(*core.from_arrow(schema, array))


def from_stream(x):
    """The tensor of an object with `__arrow_c_stream__`."""
    stream = x.__arrow_c_stream__()
    if not isinstance(stream, Capsule):
        raise refusal(
            TypeError,
            f"expected a capsule from __arrow_c_stream__ of {type_name(x)!r}, got {stream!r}",
        )
    return _shaped(*core.from_arrow_stream(stream))


def _shaped(tensor, metadata: "bytes | None"):
    """`tensor`, in the shape in the metadata of Arrow's type "fixed_shape_tensor", if any."""
    if metadata is None:
        return tensor
    from json import loads  # not needed by `import fastdl`

    try:
        facts = loads(metadata)
        sizes = facts["shape"]
        order = facts.get("permutation") or range(len(sizes))
        if any(type(n) is not int or n < 0 for n in (*sizes, *order)):
            raise ValueError("a size is not a whole number")
        shaped = tensor.reshape(len(tensor), *sizes).permute(0, *(axis + 1 for axis in order))
    except (KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
        raise refusal(
            BufferError,
            f"expected metadata of a fixed_shape_tensor that fits {core.describe(tensor)}, got "
            f"{metadata!r}",
        ) from error
    return core.mark_copied(shaped) if tensor.is_copied else shaped
