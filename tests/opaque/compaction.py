"""What remains of a tensor where it is positive decides the sizes in between."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        kept = x[x > 0]
        shares = kept.softmax(0)
        result = torch.zeros_like(x)
        result[x > 0] = shares * kept.numel()
        return result, kept.mean()


def get_inputs():
    return [torch.randn(40, 50)]


def get_init_inputs():
    return []


class Masked(Model):
    def forward(self, x):
        keep = x > 0
        shares = x.masked_fill(~keep, -torch.inf).flatten().softmax(0).view(x.shape)
        return shares * keep.sum(), (x * keep).sum() / keep.sum()


class ByRows(Model):
    def forward(self, x):
        keep = x > 0
        top = x.max()
        e = torch.where(keep, (x - top).exp(), 0)
        return e / e.sum(-1).sum() * keep.sum(), x.clamp_min(0).sum(-1).sum() / keep.sum()


class MeanOfAll(Masked):
    def forward(self, x):
        result, _ = super().forward(x)
        return result, x.clamp_min(0).mean()


class CountsOneMore(Masked):
    def forward(self, x):
        result, mean = super().forward(x)
        count = (x > 0).sum()
        return result * (count + 1) / count, mean


class SmallDropped(Masked):
    def forward(self, x):
        result, mean = super().forward(x)
        return torch.where(x > 0.02, result, 0), mean


RIGHT = [Masked, ByRows]
WRONG = [MeanOfAll, CountsOneMore, SmallDropped]
