"""A linear layer with a low-rank correction beside it."""

import torch
import torch.nn as nn

TOKENS, WIDTH, RANK = 4096, 4096, 16  # small: 9, 40, 4


class Model(nn.Module):
    def __init__(self, width, rank):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width) / width**0.5)
        self.down = nn.Parameter(torch.randn(width, rank) / width**0.5)
        self.up = nn.Parameter(torch.randn(rank, width) * 0.1)

    def forward(self, x):
        return x @ self.weight + 2.0 * (x @ self.down @ self.up)


def get_inputs():
    return [torch.randn(TOKENS, WIDTH)]


def get_init_inputs():
    return [WIDTH, RANK]
