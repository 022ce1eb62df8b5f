"""One step of Adam with decoupled decay on four matrices: new weights and new moments of each. One kernel a matrix as the data go, or one for all. fp32,
4 × 1 MB, 14 kernels a matrix in eager."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, rate):
        super().__init__()
        self.rate = rate

    def forward(self, weights, gradients, first, second):
        out = []
        for w, g, m, v in zip(weights, gradients, first, second, strict=True):
            m = 0.9 * m + 0.1 * g
            v = 0.999 * v + 0.001 * g * g
            out.append((w * (1 - 0.01 * self.rate) - self.rate * m / (v.sqrt() + 1e-8), m, v))
        return out


def get_inputs():
    def four(make):
        return [make(512, 512) for _ in range(4)]

    return [four(torch.randn), four(torch.randn), four(torch.randn), four(torch.rand)]


def get_init_inputs():
    return [1e-3]
