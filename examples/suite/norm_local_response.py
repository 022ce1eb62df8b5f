"""Local response norm over five neighbouring channels."""

import torch
import torch.nn as nn

BATCH, CHANNELS, SIDE = 32, 96, 128  # small: 2, 9, 10


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LocalResponseNorm(5, alpha=0.5, beta=0.75, k=1.0)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIDE, SIDE)]


def get_init_inputs():
    return []
