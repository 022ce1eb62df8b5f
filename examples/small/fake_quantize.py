"""Quantise every row to eight bits and back, as training for quantised inference does. 4 MB, eight kernels in eager."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        scale = x.abs().amax(dim=-1, keepdim=True).clamp(min=1e-8) / 127.0
        return torch.clamp(torch.round(x / scale), -128.0, 127.0) * scale


def get_inputs():
    return [torch.randn(1024, 1024)]


def get_init_inputs():
    return []
