"""The best class of every pixel, and its score. 64 MB."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, logits):
        score, label = logits.max(dim=1)
        return score, label


def get_inputs():
    return [torch.randn(4, 20, 448, 448)]


def get_init_inputs():
    return []
