"""Three linear layers with ReLU between them, the last one narrow."""

import torch
import torch.nn as nn

TOKENS, WIDTH, NARROW = 16384, 4096, 1024  # small: 11, 48, 24


class Model(nn.Module):
    def __init__(self, width, narrow):
        super().__init__()
        self.first = nn.Linear(width, width, dtype=torch.float16)
        self.second = nn.Linear(width, width, dtype=torch.float16)
        self.third = nn.Linear(width, narrow, dtype=torch.float16)

    def forward(self, x):
        return self.third(torch.relu(self.second(torch.relu(self.first(x)))))


def get_inputs():
    return [torch.randn(TOKENS, WIDTH, dtype=torch.float16)]


def get_init_inputs():
    return [WIDTH, NARROW]
