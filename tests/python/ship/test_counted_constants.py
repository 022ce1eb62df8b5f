"""A constant that a graph counts (arange) in place of loading it is compared like any other: a module that changed it runs its own code."""

from __future__ import annotations

import copy
from pathlib import Path

import planish
import pytest
import torch
from live_program import attached


class Shifts(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.by = torch.arange(0, 32, 4, dtype=torch.int32)
        self.order = torch.arange(8).view(2, 4).t().reshape(-1)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return (words.unsqueeze(-1) >> self.by)[:, self.order]


def change_in_place(model: Shifts) -> None:
    model.by[1] = 0


def change_unseen(model: Shifts) -> None:
    model.order.data[0] = 5


def replace(model: Shifts) -> None:
    model.order = torch.arange(8)


@pytest.mark.parametrize("change", [change_in_place, change_unseen, replace])
@torch.no_grad()
def test_a_changed_constant_is_seen(change: object, tmp_path: Path) -> None:
    model, words = Shifts().eval(), torch.randint(-(2**31), 2**31 - 1, (6,), dtype=torch.int32)
    graph = attached(model, tmp_path, words)
    assert not any(i["kind"] == "const" and n["op"] == "aten.index.Tensor" for i in graph["inputs"] for n in graph["nodes"])
    twin = copy.deepcopy(model)
    assert torch.equal(model(words), twin(words)) and planish.status(model).ran == 1
    change(model)  # type: ignore[operator]
    planish.detach(wanted := copy.deepcopy(model))
    assert torch.equal(model(words), wanted(words)) and not torch.equal(model(words), twin(words))
    assert planish.status(model).ran == 1
