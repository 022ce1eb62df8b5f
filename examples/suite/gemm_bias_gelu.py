"""A linear layer and GELU."""

import torch
import torch.nn as nn
import torch.nn.functional as F

TOKENS, WIDTH, WIDE = 8192, 4096, 16384  # small: 9, 48, 96


class Model(nn.Module):
    def __init__(self, width, wide):
        super().__init__()
        self.up = nn.Linear(width, wide, dtype=torch.bfloat16)

    def forward(self, x):
        return F.gelu(self.up(x))


def get_inputs():
    return [torch.randn(TOKENS, WIDTH, dtype=torch.bfloat16)]


def get_init_inputs():
    return [WIDTH, WIDE]
