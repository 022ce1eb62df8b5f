"""The end of a residual block at inference: batch norm, residual, ReLU. 3.2 MB, three kernels in eager."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels).eval()

    def forward(self, x, residual):
        return torch.relu(self.norm(x) + residual)


def get_inputs():
    return [torch.randn(4, 256, 28, 28), torch.randn(4, 256, 28, 28)]


def get_init_inputs():
    return [256]
