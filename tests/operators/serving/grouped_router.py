"""A router that first picks groups of experts, then experts in them, by scores with a bias that weights do not have (DeepSeek-V3)."""

import torch
from torch import nn

TOKENS, WIDTH, EXPERTS, GROUPS, KEPT, PICKED = 24, 32, 32, 8, 4, 6


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(EXPERTS, WIDTH) * 0.2)
        self.bias = nn.Parameter(torch.randn(EXPERTS) * 0.1)

    def forward(self, x):
        scores = nn.functional.linear(x.float(), self.weight.float()).sigmoid()
        biased = (scores + self.bias).view(-1, GROUPS, EXPERTS // GROUPS)
        of_groups = biased.topk(2, dim=-1)[0].sum(-1)
        groups = of_groups.topk(KEPT, dim=-1, sorted=False)[1]
        mask = torch.zeros_like(of_groups).scatter_(1, groups, 1)
        allowed = mask.unsqueeze(-1).expand_as(biased).reshape(x.shape[0], EXPERTS).bool()
        picked = biased.flatten(1).masked_fill(~allowed, float("-inf")).topk(PICKED, dim=-1)[1]
        weights = scores.gather(1, picked)
        return weights / (weights.sum(-1, keepdim=True) + 1e-20) * 2.5, picked


def get_inputs():
    return [torch.randn(TOKENS, WIDTH)]
