"""Batch norm in training (the running statistics move), then ReLU. 2.1 GB in, 2.1 GB out."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x):
        return torch.relu(self.norm(x))


def get_inputs():
    return [torch.randn(32, 64, 512, 512) * 2 + 1]


def get_init_inputs():
    return [64]
