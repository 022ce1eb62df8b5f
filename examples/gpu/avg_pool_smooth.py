"""A 3×3 mean around each place that leaves the padding out, and what differs from it. 3.2 GB in, 3.2 GB out."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def forward(self, x):
        return x - F.avg_pool2d(x, 3, stride=1, padding=1, count_include_pad=False)


def get_inputs():
    return [torch.randn(48, 64, 512, 512)]


def get_init_inputs():
    return []
