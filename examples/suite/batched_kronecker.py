"""A Kronecker product of two small matrices applied to many vectors, without ever making it."""

import torch
import torch.nn as nn

BATCH, LEFT, RIGHT = 16384, 64, 96  # small: 7, 8, 12


class Model(nn.Module):
    def __init__(self, left, right):
        super().__init__()
        self.left = nn.Parameter(torch.randn(left, left) / left**0.5)
        self.right = nn.Parameter(torch.randn(right, right) / right**0.5)

    def forward(self, x):
        return self.left @ x @ self.right.t()


def get_inputs():
    return [torch.randn(BATCH, LEFT, RIGHT)]


def get_init_inputs():
    return [LEFT, RIGHT]
