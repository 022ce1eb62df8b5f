"""The mean hinge loss of predictions against labels of -1 and 1. 8.6 GB."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, prediction, label):
        return torch.mean(torch.clamp(1 - prediction * label, min=0))


def get_inputs():
    return [torch.randn(32768, 32768), torch.randint(0, 2, (32768, 32768)).float() * 2 - 1]


def get_init_inputs():
    return []
