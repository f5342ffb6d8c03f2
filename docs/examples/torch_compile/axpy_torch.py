# SPDX-License-Identifier: Apache-2.0
"""The functions of ../c/axpy.c for torch, also in code that torch.compile compiles.

Build: cd ../c && python setup.py build_ext --build-lib ../torch_compile
Run: python axpy_torch.py
"""

# [operators]
import axpy as kernels
import torch
from torch import Tensor


@torch.library.custom_op("axpy::scaled", mutates_args=())
def scaled_operator(a: float, x: Tensor) -> Tensor:
    return kernels.scaled(a, x)


@scaled_operator.register_fake  # describes the result without computing it
def _(a, x):
    return x.new_empty(x.shape)  # row-major, as fastdl_empty allocates


def keep_factor(ctx, inputs, output):
    ctx.a = inputs[0]


def gradient(ctx, grad):
    return None, scaled_operator(ctx.a, grad)  # not scaled(): `gradient` is traced, too


scaled_operator.register_autograd(gradient, setup_context=keep_factor)


@torch.library.custom_op("axpy::axpy", mutates_args=("y",))
def axpy_operator(a: float, x: Tensor, y: Tensor) -> None:
    kernels.axpy(a, x, y)


def scaled(a, x):
    """a * x, as a new tensor."""
    if torch.compiler.is_compiling() or (x.requires_grad and torch.is_grad_enabled()):
        return scaled_operator(a, x)
    return kernels.scaled(a, x)


def axpy(a, x, y):
    """Adds a * x to y, in place."""
    if torch.is_grad_enabled() and (x.requires_grad or y.requires_grad):
        raise RuntimeError("axpy has no gradient: call it under torch.no_grad(), or use scaled")
    if torch.compiler.is_compiling():
        axpy_operator(a, x, y)
    else:
        kernels.axpy(a, x, y)
        torch.autograd.graph.increment_version(y)  # the C function does not


# [/operators]
if __name__ == "__main__":

    @torch.compile(fullgraph=True)
    def step(x, y):
        y = y.clone()
        axpy(2.0, scaled(0.5, x) + 1, y)
        return y

    print(step(torch.arange(3.0), torch.ones(3)))
