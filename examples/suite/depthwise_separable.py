"""A depthwise 3×3 convolution, ReLU6, and a 1×1 convolution to fewer channels."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, INPUTS, OUTPUTS, SIDE = 32, 144, 48, 112  # small: 2, 6, 4, 9


class Model(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.depthwise = nn.Conv2d(inputs, inputs, 3, padding=1, groups=inputs)
        self.pointwise = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x):
        return self.pointwise(F.relu6(self.depthwise(x)))


def get_inputs():
    return [torch.randn(BATCH, INPUTS, SIDE, SIDE)]


def get_init_inputs():
    return [INPUTS, OUTPUTS]
