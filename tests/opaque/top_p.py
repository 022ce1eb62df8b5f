"""Probabilities of the likeliest tokens that make up a share p, row by row, in half precision inside and out."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, logits, p):
        result = torch.zeros_like(logits)
        for row in range(logits.shape[0]):
            values, order = logits[row].softmax(-1).sort(descending=True)
            count = int((values.cumsum(0) < p[row]).sum()) + 1
            result[row, order[:count]] = values[:count] / values[:count].sum()
        return result


def get_inputs():
    return [torch.randn(16, 200) * 3, torch.rand(16) * 0.5 + 0.3]


def get_init_inputs():
    return []


class Together(Model):
    def forward(self, logits, p):
        values, order = logits.softmax(-1).sort(-1, descending=True)
        keep = torch.cat([torch.ones_like(order[:, :1], dtype=torch.bool), (values.cumsum(-1) < p[:, None])[:, :-1]], -1)
        total = torch.where(keep, values, 0).sum(-1, keepdim=True)
        return torch.zeros_like(logits).scatter(-1, order, torch.where(keep, values / total, 0))


class InDouble(Model):
    def forward(self, logits, p):
        return Together.forward(self, logits.double(), p.double()).float()


class OneLess(Model):
    def forward(self, logits, p):
        return super().forward(logits, p - 0.05)


class NotScaledAgain(Model):
    def forward(self, logits, p):
        return torch.where(super().forward(logits, p) > 0, logits.softmax(-1), 0)


class LastRowWhole(Model):
    def forward(self, logits, p):
        return super().forward(logits, torch.cat([p[:-1], torch.ones(1)]))


RIGHT = [Together, InDouble]
WRONG = [OneLess, NotScaledAgain, LastRowWhole]
