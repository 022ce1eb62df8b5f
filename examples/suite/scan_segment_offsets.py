"""Where each segment starts, from the segments' lengths: an exclusive running sum of integers."""

import torch
import torch.nn as nn

ROWS, WIDTH = 2048, 65536  # small: 5, 129


class Model(nn.Module):
    def forward(self, lengths):
        return torch.cumsum(lengths, dim=-1, dtype=torch.int64) - lengths


def get_inputs():
    return [torch.randint(0, 9, (ROWS, WIDTH), dtype=torch.int32)]


def get_init_inputs():
    return []
