# SPDX-License-Identifier: Apache-2.0
"""The operators of axpy_torch.py with the C functions themselves as kernels: they cost less.

Autograd does not see what `axpy` writes when it is called outside of compiled code. Call these
operators from functions like those of axpy_torch.py.
"""

import axpy as kernels
import torch

# [library]
library = torch.library.Library("axpy_library", "DEF")
library.define("scaled(float a, Tensor x) -> Tensor")
library.define("axpy(float a, Tensor x, Tensor(a!) y) -> ()")  # y is written
library.impl("scaled", kernels.scaled, "CPU")
library.impl("axpy", kernels.axpy, "CPU")
scaled, axpy = torch.ops.axpy_library.scaled, torch.ops.axpy_library.axpy


@torch.library.register_fake("axpy_library::scaled")
def _(a, x):
    return x.new_empty(x.shape)


@torch.library.register_fake("axpy_library::axpy")
def _(a, x, y):
    pass


def keep_factor(ctx, inputs, output):
    ctx.a = inputs[0]


def gradient(ctx, grad):
    return None, scaled(ctx.a, grad)


torch.library.register_autograd("axpy_library::scaled", gradient, setup_context=keep_factor)
# [/library]
