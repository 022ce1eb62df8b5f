"""The first convolution of a video network: 3×5×5, every second place."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, INPUTS, OUTPUTS, FRAMES, SIDE = 8, 16, 64, 24, 112  # small: 1, 2, 4, 6, 13


class Model(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv = nn.Conv3d(inputs, outputs, (3, 5, 5), stride=2, padding=(1, 2, 2), dtype=torch.bfloat16)

    def forward(self, x):
        return F.hardswish(self.conv(x))


def get_inputs():
    return [torch.randn(BATCH, INPUTS, FRAMES, SIDE, SIDE, dtype=torch.bfloat16)]


def get_init_inputs():
    return [INPUTS, OUTPUTS]
