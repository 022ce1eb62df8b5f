"""Rows standardised by their own mean and unbiased variance, then an affine map. 40 MB, odd length."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, gain):
        mean = x.mean(dim=-1, keepdim=True)
        variance = x.var(dim=-1, keepdim=True)
        return (x - mean) / torch.sqrt(variance + 1e-5) * gain


def get_inputs():
    return [torch.randn(400, 25001) + 3, torch.rand(25001)]


def get_init_inputs():
    return []
