# SPDX-License-Identifier: Apache-2.0
"""One cell: an array of a library becomes a tensor of fastdl, or a tensor becomes an array.

Compared are the values, the address, a write on either side, and what lives how long.
"""

import gc
import os
import re
import traceback
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np

import fastdl

from ..arrays import sample, set_first
from ..cases.common import freed, nested
from ..peers import Peer
from .cells import BY_FASTDL, COPY, REFUSED, WRONG, ZERO_COPY, Cell

STACK = re.compile(r"-+$|File |C\+\+ Traceback|Failed in nopython|.*[:,]$").match


class Wrong(Exception):
    """What must not be."""


def reason(error: BaseException) -> str:
    """The first sentence of an error, without what differs from run to run."""
    lines = [line.strip() for line in str(error).splitlines()]
    # Some libraries put a rule, a heading or a stack before their message.
    text = next((line for line in lines if re.search(r"\w{3}", line) and not STACK(line)), "")
    text = re.sub(r"0x[0-9a-fA-F]+|\b\d{9,}\b", "...", text)
    text = re.sub(r"(/[\w.+-]+){2,}/", "", text)
    text = re.sub(r"^\S+\.(cc|cpp|h):\d+ .*?\) (?=[A-Z])", "", text)  # where in C++ it was thrown
    blame = f"{BY_FASTDL}: " if "FASTDL_BLAME" in os.environ and by_fastdl(error) else ""
    return f"{blame}{type(error).__name__}: {shorten(text, 140, placeholder=' ...')}"


def refusal(error: Exception) -> Cell:
    """What an exception is. SystemError is none that a caller is due: C code failed and did not say
    why, or went on after it had failed."""
    return Cell(WRONG if isinstance(error, SystemError) else REFUSED, reason(error))


def is_of_fastdl(file: str) -> bool:
    """Whether code is the package's. Cython names its files as they were given to it."""
    return file.startswith("src/fastdl/") or Path(fastdl.__file__).parent in Path(file).parents


def by_fastdl(error: BaseException) -> bool:
    """Whether fastdl itself broke: its frame is the last, and does not raise. So what it refuses is
    no failure, nor what a library raises in Python. That a library no longer takes what fastdl
    gives it is, though fastdl may tell it in words of its own."""
    first = error
    while earlier := first.__cause__ or first.__context__:
        first = earlier
    frames = traceback.extract_tb(first.__traceback__)
    if not frames or not is_of_fastdl(frames[-1].filename):
        return False
    if first is not error and not isinstance(first, (AttributeError, ImportError, TypeError)):
        return False  # a refusal of a library, passed on
    return not (isinstance(first, BufferError) or (frames[-1].line or "").startswith("raise"))


def same(got: Any, values: Any) -> bool:
    """Some libraries have no arrays of no dimensions: one element in one dimension is as good."""
    return got in (values, [values])


def noise() -> list[np.ndarray]:
    """Memory that was given back too early is taken by one of these."""
    gc.collect()
    return [np.full(size, -99.0, np.float32) for size in (1, 2, 3, 4, 8, 16, 24) for _ in range(20)]


def others_of(peer: Peer, size: int, dtype: str) -> list[Any]:
    """Further arrays of a library, which may give what it has freed to no one but itself."""
    with suppress(Exception):  # it may have no arrays of one dimension
        return [peer.make([sample(dtype)[1]] * size, dtype) for _ in range(8)]
    return []


def exported(
    peer: Peer,
    door: Callable[[fastdl.Tensor], Any],
    build: Callable[[], np.ndarray],
) -> Cell | None:
    """A tensor over the NumPy array that `build` makes goes through a door of the library.

    None if this ml_dtypes does not have the dtype.
    """
    try:
        source = build()
    except (AttributeError, TypeError):  # an older ml_dtypes
        return None
    alive = weakref.ref(source)
    values, address, dtype = nested(source), source.ctypes.data, source.dtype.name
    tensor = fastdl.from_dlpack(source)
    said = None
    try:
        result = door(tensor)
    except Exception as error:
        said = refusal(error)
    if said:  # the error, which refers to everything, is gone by now
        if tensor.tolist() != values:
            return Cell(WRONG, "the tensor has changed after a refusal")
        del tensor, source
        return said if freed(alive) else Cell(WRONG, f"leaks after {said.note}")
    try:
        got = read(peer, result)
    except Exception as error:
        return Cell(REFUSED, f"taken, but not readable: {reason(error)}")
    try:
        notes = []
        if not same(got, values):
            raise Wrong("other values arrive")
        if got != values:
            notes.append("one element in one dimension")
        shared = not tensor.size or address_of(peer, result) == address
        notes += became(peer, result, dtype)
        if not source.flags.writeable and shared:
            notes.append("stays read-only" if keeps(peer, result) else "read-only is lost")
        elif shared and tensor.size:
            seen(peer, door, build)
        del source, tensor
        others = noise()
        if not same(read(peer, result), values):
            raise Wrong("the memory was freed under the array")
        back = None
        with suppress(Exception):  # not of this dtype, say
            back = peer.give(result)
        del result, others
        gc.collect()
        if back is not None and back.size and back.data_ptr == address and alive() is None:
            raise Wrong("the memory was freed under the tensor that it became again")
        del back
        if not freed(alive):
            raise Wrong("the memory is never freed")
    except Wrong as error:
        return Cell(WRONG, str(error))
    return Cell(ZERO_COPY if shared else COPY, ", ".join(notes))


