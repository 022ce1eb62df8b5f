"""Images' queries over texts' keys, of which a mask hides the padding. Odd lengths."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, HEADS, QUERIES, KEYS, WIDTH = 64, 20, 1023, 77, 64  # small: 2, 2, 13, 7, 8


class Model(nn.Module):
    def forward(self, query, key, value, there):
        return F.scaled_dot_product_attention(query, key, value, attn_mask=there)


def get_inputs():
    query = torch.randn(BATCH, HEADS, QUERIES, WIDTH, dtype=torch.bfloat16)
    key, value = (torch.randn(BATCH, HEADS, KEYS, WIDTH, dtype=torch.bfloat16) for _ in range(2))
    length = torch.randint(1, KEYS + 1, (BATCH, 1, 1, 1))
    return [query, key, value, torch.arange(KEYS).view(1, 1, 1, -1) < length]


def get_init_inputs():
    return []
