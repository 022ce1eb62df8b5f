"""Every image scaled to 0 … 1 by its own extremes: rows of 786,432. 3.2 GB in, 3.2 GB out."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        low = x.amin(dim=(1, 2, 3), keepdim=True)
        high = x.amax(dim=(1, 2, 3), keepdim=True)
        return (x - low) / (high - low + 1e-6)


def get_inputs():
    return [torch.randn(1024, 3, 512, 512)]


def get_init_inputs():
    return []
