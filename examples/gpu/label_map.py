"""The best class of every pixel, and its score. 5.6 GB."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, logits):
        score, label = logits.max(dim=1)
        return score, label


def get_inputs():
    return [torch.randn(64, 21, 1024, 1024)]


def get_init_inputs():
    return []
