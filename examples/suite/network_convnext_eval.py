"""A block with a wide depthwise window, layer norm of channels, and a small network at each place. Evaluation."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, CHANNELS, SIDE = 32, 192, 56  # small: 2, 8, 9


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels)
        self.up, self.down = nn.Linear(channels, 4 * channels), nn.Linear(4 * channels, channels)
        self.scale = nn.Parameter(torch.rand(channels))
        self.half().eval()

    def forward(self, x):
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.scale * self.down(F.gelu(self.up(y)))
        return x + y.permute(0, 3, 1, 2)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIDE, SIDE, dtype=torch.float16)]


def get_init_inputs():
    return [CHANNELS]
