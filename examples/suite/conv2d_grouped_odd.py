"""A grouped 5×3 convolution with different strides, of maps with odd sides."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, CHANNELS, HEIGHT, WIDTH = 64, 60, 243, 311  # small: 2, 8, 15, 13


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, 2 * channels, (5, 3), stride=(2, 1), padding=(2, 1), groups=4)

    def forward(self, x):
        return F.leaky_relu(self.conv(x), 0.2)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [CHANNELS]
