"""One step of momentum with look-ahead and weight decay: gradients in bfloat16, state in float32."""

import torch
import torch.nn as nn

COUNT = 100_000_000  # small: 5003


class Model(nn.Module):
    def forward(self, weight, momentum, gradient):
        slope = gradient.float() + 0.01 * weight
        momentum = 0.9 * momentum + slope
        return weight - 0.05 * (slope + 0.9 * momentum), momentum


def get_inputs():
    return [torch.randn(COUNT), torch.randn(COUNT), torch.randn(COUNT, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
