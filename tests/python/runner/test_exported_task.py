"""A live module that cannot be pickled is an exported program to the runner, which has one mode and refuses train() and eval()."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1] / "runner"))

from planish.capture.live import write_live
from talk import Shared, bind, child


class Doubling(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if self.training else x * 3


@torch.no_grad()
@pytest.mark.parametrize("training", [True, False])
def test_its_own_model_runs_in_the_mode_it_was_exported_in(tmp_path: Path, training: bool) -> None:
    module, x = Doubling().train(training), torch.randn(2, 3)
    task = tmp_path / "task"
    assert write_live(task, "Doubling", module, (x,), {}, exported=True) == "exported"
    with child("planish.runner") as runner:
        runner.ask("hello", device="cpu")
        handle = int(runner.ask("load_module", path=str(task), task=str(task), seed=1, state=True, reference=True)["handle"])
        result = Shared(torch.full((2, 3), float("nan")), "out0", 1, output=True)
        bind(runner, handle, "a", [Shared(x, "in0", 0), result])
        runner.ask("run", handle=handle, data="a")
        torch.testing.assert_close(result.tensor, module(x))
