"""Solutions that are a function."""

from __future__ import annotations

import types

import pytest
import torch
from planish.errors import PlanishError
from planish.runner.function import as_model, function_of
from torch import nn


class Task(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.slope = 0.5

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        return self.linear(x) * self.slope


def module(source: str) -> types.ModuleType:
    made = types.ModuleType("solution")
    exec(compile(source, "/solution.py", "exec"), vars(made))
    return made


def test_a_function_gets_inputs_then_state_by_name() -> None:
    source = "def run(data, linear_weight, linear_bias, slope, more=3):\n    return (data @ linear_weight.T + linear_bias) * slope\ndef _helper():\n    pass\n"
    x, task = torch.randn(2, 3), Task()
    model = as_model(function_of(module(source), "/solution.py"), task, "/solution.py")
    torch.testing.assert_close(model(x), Task.forward(task, x))
    with torch.no_grad():
        task.linear.weight.zero_()  # looked up at each call
    torch.testing.assert_close(model(x), Task.forward(task, x))


def test_of_several_functions_forward_is_meant() -> None:
    assert function_of(module("def forward(x):\n    return x\ndef other(x):\n    return x\n"), "/solution.py").__name__ == "forward"
    with pytest.raises(PlanishError, match="several functions"):
        function_of(module("def one(x):\n    return x\ndef other(x):\n    return x\n"), "/solution.py")
    with pytest.raises(PlanishError, match="no function"):
        function_of(module("from math import sqrt\n"), "/solution.py")
    with pytest.raises(PlanishError, match="asks for 'bias', the task has x, mask, linear_weight, linear_bias"):
        as_model(function_of(module("def f(x, bias):\n    return x\n"), "/solution.py"), Task(), "/solution.py")
