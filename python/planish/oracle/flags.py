"""torch's own precision flags: what eager may do, and so what a candidate is measured against."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from planish.oracle.gate import Accuracy
from planish.oracle.interpret import CONVOLUTIONS, MATMULS


def tf32_operations(device: torch.device, accuracy: Accuracy) -> frozenset[str]:
    """Operations whose f32 operands a candidate may round to TF32 whatever eager did: none, unless asked for (decision 0063). cuDNN
    rounds for some shapes and layouts and not for others; where it did, eager's own error has room for it."""
    if accuracy.mode == "tf32":
        return frozenset(MATMULS | CONVOLUTIONS)
    if accuracy.mode != "permitted" or device.type != "cuda":
        return frozenset()
    found: set[str] = set()
    if _permits(torch.backends.cuda.matmul):
        found |= MATMULS
    if _permits(torch.backends.cudnn):
        found |= CONVOLUTIONS | {"lstm", "gru", "rnn_tanh", "rnn_relu"}
    return frozenset(found)


def _permits(backend: Any) -> bool:
    try:
        return bool(backend.allow_tf32)
    except RuntimeError:  # the new per-operation setting was used: torch refuses to answer the old question
        conv = getattr(backend, "conv", None)
        return "tf32" in (getattr(backend, "fp32_precision", ""), getattr(conv, "fp32_precision", ""))


@contextmanager
def _allowed() -> Iterator[None]:
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


def eager_context(device: torch.device, accuracy: Accuracy) -> Any:
    """Eager runs under this."""
    return _allowed() if accuracy.mode == "tf32" and device.type == "cuda" else nullcontext()
