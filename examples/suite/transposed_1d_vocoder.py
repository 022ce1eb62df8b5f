"""A transposed convolution that makes signals eight times as long, then leaky ReLU."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, INPUTS, OUTPUTS, LENGTH = 16, 128, 64, 8192  # small: 2, 6, 4, 20


class Model(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv = nn.ConvTranspose1d(inputs, outputs, 16, stride=8, padding=4)

    def forward(self, x):
        return F.leaky_relu(self.conv(x), 0.1)


def get_inputs():
    return [torch.randn(BATCH, INPUTS, LENGTH)]


def get_init_inputs():
    return [INPUTS, OUTPUTS]
