"""One level of a U-shaped network: down, up again, and what was there before beside it. Evaluation."""

import torch
import torch.nn as nn

BATCH, CHANNELS, SIDE = 16, 64, 128  # small: 1, 4, 12


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.enter = nn.Conv2d(channels, channels, 3, padding=1)
        self.down = nn.Conv2d(channels, 2 * channels, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(2 * channels, channels, 2, stride=2)
        self.leave = nn.Conv2d(2 * channels, channels, 3, padding=1)
        self.to(torch.bfloat16).eval()

    def forward(self, x):
        before = torch.relu(self.enter(x))
        after = torch.relu(self.up(torch.relu(self.down(before))))
        return torch.relu(self.leave(torch.cat((before, after), dim=1)))


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIDE, SIDE, dtype=torch.bfloat16)]


def get_init_inputs():
    return [CHANNELS]
