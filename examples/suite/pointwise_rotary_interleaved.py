"""Rotary position embedding where neighbouring elements make a pair."""

import torch
import torch.nn as nn

BATCH, HEADS, LENGTH, WIDTH = 16, 32, 4096, 128  # small: 2, 3, 17, 16


class Model(nn.Module):
    def forward(self, query, cos, sin):
        even, odd = query[..., 0::2], query[..., 1::2]
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)


def get_inputs():
    angle = torch.rand(LENGTH, WIDTH // 2) * 6.28
    query = torch.randn(BATCH, HEADS, LENGTH, WIDTH, dtype=torch.float16)
    return [query, angle.cos().half(), angle.sin().half()]


def get_init_inputs():
    return []
