"""Distance of pairs of vectors, by the sum of their lengths. 4 MB in, thirteen kernels in eager."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        apart = (a - b).square().sum(dim=-1).sqrt()
        return apart / (a.square().sum(dim=-1).sqrt() + b.square().sum(dim=-1).sqrt() + 1e-6)


def get_inputs():
    return [torch.randn(2048, 256), torch.randn(2048, 256)]


def get_init_inputs():
    return []
