"""flex_attention is captured as the dense operations that it computes without a compiler."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from live_program import attached
from planish import status
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

pytestmark = pytest.mark.filterwarnings("ignore")
PLACES = 32


class Attention(nn.Module):
    def __init__(self, more: Callable[[nn.Module], dict[str, Any]]) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.randn(4, PLACES))
        self.seen = nn.Buffer(torch.randint(2, (2, PLACES)).bool())
        self.more = more

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return flex_attention(q, k, v, **self.more(self)) * 2


def _causal(score: torch.Tensor, b: torch.Tensor, h: torch.Tensor, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch.where(q >= k, score, -float("inf"))


def _capped(score: torch.Tensor, b: torch.Tensor, h: torch.Tensor, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return 5 * torch.tanh(score / 5)


def _window(b: torch.Tensor, h: torch.Tensor, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return (q >= k) & (q - k < 7)


def _mask(function: Any, batch: int | None = None) -> Any:
    return create_block_mask(function, batch, None, PLACES, PLACES, device="cpu", BLOCK_SIZE=16)


FORMS: dict[str, tuple[Callable[[Any], dict[str, Any]], int]] = {
    "scores": (lambda m: {"score_mod": _capped, "scale": 0.3}, 4),
    "some that see nothing": (lambda m: {"score_mod": lambda s, b, h, q, k: torch.where((q >= k) & (q > 2), s, -float("inf"))}, 4),
    "a parameter": (lambda m: {"score_mod": lambda s, b, h, q, k: s + m.bias[h, k]}, 4),
    "a block mask": (lambda m: {"score_mod": _causal, "block_mask": _mask(_window)}, 4),
    "a block mask that reads": (lambda m: {"block_mask": _mask(lambda b, h, q, k: m.seen[b, k] | (q == k), 2)}, 4),
    "groups of heads": (lambda m: {"score_mod": _causal, "enable_gqa": True}, 2),
}


@pytest.mark.parametrize("form", FORMS)
def test_it_gives_what_eager_gives(tmp_path: Path, form: str) -> None:
    more, heads = FORMS[form]
    module = Attention(more).eval()
    twin = copy.deepcopy(module)
    inputs = torch.randn(2, 4, PLACES, 8), torch.randn(2, heads, PLACES, 8), torch.randn(2, heads, PLACES, 8)
    graph = attached(module, tmp_path, *inputs)
    assert "aten.sort.default" not in {node["op"] for node in graph["nodes"]}  # what counts blocks is not part of it
    with torch.no_grad():
        torch.testing.assert_close(module(*inputs), twin(*inputs))
    assert status(module).ran == 1
