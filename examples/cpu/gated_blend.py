"""A gated unit as it is often written: nine operators over the same 8 MiB, of which eager makes a pass each. What is gained is
the passes that are not made, and exponentials computed several at a time."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(width))
        self.scale = nn.Parameter(torch.rand(width))

    def forward(self, x, gate):
        opened = torch.sigmoid(gate + self.bias)
        squashed = torch.tanh(x * self.scale)
        mixed = opened * squashed + (1 - opened) * x
        return torch.clamp(mixed, -3.0, 3.0)


def get_inputs():
    return [torch.randn(1024, 2048), torch.randn(1024, 2048)]


def get_init_inputs():
    return [2048]
