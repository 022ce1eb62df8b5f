"""A gated tanh-GELU: the two halves of each row multiplied, as feed-forward layers have it between their products."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS, WIDTH = 32768, 8192  # small: 37, 96


class Model(nn.Module):
    def forward(self, x):
        value, gate = x.chunk(2, dim=-1)
        return value * F.gelu(gate, approximate="tanh")


def get_inputs():
    return [torch.randn(ROWS, 2 * WIDTH, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
