"""A gated feed-forward layer: two products up, SiLU of one times the other, one product down."""

import torch
import torch.nn as nn
import torch.nn.functional as F

TOKENS, WIDTH, WIDE = 4096, 4096, 11008  # small: 7, 32, 72


class Model(nn.Module):
    def __init__(self, width, wide):
        super().__init__()
        self.gate = nn.Linear(width, wide, bias=False, dtype=torch.bfloat16)
        self.up = nn.Linear(width, wide, bias=False, dtype=torch.bfloat16)
        self.down = nn.Linear(wide, width, bias=False, dtype=torch.bfloat16)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


def get_inputs():
    return [torch.randn(TOKENS, WIDTH, dtype=torch.bfloat16)]


def get_init_inputs():
    return [WIDTH, WIDE]
