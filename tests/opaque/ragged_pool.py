"""Means and maxima over parts whose lengths lie in a tensor that the generator draws: the sizes of the inputs differ from call to call."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(24)

    def forward(self, x, lengths):
        x = self.norm(x)
        return torch.stack([torch.cat([part.mean(0), part.amax(0)]) for part in x.split(lengths.tolist())])


def get_inputs():
    lengths = torch.randint(1, 30, (12,))
    return [torch.randn(int(lengths.sum()), 24), lengths]


def get_init_inputs():
    return []


class Reduced(Model):
    def forward(self, x, lengths):
        x = self.norm(x)
        segment = torch.repeat_interleave(torch.arange(len(lengths)), lengths)
        zeros = torch.zeros(len(lengths), x.shape[1])
        total = zeros.index_add(0, segment, x) / lengths[:, None]
        return torch.cat([total, zeros.scatter_reduce(0, segment[:, None].expand(x.shape), x, "amax", include_self=False)], 1)


class Running(Model):
    def forward(self, x, lengths):
        x = self.norm(x)
        ends = lengths.cumsum(0).tolist()
        starts = [0, *ends[:-1]]
        return torch.stack([torch.cat([x[a:b].double().mean(0).float(), x[a:b].amax(0)]) for a, b in zip(starts, ends, strict=True)])


class LastPartShort(Running):
    def forward(self, x, lengths):
        less = lengths.clone()
        less[-1] = (less[-1] - 1).clamp_min(1)
        return super().forward(x, less)


class MaximumFromZero(Reduced):
    def forward(self, x, lengths):
        found = super().forward(x, lengths)
        return torch.cat([found[:, :24], found[:, 24:].clamp_min(0)], 1)


class MeanOverLongest(Reduced):
    def forward(self, x, lengths):
        found = super().forward(x, lengths)
        return torch.cat([found[:, :24] * lengths[:, None] / lengths.max(), found[:, 24:]], 1)


RIGHT = [Reduced, Running]
WRONG = [LastPartShort, MaximumFromZero, MeanOverLongest]
