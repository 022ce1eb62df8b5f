"""A product of 8-bit values with a scale that Python takes from the data, and bits of a type asked for."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(48, 64) / 8)

    def quantise(self, x):
        scale = x.abs().max().item() / torch.finfo(torch.float8_e4m3fn).max
        return (x / max(scale, 1e-12)).to(torch.float8_e4m3fn), max(scale, 1e-12)

    def forward(self, x):
        a, s = self.quantise(x)
        b, t = self.quantise(self.weight)
        y = (a.to(x.dtype) @ b.to(x.dtype).t()) * (s * t)
        return y.clamp(torch.finfo(y.dtype).min, torch.finfo(y.dtype).max)


def get_inputs():
    return [torch.randn(40, 64)]


def get_init_inputs():
    return []


class ScaleAfter(Model):
    def forward(self, x):
        a, s = self.quantise(x)
        b, t = self.quantise(self.weight)
        return (a.double() @ b.double().t()).mul(s * t).float()


class Blocked(Model):
    def forward(self, x):
        a, s = self.quantise(x)
        b, t = self.quantise(self.weight)
        y = sum(a[:, k : k + 16].float() @ b[:, k : k + 16].float().t() for k in range(0, 64, 16))
        return y * (s * t)


class NotQuantised(Model):
    def forward(self, x):
        return x @ self.weight.t()


class OtherType(Model):
    def quantise(self, x):
        scale = max(x.abs().max().item() / torch.finfo(torch.float8_e5m2).max, 1e-12)
        return (x / scale).to(torch.float8_e5m2), scale


class HalfSums(Model):
    def forward(self, x):
        a, s = self.quantise(x)
        b, t = self.quantise(self.weight)
        y = sum((a[:, k : k + 16].float() @ b[:, k : k + 16].float().t()).bfloat16() for k in range(0, 64, 16))
        return y.float() * (s * t)


RIGHT = [ScaleAfter, Blocked]
WRONG = [NotQuantised, OtherType, HalfSums]
