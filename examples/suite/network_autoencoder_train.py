"""A small autoencoder of rows with batch norms in training."""

import torch
import torch.nn as nn

ROWS, WIDTH, CODE = 32768, 784, 32  # small: 12, 40, 6


class Model(nn.Module):
    def __init__(self, width, code):
        super().__init__()
        middle = width // 2
        self.encode = nn.Sequential(nn.Linear(width, middle), nn.BatchNorm1d(middle), nn.ReLU(), nn.Linear(middle, code))
        self.decode = nn.Sequential(nn.Linear(code, middle), nn.BatchNorm1d(middle), nn.ReLU(), nn.Linear(middle, width))

    def forward(self, x):
        code = self.encode(x)
        return torch.sigmoid(self.decode(code)), code


def get_inputs():
    return [torch.rand(ROWS, WIDTH)]


def get_init_inputs():
    return [WIDTH, CODE]
