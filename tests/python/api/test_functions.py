"""Functions as programs, with a command that answers as told."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import planish
import pytest
import torch
from planish.capture import capture
from planish.functions import Function
from planish.ship import guards
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "ship"))

from shipping import aten_program, write
from test_optimize import IMPROVED, NOTHING, Command, command  # noqa: F401

shift = 1.0
table = torch.arange(8.0)
layer = nn.Linear(8, 8).eval()


def plain(x: torch.Tensor) -> torch.Tensor:
    return x.relu() * 2


def helper(x: torch.Tensor) -> torch.Tensor:
    return x * shift


def over_much(x: torch.Tensor) -> torch.Tensor:
    return helper(layer(x)) + table


def shipped(folder: Path, function: Function, *args: Any) -> str:
    blobs = folder / "shipped" / "blobs"
    blobs.mkdir(parents=True)
    graph = capture(function.module, args, {}, blobs).graph
    return str(write(folder / "shipped", folder, aten_program(graph), graph, modules=guards.configuration(function.module)))


@torch.no_grad()
def test_a_function_is_a_program(command: Command, tmp_path: Path) -> None:  # noqa: F811
    x = torch.randn(4, 8)
    command.answers({"result": IMPROVED, "ship": shipped(tmp_path / "s", Function(plain), x)})
    found = planish.optimize(plain, x)
    assert found.improved and found.module.original is plain and found.module.__name__ == "plain"
    assert torch.equal(found.module(x), plain(x)) and torch.equal(found(x), plain(x))
    assert planish.status(found.module).ran == 2
    assert command.calls[0]["task"]["form"] == "module" and command.calls[0]["task"]["name"] == "plain"


@torch.no_grad()
def test_what_a_function_reads_from_outside_stays_live(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    x = torch.randn(4, 8)
    command.answers({"result": IMPROVED, "ship": shipped(tmp_path / "s", Function(over_much), x)})
    fast = planish.optimize(over_much, x).module
    assert command.calls[0]["task"]["form"] == "exported"  # its code would find another layer in another process
    torch.testing.assert_close(fast(x), over_much(x))
    layer.weight.mul_(2)
    torch.testing.assert_close(fast(x), over_much(x))
    assert planish.status(fast).ran == planish.status(fast).calls == 2
    table.add_(1)
    with pytest.warns(guards.FallbackWarning, match="table"):
        torch.testing.assert_close(fast(x), over_much(x))
    monkeypatch.setattr(sys.modules[__name__], "shift", 3.0)
    torch.testing.assert_close(fast(x), over_much(x))


@torch.no_grad()
def test_a_method_of_a_module(command: Command, tmp_path: Path) -> None:  # noqa: F811
    class Codec(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(8, 8)

        def encode(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x).tanh()

    codec, x = Codec(), torch.randn(4, 8)
    command.answers({"result": IMPROVED, "ship": shipped(tmp_path / "s", Function(codec.encode), x)})
    fast = planish.optimize(codec.encode, x).module
    codec.inner.weight.mul_(2)
    torch.testing.assert_close(fast(x), codec.encode(x))
    assert planish.status(fast).ran == 1


@torch.no_grad()
def test_decorators(command: Command) -> None:  # noqa: F811
    command.answers({"result": NOTHING})
    x = torch.randn(4, 8)

    @planish.optimize(example_inputs=(x,), budget=3)
    def now(x: torch.Tensor) -> torch.Tensor:
        "What it does."
        return x + 1

    assert len(command.calls) == 1 and not now.optimized.improved and now.__doc__ == "What it does." and torch.equal(now(x), x + 1)

    @planish.optimize
    def bare(x: torch.Tensor, *, by: float) -> torch.Tensor:
        return x + by

    @planish.optimize(budget="7s", fallback="compile")
    def later(x: torch.Tensor) -> torch.Tensor:
        return x + 2

    assert len(command.calls) == 1 and bare.optimized is None
    assert torch.equal(bare(x, by=2.0), x + 2) and torch.equal(bare(x, by=3.0), x + 3)
    assert torch.equal(later(x), x + 2) and torch.equal(later(x), x + 2)
    assert len(command.calls) == 3 and later.optimized.reason == NOTHING["reason"]
    assert command.calls[2]["argv"][command.calls[2]["argv"].index("--budget") + 1] == "7s"


def test_what_cannot_be_decorated_is_named() -> None:
    with pytest.raises(planish.PlanishError, match="no function"):
        planish.optimize(budget=3)(nn.Linear(2, 2))
    with pytest.raises((TypeError, RuntimeError)) as error:
        type("Thing", (), {"method": planish.optimize(lambda self, x: x)})
    assert "decorate a function" in str(error.value.__cause__ or error.value)
