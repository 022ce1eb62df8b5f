"""A product with a matrix that is made sparse on the way: no graph has a form for it."""

import torch
from torch import nn


class Model(nn.Module):
    """The large entries of a matrix, times another."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        kept = torch.where(x.abs() > 1, x, 0.0).to_sparse()
        return (kept * 0.5) @ y


def get_inputs():
    return [torch.randn(48, 64), torch.randn(64, 32)]


class Compressed(nn.Module):
    def forward(self, x, y):
        return (torch.where(x.abs() > 1, x, 0.0).to_sparse_csr() @ y) * 0.5


class FewerDigits(nn.Module):
    def forward(self, x, y):
        return ((torch.where(x.abs() > 1, x, 0.0) * 0.5).bfloat16() @ y.bfloat16()).float()


class AllEntries(nn.Module):
    def forward(self, x, y):
        return (x * 0.5) @ y


#: A dense product is none of them: it makes NaN of a zero times an infinity, which a sparse one leaves out.
RIGHT = [Compressed]
WRONG = [FewerDigits, AllEntries]
