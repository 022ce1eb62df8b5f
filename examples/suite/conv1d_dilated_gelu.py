"""A dilated convolution of sequences, then GELU, as temporal networks have it."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, CHANNELS, LENGTH = 32, 256, 8192  # small: 2, 8, 50


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv1d(channels, channels, 5, padding=8, dilation=4, dtype=torch.bfloat16)

    def forward(self, x):
        return F.gelu(self.conv(x))


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, LENGTH, dtype=torch.bfloat16)]


def get_init_inputs():
    return [CHANNELS]
