"""Features to zero mean and unit deviation over the batch, outliers clipped. 2 MB, six kernels in eager."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, eps):
        super().__init__()
        self.eps = eps

    def forward(self, x):
        mean = x.mean(dim=0, keepdim=True)
        deviation = x.std(dim=0, keepdim=True)
        return ((x - mean) / (deviation + self.eps)).clamp(-5.0, 5.0)


def get_inputs():
    return [torch.randn(2048, 256) * 3 + 1]


def get_init_inputs():
    return [1e-5]
