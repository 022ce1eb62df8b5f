"""The first layer of a transformer: token rows plus positions, layer-normalised. 32 MiB of token rows."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, vocab, length, width):
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.positions = nn.Parameter(torch.randn(length, width))
        self.norm = nn.LayerNorm(width)

    def forward(self, ids):
        return self.norm(self.tokens(ids) + self.positions)


def get_inputs():
    return [torch.randint(0, 8000, (16, 512))]


def get_init_inputs():
    return [8000, 512, 1024]
