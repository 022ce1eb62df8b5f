"""Maps of any size to 7×7 means, one after the other in a row."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, CHANNELS, SIDE = 128, 512, 49  # small: 2, 4, 49


class Model(nn.Module):
    def forward(self, x):
        return torch.flatten(F.adaptive_avg_pool2d(x, 7), 1)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIDE, SIDE)]


def get_init_inputs():
    return []
