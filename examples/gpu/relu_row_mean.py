"""A ReLU, and how strong each row of it is on average. bfloat16. 4.3 GB in, 4.3 GB out."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(width, dtype=torch.bfloat16))

    def forward(self, x):
        y = torch.relu(x + self.bias)
        return y, y.mean(1)


def get_inputs():
    return [torch.randn(262144, 8192, dtype=torch.bfloat16)]


def get_init_inputs():
    return [8192]
