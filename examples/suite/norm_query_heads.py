"""Every head's query to unit length, times a scale that is learned for each head."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, HEADS, LENGTH, WIDTH = 16, 24, 8192, 96  # small: 2, 3, 13, 24


class Model(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(heads, 1, 1, dtype=torch.bfloat16) + 4)

    def forward(self, query):
        return F.normalize(query, dim=-1) * self.scale


def get_inputs():
    return [torch.randn(BATCH, HEADS, LENGTH, WIDTH, dtype=torch.bfloat16)]


def get_init_inputs():
    return [HEADS]
