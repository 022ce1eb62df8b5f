"""Huber loss of a regression with a weight for each sample. 2 MB in, one number out, six kernels in eager."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, delta):
        super().__init__()
        self.delta = delta

    def forward(self, prediction, target, weight):
        loss = torch.nn.functional.huber_loss(prediction, target, reduction="none", delta=self.delta)
        return (loss.mean(dim=-1) * weight).sum() / weight.sum()


def get_inputs():
    return [torch.randn(4096, 64), torch.randn(4096, 64), torch.rand(4096) + 0.1]


def get_init_inputs():
    return [0.7]
