"""What a linear layer's GELU gives back: the gradient by its input, and by the bias that was added to it. 5.4 GB in, 2.7 GB out."""

import math

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(width))

    def forward(self, grad, x):
        z = x + self.bias
        below = 0.5 * (1 + torch.erf(z * math.sqrt(0.5)))
        bell = torch.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
        dx = grad * (below + z * bell)
        return dx, dx.sum(0)


def get_inputs():
    return [torch.randn(163840, 4096), torch.randn(163840, 4096)]


def get_init_inputs():
    return [4096]
