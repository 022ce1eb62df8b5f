"""Solutions whose parameters are not the task's by name, and such as write what is not theirs, judged by a real evaluator."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from evaluator import PLANISH, Evaluator

TASK = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.first = nn.Linear(n, n)
        self.second = nn.Linear(n, n)

    def forward(self, x):
        return self.first(x) + self.second(x)

def get_inputs():
    return [torch.randn(37, 16)]

def get_init_inputs():
    return [16]
"""

RENAMED = """
import torch
import torch.nn as nn

class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.a = nn.Linear(n, n)
        self.b = nn.Linear(n, n)

    def forward(self, x):
        return self.a(x) + self.b(x)
"""

PACKED = """
import torch
import torch.nn as nn

class ModelNew(nn.Module):
    def __init__(self, n):
        super().__init__()
        a, b = nn.Linear(n, n), nn.Linear(n, n)
        self.weight = nn.Parameter(torch.cat([a.weight.detach(), b.weight.detach()]))
        self.bias = nn.Parameter(torch.cat([a.bias.detach(), b.bias.detach()]))

    def forward(self, x):
        a, b = nn.functional.linear(x, self.weight, self.bias).chunk(2, -1)
        return a + b
"""

CASES = {
    "other names": (RENAMED, "ok", "state_by_order"),
    "other names, wrong": (RENAMED.replace("self.b(x)", "1.01 * self.b(x)"), "wrong", "state_by_order"),
    "packed": (PACKED, "ok", "own_state"),
    "packed, wrong": (PACKED.replace("[a.bias.detach()", "[0 * a.bias.detach()"), "wrong", "own_state"),
    "packed after other draws": (PACKED.replace("a, b = ", "torch.randn(1); a, b = "), "wrong", "own_state"),
    "the task's own names": (TASK.replace("class Model(", "class ModelNew("), "ok", None),
    "writes its input": (RENAMED.replace("return ", "x.mul_(2)\n        return "), "input_write", "state_by_order"),
    "writes a parameter": (RENAMED.replace("return ", "self.a.bias.data.mul_(2)\n        return "), "input_write", "state_by_order"),
    "faults elsewhere": (RENAMED.replace("return ", "import ctypes; ctypes.string_at(8)\n        return "), "crash", "state_by_order"),
}


@pytest.fixture(scope="module")
def evaluator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Evaluator]:
    if not PLANISH.exists():
        pytest.fail(f"{PLANISH} is not built: run make build")
    folder = tmp_path_factory.mktemp("state")
    task = folder / "task.py"
    task.write_text(TASK)
    running = Evaluator(folder, task)
    yield running
    running.close()


@pytest.mark.parametrize("name", CASES)
def test_a_solution_with_other_state(name: str, evaluator: Evaluator, tmp_path: Path) -> None:
    source, outcome, note = CASES[name]
    path = tmp_path / "solution.py"
    path.write_text(source)
    found: dict[str, Any] = evaluator.verify(path)
    assert found["outcome"] == outcome and found["verified"] == (outcome == "ok"), found["message"]
    assert [n["kind"] for n in found["notes"] if n["kind"].endswith(("state", "order"))] == ([note] if note else [])
    if outcome == "input_write":
        assert "it writes into its" in found["message"]
