"""Sines and cosines of diffusion times at many frequencies. 4096 × 256 out, 4 MB, four kernels in eager."""

import math

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        half = width // 2
        self.register_buffer("frequency", torch.exp(-math.log(10000.0) * torch.arange(half) / half))

    def forward(self, t):
        angle = t[:, None] * self.frequency[None, :]
        return torch.cat([torch.cos(angle), torch.sin(angle)], dim=-1)


def get_inputs():
    return [torch.rand(4096) * 1000]


def get_init_inputs():
    return [256]
