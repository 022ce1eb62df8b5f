"""Pre-norm block without its matrices: layer norm, GELU, learned scale, residual. 3 MB, four kernels in eager."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.scale = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x):
        return x + self.scale * torch.nn.functional.gelu(self.norm(x))


def get_inputs():
    return [torch.randn(1024, 768)]


def get_init_inputs():
    return [768]
