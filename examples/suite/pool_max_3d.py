"""Maxima of 2×3×3 boxes of volumes."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, CHANNELS, DEPTH, SIDE = 8, 48, 32, 128  # small: 2, 3, 6, 14


class Model(nn.Module):
    def forward(self, x):
        return F.max_pool3d(x, (2, 3, 3))


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, DEPTH, SIDE, SIDE)]


def get_init_inputs():
    return []
