"""Queries and keys of an attention block, each normalised over its heads' features and rotated by position: two kernels of one size that share only the
tables. bfloat16, 2 × 4 MB."""

import torch
import torch.nn as nn


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Model(nn.Module):
    def __init__(self, tokens, features):
        super().__init__()
        self.query = nn.Parameter(torch.ones(features))
        self.key = nn.Parameter(torch.ones(features))
        angle = torch.arange(tokens)[:, None] * 10000 ** (-torch.arange(features // 2) * 2 / features)
        self.register_buffer("cos", angle.cos()[:, None])
        self.register_buffer("sin", angle.sin()[:, None])

    def norm(self, x, weight):
        wide = x.float()
        return wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6) * weight

    def forward(self, query, key):
        query = rotate(self.norm(query, self.query), self.cos, self.sin)
        key = rotate(self.norm(key, self.key), self.cos, self.sin)
        return query.bfloat16(), key.bfloat16()


def get_inputs():
    return [torch.randn(512, 32, 128).bfloat16(), torch.randn(512, 32, 128).bfloat16()]


def get_init_inputs():
    return [512, 128]