def imported(
    peer: Peer,
    give: Callable[[Any], fastdl.Tensor],
    build: Callable[[], Any],
    values: Any,
    dtype: str,
) -> Cell | None:
    """An array of a library becomes a tensor. None if the library has no such array."""
    try:
        array = build()
        if peer.values(array) != values:
            return None
    except Exception:
        return None
    try:
        tensor = give(array)
    except Exception as error:
        return refusal(error)
    try:
        notes = []
        if tensor.tolist() != values:
            raise Wrong("other values arrive")
        if tensor.dtype.name != dtype:
            notes.append(f"as {tensor.dtype.name}")
        shared = not tensor.size or tensor.data_ptr == address_of(peer, array)
        if tensor.readonly:
            notes.append("read-only")
        if shared and tensor.size:
            value = sample(dtype)[1] if tensor.ndim == 1 else 7.0
            if can_write(peer, tensor, dtype) and not tensor.readonly:
                seen_by_import(peer, array, tensor, value)
            values = tensor.tolist()
        del array
        others = [noise(), others_of(peer, tensor.size, dtype)]
        if tensor.tolist() != values:
            raise Wrong("the memory was freed under the tensor")
        del others
    except Wrong as error:
        return Cell(WRONG, str(error))
    return Cell(ZERO_COPY if shared else COPY, ", ".join(notes))


# ---- the parts ------------------------------------------------------------------------------


def read(peer: Peer, array: Any) -> Any:
    """The values as the library shows them, or through fastdl where it cannot."""
    try:
        return peer.values(array)
    except Exception:
        return peer.give(array).tolist()


def address_of(peer: Peer, array: Any) -> int:
    """The address of an array: the library's word, or what all imports agree on. -1 if neither is
    to be had, so that it is nobody's."""
    give = peer.give
    with suppress(Exception):  # not of this dtype, say
        if peer.pointer is not None:
            return peer.pointer(array)
    with suppress(Exception):
        first, second = give(array), give(array)
        if first.data_ptr == second.data_ptr:
            return first.data_ptr
    return -1


def became(peer: Peer, array: Any, dtype: str) -> list[str]:
    """The other dtype that an array has got, if fastdl can tell."""
    try:
        now = peer.give(array).dtype.name
    except Exception:
        return []
    return [f"as {now}"] if now != dtype else []


def keeps(peer: Peer, array: Any) -> bool:
    """Whether an array is marked as read-only."""
    if peer.is_readonly is not None:
        return peer.is_readonly(array)
    try:
        return peer.give(array).readonly
    except Exception:
        return not np.asarray(array).flags.writeable


def seen(peer: Peer, door: Callable, build: Callable[[], np.ndarray]) -> None:
    """A write to the source is seen in the array, and one to the array in the source."""
    source = build()
    array = door(fastdl.from_dlpack(source))
    first = (0,) * source.ndim
    change(source, first)
    if not same(read(peer, array), nested(source)):
        raise Wrong("a write to the tensor is not seen in the array")
    if peer.write is None or not can_write(peer, source, source.dtype.name):
        return
    other = build()
    array = door(fastdl.from_dlpack(other))
    if keeps(peer, array):  # read-only though the tensor is not: an older NumPy's are
        return
    peer.write(array, source[first].item())
    if nested(other) != nested(source):
        raise Wrong("a write to the array is not seen in the tensor")


def can_write(peer: Peer, array: Any, dtype: str) -> bool:
    """Whether the library can set the first element, and that alone, of what has the shape and
    strides of `array`."""
    kinds = (dtype,) if array.ndim else (dtype, "scalar")
    return 0 not in array.strides and not any(kind in peer.unwritten for kind in kinds)


def change(array: np.ndarray, first: tuple) -> None:
    """Another value for the first element, by way of its bytes: any dtype has them."""
    array[first] = sample("bool")[1] if array.dtype.kind == "b" else array.dtype.type(1)
    if array.dtype.name.startswith("float8_e8m0"):
        array[first] = array.dtype.type(2)


def seen_by_import(peer: Peer, array: Any, tensor: fastdl.Tensor, value: Any) -> None:
    """A write to a writable array or tensor is seen in the other."""
    if peer.write is not None:
        before = tensor.tolist()
        peer.write(array, value)
        if tensor.tolist() == before or tensor.tolist() != peer.values(array):
            raise Wrong("a write to the array is not seen in the tensor")
    else:
        set_first(tensor.numpy(), value)
        if peer.values(array) != tensor.tolist():
            raise Wrong("a write to the tensor is not seen in the array")
