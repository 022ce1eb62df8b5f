"""Mean, variance and skewness of every row. Odd sizes."""

import torch
import torch.nn as nn

ROWS, WIDTH = 20011, 6007  # small: 13, 301


class Model(nn.Module):
    def forward(self, x):
        mean = x.mean(dim=-1, keepdim=True)
        away = x - mean
        variance = away.square().mean(dim=-1)
        return mean.squeeze(-1), variance, away.pow(3).mean(dim=-1) / variance.pow(1.5)


def get_inputs():
    return [-torch.log(torch.rand(ROWS, WIDTH) + 1e-3)]


def get_init_inputs():
    return []
