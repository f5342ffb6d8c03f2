# SPDX-License-Identifier: Apache-2.0
"""torch's tensors without memory. For each kind: a function that calls another with such a tensor,
and a pattern for what a refusal says."""

import warnings

import torch


def holding(make):
    return lambda use: use(make())


def inside(transform, *arguments, part=lambda x: x):
    """Where a transform of torch.func calls a function."""

    def run(use):
        def function(x):
            use(part(x))
            return x.sum()

        transform(function, *arguments)

    return run


def freed(offset):
    array = torch.arange(100_000.0)[offset:]
    array.untyped_storage().resize_(0)
    return array


class Wrapper(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        raise NotImplementedError(function)


def wrapper(**keywords):
    return torch.Tensor._make_wrapper_subclass(Wrapper, (3,), **keywords)


def distributed():
    from torch import distributed
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    if not distributed.is_initialized():
        distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    return distribute_tensor(torch.ones(4), init_device_mesh("cpu", (1,)), [Shard(0)])


def arriving():
    from torch.distributed._functional_collectives import AsyncCollectiveTensor

    return AsyncCollectiveTensor(torch.ones(3))


def functional():
    from torch._subclasses.functional_tensor import FunctionalTensor, FunctionalTensorMode

    with FunctionalTensorMode():
        return FunctionalTensor.to_functional(torch.ones(3))


def masked():
    return torch.masked.masked_tensor(torch.arange(3.0), torch.tensor([True, False, True]))


def nested(layout):
    return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=layout)


def quantized():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8)


ONES, ROWS = torch.ones(3), torch.ones(2, 3)
OUTSIDE, NULL = "outside of vmap.*custom_op", "NULL data pointer.*freed.*wraps"
LACKING = {
    "vmap": (inside(lambda f: torch.vmap(f)(ROWS)), OUTSIDE),
    "vmap, part": (inside(lambda f: torch.vmap(f)(ROWS), part=lambda x: x[1:]), OUTSIDE),
    "grad": (inside(lambda f: torch.func.grad(f)(ONES)), OUTSIDE),
    "grad, detached": (
        inside(lambda f: torch.func.grad(f)(ONES), part=torch.Tensor.detach),
        OUTSIDE,
    ),
    "vmap of grad": (inside(lambda f: torch.vmap(torch.func.grad(f))(ROWS)), OUTSIDE),
    "jvp": (inside(torch.func.jvp, (ONES,), (ONES,)), OUTSIDE),
    "functionalize": (inside(lambda f: torch.func.functionalize(f)(ONES)), OUTSIDE),
    "functionalize, part": (
        inside(lambda f: torch.func.functionalize(f)(ONES), part=lambda x: x[1:]),
        OUTSIDE,
    ),
    "functional": (holding(lambda: torch._to_functional_tensor(ONES[1:])), OUTSIDE),
    "FunctionalTensor": (holding(functional), OUTSIDE),
    "DTensor": (holding(distributed), r"to_local\(\).*full_tensor\(\)"),
    "DTensor, part": (holding(lambda: distributed()[2:]), r"to_local\(\).*full_tensor\(\)"),
    "AsyncCollectiveTensor": (holding(arriving), r"x\.wait\(\)"),
    "MaskedTensor": (holding(masked), r"to_tensor\(value\).*get_data\(\).*ignores the mask"),
    "nested": (holding(lambda: nested(torch.strided)), r"unbind\(\).*values\(\)"),
    "jagged": (holding(lambda: nested(torch.jagged)), r"unbind\(\).*values\(\)"),
    "zeros": (holding(lambda: torch._efficientzerotensor(3)), r"clone\(\)"),
    "zeros, part": (holding(lambda: torch._efficientzerotensor(3)[1:]), r"clone\(\)"),
    "sparse": (holding(lambda: torch.ones(3).to_sparse()), r"sparse_coo: pass x.to_dense\(\)"),
    "mkldnn": (holding(lambda: torch.ones(3).to_mkldnn()), r"_mkldnn: pass x.to_dense\(\)"),
    "quantized": (holding(quantized), r"x.dequantize\(\), or x.int_repr\(\)"),
    "freed": (holding(lambda: freed(0)), NULL),
    "freed, part": (holding(lambda: freed(1)), NULL),
    "freed, far part": (holding(lambda: freed(50_000)), NULL),
    "wrapper": (holding(wrapper), NULL),
    "wrapper, part": (holding(lambda: wrapper(strides=(1,), storage_offset=5)), NULL),
}
