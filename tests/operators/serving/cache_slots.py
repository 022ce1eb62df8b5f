"""New keys and values into the places of a paged cache that a table of slots names, in 8 bits with a scale for each head."""

import torch
from torch import nn

BLOCKS, PAGE, HEADS, SIZE, TOKENS = 6, 4, 2, 32, 5


class Model(nn.Module):
    def forward(self, key, value, keys, values, slots, scale):
        page, place = slots // PAGE, slots % PAGE
        for new, cache in ((key, keys), (value, values)):
            codes = (new / scale[:, None]).round().clamp(-128, 127).to(torch.int8)
            cache[page, place] = codes
        return keys[page[0]].float() * scale[:, None]


def get_inputs():
    return [
        torch.randn(TOKENS, HEADS, SIZE),
        torch.randn(TOKENS, HEADS, SIZE),
        torch.randint(-128, 128, (BLOCKS, PAGE, HEADS, SIZE), dtype=torch.int8),
        torch.randint(-128, 128, (BLOCKS, PAGE, HEADS, SIZE), dtype=torch.int8),
        torch.randperm(BLOCKS * PAGE)[:TOKENS],
        torch.rand(HEADS) * 0.02 + 0.01,
    ]
