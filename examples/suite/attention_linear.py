"""Attention without softmax: positive features of queries and keys, so that keys and values are multiplied first."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, HEADS, LENGTH, WIDTH = 8, 16, 8192, 64  # small: 2, 2, 21, 8


class Model(nn.Module):
    def forward(self, query, key, value):
        query, key = F.elu(query) + 1, F.elu(key) + 1
        mixed = query @ (key.transpose(-2, -1) @ value)
        return mixed / (query @ key.sum(dim=-2).unsqueeze(-1))


def get_inputs():
    return [torch.randn(BATCH, HEADS, LENGTH, WIDTH) for _ in range(3)]


def get_init_inputs():
    return []
