"""Timed results of a model that writes into a cache object of its call, and returns it, beside the model in fp64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from planish.baseline.table import Table
from planish.capture.live import write_live
from planish.oracle import agreement
from planish.runner.timing import Limits
from torch import nn

QUICK = Limits(min_runs=6, max_runs=12, max_seconds=0.5, interval=0.05)


class Cache:
    def __init__(self, keys: torch.Tensor, length: torch.Tensor) -> None:
        self.keys, self.length = keys, length


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(64, 64, bias=False, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor, cache: Cache) -> tuple[torch.Tensor, Cache]:
        cache.keys.index_copy_(0, cache.length, self.project(x)[None])
        cache.length.add_(1)
        return (cache.keys.float() * x.float()).sum(-1).to(torch.bfloat16), cache


@pytest.fixture
def table(tmp_path: Path) -> Any:
    torch.manual_seed(0)
    call = (torch.randn(64, dtype=torch.bfloat16), Cache(torch.randn(16, 64, dtype=torch.bfloat16), torch.tensor([3])))
    assert write_live(tmp_path, "step", Step(), call, {}) == "module"
    made = Table(tmp_path, torch.device("cpu"))
    made.add("eager", "eager", None)
    made.time(["eager"], QUICK)
    return made


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("throughout", [False, True])
def test_the_cache_is_among_what_is_compared(table: Any, throughout: bool, large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if large:
        monkeypatch.setattr(agreement, "_LARGE", 1024)
    with torch.no_grad():
        expected = table._outcome(lambda: table._twin()(*table.sets[0][0], **table.sets[0][1]), 0)
        exact = table._in_double(0, len(expected), throughout)
    assert exact is not None and len(exact) == len(expected)
    floats = [(a, b) for a, b in zip(exact, expected, strict=True) if b.is_floating_point()]
    assert len(floats) >= 2
    for found, rounded in floats:
        assert found.shape == rounded.shape and (found.dtype is torch.float64 or not (throughout or large))
        torch.testing.assert_close(found.double(), rounded.double(), rtol=2e-2, atol=0.2)


@pytest.mark.parametrize("wrong", [False, True])
def test_results_that_are_far_from_eagers_are_compared_with_those_in_fp64(table: Any, wrong: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "_LARGE", 1024)
    eager = table.entries["eager"]
    with torch.no_grad():
        expected = table._outcome(lambda: table._twin()(*table.sets[0][0], **table.sets[0][1]), 0)
        exact = table._in_double(0, len(expected), True)
        assert exact is not None
        # Sums that cancel: right in fp64, far from eager's own where these are rounded the other way.
        last = [e.to(b.dtype) if b.is_floating_point() else b for e, b in zip(exact, expected, strict=True)]
        if wrong:
            last[0] = last[0].roll(1, 0)
        eager.last = (0, last)
        table._check(eager)
    assert (eager.error is not None) == wrong
