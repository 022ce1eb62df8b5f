"""The running product of each row. 4.3 GB in, 4.3 GB out."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.cumprod(x, dim=1)


def get_inputs():
    return [1 + 0.01 * torch.randn(32768, 32768)]


def get_init_inputs():
    return []
