"""Every library to every other, with a fastdl.Tensor in the middle: one process, all imported.

The expectations are a table, measured with the versions in tests/peers-light.txt. For each pair:
    Z   zero-copy: the consumer's pointer is the producer's, and the values are right
    A   zero-copy if the producer's memory happens to be aligned to 64 bytes, else a copy
    C   copied, with the right values
    E   a clean refusal, after which the Tensor is as it was
"""

import pytest

import fastdl

from ..peers import BY_NAME, PEERS, require

# Six values in a row: every library has arrays of one dimension.
ROW = """
producer       numpy torch jax mlx pyarrow pyarrow.Tensor onnxruntime tvm_ffi strict drjit
numpy          Z     Z     A   C   Z       Z              Z           Z       Z      Z
torch          Z     Z     A   C   Z       Z              Z           Z       Z      Z
jax            Z     Z     E   C   Z       Z              E           Z       Z      Z
mlx            Z     Z     E   C   Z       Z              E           Z       Z      Z
pyarrow        Z     Z     E   C   Z       Z              E           Z       Z      Z
pyarrow.Tensor Z     Z     A   C   Z       Z              Z           Z       Z      Z
onnxruntime    Z     Z     A   C   Z       Z              Z           Z       Z      Z
tvm_ffi        Z     Z     A   C   Z       Z              Z           Z       Z      Z
strict         Z     Z     A   C   Z       Z              Z           Z       Z      Z
drjit          Z     Z     A   C   Z       Z              Z           Z       Z      Z
"""


def cells(text: str):
    """(producer, consumer, expectation) of each cell of a table."""
    head, *rows = (line.split() for line in text.strip().splitlines())
    for producer, *expectations in rows:
        for consumer, expectation in zip(head[1:], expectations, strict=True):
            yield producer, consumer, expectation


@pytest.mark.parametrize(("producer", "consumer", "expected"), list(cells(ROW)))
def test_a_row(producer, consumer, expected):
    for name in (producer, consumer):
        require(BY_NAME[name].module)
    producer, consumer = BY_NAME[producer], BY_NAME[consumer]
    values = [0.0, 1.0, 2.0, -3.0, 4.5, 5.0]
    array = producer.make(values, "float32")
    tensor = fastdl.from_dlpack(array)
    if expected == "E":
        with pytest.raises(BufferError, match="read-only"):
            consumer.take(tensor)
        assert tensor.tolist() == values
        return
    result = consumer.take(tensor)
    assert consumer.values(result) == values
    back = fastdl.from_dlpack(result)
    shared = expected == "Z" or (expected == "A" and tensor.data_ptr % 64 == 0)
    assert (back.data_ptr == tensor.data_ptr) is shared
    del array, tensor, back
    assert consumer.values(result) == values  # the producer has nothing left but the memory


def test_the_table_is_complete():
    names = {peer.name for peer in PEERS}
    assert {(p, c) for p, c, _ in cells(ROW)} == {(p, c) for p in names for c in names}


@pytest.mark.parametrize("start", [peer.name for peer in PEERS])
def test_a_round_through_all_libraries(start):
    """One memory through every library that shares it, there and back, in the table's order."""
    peer = BY_NAME[start]
    require(peer.module)
    values = [0.0, 1.0, 2.0, 3.0]
    tensor = fastdl.from_dlpack(peer.make(values, "float32"))
    for name in ("numpy", "torch", "pyarrow.Tensor", "tvm_ffi", "strict", "drjit"):
        require(BY_NAME[name].module)
        passed = fastdl.from_dlpack(BY_NAME[name].take(tensor))
        assert passed.data_ptr == tensor.data_ptr
        assert passed.tolist() == values
        tensor = passed


@pytest.mark.parametrize("consumer", ["numpy", "torch", "pyarrow.Tensor", "drjit"])
def test_the_byte_offset_of_a_slice_is_folded_into_the_pointer(consumer):
    """MLX exports slices with a byte offset, which some consumers ignore."""
    require("mlx")
    require(BY_NAME[consumer].module)
    base = BY_NAME["mlx"].make([0.0, 1.0, 2.0, 3.0, 4.0], "float32")
    tensor = fastdl.from_dlpack(base[2:])
    assert tensor.data_ptr == fastdl.from_dlpack(base).data_ptr + 8
    assert BY_NAME[consumer].values(BY_NAME[consumer].take(tensor)) == [2.0, 3.0, 4.0]
