"""Binary focal loss of a detector, averaged: 1 MB in, one number out, twenty-two kernels in eager."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, alpha, gamma):
        super().__init__()
        self.alpha, self.gamma = alpha, gamma

    def forward(self, logits, target):
        p = torch.sigmoid(logits)
        loss = torch.nn.functional.softplus(-logits) * target + torch.nn.functional.softplus(logits) * (1 - target)
        right = p * target + (1 - p) * (1 - target)
        weight = self.alpha * target + (1 - self.alpha) * (1 - target)
        return (weight * (1 - right) ** self.gamma * loss).mean()


def get_inputs():
    return [torch.randn(1600, 80), (torch.rand(1600, 80) < 0.1).float()]


def get_init_inputs():
    return [0.25, 2.0]
