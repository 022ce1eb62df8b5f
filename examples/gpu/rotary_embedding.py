"""Rotary position embedding by halves, bfloat16. 2.1 GB in, 2.1 GB out."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, cos, sin):
        first, second = x.chunk(2, dim=-1)
        turned = torch.cat((-second, first), dim=-1)
        return x * cos + turned * sin


def get_inputs():
    return [
        torch.randn(32, 32, 8192, 128, dtype=torch.bfloat16),
        torch.rand(8192, 128, dtype=torch.bfloat16),
        torch.rand(8192, 128, dtype=torch.bfloat16),
    ]


def get_init_inputs():
    return []
