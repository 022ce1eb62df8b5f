"""What each step of an episode will still earn, later rewards counting less."""

import torch
import torch.nn as nn

EPISODES, LENGTH = 131072, 512  # small: 11, 40


class Model(nn.Module):
    def __init__(self, length):
        super().__init__()
        self.register_buffer("discount", 0.99 ** torch.arange(length).float())

    def forward(self, reward):
        later = torch.cumsum((reward * self.discount).flip(-1), dim=-1).flip(-1)
        return later / self.discount


def get_inputs():
    return [torch.rand(EPISODES, LENGTH)]


def get_init_inputs():
    return [LENGTH]
