"""An inverted bottleneck: expansion, depthwise convolution, a gate for each channel, projection, residual. Evaluation."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, CHANNELS, SIDE = 64, 40, 56  # small: 2, 4, 9


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        wide = 6 * channels
        self.expand, self.expand_norm = nn.Conv2d(channels, wide, 1, bias=False), nn.BatchNorm2d(wide)
        self.depthwise, self.depthwise_norm = nn.Conv2d(wide, wide, 5, padding=2, groups=wide, bias=False), nn.BatchNorm2d(wide)
        self.squeeze, self.excite = nn.Conv2d(wide, channels // 4, 1), nn.Conv2d(channels // 4, wide, 1)
        self.project, self.project_norm = nn.Conv2d(wide, channels, 1, bias=False), nn.BatchNorm2d(channels)
        self.eval()

    def forward(self, x):
        y = F.silu(self.expand_norm(self.expand(x)))
        y = F.silu(self.depthwise_norm(self.depthwise(y)))
        gate = torch.sigmoid(self.excite(F.silu(self.squeeze(y.mean(dim=(2, 3), keepdim=True)))))
        return x + self.project_norm(self.project(y * gate))


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIDE, SIDE)]


def get_init_inputs():
    return [CHANNELS]
