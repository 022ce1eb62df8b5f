"""A task whose Model is another file's: solutions are constructed with what the task's own file says."""

from __future__ import annotations

from pathlib import Path

from planish.capture import load_task
from planish.runner.module import load_model

MODEL = """
from torch import nn

class Model(nn.Module):
    def __init__(self, eps=1e-6):
        super().__init__()
        self.eps = eps

    def forward(self, x):
        return x + self.eps
"""
TASK = """
import torch
from a_model_of_another_file import Model

SCALE = 3.0

def get_inputs():
    return [torch.randn(4)]

def get_init_inputs():
    return [[], {"eps": 0.5}]
"""


def test_the_arguments_of_a_constructor_are_those_of_the_tasks_file(tmp_path: Path) -> None:
    (tmp_path / "a_model_of_another_file.py").write_text(MODEL)
    (tmp_path / "task.py").write_text(TASK)
    (tmp_path / "solution.py").write_text(MODEL.replace("Model(", "ModelNew(").replace("self.eps = eps", "self.eps = eps * SCALE"))
    task = load_task(tmp_path / "task.py")
    assert task.model.eps == 0.5
    assert load_model(tmp_path / "solution.py", task).eps == 1.5  # with the task's names at hand, as always
