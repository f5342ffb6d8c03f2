# SPDX-License-Identifier: Apache-2.0
"""Every producer with every consumer, in one process, once with a fastdl.Tensor in the middle that
the consumer takes by its own function, and once by fastdl.convert.
"""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

from dlpack_conformance.adapters import in_order

from ..cases.common import aligned
from ..peers import LIBRARIES, Peer
from .cells import COPY, REFUSED, WRONG, ZERO_COPY, Cell
from .measure import address_of, noise, others_of, read, reason, refusal
from .rows import Measurement, load, to_like

VALUES = [[0.0, 1.0, 2.0], [-3.0, 4.5, 5.0]]
FLAT = [*VALUES[0], *VALUES[1]]  # for those that have one dimension

GRID = tuple(peer for peer in LIBRARIES if peer.in_grid and peer.environment == "main")
PRODUCERS = tuple(peer for peer in GRID if peer.make)
CONSUMERS = tuple(peer for peer in GRID if peer.take)


def load_all() -> None:
    peers = {peer.name: peer for peer in GRID}
    for name in in_order(peers):
        load(peers[name])


def cells() -> Iterator[Measurement]:
    for producer, consumer in product(PRODUCERS, CONSUMERS):
        if max(producer.min_ndim, consumer.min_ndim) <= min(producer.max_ndim, consumer.max_ndim):
            pair = f"{producer.name}/{consumer.name}"
            yield f"own/{pair}", lambda p=producer, c=consumer: paired(p, c, through_tensor(p, c))
            if consumer.like:
                take = to_like(consumer, "float32")
                yield f"convert/{pair}", lambda p=producer, c=consumer, t=take: paired(p, c, t)


def through_tensor(producer: Peer, consumer: Peer) -> Callable[[Any], Any]:
    return lambda array: consumer.take(by_chance_aligned(lambda: producer.give(array)))


def by_chance_aligned(make: Callable[[], Any], address: Callable[[Any], int] | None = None) -> Any:
    """What `make` returns, aligned to 64 bytes if the library can be brought to it: alignment is
    chance, and whether JAX and TVM copy depends on it."""
    kept = []
    for attempt in range(64):
        result = make()
        if (address(result) if address else result.data_ptr) % 64 == 0:
            break
        kept += [result, np.empty(16 * (attempt % 7) + 8, np.uint8)]
    return result


def paired(producer: Peer, consumer: Peer, take: Callable[[Any], Any]) -> Cell:
    flat = 1 in (producer.max_ndim, consumer.max_ndim)
    values = FLAT if flat else VALUES
    array = producing(producer, flat)
    try:
        result = take(array)
    except Exception as error:
        if producer.values(array) != values:
            return Cell(WRONG, "the array has changed after a refusal")
        return refusal(error)
    try:
        got = read(consumer, result)
    except Exception as error:
        return Cell(REFUSED, f"taken, but not readable: {reason(error)}")
    if got != values:
        return Cell(WRONG, "other values arrive")
    shared = address_of(consumer, result) == address_of(producer, array) != -1
    del array
    others = [noise(), others_of(producer, len(FLAT), "float32")]
    if read(consumer, result) != values:
        return Cell(WRONG, "the memory was freed under the array")
    del others
    return Cell(ZERO_COPY if shared else COPY)


def producing(peer: Peer, flat: bool) -> Any:
    values = FLAT if flat else VALUES
    if peer.wrap is not None:
        return peer.wrap(aligned(values))
    return by_chance_aligned(
        lambda: peer.make(values, "float32"),
        lambda array: max(address_of(peer, array), 0),
    )
