"""Values inside a network of 16-bit convolutions lie with channels last; what a caller sees lies as it did."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from planish.capture import channels_last
from planish.capture.channels_last import lay_out
from planish.capture.export import Captured, capture
from torch import nn


class Net(nn.Module):
    def __init__(self, dtype: torch.dtype, channels: int = 64, groups: int = 1, window: int = 3) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, channels, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, window, padding=window // 2, groups=groups)
        self.up = nn.ConvTranspose2d(channels, channels, 2, stride=2)
        self.last = nn.Conv2d(2 * channels, 5, 1)
        self.to(dtype).eval()

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.relu(self.norm(self.first(x)))
        y = nn.functional.max_pool2d(nn.functional.silu(self.second(x)) + x, 2)
        y = torch.cat([self.up(y), x], 1)
        return self.last(y), y.mean((2, 3))


class Viewed(nn.Module):
    """Most of what it computes is seen as something else."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(64, 64, 3, padding=1)
        self.second = nn.Conv2d(64, 64, 3, padding=1)
        self.bfloat16().eval()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        n, c = y.shape[:2]
        y = y.reshape(n, 2, c // 2, *y.shape[2:]).transpose(1, 2).reshape(y.shape)
        return self.second(y)


@pytest.fixture
def everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU."""
    monkeypatch.setattr(channels_last, "DEVICES", ("cuda", "cpu"))


def captured(model: nn.Module, x: torch.Tensor, tmp_path: Path) -> Captured:
    return capture(model, (x,), {}, tmp_path)


def strides(found: Captured, op: str) -> list[list[int]]:
    values: list[dict[str, Any]] = found.graph["values"]
    return [values[entry["outs"][0]]["strides"] for entry in found.graph["nodes"] if entry["op"].startswith(op)]


def is_last(stride: list[int]) -> bool:
    return stride[1] == 1


def test_values_inside_lie_with_channels_last(everywhere: None, tmp_path: Path) -> None:
    x = torch.randn(2, 3, 8, 8, dtype=torch.bfloat16)
    found = captured(Net(torch.bfloat16), x, tmp_path)
    for op in ("aten.relu", "aten.silu", "aten.add", "aten.cat", "aten.max_pool2d", "aten.conv_transpose2d"):
        assert [is_last(s) for s in strides(found, op)] == [True], op
    assert strides(found, "aten.conv2d")[:2] == [[4096, 1, 512, 64], [4096, 1, 512, 64]]
    # The caller's: an image of five channels, and its input.
    assert strides(found, "aten.conv2d")[-1] == [320, 64, 8, 1]
    values = found.graph["values"]
    assert all(not is_last(values[i["value"]]["strides"]) for i in found.graph["inputs"] if i["kind"] == "user")


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (Net(torch.float32), "fp32 is packed, and split, in any case"),
        (Net(torch.bfloat16, channels=16), "too few channels"),
        (Net(torch.bfloat16, channels=64, groups=64), "a channel by itself"),
        (Net(torch.bfloat16, window=1), "no window"),
    ],
)
def test_others_stay(everywhere: None, tmp_path: Path, model: nn.Module, why: str) -> None:
    x = torch.randn(2, 3, 8, 8, dtype=next(model.parameters()).dtype)
    found = captured(model, x, tmp_path)
    assert not any(is_last(s) for op in ("aten.conv2d", "aten.relu", "aten.cat") for s in strides(found, op)), why


def test_what_is_seen_as_something_else_stays(everywhere: None, tmp_path: Path) -> None:
    found = captured(Viewed(), torch.randn(2, 64, 8, 8, dtype=torch.bfloat16), tmp_path)
    assert not any(is_last(s) for s in strides(found, "aten.conv2d"))


def test_on_a_cpu_nothing_changes(tmp_path: Path) -> None:
    found = captured(Net(torch.bfloat16), torch.randn(2, 3, 8, 8, dtype=torch.bfloat16), tmp_path)
    assert not is_last(strides(found, "aten.relu")[0])


def test_a_second_time_changes_nothing(everywhere: None, tmp_path: Path) -> None:
    found = captured(Net(torch.bfloat16), torch.randn(2, 3, 8, 8, dtype=torch.bfloat16), tmp_path)
    before = copy.deepcopy(found.graph)
    lay_out(found.graph, found.nodes)
    assert found.graph == before


class Scaled(nn.Module):
    """A parameter larger than what a part of the batch is beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(64, 64, 3, padding=1)
        self.second = nn.Conv2d(64, 64, 3, padding=1)
        self.shift = nn.Parameter(torch.rand(1, 64, 8, 8))
        self.bfloat16().eval()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x) + self.shift))


def test_a_part_of_a_batch_lies_as_the_whole(everywhere: None, tmp_path: Path) -> None:
    for batch in (16, 1):
        found = captured(Scaled(), torch.randn(batch, 64, 8, 8, dtype=torch.bfloat16), tmp_path)
        assert [is_last(s) for s in strides(found, "aten.conv2d")] == [False, False], batch  # two of five are seen
        found = captured(nn.Sequential(*(Scaled() for _ in range(4))), torch.randn(batch, 64, 8, 8, dtype=torch.bfloat16), tmp_path)
        assert [is_last(s) for s in strides(found, "aten.conv2d")] == [True] * 7 + [False], batch


class Along(nn.Module):
    """Convolutions along time, whose result is a sequence for a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(8, 64, 3, padding=1), nn.Conv1d(64, 64, 3, stride=2, padding=1)
        self.norm = nn.LayerNorm(64)
        self.bfloat16().eval()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(torch.relu(self.second(torch.relu(self.first(x)))).transpose(1, 2))


def test_sequences_of_convolutions_along_one_dim(everywhere: None, tmp_path: Path) -> None:
    found = captured(Along(), torch.randn(2, 8, 40, dtype=torch.bfloat16), tmp_path)
    assert strides(found, "aten.conv1d") == strides(found, "aten.relu") == [[2560, 1, 64], [1280, 1, 64]]


class Normed(nn.Module):
    """A block of an image network with a norm of groups, a conversion and a copy on the way."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(64, 64, 3, padding=1), nn.Conv2d(64, 64, 3, padding=1)
        self.norm = nn.GroupNorm(groups, 64)
        self.bfloat16().eval()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = nn.functional.silu(self.norm(self.first(torch.relu(x))).float()).bfloat16().clone()
        return self.second(y) + x


@pytest.mark.parametrize(("groups", "last"), [(4, True), (8, True), (16, False), (64, False)])
def test_norms_of_groups_with_many_channels_read_channels_last(everywhere: None, tmp_path: Path, groups: int, last: bool) -> None:
    model = nn.Sequential(*(Normed(groups) for _ in range(4)))
    found = captured(model, torch.randn(2, 64, 8, 8, dtype=torch.bfloat16), tmp_path)
    for op in ("aten.native_group_norm", "aten._to_copy", "aten.silu"):
        assert all(is_last(s) == last for s in strides(found, op)), op
