"""11×11 means side by side. 6.1 GB in."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x):
        return F.avg_pool2d(x, 11)


def get_inputs():
    return [torch.randn(16, 64, 1221, 1221)]


def get_init_inputs():
    return []
