"""Loops of torch's become their steps where it is known how many there are."""

from pathlib import Path
from typing import Any

import pytest
import torch
from planish.capture import capture
from planish.errors import PlanishError
from planish.oracle.interpret import Interpreter, Mode
from torch import nn
from torch._higher_order_ops import map as mapped
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop


class Counted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def again(i: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return i + 2, torch.tanh(self.layer(x)) + i

        return while_loop(lambda i, x: i < 5, again, (torch.tensor(0), x))[1]


class Converges(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return while_loop(lambda x: x.abs().sum() > 1, lambda x: (x * 0.5,), (x,))[0]


class Longest(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return while_loop(lambda i, x: i < 100_000, lambda i, x: (i + 1, x * 0.5), (torch.tensor(0), x))[1]


class Scanned(nn.Module):
    def __init__(self, reverse: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8) * 0.3)
        self.reverse = reverse

    def forward(self, x: torch.Tensor) -> Any:
        def step(h: torch.Tensor, row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            h = torch.tanh(h @ self.weight + row)
            return h, h * 2

        return scan(step, torch.zeros(8), x, dim=0, reverse=self.reverse)


class Mapped(nn.Module):
    def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return mapped(lambda row, w: (row @ w).softmax(-1), x, w)


def steps(x: torch.Tensor, module: Scanned) -> tuple[torch.Tensor, torch.Tensor]:
    h, out = torch.zeros(8), []
    for row in reversed(x.unbind()) if module.reverse else x.unbind():
        h = torch.tanh(h @ module.weight + row)
        out.append(h * 2)
    return h, torch.stack(out[::-1] if module.reverse else out)


def run(module: nn.Module, args: tuple[torch.Tensor, ...], folder: Path) -> tuple[list[str], list[torch.Tensor]]:
    found = capture(module, args, {}, folder)
    wanted = [o["value"] for o in found.graph["outputs"]]
    inputs = {i["value"]: t for i, t in zip(found.graph["inputs"], found.flat_inputs(args, {}), strict=True)}
    results = Interpreter(found, range(len(found.nodes))).run(inputs, wanted, Mode())
    return [n["op"] for n in found.graph["nodes"]], [results[w] for w in wanted]


@torch.no_grad()
def test_a_loop_that_counts(tmp_path: Path) -> None:
    x, module = torch.randn(4, 8), Counted()
    ops, (found,) = run(module, (x,), tmp_path)
    wanted = x
    for i in (0, 2, 4):
        wanted = torch.tanh(module.layer(wanted)) + i
    assert ops.count("aten.linear.default") == 3
    torch.testing.assert_close(found, wanted)


@torch.no_grad()
@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan(reverse: bool, tmp_path: Path) -> None:
    x, module = torch.randn(5, 8), Scanned(reverse)
    _, found = run(module, (x,), tmp_path)
    for a, b in zip(found, steps(x, module), strict=True):
        torch.testing.assert_close(a, b)


@torch.no_grad()
def test_a_map_is_one_call_for_all_rows(tmp_path: Path) -> None:
    x, w = torch.randn(6, 3, 8), torch.randn(8, 4)
    ops, (found,) = run(Mapped(), (x, w), tmp_path)
    torch.testing.assert_close(found, (x @ w).softmax(-1))
    assert sum("mm" in op or "matmul" in op for op in ops) == 1


@pytest.mark.parametrize("module", [Converges(), Longest()], ids=["converges", "too long"])
def test_loops_of_unknown_or_too_many_steps_are_refused_by_line(module: nn.Module, tmp_path: Path) -> None:
    with pytest.raises(PlanishError, match=r"uses while_loop \(test_loops\.py:.* return while_loop") as raised:
        capture(module, (torch.randn(4, 8),), {}, tmp_path)
    assert raised.value.kind == "unsupported_op" and "fixed number of steps" in raised.value.hint
