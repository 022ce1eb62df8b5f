"""Instance norm of volumes, with an affine map for each channel."""

import torch
import torch.nn as nn

BATCH, CHANNELS, DEPTH, SIDE = 8, 32, 64, 128  # small: 2, 3, 4, 9


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.InstanceNorm3d(channels, affine=True)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, DEPTH, SIDE, SIDE) + 0.5]


def get_init_inputs():
    return [CHANNELS]
