"""fastdl.convert to one library, from every other: values, sharing, and what it must not do."""

import numpy as np
import pytest

import fastdl
from fastdl._bridges import lookup
from fastdl._native import dtype_facts
from tests.support.producers import Given

from ..arrays import sample
from ..peers import BY_NAME, PEERS, require
from .common import aligned, freed, nested, peer_under_test

peer = peer_under_test()

LIKE = {
    "numpy": "numpy.ndarray",
    "torch": "torch.Tensor",
    "jax": "jax.Array",
    "mlx": "mlx.core.array",
    "pyarrow": "pyarrow.Array",
    "pyarrow.Tensor": "pyarrow.Tensor",
    "onnxruntime": "onnxruntime.OrtValue",
    "tvm_ffi": "tvm_ffi.Tensor",
    "strict": "array_api_strict.Array",
    "drjit": "drjit.llvm.TensorXf",
}


def bridge_of(name):
    rows = (b for package in lookup.LIBRARIES for b in lookup.load(package).BRIDGES)
    return next(bridge for bridge in rows if bridge.name == LIKE[name])


def example(name):
    """An array of a library: what the others are to be like."""
    return BY_NAME[name].make([1.0, 2.0], "float32")


BRIDGE = bridge_of(peer.name)
BASE = aligned(np.arange(24).reshape(4, 6))
FROZEN = BASE.view()
FROZEN.flags.writeable = False

# By how much they demand: see the constants in fastdl/_convert/convert.pyx.
LAYOUTS = {
    "compact": (BASE, 3),
    "scalar": (BASE[0, 0:1].reshape(()), 3),
    "empty": (BASE[::-1][:, :0], 3),
    "size 1": (BASE[::-1, ::-1][:1, :1], 3),
    "transposed": (BASE.T, 2),
    "gaps": (BASE[:, ::2], 1),
    "broadcast": (np.lib.stride_tricks.as_strided(BASE, (3, 6), (0, 4)), 1),
    "reversed": (BASE[::-1], 0),
    "a row": (BASE[0], 3),
    "a reversed row": (BASE[0][::-1], 0),
    "every other": (BASE[0][::2], 1),
    "read-only": (FROZEN, 3),
}


ELEMENT_TYPES = [(code, bits, lanes) for _, code, bits, _ in dtype_facts() for lanes in (1, 2)]


def is_possible(source):
    return BRIDGE.ndims[0] <= source.ndim <= BRIDGE.ndims[1]


@pytest.mark.parametrize("layout", [k for k, (source, _) in LAYOUTS.items() if is_possible(source)])
def test_layouts(layout):
    source, fits = LAYOUTS[layout]
    for like in (type(example(peer.name)), example(peer.name)):
        result = fastdl.convert(source, like)
        assert fastdl.asarray(result).tolist() == nested(source)
    copies = BRIDGE.copies(fastdl.asarray(source)) if callable(BRIDGE.copies) else BRIDGE.copies
    shared = fits >= BRIDGE.strides and not copies
    shared = shared and (source is not FROZEN or BRIDGE.readonly == 0)
    if source.size and peer.pointer is not None:
        shared = shared and source.ctypes.data % BRIDGE.alignment == 0
        assert (peer.pointer(result) == source.ctypes.data) is shared
        if shared or result is source:
            assert fastdl.convert(source, like, copy=False) is not None
        else:
            with pytest.raises(fastdl.CopyRequiredError):
                fastdl.convert(source, like, copy=False)


@pytest.mark.skipif(peer.name != "drjit", reason="of DrJit")
def test_a_backend_that_always_copies():
    import drjit.scalar

    source = aligned(np.arange(6, dtype=np.float32))
    result = fastdl.convert(source, drjit.scalar.TensorXf)
    assert fastdl.asarray(result).data_ptr != source.ctypes.data
    with pytest.raises(fastdl.CopyRequiredError, match="drjit.scalar.TensorXf always copies"):
        fastdl.convert(source, drjit.scalar.TensorXf, copy=False)


def test_layouts_that_it_does_not_have():
    for source in (source for source, _ in LAYOUTS.values() if not is_possible(source)):
        with pytest.raises(BufferError, match="cannot be converted to "):
            fastdl.convert(source, example(peer.name))


@pytest.mark.parametrize("producer", PEERS, ids=repr)
def test_every_producer(producer):
    require(producer.module)
    source = producer.make([0.0, 1.0, 2.0, -3.0, 4.5], "float32")
    result = fastdl.convert(source, example(peer.name))
    assert fastdl.asarray(result).tolist() == [0.0, 1.0, 2.0, -3.0, 4.5]
    if producer is peer:
        assert result is source
    del source
    assert fastdl.asarray(result).tolist() == [0.0, 1.0, 2.0, -3.0, 4.5]


@pytest.mark.parametrize("dtype", peer.dtypes)
def test_element_types(dtype):
    source = peer.make(sample(dtype), dtype)
    tensor = fastdl.asarray(source)
    assert tensor.dtype.name == dtype
    if dtype == "float4_e2m1fn" or (BRIDGE.dtypes is not None and dtype not in BRIDGE.dtypes):
        return
    result = fastdl.convert(tensor.copy(), source)
    assert type(result) is type(source)
    again = fastdl.asarray(result)
    assert again.dtype == tensor.dtype
    assert again.tolist() == tensor.tolist()


def test_what_it_does_not_have_never_reaches_it():
    """Its table may leak what it refuses. `dtypes` names all that it takes."""
    for numbers in ELEMENT_TYPES:
        given = Given(dtype=numbers, shape=(2,), strides=(1,), memory=bytearray(64))
        said = ""
        try:
            fastdl.convert(given.capsule(), example(peer.name))
        except BufferError as error:
            said = str(error)
        given.assert_released()
        if BRIDGE.dtypes is not None:
            name = fastdl.DType(numbers).name
            assert (f" has no {name}" in said) is (name not in BRIDGE.dtypes), said


def test_64_bits_are_kept():
    for dtype in ("int64", "float64"):
        source = aligned([1, 2**40 + 1], dtype)
        result = fastdl.convert(source, example(peer.name))
        assert fastdl.asarray(result).tolist() == source.tolist()


def test_a_copy_shares_nothing():
    source = aligned([1.0, 2.0, 3.0])
    result = fastdl.convert(source, example(peer.name), copy=True)
    source[:] = 7
    assert fastdl.asarray(result).tolist() == [1.0, 2.0, 3.0]


def test_the_memory_lives_as_long_as_the_result():
    import weakref

    source = aligned([1.0, 2.0, 3.0])
    seen = weakref.ref(source.base)
    result = fastdl.convert(fastdl.from_dlpack(source), example(peer.name))
    del source
    assert fastdl.asarray(result).tolist() == [1.0, 2.0, 3.0]
    del result
    assert freed(seen)
