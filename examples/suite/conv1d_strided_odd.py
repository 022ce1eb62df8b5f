"""A strided convolution of spectrogram frames. Odd sizes."""

import torch
import torch.nn as nn

BATCH, BANDS, CHANNELS, LENGTH = 33, 81, 511, 9001  # small: 2, 5, 7, 61


class Model(nn.Module):
    def __init__(self, bands, channels):
        super().__init__()
        self.conv = nn.Conv1d(bands, channels, 7, stride=3)

    def forward(self, x):
        return torch.relu(self.conv(x))


def get_inputs():
    return [torch.randn(BATCH, BANDS, LENGTH)]


def get_init_inputs():
    return [BANDS, CHANNELS]
