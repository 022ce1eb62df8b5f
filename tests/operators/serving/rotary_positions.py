"""Rotary embedding of queries and keys at given positions, from one table of cosines and sines, on a part of each head."""

import torch
from torch import nn

TOKENS, HEADS, KEYS, SIZE, ROTARY, LONGEST = 12, 8, 2, 64, 32, 128


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        angle = torch.arange(LONGEST).float()[:, None] * 10000 ** (-torch.arange(0, ROTARY, 2).float() / ROTARY)
        self.register_buffer("table", torch.cat((angle.cos(), angle.sin()), dim=-1))

    @staticmethod
    def turned(x, cos, sin):
        shape = x.shape
        x = x.view(shape[0], -1, SIZE)
        part, rest = x[..., :ROTARY], x[..., ROTARY:]
        a, b = part.chunk(2, dim=-1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin, rest), dim=-1).reshape(shape)

    def forward(self, positions, query, key):
        cos, sin = self.table.index_select(0, positions.flatten()).unsqueeze(-2).chunk(2, dim=-1)
        return self.turned(query, cos, sin), self.turned(key, cos, sin)


def get_inputs():
    return [torch.randint(0, LONGEST, (TOKENS,)), torch.randn(TOKENS, HEADS * SIZE), torch.randn(TOKENS, KEYS * SIZE)]
