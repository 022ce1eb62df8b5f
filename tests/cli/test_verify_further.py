"""What `planish verify` looks at beside the task's own shapes and errors: other shapes that the task names, and bits that differ from run to run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command import Home

TASK = """import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x * 2.0, dim=1)

def get_inputs():
    return [torch.randn(16, 32)]
"""
SHAPES = "\ndef get_input_variants():\n    return [[torch.randn(3, 50)], lambda: [torch.randn(1, 1)]]\n"
NEW = "import random\nimport torch\nfrom torch import nn\n\nclass ModelNew(nn.Module):\n    def forward(self, x):\n"
RIGHT = NEW + "        return torch.softmax(2 * x, dim=1)\n"
#: Right up to the task's own width.
NARROW = NEW + "        e = torch.exp(2 * x - (2 * x).amax(1, keepdim=True))\n        return e / e[:, :32].sum(1, keepdim=True)\n"
FRAGILE = NEW + "        return torch.softmax(2 * x.reshape(16, 32), dim=1)\n"
UNSTEADY = NEW + "        return torch.softmax(2 * x, dim=1) * (1 + (random.random() < 0.5) * 6e-8)\n"
NARROW_TASK = TASK + "\ndef get_input_variants():\n    return [[torch.randn(3, 50), 1]]\n"


def verdict(warm: dict[str, str], folder: Path, task: str, solution: str) -> tuple[int, dict[str, Any]]:
    home = Home(folder)
    (folder / "task.py").write_text(task)
    (folder / "solution.py").write_text(solution)
    return home.document("verify", "task.py", "solution.py", "--target", "cpu", "--seeds", "2", "--compat", "none", env=warm)


@pytest.mark.parametrize(("solution", "outcome"), [(RIGHT, "ok"), (NARROW, "wrong"), (FRAGILE, "launch_failed")])
def test_a_solution_is_judged_at_the_other_shapes_that_the_task_names(warm: dict[str, str], solution: str, outcome: str, tmp_path: Path) -> None:
    code, document = verdict(warm, tmp_path, TASK + SHAPES, solution)
    assert document["outcome"] == outcome and code == (0 if outcome == "ok" else 1), document
    further = [case["variant"] for case in document["cases"] if "variant" in case]
    assert further == ([1, 1, 2, 2] if outcome == "ok" else [1]), further
    if outcome != "ok":
        assert "other shapes, the 1. of get_input_variants()" in document["message"]


def test_at_its_own_shapes_alone_it_passes_where_the_task_names_no_others(warm: dict[str, str], tmp_path: Path) -> None:
    code, document = verdict(warm, tmp_path, TASK, NARROW)
    assert code == 0 and document["verified"] and not any("variant" in case for case in document["cases"])
    assert document["memory"] == [], "compute-sanitizer is for GPUs"


def test_other_shapes_that_the_model_cannot_take_are_the_tasks_fault(warm: dict[str, str], tmp_path: Path) -> None:
    code, document = verdict(warm, tmp_path, NARROW_TASK, RIGHT)
    assert code == 2 and document["error"]["kind"] == "forward_failed", document
    assert "with the 1. of get_input_variants()" in document["error"]["message"]
    code, document = verdict(warm, tmp_path, TASK + "\ndef get_input_variants():\n    return 3\n", RIGHT)
    assert code == 2 and document["error"]["kind"] == "inputs_failed" and "returns a int" in document["error"]["message"]


def test_results_that_differ_to_the_bit_are_said_and_refuse_nothing(warm: dict[str, str], tmp_path: Path) -> None:
    code, document = verdict(warm, tmp_path, TASK, UNSTEADY)
    assert code == 0 and document["verified"], document["message"]
    assert any(not case["same_bits"] and case["runs"] > 1 for case in document["cases"])
    (note,) = [note["text"] for note in document["accuracy"]["notes"] if note["kind"] == "bits_differ"]
    assert note.endswith("eager's do not")
    code, document = verdict(warm, tmp_path, TASK, RIGHT)
    assert code == 0 and all(case["same_bits"] and case["runs"] >= 1 for case in document["cases"])
    assert [note["kind"] for note in document["accuracy"]["notes"]] == []
