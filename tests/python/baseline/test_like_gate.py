"""Results of timed calls that lie within 1 % of eager's: right as the gate would have it, or not."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from planish.baseline.like_gate import beyond_gate

for neighbour in ("ship", "runner"):
    sys.path.insert(0, str(Path(__file__).parents[1] / neighbour))

from planish.baseline.table import Table  # noqa: E402
from planish.runner.timing import Limits  # noqa: E402
from shipping import ship  # noqa: E402

QUICK = Limits(min_runs=6, max_runs=12, max_seconds=0.5, interval=0.05)

TASK = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(64, 64), nn.Linear(64, 16)

    def forward(self, x):
        x = self.a(x)
        x = x * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-6).to(x.dtype)
        return self.b(torch.relu(x))

def get_inputs():
    return [torch.randn(128, 64)]
"""
NARROW = TASK.replace("        self.a,", "        torch.set_default_dtype(torch.bfloat16)\n        self.a,").replace(
    "\n    def forward", "        torch.set_default_dtype(torch.float32)\n\n    def forward"
).replace("torch.randn(128, 64)", "torch.randn(128, 64).bfloat16()")  # fmt: skip


def bf16(t: torch.Tensor) -> torch.Tensor:
    return t.to(torch.bfloat16).to(t.dtype)


def five_bits(t: torch.Tensor) -> torch.Tensor:
    mantissa, exponent = torch.frexp(t.double())
    return torch.ldexp((mantissa * 32).round() / 32, exponent).to(t.dtype)


CASES: dict[str, tuple[str, Any, bool]] = {
    "f32 as it is": (TASK, lambda t: t, True),
    "f32, other last places": (TASK, lambda t: t * (1 + 2e-7 * torch.randn_like(t)), True),
    "f32 rounded to bf16": (TASK, bf16, False),
    "f32, 0.1 % too large": (TASK, lambda t: t * 1.001, False),
    "f32, one element of many": (TASK, lambda t: t.clone().index_put_((torch.tensor(3), torch.tensor(3)), t[3, 3] + 0.5), False),
    "bf16 as it is": (NARROW, lambda t: t, True),
    "bf16, some rounded otherwise": (NARROW, lambda t: torch.where(torch.rand(t.shape) < 0.2, torch.nextafter(t, t * 2), t), True),
    "bf16 with five bits": (NARROW, five_bits, False),
}


@pytest.mark.parametrize("name", CASES)
def test_timed_results_are_held_to_the_gate(name: str, tmp_path: Path) -> None:
    source, change, right = CASES[name]
    torch.manual_seed(0)
    folder = ship(tmp_path, source)
    table = Table(folder.parent / "task.py", torch.device("cpu"))
    table.add("ours", "shipped", folder)
    inner = table.entries["ours"].module.forward
    table.entries["ours"].module.forward = lambda x: change(inner(x))  # type: ignore[method-assign]
    error = table.time(["ours"], QUICK)["errors"].get("ours")
    assert (error is None) is right, error
    assert right or error["kind"] == "wrong_when_timed"


def test_an_accuracy_that_was_asked_for_is_not_eagers(tmp_path: Path) -> None:
    folder = ship(tmp_path, TASK)
    table = Table(folder.parent / "task.py", torch.device("cpu"), "1e-2")
    table.add("ours", "shipped", folder)
    inner = table.entries["ours"].module.forward
    table.entries["ours"].module.forward = lambda x: bf16(inner(x))  # type: ignore[method-assign]
    assert table.time(["ours"], QUICK)["errors"] == {}


def test_where_eager_is_coarse_twice_its_error_is_allowed_and_no_more() -> None:
    torch.manual_seed(1)
    exact = torch.randn(4096, dtype=torch.float64)
    eager = (exact + 0.02 * torch.randn(4096)).float()  # a deep network in TF32
    assert not beyond_gate((exact + 0.025 * torch.randn(4096)).float(), exact, [eager])
    assert beyond_gate((exact + 0.06 * torch.randn(4096)).float(), exact, [eager])
    assert not beyond_gate((exact + 0.06 * torch.randn(4096)).float(), exact, [eager, (exact + 0.08 * torch.randn(4096)).float()])


def test_what_no_number_can_be_compared_with_is_not_judged() -> None:
    exact = torch.full((8,), torch.inf, dtype=torch.float64)
    assert not beyond_gate(torch.zeros(8), exact, [torch.full((8,), torch.inf)])
    exact = torch.zeros(8, dtype=torch.float64)
    assert beyond_gate(torch.full((8,), torch.nan), exact, [torch.zeros(8)])


def test_one_number_that_eager_has_right_by_chance() -> None:
    exact = torch.tensor(2.3456789, dtype=torch.float64)
    for dtype, right, wrong in ((torch.float32, 2e-5, 1e-4), (torch.bfloat16, 4e-3, 4e-2)):
        assert not beyond_gate((exact * (1 + right)).to(dtype), exact, [exact.to(dtype)])
        assert beyond_gate((exact * (1 + wrong)).to(dtype), exact, [exact.to(dtype)])
