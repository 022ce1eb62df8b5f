"""A product for each pair of matrices of a batch, scaled, and a bias for each batch."""

import torch
import torch.nn as nn

BATCH, ROWS, INNER, COLUMNS = 512, 1024, 512, 512  # small: 3, 17, 24, 16


class Model(nn.Module):
    def forward(self, a, b, bias):
        return torch.baddbmm(bias, a, b, alpha=0.125)


def get_inputs():
    a = torch.randn(BATCH, ROWS, INNER, dtype=torch.bfloat16)
    b = torch.randn(BATCH, INNER, COLUMNS, dtype=torch.bfloat16)
    return [a, b, torch.randn(BATCH, 1, COLUMNS, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
