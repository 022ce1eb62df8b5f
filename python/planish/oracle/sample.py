"""What is told of a tensor's values from some of them."""

from __future__ import annotations

import torch

#: So many different values at most are labels or a mask, not data.
FEW = 4
_SAMPLE = 1 << 14


def sample(tensor: torch.Tensor) -> torch.Tensor:
    """About 16 thousand elements, evenly spread, one-dimensional; all of a smaller tensor."""
    flat = tensor.reshape(-1) if tensor.is_contiguous() else tensor.flatten()
    return flat[:: max(1, flat.numel() // _SAMPLE)]


def has_few_values(some: torch.Tensor) -> bool:
    """Of a sample."""
    return some.unique().numel() <= FEW
