"""Attention written out, with a bias for each head that grows with the distance."""

import torch
import torch.nn as nn

BATCH, HEADS, LENGTH, WIDTH = 4, 16, 1024, 64  # small: 2, 2, 13, 8


class Model(nn.Module):
    def __init__(self, heads, length):
        super().__init__()
        place = torch.arange(length)
        slope = 2.0 ** (-8.0 * torch.arange(1, heads + 1) / heads)
        self.register_buffer("bias", -slope.view(-1, 1, 1) * (place.view(1, -1, 1) - place.view(1, 1, -1)).abs())

    def forward(self, query, key, value):
        scores = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5 + self.bias
        return torch.softmax(scores, dim=-1) @ value


def get_inputs():
    return [torch.randn(BATCH, HEADS, LENGTH, WIDTH) for _ in range(3)]


def get_init_inputs():
    return [HEADS, LENGTH]
