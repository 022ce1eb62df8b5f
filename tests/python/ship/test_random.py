"""Shipped programs that draw random numbers, and those that are for numbers of a call."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from typing import Any

import planish
import pytest
import torch
import torch.nn.functional as F
from planish.capture.export import capture
from planish.ship import guards
from shipping import aten_program, ship, write
from torch import nn


class Dropped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm, self.dropout = nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Dropout(0.4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.dropout(F.gelu(self.norm(self.linear(x)))) + torch.randn(3)[0]
        return y


class Lengths(nn.Module):
    def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return torch.stack([x[b, : int(n[b])].sum(0) for b in range(len(n))]) + n.numel()


def attached(module: nn.Module, call: tuple[Any, ...], folder: Path, leaves: tuple[int, ...] = ()) -> nn.Module:
    blobs = folder / "shipped" / "blobs"
    blobs.mkdir(parents=True)
    graph = capture(module, call, {}, blobs, numbers=leaves).graph
    return planish.load(write(folder / "shipped", folder, aten_program(graph), graph, modules=guards.configuration(module)), module)


@torch.no_grad()
def test_a_model_in_training_mode_draws_eagers_numbers_and_leaves_eagers_generator(tmp_path: Path) -> None:
    module, x = Dropped().train(), torch.randn(64, 16)
    eager = copy.deepcopy(module)
    attached(module, (x,), tmp_path)
    for seed in range(3):
        torch.manual_seed(seed)
        theirs, left = [eager(x), eager(x)], torch.get_rng_state()
        torch.manual_seed(seed)
        ours = [module(x), module(x)]
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True)) and torch.equal(torch.get_rng_state(), left)
        assert not torch.equal(ours[0], ours[1])
    assert torch.equal(module.norm.running_mean, eager.norm.running_mean)
    assert planish.status(module).ran == 6


def test_gradients_are_the_originals_whose_draws_are_not_made_again(tmp_path: Path) -> None:
    module, x = Dropped().train(), torch.randn(64, 16)
    eager = copy.deepcopy(module)
    attached(module, (x,), tmp_path)
    for one in (eager, module):
        torch.manual_seed(5)
        one(x).square().sum().backward()
    assert torch.equal(module.linear.weight.grad, eager.linear.weight.grad) and planish.status(module).ran == 0


def test_a_shipped_model_whose_gradients_could_be_deferred_does_not_defer_draws(tmp_path: Path) -> None:
    source = (
        "import torch\nfrom torch import nn\nclass Model(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.w = nn.Parameter(torch.ones(64))\n"
        "    def forward(self, x):\n        return nn.functional.dropout(x * self.w, 0.5, True)\ndef get_inputs():\n    return [torch.ones(32, 64)]\n"
    )
    folder = ship(tmp_path, source, defer_gradients=True)
    model = planish.load(folder)
    torch.manual_seed(1)
    y = model(torch.ones(32, 64))
    y.sum().backward()
    assert torch.equal(model.w.grad, y.detach().sum(0)), "the gradient is of what was drawn"


@torch.no_grad()
def test_a_program_is_for_the_numbers_that_it_was_made_for(tmp_path: Path) -> None:
    module, x, n = Lengths(), torch.randn(3, 8, 4), torch.tensor([2, 8, 5])
    eager = copy.deepcopy(module)
    attached(module, (x, n), tmp_path, (1,))
    assert torch.equal(module(x, n), eager(x, n)) and torch.equal(module(x + 1, n.clone()), eager(x + 1, n)) and planish.status(module).ran == 2
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for other in (torch.tensor([2, 8, 4]), n.int(), n[:2]):
            assert torch.equal(module(x, other), eager(x, other))
    status = planish.status(module)
    assert status.ran == 2 and sum(status.fell_back.values()) == 3
    assert any("'n' holds other numbers than those that the program was made for" in str(w.message) for w in said)
    n[0] = 7  # in place: the caller's own tensor, with other numbers
    assert torch.equal(module(x, n), eager(x, n)) and planish.status(module).ran == 2
    n[0] = 2
    assert torch.equal(module(x, n=n), eager(x, n)) and planish.status(module).ran == 3


@torch.no_grad()
def test_numbers_on_another_device_are_not_waited_for(tmp_path: Path) -> None:
    module, x, n = Lengths(), torch.randn(3, 8, 4), torch.tensor([2, 8, 5])
    attached(module, (x, n), tmp_path, (1,))
    with pytest.raises(Exception, match=r"meta|item"), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        module(x, n.to("meta"))
    assert any("to compare its numbers would wait for the device" in str(w.message) for w in said)
