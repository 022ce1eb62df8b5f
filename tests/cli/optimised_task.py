"""The small task that several tests optimise once, and what is kept of its run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from command import Home

#: Several operations that fuse, at a size where one call takes microseconds.
SMALL = """import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, width))
    def forward(self, x):
        return torch.sigmoid(torch.tanh(x) * self.scale + x * x) * x

def get_inputs():
    return [torch.randn(64, 96)]

def get_init_inputs():
    return [96]
"""


@dataclass
class Optimised:
    """A finished run: the command's home, its exit code and its result document."""

    home: Home
    code: int
    result: dict[str, Any]
    stderr: str

    @property
    def shipped(self) -> Path:
        return Path(self.result["shipped"])
