"""Per-channel scale and shift, SiLU gate and clamp over feature maps. 64 MiB."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, gain, shift):
        y = x * (1 + gain[:, :, None, None]) + shift[:, :, None, None]
        return torch.clamp(y * torch.sigmoid(y), -1.0, 6.0) + x


def get_inputs():
    return [torch.randn(16, 64, 128, 128), torch.randn(16, 64), torch.randn(16, 64)]


def get_init_inputs():
    return []
