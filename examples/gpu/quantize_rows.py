"""Rows of bfloat16 quantised to int8 by their largest magnitude. 4.3 GB in, 2.1 GB out."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        scale = x.float().abs().amax(dim=-1, keepdim=True) / 127.0
        scale = scale.clamp_min(1e-8)
        return torch.round(x.float() / scale).clamp(-127, 127).to(torch.int8), scale


def get_inputs():
    return [torch.randn(262144, 8192, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
