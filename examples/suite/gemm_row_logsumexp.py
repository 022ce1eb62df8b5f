"""A linear layer of which only the log of each row's sum of exponentials is kept."""

import torch
import torch.nn as nn

ROWS, WIDTH, CLASSES = 16384, 2048, 8192  # small: 10, 32, 60


class Model(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.head = nn.Linear(width, classes, dtype=torch.float16)

    def forward(self, x):
        return torch.logsumexp(self.head(x).float(), dim=-1)


def get_inputs():
    return [torch.randn(ROWS, WIDTH, dtype=torch.float16) * 3]


def get_init_inputs():
    return [WIDTH, CLASSES]
