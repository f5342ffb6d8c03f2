"""The operators of axpy_torch.py with the C functions themselves as kernels.

No Python code runs when they are called, so they cost what torch's own operators cost. But autograd
is told nothing: gradients are lost with a warning in the backward pass, and what is written outside
of compiled code is not seen. Call them from functions like those of axpy_torch.py.
"""

import axpy as kernels
import torch

# [library]
library = torch.library.Library("axpy_library", "DEF")
library.define("scaled(float a, Tensor x) -> Tensor")
library.define("axpy(float a, Tensor x, Tensor(a!) y) -> ()")  # y is written
library.impl("scaled", kernels.scaled, "CPU")
library.impl("axpy", kernels.axpy, "CPU")


@torch.library.register_fake("axpy_library::scaled")
def _(a, x):
    return x.new_empty(x.shape)


@torch.library.register_fake("axpy_library::axpy")
def _(a, x, y):
    pass


# [/library]
scaled, axpy = torch.ops.axpy_library.scaled.default, torch.ops.axpy_library.axpy.default
