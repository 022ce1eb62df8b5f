"""Attention where a position looks at itself and the 31 before it. PyTorch computes all 2048 x 2048 scores of 64 heads and masks most: 1.1 GB of scores
for 134 MB of inputs and results."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, window: int) -> None:
        super().__init__()
        self.window = window

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
        place = torch.arange(query.shape[-2], device=query.device)
        back = place[:, None] - place[None, :]
        seen = (back >= 0) & (back < self.window)
        return torch.softmax(scores.masked_fill(~seen, float("-inf")), dim=-1) @ value


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(64, 2048, 64) for _ in range(3)]


def get_init_inputs() -> list[int]:
    return [32]
