"""Attention's weights: scale, causal mask, softmax. 12 heads of 256 × 256, 3 MB, three kernels in eager."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, length, width):
        super().__init__()
        self.register_buffer("mask", torch.ones(length, length, dtype=torch.bool).triu(1))
        self.scale = width**-0.5

    def forward(self, scores):
        return torch.softmax((scores * self.scale).masked_fill(self.mask, float("-inf")), dim=-1)


def get_inputs():
    return [torch.randn(1, 12, 256, 256) * 8]


def get_init_inputs():
    return [256, 64]
