"""A transposed 3×3×3 convolution of volumes with odd sides."""

import torch
import torch.nn as nn

BATCH, INPUTS, OUTPUTS, DEPTH, HEIGHT, WIDTH = 4, 24, 12, 17, 45, 51  # small: 1, 4, 3, 5, 7, 9


class Model(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv = nn.ConvTranspose3d(inputs, outputs, 3, stride=2, padding=1, output_padding=1)

    def forward(self, x):
        return torch.sigmoid(self.conv(x))


def get_inputs():
    return [torch.randn(BATCH, INPUTS, DEPTH, HEIGHT, WIDTH)]


def get_init_inputs():
    return [INPUTS, OUTPUTS]
