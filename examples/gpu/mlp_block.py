"""A feed-forward block: linear, GELU, linear, residual, layer norm. The products are library steps. 262,144 tokens of width 512."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return self.norm(x + self.down(F.gelu(self.up(x))))


def get_inputs():
    return [torch.randn(262144, 512)]


def get_init_inputs():
    return [512]
