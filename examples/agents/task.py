"""A small task for the CPU: what examples/agents/session.py works on."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(x * self.scale + x * x) * x


def get_inputs() -> list[torch.Tensor]:
    return [torch.randn(512, 1024)]


def get_init_inputs() -> list[int]:
    return [1024]
