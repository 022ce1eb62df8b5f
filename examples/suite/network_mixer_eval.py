"""A block that mixes tokens, then channels, each with a small network between norm and residual. Evaluation."""

import torch
import torch.nn as nn

BATCH, TOKENS, WIDTH = 128, 196, 768  # small: 2, 9, 24


class Mix(nn.Sequential):
    def __init__(self, width, wide):
        super().__init__(nn.Linear(width, wide), nn.GELU(), nn.Linear(wide, width))


class Model(nn.Module):
    def __init__(self, tokens, width):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.tokens, self.channels = Mix(tokens, 2 * tokens), Mix(width, 4 * width)
        self.to(torch.bfloat16).eval()

    def forward(self, x):
        x = x + self.tokens(self.first(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.second(x))


def get_inputs():
    return [torch.randn(BATCH, TOKENS, WIDTH, dtype=torch.bfloat16)]


def get_init_inputs():
    return [TOKENS, WIDTH]
