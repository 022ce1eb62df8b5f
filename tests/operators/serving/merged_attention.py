"""Two partial results of attention, over a shared prefix and over a sequence's own keys, as one: weighed by the logarithms of their sums."""

import torch
from torch import nn

TOKENS, HEADS, SIZE = 12, 8, 64


class Model(nn.Module):
    def forward(self, prefix, prefix_lse, suffix, suffix_lse):
        prefix_lse, suffix_lse = (torch.where(t == float("inf"), float("-inf"), t) for t in (prefix_lse, suffix_lse))
        most = torch.maximum(prefix_lse, suffix_lse)
        a, b = torch.exp(prefix_lse - most), torch.exp(suffix_lse - most)
        whole = a + b
        share_a, share_b = (a / whole).transpose(0, 1).unsqueeze(-1), (b / whole).transpose(0, 1).unsqueeze(-1)
        return prefix * share_a + suffix * share_b, torch.log(whole) + most


def get_inputs():
    return [torch.randn(TOKENS, HEADS, SIZE), torch.randn(HEADS, TOKENS), torch.randn(TOKENS, HEADS, SIZE), torch.randn(HEADS, TOKENS)]
