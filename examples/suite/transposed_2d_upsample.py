"""A transposed 4×4 convolution that doubles the sides of a map, then ReLU."""

import torch
import torch.nn as nn

BATCH, INPUTS, OUTPUTS, SIDE = 32, 256, 128, 48  # small: 2, 6, 4, 7


class Model(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv = nn.ConvTranspose2d(inputs, outputs, 4, stride=2, padding=1, dtype=torch.bfloat16)

    def forward(self, x):
        return torch.relu(self.conv(x))


def get_inputs():
    return [torch.randn(BATCH, INPUTS, SIDE, SIDE, dtype=torch.bfloat16)]


def get_init_inputs():
    return [INPUTS, OUTPUTS]
