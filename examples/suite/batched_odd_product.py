"""Products of a batch of matrices whose sizes are all odd, then ReLU."""

import torch
import torch.nn as nn

BATCH, ROWS, INNER, COLUMNS = 1333, 257, 129, 511  # small: 3, 13, 9, 21


class Model(nn.Module):
    def forward(self, a, b):
        return torch.relu(torch.bmm(a, b))


def get_inputs():
    return [torch.randn(BATCH, ROWS, INNER, dtype=torch.bfloat16), torch.randn(BATCH, INNER, COLUMNS, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
