"""A matrix between two diagonal ones, written as products."""

import torch
import torch.nn as nn

SIZE = 3072  # small: 40


class Model(nn.Module):
    def forward(self, left, a, right):
        return torch.diag(left) @ a @ torch.diag(right)


def get_inputs():
    return [torch.randn(SIZE), torch.randn(SIZE, SIZE), torch.randn(SIZE)]


def get_init_inputs():
    return []
