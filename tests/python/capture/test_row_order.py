"""Values inside a program lie as what reads them goes through them; what a caller sees lies as it did."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from planish.capture import row_order
from planish.capture.export import Captured, capture
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parents[2] / "random_graphs"))

from parts import Tool


class Stream(nn.Module):
    """A convolution's result seen as a sequence, and a residual stream of it: PyTorch's keeps time beside time."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(5, 32, 3, padding=1)
        self.norm, self.last = nn.LayerNorm(32), nn.LayerNorm(32)
        self.q, self.k, self.v, self.o = (nn.Linear(32, 32) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.gelu(self.first(x)).permute(0, 2, 1)
        y = self.norm(x)
        q, k, v = (m(y).view(*y.shape[:2], 2, 16).transpose(1, 2).contiguous() for m in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(y.shape)
        return self.last(x + self.o(y))


class Made(nn.Module):
    def __init__(self, body: Callable[[torch.Tensor], Any]) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: torch.Tensor) -> Any:
        return self.body(x)


def captured(model: nn.Module, x: torch.Tensor, folder: Path) -> Captured:
    with torch.no_grad():
        return capture(model, (x,), {}, folder)


def strides(found: Captured, op: str) -> list[list[int]]:
    values: list[dict[str, Any]] = found.graph["values"]
    return [values[entry["outs"][0]]["strides"] for entry in found.graph["nodes"] if entry["op"].startswith(op)]


def test_a_residual_stream_lies_in_rows(tmp_path: Path) -> None:
    found = captured(Stream(), torch.randn(3, 5, 20), tmp_path)
    assert strides(found, "aten.add.") == [[640, 32, 1]]
    assert strides(found, "aten.conv1d") == strides(found, "aten.gelu") == [[640, 1, 32]]  # and is written so where it is made
    assert strides(found, "aten.clone")[:3] == [[640, 16, 32, 1]] * 3  # copies lie as what they copy
    assert strides(found, "aten.scaled_dot_product_attention") == [[640, 16, 32, 1]]


def test_copies_that_move_nothing_are_no_kernels(tmp_path: Path) -> None:
    graph = captured(Stream().bfloat16(), torch.randn(3, 5, 20, dtype=torch.bfloat16), tmp_path).graph
    copies = {number for number, entry in enumerate(graph["nodes"]) if entry["op"] == "aten.clone.default"}
    tool = Tool()
    answer = tool.ask({"graph": graph, "target": "cuda", "own": True, "best": True, "programs": 1})
    tool.close()
    assert len(copies) == 4
    assert not [region["nodes"] for region in answer["regions"] if set(region["nodes"]) <= copies]
    assert sum(step["kind"] == "launch" for step in answer["programs"][0]["program"]["steps"]) == 10


def test_a_second_time_changes_nothing(tmp_path: Path) -> None:
    found = captured(Stream(), torch.randn(3, 5, 20), tmp_path)
    before = copy.deepcopy(found.graph)
    row_order.lay_out(found.graph, found.nodes)
    assert found.graph == before


def norm(x: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, x.shape[-1:])


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (lambda x: (lambda y: (y, norm(y)))(torch.relu(x.transpose(1, 2))), "a result"),
        (lambda x: (lambda y: (y.transpose(1, 2), norm(y)))(torch.relu(x.transpose(1, 2))), "a view of it is a result"),
        (lambda x: (lambda y: (y.as_strided((4,), (1,)).sum(), norm(y)))(torch.relu(x.transpose(1, 2))), "places of memory are read"),
        (lambda x: (lambda y: (torch.fft.rfft(y).abs(), norm(y)))(torch.relu(x.transpose(1, 2))), "an operator that may see how it lies"),
        (lambda x: torch.relu(x.transpose(1, 2)).mean(1), "nothing goes through its rows"),
    ],
)
def test_what_is_seen_stays(tmp_path: Path, body: Callable[[torch.Tensor], Any], why: str) -> None:
    found = captured(Made(body), torch.randn(2, 6, 8), tmp_path)
    assert strides(found, "aten.relu") == [[48, 1, 8]], why


def test_views_say_what_is_possible(tmp_path: Path) -> None:
    """Time and channels are seen as one dim, in this order alone."""
    found = captured(Made(lambda x: norm(torch.relu(x.transpose(1, 2)).transpose(1, 2).view(2, 48)[:, :40])), torch.randn(2, 6, 8), tmp_path)
    assert strides(found, "aten.relu") == [[48, 1, 8]]
