"""A depthwise convolution over 31 frames and SiLU, as speech models have it. Odd sizes."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, CHANNELS, LENGTH = 33, 257, 8001  # small: 2, 5, 45


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv1d(channels, channels, 31, padding=15, groups=channels)

    def forward(self, x):
        return F.silu(self.conv(x))


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, LENGTH)]


def get_init_inputs():
    return [CHANNELS]
