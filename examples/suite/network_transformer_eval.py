"""A transformer block: norm, attention of eight heads, norm, feed-forward. Evaluation."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, LENGTH, WIDTH = 16, 512, 512  # small: 2, 11, 32


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.eval()

    def forward(self, x):
        batch, length, width = x.shape
        heads = self.project(self.first(x)).view(batch, length, 3, 8, width // 8).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(heads[0], heads[1], heads[2], is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.second(x))))


def get_inputs():
    return [torch.randn(BATCH, LENGTH, WIDTH)]


def get_init_inputs():
    return [WIDTH]
