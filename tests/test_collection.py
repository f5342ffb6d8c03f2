"""The garbage collector and Tensors: what it may take, and what it must not."""

import gc

import numpy as np

import fastdl


class Array(np.ndarray):
    """An array that can be part of a cycle."""


def array_with_tensor():
    array = np.arange(4.0).view(Array)
    array.tensor = fastdl.from_dlpack(array)
    return array


def test_views_that_die_in_a_cycle_are_counted_down():
    """Else the collector would think that exports are views, and take what they stand on."""
    array = array_with_tensor()
    for _ in range(3):
        cycle = [array.tensor[1:]]
        cycle.append(cycle)
        del cycle
    gc.collect()
    exports = [np.from_dlpack(array.tensor) for _ in range(3)]
    owner = array.tensor
    array.marker = "intact"
    del array
    gc.collect()
    assert owner.tolist() == [0.0, 1.0, 2.0, 3.0]
    base = owner.numpy().base
    assert base is owner
    assert all(export.tolist() == [0.0, 1.0, 2.0, 3.0] for export in exports)


def test_an_exported_array_in_a_cycle_keeps_its_attributes():
    array = array_with_tensor()
    for _ in range(3):
        cycle = [array.tensor[1:]]
        cycle.append(cycle)
        del cycle
    gc.collect()
    collected = []
    array.witness = type("Witness", (), {"__del__": lambda self: collected.append(1)})()
    exports = [np.from_dlpack(array.tensor) for _ in range(3)]
    del array  # alive by its exports alone, which the collector cannot see
    gc.collect()
    assert collected == []
    del exports
    gc.collect()
    assert collected == [1]


def test_a_view_keeps_its_root_and_lets_it_go():
    tensor = fastdl.empty(4)
    view = tensor[1:][1:]
    address = tensor.data_ptr
    del tensor
    gc.collect()
    assert view.data_ptr == address + 8
