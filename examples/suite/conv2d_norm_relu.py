"""A 3×3 convolution, batch norm in evaluation, ReLU."""

import torch
import torch.nn as nn

BATCH, INPUTS, OUTPUTS, SIDE = 64, 64, 128, 112  # small: 2, 4, 8, 11


class Model(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False, dtype=torch.float16)
        self.norm = nn.BatchNorm2d(outputs, dtype=torch.float16).eval()

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x)))


def get_inputs():
    return [torch.randn(BATCH, INPUTS, SIDE, SIDE, dtype=torch.float16)]


def get_init_inputs():
    return [INPUTS, OUTPUTS]
