# SPDX-License-Identifier: Apache-2.0
"""fastdl.convert to one library: where it must not copy, and what it must not do.

What becomes of every type and layout, and of the arrays of every other library, is measured by
matrix/, which names the type: here is also an example of what the result is to be like.
"""

from functools import cache

import numpy as np
import pytest

import fastdl
from fastdl._bridges import lookup
from fastdl._native import dtype_facts
from tests.support.producers import Given

from ..matrix import sources
from ..matrix.cells import COPY, REFUSED, Cell, load
from ..matrix.rows import like_of
from .common import aligned, nested, peer_under_test

peer = peer_under_test()


@cache
def example():
    """An array of the library: what the others are to be like."""
    return peer.make([1.0, 2.0], "float32")


def likes(dtype):
    """All that names the library: as the matrix does, and for float32 the type and an example."""
    return like_of(peer, dtype), *((type(example()), example()) if dtype == "float32" else ())


BRIDGE = lookup.bridge_of_class(type(example()))
MEASURED = load()[peer.name]


def arrays():
    """(where the matrix has what becomes of it, what builds it) for all that can be converted."""
    kinds = [*sources.element_types().items(), *sources.layouts(peer.max_ndim).items()]
    if peer.max_ndim > 1:  # strides that mean nothing: at a negative one torch ends the process
        kinds.append(("one", lambda: sources.plane()[:1, :1][::-1, ::-1]))
        kinds.append(("empty", lambda: sources.plane()[::-1][:, :0]))
    return [kind for kind in kinds if Cell.parse(MEASURED[f"to/{kind[0]}"]).outcome != REFUSED]


@pytest.mark.parametrize(("case", "build"), arrays())
def test_a_forbidden_copy_is_refused_where_the_matrix_has_one(case, build):
    try:
        source = build()
    except (AttributeError, TypeError):
        pytest.skip("an older ml_dtypes")
    copied = Cell.parse(MEASURED[f"to/{case}"]).outcome == COPY
    tensor = fastdl.from_dlpack(source)
    for like in likes(tensor.dtype.name):
        result = fastdl.convert(tensor, like)
        assert isinstance(result, like if isinstance(like, type) else type(example()))
        assert fastdl.asarray(result).tolist() == nested(source)
        if copied:
            with pytest.raises(fastdl.CopyRequiredError):
                fastdl.convert(tensor, like, copy=False)
        elif tensor.size:  # without elements, convert may say that the library always copies
            result = fastdl.convert(tensor, like, copy=False)
            assert fastdl.asarray(result).data_ptr == tensor.data_ptr


def test_an_array_of_the_library_is_returned_itself():
    for like in likes("float32"):
        assert fastdl.convert(example(), like) is example()


ELEMENT_TYPES = [(code, bits, lanes) for _, code, bits, _ in dtype_facts() for lanes in (1, 2)]


@pytest.mark.skipif(peer.name != "drjit", reason="of DrJit")
def test_a_backend_that_always_copies():
    import drjit.scalar

    source = aligned(np.arange(6, dtype=np.float32))
    result = fastdl.convert(source, drjit.scalar.TensorXf)
    assert fastdl.asarray(result).data_ptr != source.ctypes.data
    with pytest.raises(fastdl.CopyRequiredError, match="drjit.scalar.TensorXf always copies"):
        fastdl.convert(source, drjit.scalar.TensorXf, copy=False)


def test_what_it_does_not_have_never_reaches_it():
    """Its table may leak what it refuses. `dtypes` names all that it takes."""
    for numbers in ELEMENT_TYPES:
        given = Given(dtype=numbers, shape=(2,), strides=(1,), memory=bytearray(64))
        said = ""
        try:
            fastdl.convert(given.capsule(), example())
        except BufferError as error:
            said = str(error)
        given.assert_released()
        if BRIDGE.dtypes is not None:
            name = fastdl.DType(numbers).name
            assert (f" has no {name}" in said) is (name not in BRIDGE.dtypes), said


def test_64_bits_are_kept():
    for dtype in ("int64", "float64"):
        source = aligned([1, 2**40 + 1], dtype)
        result = fastdl.convert(source, example())
        assert fastdl.asarray(result).tolist() == source.tolist()


def test_a_copy_shares_nothing():
    source = aligned([1.0, 2.0, 3.0])
    result = fastdl.convert(source, example(), copy=True)
    source[:] = 7
    assert fastdl.asarray(result).tolist() == [1.0, 2.0, 3.0]
