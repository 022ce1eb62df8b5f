"""RMS normalisation written by hand, in bfloat16 on the GPU. 2.1 GB in, 2.1 GB out."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = 1e-6

    def forward(self, x):
        scale = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.eps)
        return (x.float() * scale).to(x.dtype) * self.weight.to(x.dtype)


def get_inputs():
    return [torch.randn(131072, 8192, dtype=torch.bfloat16) * 3]


def get_init_inputs():
    return [8192]
