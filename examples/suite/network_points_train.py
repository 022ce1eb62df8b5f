"""A network at each point of a cloud, batch norm in training, and the maximum over the points. An odd number of points."""

import torch
import torch.nn as nn

CLOUDS, POINTS, WIDTH = 32, 19997, 256  # small: 2, 41, 12


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.first_norm = nn.Conv1d(3, width // 4, 1), nn.BatchNorm1d(width // 4)
        self.second, self.second_norm = nn.Conv1d(width // 4, width, 1), nn.BatchNorm1d(width)

    def forward(self, points):
        x = torch.relu(self.first_norm(self.first(points)))
        return self.second_norm(self.second(x)).amax(dim=-1)


def get_inputs():
    return [torch.randn(CLOUDS, 3, POINTS)]


def get_init_inputs():
    return [WIDTH]
