"""RMS norm over the channels of an image. 34 MB in, 34 MB out."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels, eps):
        super().__init__()
        self.eps = eps
        self.gain = nn.Parameter(torch.ones(channels, 1, 1))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(dim=1, keepdim=True) + self.eps) * self.gain


def get_inputs():
    return [torch.randn(8, 64, 128, 128)]


def get_init_inputs():
    return [64, 1e-5]
